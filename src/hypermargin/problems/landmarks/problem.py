"""Cross-validation of kernel machines on landmarks: the problem for data beyond memory.

A machine is an expansion on landmarks Z, training rows that are drawn once, before the search:
o(x) = K(x, Z) alpha + bias.  With the data of a loss's dual (see `losses`) it minimises

    1/2 alpha' Q alpha + sum_i max_b [ b (target_i - o_i) - kink_i |b| - (ridge_i + mu_i) b^2 / 2 ]

over lower_i <= b <= upper_i, where Q = K(Z, Z) + jitter.  This is the primal form of the same
quadratic programme with the Nystrom approximation K(X, Z) Q^-1 K(Z, X) in place of K.  It differs
from the exact problem by that approximation, by the jitter, and by mu_i = s / (upper_i - lower_i),
which rounds the corners of the loss over a width s of the outputs.  A loss without bounds has no
corners, and mu = 0.

The best b is the dual coefficient  beta_i = clip(h_i soft(target_i - o_i, kink_i)) to the bounds,
h_i = 1 / (ridge_i + mu_i).  With a column of ones in K for the bias, training solves
Q alpha = K' beta  by Newton's method.  Its matrix is  H = Q + K' D K,  where D is h if beta is free
and zero otherwise.  For a gradient delta on the outputs of the validation rows the adjoint solves
H p = K' delta,  and with q = K p

    df = (delta - D q)' dK alpha + beta' dK p - p' dQ alpha + q' dbeta,

dbeta being the change of beta at fixed outputs.  So a kernel meets cotangents of rank two for each
machine, and a loss meets cotangents on its dual's data, as in the exact problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..._core.budget import Budget, Effort, OutOfTime, Workers, one_blas_thread
from ..._core.space import Params
from ...kernels.base import Kernel
from ...kernels.gram import RowStore
from ...kernels.points import Points
from ...losses.base import FIELDS, Dual, Loss, Rows, unbounded_dual
from ..base import (
    SAMPLE,
    Column,
    Design,
    Evaluation,
    Expansion,
    Fold,
    KernelProblem,
    Piece,
)
from .features import Features
from .newton import MOST_NEWTON, Newton, SmoothDual

JITTER = 1e-6  # on the diagonal of K(Z, Z), in units of its mean
SMOOTHING = 0.5  # width of the rounded corners, in units of the targets
BIAS_PENALTY = 1e-8  # on the bias, in units of a row's bounds; makes it unique, moves nothing
FEWER = 64, 250  # on a part of the rows: rows per landmark, and least number of landmarks
LAST_STEP = 5.0  # last step of the outputs on average, in units of the largest violation of a row
SMOOTH_TOL = 1e-3  # accuracy of a model on all rows; rounded corners make more of it meaningless
ADJOINT = 1e-3, 1e-10  # accuracy of the adjoint in single and in double precision


@dataclass(frozen=True)
class LandmarkStart:
    """Where a machine ended: an expansion on landmarks, and its outputs.

    `rows` and `landmarks` are row numbers of the user's data, `params` the hyperparameters.
    """

    landmarks: np.ndarray
    alpha: np.ndarray
    bias: float
    params: Params
    rows: np.ndarray
    outputs: np.ndarray


LandmarkState = dict[tuple[int, int], LandmarkStart]


class LowRankCrossValidation(KernelProblem):
    """All folds of a kernel machine on landmarks as one function of its hyperparameters.

    Parameters
    ----------
    designs, folds, columns : sequences of Design, Fold, Column
        Rows of designs are in the user's order: any other may know the labels of validation rows.
    kernel, loss : Kernel, Loss
        The kernel must be positive definite.
    values : dict
        Values of hyperparameters that an evaluation does not name.
    memory : float
        Bytes for kernel values; what does not fit is computed again at every pass.
    rank : int
        Number of landmarks.
    seed : int
        Of the draw of the landmarks.
    smoothing : float
        Width over which the corners of the loss are rounded, in units of the targets.

    Notes
    -----
    A fold draws landmarks among its training rows, in the proportions of the classes, so that its
    validation rows have no say in anything.  All folds draw in one order, which knows nothing of
    labels, so that they share most landmarks: a fold that trains on four fifths of the rows has
    four fifths of `rank`, and all folds together have about `rank`.  Landmarks are the same in all
    evaluations; on fewer rows the first of them are used.  With all rows as landmarks the machines
    are those of the exact problem.

    A machine of a pair of classes has landmarks of these classes only, so that it can be written as
    a scikit-learn SVC whose support vectors are the landmarks.
    """

    sums_to_zero = False

    def __init__(
        self,
        designs: Sequence[Design],
        folds: Sequence[Fold],
        columns: Sequence[Column],
        kernel: Kernel,
        loss: Loss,
        values: Params,
        memory: float,
        workers: Workers | None = None,
        *,
        rank: int,
        seed: int = 0,
        smoothing: float = SMOOTHING,
    ):
        self.rank = rank
        self.seed = seed
        self.smoothing = smoothing
        self.groups = groups_of_columns(columns)
        self.strata = strata_of(columns, loss)
        super().__init__(designs, folds, columns, kernel, loss, values, memory, workers)
        if rank < (n_classes := int(self.strata.max()) + 1):
            raise ValueError(f"rank={rank!r} must be at least {n_classes}, one for each class.")

    def _measure(self) -> None:
        super()._measure()
        draw = np.random.default_rng(self.seed).permutation(len(self.strata))
        trained = [draw[fold.weight[draw] > 0] for fold in self.folds]
        n_rows = int(np.any([fold.weight > 0 for fold in self.folds], axis=0).sum())
        self._shares = [len(rows) / max(1, n_rows) for rows in trained]
        self._orders = [landmark_order(self.strata, rows)[: self.rank] for rows in trained]

    def memory_on(self, n_rows: int) -> float:
        # single-precision values of all rows at the landmarks, which are members of the columns
        share = sum(float(self.columns[group[0]].members.mean()) for group in self.groups)
        values = 4.0 * len(self.designs) * share * min(self.rank, n_rows) * n_rows
        return super().memory_on(n_rows) + min(values, self.memory)

    def landmarks_of(self, f: int, rank: int) -> np.ndarray:
        """Return the landmarks of a fold, if all folds together have about `rank` of them."""
        order = self._orders[f]
        n_classes = len(np.unique(self.strata[order]))
        return order[: max(n_classes, round(rank * self._shares[f]))]

    def cut(self, piece: Piece) -> Self:
        part = super().cut(piece)
        part.groups = groups_of_columns(part.columns)
        part._begin()
        return part

    @property
    def _n_stores(self) -> int:
        return len(self.designs) * len(self.groups)

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: LandmarkState | None = None,
        rows: np.ndarray | None = None,
    ) -> Evaluation:
        """Train all folds; the tolerance bounds the last step of the outputs.

        In the exact problem it bounds the largest violation of all rows.  A step says how far off
        the rows are on average, which is much less.
        """
        self._latest = None
        # sharp corners are soon crossed
        step = LAST_STEP * effort.tol * min(1.0, self.smoothing / SMOOTHING)
        with one_blas_thread():
            parts = [
                _Group(self, number, group, params, rows, effort.budget)
                for number in range(len(self.designs))
                for group in range(len(self.groups))
                if self._jobs(number, group)
            ]
            for part in parts:
                part.train(step, warm or {})
        home = {job: part for part in parts for job in part.jobs}

        def outputs_at(fold: int, at: np.ndarray) -> np.ndarray:
            found = np.zeros((len(at), len(self.columns)))
            for c in range(len(self.columns)):
                if (job := (fold, c)) in home:
                    found[:, c] = home[job].outputs_at(job, at)
            return found

        state: Any = {job: start for part in parts for job, start in part.state().items()}
        tests = {f: rows for part in parts for f, rows in part.test_rows.items()}
        test = [tests[f] for f in self.numbers]
        evaluation = Evaluation(
            outputs=[outputs_at(f, at) for f, at in zip(self.numbers, test, strict=True)],
            test=test,
            pullback=self._pullback_of(parts),
            outputs_at=outputs_at,
            state=state,
            converged=all(part.newton.converged for part in parts),
        )
        return self._moved(evaluation, params)

    def _jobs(self, number: int, group: int) -> list[tuple[int, int]]:
        """Return the machines of a design and a group of columns that are trained."""
        folds, columns = self.designs[number].folds, self.groups[group]
        pairs = [(f, c) for c in columns for f in folds]
        return [(f, c) for f, c in pairs if self.folds[f].trains(self.columns[c])]

    def refit(
        self,
        params: Params,
        effort: Effort,
        warm: LandmarkState | None = None,
        *,
        weight: np.ndarray | None = None,
        points: Points | None = None,
    ) -> list[Expansion]:
        assert weight is not None
        whole = self._on_all_rows(points, weight)
        if points is None:  # outputs of the folds are near those on all rows
            warm = {(0, c): start for (f, c), start in (warm or {}).items() if f == 0}
        else:
            warm = None
        self._latest = None
        effort = replace(effort, tol=max(effort.tol, SMOOTH_TOL))
        evaluation = whole.evaluate(params, effort, warm=warm)
        state: Any = evaluation.state
        found = [state[0, c] for c in range(len(self.columns))]
        return [
            Expansion(s.landmarks, s.alpha, s.bias, converged=evaluation.converged) for s in found
        ]


class _Group:
    """The machines of a design whose columns have the same members."""

    def __init__(
        self,
        problem: LowRankCrossValidation,
        number: int,
        group: int,
        params: Params,
        rows: np.ndarray | None,
        budget: Budget,
    ):
        self.problem, self.budget = problem, budget
        self.design = design = problem.designs[number]
        columns = problem.groups[group]
        kept, self.points = np.arange(len(design.rows)), design.points
        if rows is not None:
            kept = np.flatnonzero(rows[design.rows])
            self.points = self.points.take(kept)
        self.rows = design.rows[kept]
        self.params = {**problem.values, **design.fixed, **params}
        self.given, self.points = self.points, problem.kernel.at(self.points, self.params)
        self.jobs = problem._jobs(number, group)
        self.test_rows, self.test = {}, {}
        for f in design.folds:  # a row may be listed twice, and may be in the training part too
            test = problem.folds[f].test
            self.test_rows[f] = test[np.isin(test, self.rows)]
            self.test[f] = np.searchsorted(self.rows, self.test_rows[f])
        rank = problem.rank
        if rows is not None:
            rank = min(rank, max(len(self.rows) // FEWER[0], FEWER[1]))
        self._draw(rank, problem.columns[columns[0]].members)
        n_groups = len(problem.designs) * len(problem.groups)
        self.memory = problem.memory / n_groups
        self.store = problem._stores[number * len(problem.groups) + group][0]
        self.spreads = np.array([problem.spreads[f, c] for f, c in self.jobs])
        self.offsets = np.array([problem.offsets[f, c] for f, c in self.jobs])
        self.units = problem.units[[f for f, _ in self.jobs]]
        self.of_loss, self.dual = self._duals()
        self.K_zz, self.Q = self._penalty()

    def _draw(self, rank: int, members: np.ndarray) -> None:
        """Set the landmarks of all machines, and which of them (and the bias) each of them has."""
        problem, design = self.problem, self.design
        drawn = {f: problem.landmarks_of(f, rank) for f in {f for f, _ in self.jobs}}
        rows = np.unique(np.concatenate(list(drawn.values())))
        self.landmark_rows = rows = rows[members[rows]]
        landmarks = design.points.take(np.searchsorted(design.rows, rows))
        self.landmarks = problem.kernel.at(landmarks, self.params)
        self.own = np.ones((len(rows) + problem.loss.bias, len(self.jobs)), dtype=bool)
        for k, (f, _) in enumerate(self.jobs):
            self.own[: len(rows), k] = np.isin(rows, drawn[f])

    def _duals(self) -> tuple[list[Rows], SmoothDual]:
        """Return what the loss knows of each machine's rows, and the smoothed dual."""
        problem, rows, known = self.problem, self.rows, []
        for f, c in self.jobs:
            column = problem.columns[c]
            weight = problem.folds[f].of_column(column)[rows]
            parts = {kind: of[rows] for kind, of in column.parts.items()}
            known.append(Rows(column.target[rows] - problem.offsets[f, c], weight, parts))
        duals = [unbounded_dual(problem.loss, one, self.params) for one in known]
        stacked: Any = {n: np.column_stack([getattr(d, n) for d in duals]) for n in FIELDS}
        return known, SmoothDual(Dual(**stacked), problem.smoothing * self.spreads)

    def _penalty(self) -> tuple[np.ndarray, np.ndarray]:
        """Return K(Z, Z), and Q with the penalty of the bias in its last place."""
        K = self.problem.kernel.block(self.landmarks, self.landmarks, self.params)
        m, bias = len(K), self.problem.loss.bias
        Q = np.zeros((m + bias, m + bias))
        Q[:m, :m] = 0.5 * (K + K.T)
        Q[np.arange(m), np.arange(m)] += JITTER * np.diagonal(K).mean()
        if bias:
            stiffness = self.dual.stiffness[self.dual.stiffness > 0].mean()
            Q[m, m] = BIAS_PENALTY * self.problem.smoothing * stiffness
        return K, Q

    def train(self, tol: float, warm: LandmarkState) -> None:
        """Train all machines side by side."""
        self.single = self.problem.in_single(self.points, self.params, tol)
        self._run(tol, warm)
        if self.single and self._is_rounded(tol):
            self.single = False
            self._run(tol, warm)

    def _is_rounded(self, tol: float) -> bool:
        """Whether outputs in double precision differ, on some of the rows."""
        at = np.linspace(0, len(self.points) - 1, min(len(self.points), SAMPLE)).astype(int)
        block = self.problem.kernel.block(self.points.take(at), self.landmarks, self.params)
        A, m = self.newton.coefficients, len(self.landmarks)
        exact = block @ A[:m] + (A[m] if self.problem.loss.bias else 0.0)
        return bool((np.abs(exact - self.newton.outputs[at]) > 10 * tol * self.units).any())

    def _run(self, tol: float, warm: LandmarkState) -> None:
        self.features = self._features(
            self.points, self.landmarks, self.params, self.store, self.memory
        )
        self.newton = Newton(self.features, self.Q, self.dual, self.units, self.own)
        try:
            start, reach = self._start(warm), self._reach(warm)
        except OutOfTime:
            start, reach = None, self.dual.width
        self.newton.run(start, reach, tol, MOST_NEWTON)

    def _features(
        self, points: Points, landmarks: Points, params: Params, store: RowStore, memory: float
    ) -> Features:
        problem = self.problem
        if self.single:
            points, landmarks = points.single, landmarks.single
        return Features(
            points,
            landmarks,
            problem.kernel,
            params,
            problem.loss.bias,
            store,
            memory,
            problem.workers,
            budget=self.budget,
        )

    def _start(self, warm: LandmarkState) -> np.ndarray | None:
        """Return the outputs of earlier machines on the rows, if there are machines for all."""
        starts = [warm[job] for job in self.jobs if job in warm]
        if len(starts) < len(self.jobs):
            return None
        one = starts[0]
        place = np.minimum(np.searchsorted(one.rows, self.rows), len(one.rows) - 1)
        known = one.rows[place] == self.rows
        outputs = np.empty((len(self.rows), len(starts)))
        outputs[known] = np.column_stack([start.outputs for start in starts])[place[known]]
        if not known.all():
            A = np.column_stack([start.alpha for start in starts])
            if self.problem.loss.bias:
                A = np.vstack([A, [start.bias for start in starts]])
            landmarks = self.design.points.take(np.searchsorted(self.design.rows, one.landmarks))
            points = self.points.take(~known)
            old = self._features(points, landmarks, one.params, RowStore(), 0.0)
            outputs[~known] = old.times(A)
        return outputs - self.offsets

    def _reach(self, warm: LandmarkState) -> np.ndarray:
        """Return how far outputs may be from those of earlier machines."""
        old = warm.get(self.jobs[0])
        if old is None or not np.array_equal(old.rows, self.rows):
            return self.dual.width
        # a threshold is none of a machine's business, and not there when it is trained at last
        shared = [name for name in self.params if name in old.params]
        pairs = [(self.params[name], old.params[name]) for name in shared]
        change = sum(
            np.sum(np.abs(new - old) / np.maximum(np.maximum(np.abs(new), np.abs(old)), 1e-300))
            for new, old in pairs
        )
        return self.dual.width * min(1.0, change)

    def state(self) -> LandmarkState:
        A, m = self.newton.coefficients, len(self.landmarks)
        bias = A[m] if self.problem.loss.bias else np.zeros(len(self.jobs))
        bias, outputs = bias + self.offsets, self.newton.outputs + self.offsets
        return {
            job: LandmarkStart(
                self.landmark_rows, A[:m, k], float(bias[k]), self.params, self.rows, outputs[:, k]
            )
            for k, job in enumerate(self.jobs)
        }

    def outputs_at(self, job: tuple[int, int], rows: np.ndarray) -> np.ndarray:
        at = np.searchsorted(self.rows, rows)
        k = self.jobs.index(job)
        return self.given.tied(self.newton.outputs[at, k] + self.offsets[k], at)

    def pullback(self, delta: Sequence[np.ndarray]) -> Params:
        """Turn gradients on the outputs of all folds into gradients on the hyperparameters."""
        features, outputs = self.features, self.newton.outputs
        features.budget = Budget()  # a gradient cannot be had by halves
        A, m = self.newton.coefficients, len(self.landmarks)
        E = np.zeros_like(outputs)
        for k, (f, c) in enumerate(self.jobs):
            np.add.at(E[:, k], self.test[f], delta[f][:, c])
        beta = self.dual.beta(outputs)
        D = self.dual.curvature(outputs, beta)
        rhs = features.transposed(E)
        P = self.newton.system(D, renew=True).solve(rhs, ADJOINT[0 if self.single else 1])
        q = features.times(P)
        left, right = np.hstack([E - D * q, beta]), np.vstack([A[:m].T, P[:m].T]).T
        gradient = dict.fromkeys(self.problem.hyperparameters, 0.0)
        for part in (features.pullback(left, right), self._pull_penalty(P[:m], A[:m])):
            for name, value in part.items():
                gradient[name] += value
        cotangent = self.dual.cotangent(outputs, beta, q)
        for k in range(len(self.jobs)):
            own = Dual(**{name: getattr(cotangent, name)[:, k] for name in FIELDS})
            pulled = self.problem.loss.pullback(self.of_loss[k], self.params, own)
            for name, value in pulled.items():
                gradient[name] += value
        return gradient

    def _pull_penalty(self, P: np.ndarray, A: np.ndarray) -> Params:
        """Pull the cotangent -P A' on Q back through K(Z, Z) and the jitter on its diagonal."""
        M = -P @ A.T
        M[np.arange(len(M)), np.arange(len(M))] += JITTER * np.trace(M) / len(M)
        Z = self.landmarks
        return self.problem.kernel.pullback(Z, Z, self.K_zz, M, self.params)


def strata_of(columns: Sequence[Column], loss: Loss) -> np.ndarray:
    """Return the number of each row's class; real targets are all of one."""
    if not loss.classifies:
        return np.zeros(len(columns[0].target), dtype=int)
    labels = np.column_stack([np.where(c.members, c.target, 0.0) for c in columns])
    return np.unique(labels, axis=0, return_inverse=True)[1].ravel()


def landmark_order(strata: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows in an order of which every beginning has the classes in their proportions.

    One of each class comes first; otherwise the rows of a class stay in their order.
    """
    strata = np.unique(strata[rows], return_inverse=True)[1].ravel()
    by_class = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    place = np.empty(len(rows))
    place[by_class] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows[np.argsort(place / sizes[strata], kind="stable")]


def groups_of_columns(columns: Sequence[Column]) -> list[list[int]]:
    """Return the numbers of the columns, those with the same members together."""
    groups: dict[bytes, list[int]] = {}
    for number, column in enumerate(columns):
        groups.setdefault(np.packbits(column.members).tobytes(), []).append(number)
    return list(groups.values())
