"""A search as a tree of tasks, in which callbacks of scikit-learn (1.9 and later) are called.

The fit has a search and a refit; a search has combinations of listed values, and at its end the
evaluation of the best point at the final tolerance; a combination has levels, on ever more rows;
a level has looks and evaluations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .._core.budget import Budget
from ..methods.base import Method
from ..methods.objective import Level, Objective, SearchEnded
from ..methods.watch import Watch
from .progress import Progress

Attributes = Callable[[], dict[str, Any] | None]  # of a search that would end now


class Task:
    """A task, with its context; without one, where scikit-learn has none, nothing is called."""

    def __init__(self, context: Any, given: dict[str, Any], fitted: Attributes):
        self.context, self.given, self.fitted = context, given, fitted
        self.size = 0

    def begin(self) -> Task:
        """Call the hooks of the beginning."""
        if self.context is not None:
            self.context.call_on_fit_task_begin(**self.given)
        return self

    def end(self) -> bool:
        """Call the hooks of the end; return whether one of them wants to stop."""
        if self.context is None:
            return False
        fitted = self.fitted
        return self.context.call_on_fit_task_end(**self.given, reconstruction_attributes=fitted)

    def inner(self, name: str, most: int | None = 0, fitted: Attributes | None = None) -> Task:
        """Return a task of this one, which has at most so many tasks itself."""
        self.size += 1
        context = self.context
        if context is not None:
            context = context.subcontext(task_name=name, max_subtasks=most)
        return Task(context, self.given, fitted or self.fitted)

    @property
    def full(self) -> bool:
        """Whether it has as many tasks as it may have."""
        most = None if self.context is None else self.context.max_subtasks
        return most is not None and self.size >= most

    @contextmanager
    def around_fit(self, estimator: Any) -> Iterator[None]:
        """Within this context the estimator is fitted, with the callbacks that are passed on.

        The hooks of those are called by the estimator itself, unless its own `fit` was not needed.
        """
        context = self.context
        if context is None or not hasattr(estimator, "set_callbacks"):
            self.begin()
            yield
            return
        with context.propagate_callback_context(estimator):
            self.begin()
            yield
        if context.parent._children_map[context.task_id] is context:
            passed, context._propagated_callbacks = (
                getattr(context, "_propagated_callbacks", []),
                [],
            )
            everyone, context._callbacks = context._callbacks, passed
            self.begin()
            context._callbacks = everyone


class Tasks(Watch):
    """The tasks of one search; tells its progress, too."""

    def __init__(self, search: Any, X: Any, y: Any, params: Mapping[str, Any], progress: Progress):
        self.progress, self.stopped = progress, False
        self._lock = threading.RLock()
        self._budget = Budget()
        self.attributes: Attributes = lambda: None
        root = None
        if hasattr(search, "_init_callback_context"):
            root = search._init_callback_context(max_subtasks=1 + bool(search.refit))
        weight = {name: params[name] for name in ("sample_weight",) if name in params}
        given = {"estimator": search, "X": X, "y": y, "metadata": weight or None}
        self.root = Task(root, given, lambda: {} if search.refit else None).begin()
        self._search = self._combination = self._level = self.root
        self._rows: Level | None = None
        self._settles: Task | None = None

    def begin(self, budget: Budget, n_combinations: int) -> None:
        """Begin to search; a hook that wants to stop ends the budget."""
        self._budget = budget
        most = n_combinations + 1  # at the end, the best point is evaluated again
        self._search = self.root.inner("search", most, lambda: self.attributes()).begin()
        self._combination = self._level = self._search

    @contextmanager
    def combination(self, number: int) -> Iterator[None]:
        """Within this context a combination of listed values is searched, if it can be."""
        self.progress.combination(number)
        yield
        if self._combination is self._search:  # it could not
            self._combination = self._level = self._search.inner("combination").begin()
        self._end_combination()

    def expect(self, method: Method, objective: Objective) -> None:
        """Begin a combination, whose method may know how many levels there are at most."""
        levels = method.most_levels(objective)
        most = None if levels is None else levels + 1  # one if there is no time for any
        self._combination = self._level = self._search.inner("combination", most).begin()
        self.progress.expect(method, objective)

    def settle(self) -> None:
        """Expect evaluations at the final tolerance."""
        if self._settles is None:
            self._end_combination()
            self._settles = self._search.inner("settle", None).begin()
        self._combination = self._level = self._settles
        self._rows = None
        self.progress.settle()

    def looks(self, level: Level, count: int) -> None:
        with self._lock:
            self._enter(level, count)

    @contextmanager
    def evaluation(self, level: Level, rough: bool = False) -> Iterator[None]:
        with self._lock:
            self._enter(level, 0)
            nothing = None if rough else self._level.fitted
            task = self._level.inner("look" if rough else "evaluation", 0, nothing)
            task.begin()
            self.progress.begin(level, rough)
        try:
            yield
        except (SearchEnded, KeyboardInterrupt):
            self._end_evaluation(task, rough)
            raise
        self._end_evaluation(task, rough)

    def _end_evaluation(self, task: Task, rough: bool) -> None:
        with self._lock:
            self.progress.end(rough)
            self._heed(task.end())

    def _heed(self, stop: bool) -> None:
        if stop:
            self.stopped = True
            self._budget.stop()

    def _enter(self, level: Level, looks: int) -> None:
        """Begin the task of a level, if it is not there, or cannot hold what is coming."""
        if level is self._rows and not self._level.full:
            return
        self._end_level()
        objective, most = level.objective, None
        if level.rows is None and objective.max_evals < float("inf"):
            # what is evaluated at the final tolerance does not count among them
            most = looks + int(objective.max_evals) - objective.evaluations_on_all + 1
        self._level = self._combination.inner("level", most).begin()
        self._rows = level

    def _end_level(self) -> None:
        if self._level is not self._combination:
            self._heed(self._level.end())
        self._level, self._rows = self._combination, None

    def _end_combination(self) -> None:
        self._end_level()
        if self._combination is not self._search:
            self._heed(self._combination.end())
        self._combination = self._level = self._search

    def end_search(self) -> None:
        """End all tasks but the refit's and the root's."""
        self._end_combination()
        self._search.end()

    @contextmanager
    def refit(self, estimator: Any) -> Iterator[None]:
        """Within this context the best point is fitted."""
        self.progress.refit()
        self._refit = self.root.inner("refit-with-best-params", 0)
        with self._refit.around_fit(estimator):
            yield

    def end_refit(self) -> None:
        """Say that the search has its model."""
        self._refit.end()
