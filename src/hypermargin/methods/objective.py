"""The objective of a search: a problem, a criterion and a space put together, with a memory."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.budget import Budget, Effort, OutOfTime
from .._core.space import Params, Space
from ..adapters.prepare import Prepared
from ..criteria.base import Criterion
from ..problems.apart import Apart
from ..problems.base import Evaluation, KernelProblem, Problem
from .forecast import Forecast, Taken, foresee, n_support
from .memory import NOT_KEPT, Memo, Memory, Question
from .validation import check_finite, left_by, validation_loss
from .watch import NOBODY, Watch

LOOK = 0.05  # optimality gap of a look, in units of the targets
FAILED = 1e100  # what an optimiser is told of a point that cannot be evaluated


class SearchEnded(Exception):
    """The time or the number of evaluations is used up."""


Gradient = Callable[[Evaluation, Sequence[np.ndarray]], Params]
Rate = Callable[[list[np.ndarray]], tuple[float, float]]


@dataclass(frozen=True)
class Visit:
    """One evaluated point."""

    theta: np.ndarray
    params: Params
    value: float
    gradient: Params | None
    evaluation: Evaluation | None  # None: it could not be evaluated
    n_rows: int
    seconds: float
    rough: bool  # a look: no gradient
    tol: float  # optimality gap that the machines were trained to
    final: bool  # whether machines are trained as far as they ever will be
    error: Exception | None = None
    memo: Memo = NOT_KEPT
    spare: bool = False  # whether nothing on these rows will start from where machines ended


class Objective:
    """The smooth validation loss as a function of the scaled vector theta, with a memory.

    What a method is given.  ``objective(theta)`` is value and gradient on all rows, `on` the same
    on some of them; `space` names and bounds theta.  `SearchEnded` is raised when the time or the
    number of evaluations is used up; a method may let it pass.

    Parameters
    ----------
    prepared, criterion, space, weight, pooled
        What is evaluated: a problem, what to make of its outputs, and where.
    train_tol : float
        The optimality gap that machines are trained to in the end.
    budget : Budget
    record : callable
        Is called with every Visit.
    max_evals : float
        Most evaluations on all rows, rough looks not counted.
    tol : float
        How far to search.
    rng : RandomState
    rate : callable, optional
        Gives the score of outputs, greater being better, and its standard error, where scores can
        be read off outputs; the criterion is only a smooth form of it.
    memory : Memory
        Where evaluations are looked up before machines are trained.
    watch : Watch
        Is told of every evaluation.
    apart : Apart, optional
        What evaluates the problem on all rows in its place.
    ahead : callable, optional
        Is given the places that a search is to descend from, and the seconds that it took to look
        for them; others may descend from there before the search itself does.
    """

    def __init__(
        self,
        prepared: Prepared,
        criterion: Criterion,
        space: Space,
        weight: np.ndarray,
        *,
        train_tol: float,
        budget: Budget,
        record: Callable[[Visit], None] = lambda visit: None,
        max_evals: float = np.inf,
        pooled: bool = True,
        tol: float = 5e-3,
        rng: np.random.RandomState | None = None,
        rate: Rate | None = None,
        memory: Memory | None = None,
        watch: Watch = NOBODY,
        apart: Apart | None = None,
        ahead: Callable[[Sequence[np.ndarray], float], None] = lambda starts, seconds: None,
    ):
        self.prepared, self.criterion, self.space = prepared, criterion, space
        self.weight, self.pooled = weight, pooled
        self.train_tol, self.tol = train_tol, tol
        self.budget, self.record, self.max_evals = budget, record, max_evals
        self.rng = rng or np.random.RandomState(0)
        self.rate, self.memory, self.watch = rate, memory or Memory(), watch
        self.apart, self.ahead = apart, ahead
        self.evaluations_on_all = 0
        self.widths: Any = None  # whether a width for each feature pays, if that was asked
        self.outdated: frozenset[bytes] = frozenset()  # points that are no longer to be chosen
        self._visited: set[bytes] = set()
        self.forecast: Forecast | None = None  # of the work on all rows, once there is something
        self._levels: dict[int, Level] = {}

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient on all rows."""
        theta = np.asarray(theta, dtype=float)
        if theta.shape != (len(self.space),):
            raise ValueError(
                f"a point of shape {theta.shape} was asked for; the space has {len(self.space)} "
                "coordinates."
            )
        level = self._levels.get(self.prepared.n_rows) or self.on(None)
        return level(theta)

    @property
    def best(self) -> np.ndarray | None:
        """The best point so far, of those on the most rows; None if none could be evaluated."""
        found = self._levels[self.n_best].best if self.n_best else None
        return None if found is None else found.theta

    @property
    def n_best(self) -> int:
        """The number of rows that the best point so far was evaluated on; 0 if there is none."""
        return max((n for n, level in self._levels.items() if level.best is not None), default=0)

    @contextmanager
    def at_most(self, max_evals: int) -> Iterator[None]:
        """Within this context evaluations on all rows are so many at most; then it is left."""
        most, self.max_evals = self.max_evals, max(1, max_evals)
        try:
            yield
        except SearchEnded:
            if not self.evaluations_on_all:  # the time is up before there is anything
                raise
        finally:
            self.max_evals = most

    def loss(self, outputs: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the smooth loss of out-of-fold outputs, and its gradient by them."""
        tests = [test for _, test in self.prepared.splits]
        found = Evaluation(outputs, tests, lambda delta: {}, lambda f, at: at, None, True)
        return validation_loss(found, self.criterion, self.prepared, self.weight, self.pooled)

    def side_by_side(self, function: Callable, items: Iterable) -> list:
        """Apply a function to all items, in threads: each is work on few rows that takes long."""
        return self.prepared.problem.workers.map(function, items, self.budget, long=True)

    def outdate(self) -> None:
        """Say that what is visited from now on is to be chosen, if anything is."""
        self.outdated = frozenset(self._visited)

    def expect(self, coarse: Level, evaluations: float) -> None:
        """Foresee what evaluations on all rows will take, of those on fewer."""
        prepared = self.prepared
        if prepared.sample is not None:  # a cluster is no faster or slower machine of this kind
            return
        taken = [level.taken for n, level in sorted(self._levels.items()) if n <= coarse.n_rows]
        taken = [level for level in taken if level.seconds]
        if not taken:
            return
        self.forecast = foresee(prepared.problem, taken, prepared.n_rows, evaluations)
        if self.forecast.is_long and self.budget.seconds is None:
            self.forecast.warn(kernels=isinstance(prepared.problem, KernelProblem))

    def over(self) -> bool:
        """Whether the time or the number of evaluations is used up."""
        return self.budget.expired() or self.evaluations_on_all >= self.max_evals

    def on(
        self,
        rows: np.ndarray | None,
        start: Any = None,
        tol: float | None = None,
        leans: bool = False,
        thrifty: bool = False,
    ) -> Level:
        """Return the objective on some rows (None: on all of them), at a coarser tolerance or not.

        What is evaluated at a coarser one can be evaluated again: see `settle`.  A thrifty level
        may leave gradients out: see `Level.unless`.
        """
        level = Level(self, rows, start, max(tol or 0.0, self.train_tol), leans, thrifty)
        self._levels[level.n_rows] = level
        return level

    def settle(self, theta: np.ndarray, n_rows: int, budget: Budget) -> Visit:
        """Evaluate a point again, on as many rows as it was, at the final tolerance."""
        return self._levels[n_rows].settle(theta, budget)


class Level:
    """The objective on a fixed set of rows; keeps the best visit and starts warm from it.

    What is trained to `enough` is not to be trained further.
    """

    def __init__(
        self,
        objective: Objective,
        rows: np.ndarray | None,
        start: Any,
        tol: float,
        leans: bool,
        thrifty: bool,
    ):
        self.objective = objective
        self.tol = tol
        self.leans, self.thrifty = leans, thrifty
        self.rows = rows
        self.n_rows = objective.prepared.n_rows if rows is None else int(rows.sum())
        self.label = (
            "all" if rows is None else f"{self.n_rows} {zlib.crc32(np.packbits(rows).tobytes())}"
        )
        self.state = start
        # on rows in many places machines are trained far beyond the tolerance of a search
        whole = objective.prepared.sample is not None and rows is None
        self.enough = np.inf if whole else objective.train_tol
        self.best: Visit | None = None
        self.left = 0.0  # how far the best outputs are off, if targets are numbers
        self.taken = Taken(self.n_rows, [], [])  # by evaluations
        self.ends: dict[bytes, Any] = {}  # where machines ended at some points
        self._known: dict[bytes, tuple[float, np.ndarray]] = {}

    @property
    def resolution(self) -> float:
        """The least change of the value that means anything."""
        return self.objective.criterion.resolution / self.n_rows

    def looks(self, thetas: Iterable[np.ndarray]) -> list[float]:
        """Return rough values only: a loose gap, few pair updates, no gradient.

        Places are looked at side by side, one per thread.
        """
        whole, problem, thetas = self.objective, self.objective.prepared.problem, list(thetas)
        whole.watch.looks(self, len(thetas))

        def look(theta: np.ndarray) -> Visit | None:
            own = problem.of_thread()
            try:
                with whole.watch.evaluation(self, rough=True):
                    visit = self._measure(theta, LOOK, whole.budget, None, None, own)
                    visit.memo.keep(visit)
            except SearchEnded:
                return None
            return visit

        with problem.workers.clock.phase("look"):
            visits = problem.map_evaluations(look, thetas, whole.budget)
        found = [visit for visit in visits if visit is not None]
        for visit in found:
            self._note(visit)
        if len(found) < len(visits):
            raise SearchEnded
        return [visit.value * self._lean(visit.theta)[0] for visit in found]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient; a point that is asked for again is not evaluated again."""
        key = theta.tobytes()
        if key not in self._known:
            self._known[key] = self._value_and_grad(theta)
        return self._known[key]

    def unless(
        self, theta: np.ndarray, enough: Callable[[float], bool]
    ) -> tuple[float, np.ndarray | None]:
        """Return value and gradient; None for that, if the level is thrifty and a value enough."""
        if not self.thrifty or theta.tobytes() in self._known:
            return self(theta)
        factor, left_out = self._lean(theta)[0], False

        def wanted(value: float) -> bool:
            nonlocal left_out
            left_out = enough(value * factor)
            return not left_out

        found = self._value_and_grad(theta, wanted)
        if left_out:
            return found[0], None
        self._known[theta.tobytes()] = found
        return found

    def visit(
        self,
        theta: np.ndarray,
        tol: float,
        warm: Any,
        gradient: Gradient | None,
        shown: bool = True,
        wanted: Callable[[float], bool] | None = None,
        **how: Any,
    ) -> Visit:
        """Evaluate a point, and record it; `how` is for the problem.

        Whether the gradient is `wanted` may depend on the value.  A visit that is not `shown` to
        anyone else is a start for others only if it is the best.
        """
        whole = self.objective
        if self.rows is None and whole.evaluations_on_all >= whole.max_evals:
            raise SearchEnded
        with whole.watch.evaluation(self):
            visit = self._measure(theta, tol, whole.budget, warm, gradient, wanted=wanted, **how)
            whole.evaluations_on_all += self.rows is None
            self._take(visit)
            if not shown and not self._is_best(visit):
                visit = replace(visit, spare=True)
            self._note(visit)
        return visit

    def _take(self, visit: Visit) -> None:
        """Note what an evaluation took."""
        self.taken.seconds.append(visit.seconds)
        if visit.evaluation is not None and visit.evaluation.state is not None:
            self.taken.support.append(n_support(visit.evaluation.state))

    def settle(self, theta: np.ndarray, budget: Budget) -> Visit:
        """Evaluate a point at the final tolerance, without a gradient."""
        whole, warm = self.objective, self.ends.get(theta.tobytes(), self.state)
        with whole.watch.evaluation(self):
            return self._measure(theta, whole.train_tol, budget, warm, None)

    def finish(self, theta: np.ndarray) -> None:
        """Evaluate and record a point at the final tolerance, however late it is."""
        self._note(self.settle(theta, self.objective.budget.unhurried()))

    def _value_and_grad(
        self, theta: np.ndarray, wanted: Callable[[float], bool] | None = None
    ) -> tuple[float, np.ndarray]:
        space = self.objective.space

        def pull(found: Evaluation, delta: Sequence[np.ndarray]) -> Params:
            return found.pullback(delta)

        visit = self.visit(theta, self.tol, self.state, pull, shown=False, wanted=wanted)
        if visit.gradient is None and not np.isfinite(visit.value):
            return FAILED, np.zeros(len(theta))
        gradient = np.zeros(len(theta))  # if it was not wanted
        if visit.gradient is not None:
            gradient = space.pull(visit.params, visit.gradient)
        if not np.isfinite(gradient).all():  # it tells an optimiser nothing; the value still counts
            return FAILED, np.zeros(len(theta))
        factor, slope = self._lean(theta)
        return visit.value * factor, factor * (gradient + visit.value * slope)

    def _lean(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return a factor on the value, and the derivative of its logarithm.

        Few rows are often separable, and then the loss is flat towards large C, where training is
        slow and nothing points back.  There the loss therefore leans a little to the cheap side.
        On more rows it does not: along a flat valley that would move the minimum far.
        """
        if not self.leans:
            return 1.0, np.zeros(len(theta))
        slope = self.objective.space.lean * np.sqrt(500.0 / self.n_rows)
        return float(np.exp(slope @ theta)), slope

    def _is_best(self, visit: Visit) -> bool:
        best = self.best
        return bool(np.isfinite(visit.value)) and (best is None or visit.value < best.value)

    def _note(self, visit: Visit) -> None:
        """Record a visit, and start from it in future if it is the best."""
        self.objective._visited.add(visit.theta.tobytes())
        self.objective.record(visit)
        if self._is_best(visit):
            self.best = replace(visit, evaluation=None)  # an evaluation holds a kernel matrix
            if any(d.noise is not None for d in self.objective.space.dimensions):
                self.left = left_by(visit.evaluation, self.objective.prepared)
            if visit.evaluation is not None and not visit.rough:
                self.state = visit.evaluation.state

    def _place(self, rough: bool, how: Mapping[str, Any]) -> Problem | Apart:
        """Return what evaluates here; `how` is for the problem only."""
        apart = self.objective.apart
        if apart is None or self.rows is not None or rough or how:
            return self.objective.prepared.problem
        return apart

    def _measure(
        self,
        theta: np.ndarray,
        tol: float,
        budget: Budget,
        warm: Any,
        differentiate: Gradient | None,
        problem: Problem | None = None,
        wanted: Callable[[float], bool] | None = None,
        **how: Any,
    ) -> Visit:
        """Evaluate a point; the tolerance tells whether it is a look.

        What the clock cuts short has a value that no model has: then SearchEnded is raised.
        """
        clock, whole = time.perf_counter(), self.objective
        params, rough = whole.space.params(theta), tol >= LOOK
        question = Question(theta, self.label, tol, differentiate is not None, repr(how))
        memo = whole.memory.memo(question, whole.prepared.problem, self.rows)
        evaluation, value, gradient, error = None, np.nan, None, None

        def train() -> Evaluation:
            found = (problem or self._place(rough, how)).evaluate(
                params, Effort(tol, budget, rough), warm=warm, rows=self.rows, **how
            )
            if not found.converged:
                budget.check()
            return found

        try:
            budget.check()
            evaluation = memo.evaluation(train)
            value, delta = validation_loss(
                evaluation, whole.criterion, whole.prepared, whole.weight, whole.pooled
            )
            check_finite(whole.criterion, value, delta, whole.space.settings(params))
            if differentiate is not None and (wanted is None or wanted(value)):
                gradient = differentiate(evaluation, delta)
        except OutOfTime:
            raise SearchEnded from None
        except FloatingPointError as failure:
            # what its frames refer to, such as a kernel matrix, is not to be kept
            value, gradient, error = np.nan, None, failure.with_traceback(None)
        seconds = time.perf_counter() - clock if memo.seconds is None else memo.seconds
        return Visit(
            theta, params, value, gradient, evaluation, self.n_rows, seconds, rough, tol,
            tol <= self.enough, error, memo,
        )  # fmt: skip
