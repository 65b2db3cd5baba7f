"""The objective of a search: a problem, a criterion and a space put together, with a memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ._budget import Budget
from ._criteria import Criterion
from ._prepare import Prepared
from ._problem import Evaluation, State
from ._space import Space

FAILED = 1e100  # what an optimiser is told of a point that cannot be evaluated


class SearchEnded(Exception):
    """The time or the number of evaluations is used up."""


@dataclass(frozen=True)
class Visit:
    """One evaluated point."""

    theta: np.ndarray
    params: dict[str, float]
    value: float
    gradient: dict[str, float] | None
    evaluation: Evaluation | None  # None: it could not be evaluated
    n_rows: int
    seconds: float
    rough: bool
    error: str | None = None


class Objective:
    """The smooth validation loss as a function of the scaled vector theta, on chosen rows.

    `record` is called with every Visit; `max_evals` limits the evaluations on all rows, rough looks
    not counted.
    """

    def __init__(
        self,
        prepared: Prepared,
        criterion: Criterion,
        space: Space,
        weight: np.ndarray,
        tol: float,
        budget: Budget,
        record: Callable[[Visit], None] = lambda visit: None,
        max_evals: float = np.inf,
    ):
        self.prepared = prepared
        self.criterion = criterion
        self.space = space
        self.weight = weight
        self.tol = tol
        self.budget = budget
        self.record = record
        self.max_evals = max_evals
        self.evaluations_on_all = 0
        self.visited = False

    def on(self, rows: np.ndarray | None, start: State | None = None) -> Level:
        """Return the objective on some rows (None: on all of them)."""
        return Level(self, rows, start)


class Level:
    """The objective on a fixed set of rows; keeps the best visit and starts warm from it."""

    def __init__(self, objective: Objective, rows: np.ndarray | None, start: State | None):
        self.objective = objective
        self.rows = rows
        self.n_rows = objective.prepared.n_rows if rows is None else int(rows.sum())
        self.state = start
        self.best: Visit | None = None
        self._known: dict[bytes, tuple[float, np.ndarray]] = {}

    def look(self, theta: np.ndarray) -> float:
        """Return a rough value only: a loose gap, few pair updates, no gradient."""
        return self._visit(theta, rough=True).value * self._lean(theta)[0]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient; a point that is asked for again is not evaluated again."""
        key = theta.tobytes()
        if key not in self._known:
            self._known[key] = self._value_and_grad(theta)
        return self._known[key]

    def _value_and_grad(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        visit = self._visit(theta, rough=False)
        if visit.gradient is None:
            return FAILED, np.zeros(len(theta))
        gradient = self.objective.space.pull(visit.params, visit.gradient)
        factor, slope = self._lean(theta)
        return visit.value * factor, factor * (gradient + visit.value * slope)

    def _lean(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return a factor on the value, and the derivative of its logarithm.

        Few rows are often separable, and then the loss is flat towards large C, where training is
        slow and nothing points back.  On a subset the loss therefore leans a little to the cheap
        side; on all rows it does not.
        """
        if self.rows is None:
            return 1.0, np.zeros(len(theta))
        slope = self.objective.space.lean * np.sqrt(500.0 / self.n_rows)
        return float(np.exp(slope @ theta)), slope

    def _visit(self, theta: np.ndarray, rough: bool) -> Visit:
        whole = self.objective
        if whole.visited and whole.budget.expired():
            raise SearchEnded
        if self.rows is None and not rough and whole.evaluations_on_all >= whole.max_evals:
            raise SearchEnded
        clock = time.perf_counter()
        params = whole.space.params(theta)
        try:
            evaluation, value, gradient = self._evaluate(params, rough)
            error = None
        except FloatingPointError as failure:
            evaluation, value, gradient, error = None, np.nan, None, str(failure)
        seconds = time.perf_counter() - clock
        visit = Visit(
            theta, params, value, gradient, evaluation, self.n_rows, seconds, rough, error
        )
        whole.evaluations_on_all += self.rows is None and not rough
        # A point that the clock cut short is kept only if there is nothing else.
        unfinished = evaluation is not None and not evaluation.converged
        if unfinished and whole.visited and whole.budget.expired():
            raise SearchEnded
        whole.visited = True
        whole.record(visit)
        if np.isfinite(visit.value) and (self.best is None or visit.value < self.best.value):
            self.best = replace(visit, evaluation=None)  # an evaluation holds a kernel matrix
            if visit.evaluation is not None and not rough:
                self.state = visit.evaluation.state
        return visit

    def _evaluate(
        self, params: dict[str, float], rough: bool
    ) -> tuple[Evaluation, float, dict[str, float] | None]:
        whole = self.objective
        prepared = whole.prepared
        tol = (max(whole.tol, 1e-2) if rough else whole.tol) * prepared.targets.scale
        evaluation = prepared.problem.evaluate(
            prepared.model.bare(params),
            tol=tol,
            warm=None if rough else self.state,
            rows=self.rows,
            budget=whole.budget,
            max_iter=20 * self.n_rows if rough else None,
        )
        value, delta = validation_loss(evaluation, whole.criterion, prepared, whole.weight)
        if not np.isfinite(value):
            raise FloatingPointError(f"the validation loss is {value} at {params}.")
        if rough:
            return evaluation, value, None
        gradient = evaluation.pullback(delta)
        prefix = prepared.model.prefix
        return evaluation, value, {prefix + name: g for name, g in gradient.items()}


def validation_loss(
    evaluation: Evaluation, criterion: Criterion, prepared: Prepared, weight: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """Apply a criterion to the pooled outputs of all folds; return its gradient fold by fold."""
    rows = np.concatenate(evaluation.test)
    outputs = np.concatenate(evaluation.outputs)
    value, delta = criterion(outputs, prepared.targets.y[rows], weight[rows])
    return value, np.split(delta, np.cumsum([len(test) for test in evaluation.test])[:-1])
