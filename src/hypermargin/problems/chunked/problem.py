"""Cross-validation of linear machines on rows in many places.

It is the problem of `linear`, of a sample of the rows that is held here, with one thing more: on
all rows it is evaluated where they are.  What comes back from there are sums, of the size of the
weights or smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._core.budget import Budget, Effort
from ..._core.space import Dimension, Params
from ...criteria.sums import Reduction, reduction_of
from ..base import Evaluation, gone
from ..linear.part import Start, State
from ..linear.problem import LinearCrossValidation, Weights
from . import passes
from .chunk import Machines
from .places import Places, Sums, add
from .solver import OF_TOL, Looked, Solver, cost_of, of_weights

COARSEST, FINEST = 1e-2, 1e-11  # accuracy of derivatives, where the search is coarse or fine

Tally = Callable[..., Sums]  # sums of rows by fold, from outputs, targets, weights, folds, moments


@dataclass(frozen=True)
class Measures:
    """What all rows together say of the data: numbers that ranges of hyperparameters need."""

    n_rows: int
    longest: float  # squared length of a row
    length: float  # their mean


@dataclass(frozen=True)
class ChunkedEvaluation(Evaluation):
    """Also has the sums that scores of folds are made of."""

    tallies: Callable[[], Sums] = dict


class ChunkedCrossValidation(LinearCrossValidation):
    """All folds of a linear machine on chunks as one function of its hyperparameters."""

    def spread_over(
        self, places: Places, machines: Machines, measures: Measures, tol: float
    ) -> None:
        """Say where all rows are; `tol` is how exact derivatives are to be."""
        self.machines, self.measures = machines, measures
        self.adjoint, self.no_gain = max(min(tol, COARSEST), FINEST), (OF_TOL * tol) ** 2
        n_features = self.designs[0].points.shape[1]
        self.penalty = of_weights(n_features, self.intercept, self.bias_penalty)
        self.places, self.tally = places, None
        self.solver_of_folds = Solver(places, machines, self.penalty, self.no_gain)

    tally: Tally | None

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: State | None = None,
        rows: np.ndarray | None = None,
        path: bool = False,
    ) -> Any:
        """Train all folds on all rows, far beyond `tol`, or on `rows` of the sample."""
        if rows is not None:
            return super().evaluate(params, effort, warm=warm, rows=rows, path=path)
        full = {**self.values, **params}
        solver, jobs = self.solver_of_folds, self._jobs()
        with self.workers.clock.phase("train"):
            at, converged = solver.train(full, self._start(warm or {}, jobs), effort.budget)
        trained = Trained(self, solver, full, at)
        return ChunkedEvaluation(
            [],
            [],
            trained.pullback,
            gone,
            self._state(at.W, jobs, full),
            converged,
            trained.validate,
            tallies=trained.tallies,
        )

    def _jobs(self) -> list[tuple[int, int]]:
        return [(f, c) for c in range(len(self.columns)) for f in range(len(self.folds))]

    def _start(self, warm: State, jobs: Sequence[tuple[int, int]]) -> np.ndarray:
        W = np.zeros((len(self.penalty), len(jobs)))
        for lane, job in enumerate(jobs):
            if job in warm:
                W[:, lane] = warm[job].weights
        return W

    def _state(self, W: np.ndarray, jobs: Sequence[tuple[int, int]], params: Params) -> State:
        cost = cost_of(params)
        return {job: Start(W[:, lane].copy(), None, cost) for lane, job in enumerate(jobs)}

    def refit(
        self,
        params: Params,
        effort: Effort,
        warm: State | None = None,
        *,
        weight: np.ndarray | None = None,
        points: Any = None,
    ) -> list[Weights]:
        """Train on all rows, beginning with the mean of the folds' weights."""
        whole = replace(self.machines, n_folds=1, whole=True, factors=self.factors_of_all)
        solver = Solver(self.places, whole, self.penalty, self.no_gain)
        W = np.zeros((len(self.penalty), len(self.columns)))
        for c in range(len(self.columns)):
            of_folds = [start.weights for (_, column), start in (warm or {}).items() if column == c]
            W[:, c] = np.mean(of_folds, axis=0) if of_folds else 0.0
        full = {**self.values, **params}
        at, converged = solver.train(full, W, effort.budget)
        found = at.W.copy()
        found[-1] = found[-1] * self.intercept + self.machines.centre
        made = solver.n_passes
        return [Weights(w, iterations=made, converged=converged) for w in found.T]

    factors_of_all: np.ndarray | None = None  # weights of the classes on all rows, (1, classes)

    def _strength(self, name: str, y: np.ndarray) -> Dimension:
        measured = self.measures
        longest = measured.longest + (self.intercept**2 if self.bias_penalty else 0.0)
        return self.range_of(name, y, measured.n_rows, longest, measured.length)


class Trained:
    """Machines of all folds, trained: what criteria, scores and derivatives are asked of."""

    def __init__(self, problem: Any, solver: Solver, params: Params, at: Looked):
        self.problem, self.solver, self.params, self.at = problem, solver, params, at
        self._tallies: Sums | None = None
        self._reduction: Reduction | None = None

    def _measure(self, reduction: Reduction | None) -> Sums:
        """Make the sums of a criterion, and those of scores with them."""
        tally, at = self.problem.tally, self.at
        if reduction is None and tally is None:
            return {}
        with self.problem.workers.clock.phase("outputs"):
            found = self.solver.pass_over(
                passes.measure, self.params, at.W, reduction, tally, at.moments
            )
        self._tallies = {name: value for name, value in found.items() if name != "sums"}
        return found

    def tallies(self) -> Sums:
        """Return the sums that scores of folds are made of."""
        if self._tallies is None:
            self._measure(None)
        return self._tallies or {}

    def validate(self, criterion: Any) -> tuple[float, list[np.ndarray]]:
        """Return the value of a criterion, and the numbers that its gradient is made of."""
        self._reduction = reduction = reduction_of(criterion)
        value, numbers = reduction.value(self._measure(reduction)["sums"], self.at.moments)
        return value, [numbers]

    def pullback(self, delta: Sequence[np.ndarray]) -> Params:
        """Return the derivatives by the hyperparameters, `delta` being what `validate` returns."""
        assert self._reduction is not None
        solver, at, params = self.solver, self.at, self.params
        with self.problem.workers.clock.phase("adjoint"):
            found = solver.pass_over(
                passes.right_hand, params, at.W, self._reduction, at.moments, delta[0]
            )
            sides = np.split(found["sides"], self._reduction.n_directions, axis=1)
            shares = self._reduction.coefficients(found["dots"], at.moments)
            B = sum(share * side for share, side in zip(shares, sides, strict=True))
            P = solver.solve(params, at, B, self.problem.adjoint, Budget())
            gradient = solver.pass_over(passes.pull, params, at.W, P)
            if solver.machines.landmarks is not None:
                given = self._reduction, at.moments, delta[0], shares
                of_kernel = solver.pass_over(passes.pull_features, params, at.W, P, *given)
                gradient |= add(of_kernel, self.problem.pull_penalty(params, at.W, P))
        return {name: gradient.get(name, 0.0) for name in self.problem.hyperparameters}
