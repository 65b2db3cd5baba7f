"""Cross-validation of kernel machines on landmarks, of rows in many places.

It is the problem of `landmarks`, of a sample of the rows that is held here: landmarks are drawn
from that by the same rule, and sent to where the rows are.  K(x, Z) is made there, block by block
with the kernel's current hyperparameters, and stands in the place of features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.budget import Effort
from ..._core.space import Params, same
from ..base import Expansion, gone
from ..landmarks.problem import BIAS_PENALTY, JITTER, LandmarkState, LowRankCrossValidation
from .chunk import Landmarks, Machines
from .places import Places
from .problem import COARSEST, FINEST, ChunkedEvaluation, Measures, Tally, Trained
from .solver import OF_TOL, KernelPenalty, Looked, Solver, cost_of

WIDER = 16.0, 4.0  # corners of the first machines, in units of those that are wanted
COARSE_LANDMARKS = 1e-4  # part of the objective that their last steps may promise


class ChunkedLowRank(LowRankCrossValidation):
    """All folds of a kernel machine on landmarks, on chunks, as one function."""

    tally: Tally | None = None
    factors_of_all: np.ndarray | None = None  # weights of the classes on all rows, (1, classes)

    def spread_over(
        self, places: Places, machines: Machines, measures: Measures, tol: float
    ) -> None:
        """Say where all rows are; `tol` is how exact derivatives are to be."""
        self.machines, self.measures, self.places = machines, measures, places
        self.adjoint, self.no_gain = max(min(tol, COARSEST), FINEST), (OF_TOL * tol) ** 2
        self.expansions = Expansions(self, machines)

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: LandmarkState | None = None,
        rows: np.ndarray | None = None,
    ) -> Any:
        """Train all folds on all rows, far beyond `tol`, or on `rows` of the sample."""
        if rows is not None:
            return super().evaluate(params, effort, warm=warm, rows=rows)
        full = {**self.values, **self.designs[0].fixed, **params}
        with self.workers.clock.phase("train"):
            at, converged = self.expansions.train(full, effort)
        trained = Trained(self, self.expansions.solver, full, at)
        return ChunkedEvaluation(
            [], [], trained.pullback, gone, {}, converged, trained.validate,
            tallies=trained.tallies,
        )  # fmt: skip

    def pull_penalty(self, params: Params, A: np.ndarray, P: np.ndarray) -> Params:
        """Pull the cotangent -P A' on Q back to the kernel's hyperparameters."""
        return self.expansions.pull_penalty(params, A, P)

    def refit(
        self,
        params: Params,
        effort: Effort,
        warm: Any = None,
        *,
        weight: np.ndarray | None = None,
        points: Any = None,
    ) -> list[Expansion]:
        """Train on all rows; landmarks are rows of the sample."""
        assert weight is not None and points is None
        whole = self._on_all_rows(None, weight)
        machines = replace(self.machines, n_folds=1, whole=True, factors=self.factors_of_all)
        expansions = Expansions(whole, machines)
        at, converged = expansions.train({**self.values, **params}, effort)
        alpha, bias = at.W[:-1, 0], float(at.W[-1, 0]) + self.machines.centre
        return [Expansion(expansions.rows, alpha, bias, converged=converged)]


class Expansions:
    """Machines of the folds of a problem as expansions on the landmarks that it has drawn."""

    def __init__(self, problem: ChunkedLowRank, machines: Machines):
        folds = range(len(problem.folds))
        drawn = [problem.landmarks_of(f, problem.rank) for f in folds]
        self.problem, self.rows = problem, np.unique(np.concatenate(drawn))
        self.own = np.ones((len(self.rows) + 1, len(drawn)), dtype=bool)
        for f in folds:
            self.own[:-1, f] = np.isin(self.rows, drawn[f])
        points = problem.designs[0].points.take(self.rows)
        widths = problem.smoothing * problem.spreads[:, 0]
        landmarks = Landmarks(problem.kernel, points.X, points.centre, widths)
        self.machines = replace(machines, landmarks=landmarks)
        nothing = KernelPenalty(np.eye(len(self.own)), self.own)
        self.solver = Solver(problem.places, self.machines, nothing, problem.no_gain)
        self._last: tuple[Params, np.ndarray] | None = None

    def train(self, params: Params, effort: Effort) -> tuple[Looked, bool]:
        """Train all machines, from those of the last time if the kernel is the same.

        Coefficients of another kernel would be of no use: they are large and cancel each other.
        """
        of_kernel = {name: params[name] for name in self.problem.kernel.hyperparameters}
        W = np.zeros(self.own.shape)
        if self._last is not None and same(self._last[0], of_kernel):
            W = self._last[1]
            self.solver.penalty = self._penalty(params)
        else:
            self.solver.forget(self._penalty(params))
            W = self._first(params, W, effort)
        at, converged = self.solver.train(params, W, effort.budget)
        self._last = of_kernel, at.W
        return at, converged

    def _first(self, params: Params, W: np.ndarray, effort: Effort) -> np.ndarray:
        """Return where to begin: machines whose corners are wide enough to have all rows in them.

        At zero no row is in a narrow one: there is no curvature, and a step may go anywhere.
        """
        landmarks = self.machines.landmarks
        assert landmarks is not None
        for factor in WIDER:
            wide = replace(landmarks, widths=factor * landmarks.widths)
            self.solver.machines = replace(self.machines, landmarks=wide)
            W = self.solver.train(params, W, effort.budget, COARSE_LANDMARKS)[0].W
        self.solver.machines = self.machines
        return W

    def _kernel_of_landmarks(self, params: Params) -> tuple[Any, np.ndarray]:
        landmarks = self.machines.landmarks
        assert landmarks is not None
        Z = landmarks.points(params)
        return Z, landmarks.kernel.block(Z, Z, params)

    def _penalty(self, params: Params) -> KernelPenalty:
        """Return Q = K(Z, Z) with a jitter, and next to nothing for the bias."""
        K, m = self._kernel_of_landmarks(params)[1], len(self.rows)
        Q = np.zeros((m + 1, m + 1))
        Q[:m, :m] = 0.5 * (K + K.T)
        Q[np.arange(m), np.arange(m)] += JITTER * np.diagonal(K).mean()
        room = cost_of(params) * (1.0 if self.machines.loss.classifies else 2.0)
        Q[m, m] = BIAS_PENALTY * room / float(self.problem.spreads.mean())
        return KernelPenalty(Q, self.own)

    def pull_penalty(self, params: Params, A: np.ndarray, P: np.ndarray) -> Params:
        """Pull the cotangent -P A' on Q back through K(Z, Z) and the jitter on its diagonal."""
        Z, K = self._kernel_of_landmarks(params)
        M = -P[:-1] @ A[:-1].T
        M[np.arange(len(M)), np.arange(len(M))] += JITTER * np.trace(M) / len(M)
        return self.problem.kernel.pullback(Z, Z, K, M, params)
