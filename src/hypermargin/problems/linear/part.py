"""Up to eight linear machines of a column, trained and differentiated side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.budget import Budget
from ..._core.space import Params
from ...losses.base import Rows, unbounded_dual
from ...losses.lanes import LaneLoss
from .bundle import Bundle
from .loops import LANES
from .systems import FEW_FEATURES
from .train import train

WHOLE = -1  # in the place of a fold's number: the machine on all rows

Job = tuple[int, int]  # number of the fold, of the column


@dataclass(frozen=True)
class Start:
    """Where a machine ended: weights with the bias last, and the coefficients of the user's rows.

    `rate` is the derivative of the weights by the logarithm of the cost, if it is known, and
    `width` that of the corners of the loss, 0 for sharp ones.
    """

    weights: np.ndarray
    beta: np.ndarray | None
    cost: float
    rate: np.ndarray | None = None
    width: float | None = None


State = dict[Job, Start]


class Part:
    """Up to eight machines of a column on one design of a LinearCrossValidation."""

    def __init__(
        self,
        problem: Any,
        number: int,
        jobs: list[Job],
        params: Params,
        dtype: Any,
        rows: np.ndarray | None,
        budget: Budget,
        solver: str,
    ):
        self.problem, self.jobs, self.solver = problem, jobs, solver
        self.rows, self.matrix = problem.matrix(number, dtype, rows)
        self.params = {**problem.values, **problem.designs[number].fixed, **params}
        column = jobs[0][1]
        of = problem.columns[column]
        parts = {kind: part[self.rows] for kind, part in of.parts.items()}
        weights, self.test, all_rows = [], {}, len(self.rows) == len(of.target)
        for f in dict.fromkeys(f for f, _ in jobs):
            fold = problem.fold(f)
            weights.append(fold.of_column(of)[self.rows])
            self.test[f] = fold.test if all_rows else fold.test[np.isin(fold.test, self.rows)]
        weight = np.column_stack(weights)
        # targets that no machine here is trained on are hidden: a label, but not theirs
        trained, target = weight.any(axis=1), of.target[self.rows]
        self.centre = problem.centre(target[trained])
        target = np.where(trained, target - self.centre, 1.0)
        self.of_loss = Rows(target, np.ones(len(self.rows)), parts)
        self.bundle = self._bundle(weight, budget)
        self._rate: np.ndarray | None = None

    @staticmethod
    def groups(problem: Any, folds: list[int]) -> list[list[Job]]:
        """Return which machines are trained side by side: as many as there are lanes."""
        n_groups = -(-len(folds) // LANES)
        return [
            [(int(f), c) for f in some]
            for c in range(len(problem.columns))
            for some in np.array_split(folds, n_groups)
        ]

    def _bundle(self, weights: np.ndarray, budget: Budget) -> Bundle:
        """Return the machines, rows having weights by fold."""
        problem, dtype = self.problem, self.matrix.dtype
        weight = np.zeros((len(weights), LANES), dtype=dtype)
        weight[:, : weights.shape[1]] = weights
        loss = LaneLoss.of(unbounded_dual(problem.loss, self.of_loss, self.params), weight, dtype)
        return Bundle(self.matrix, loss, problem.bias_penalty, budget, self.solver)

    @property
    def balance(self) -> float | np.ndarray:
        """The share of the smaller class by lane, as in Chu et al., eq. (28); 1 for regressors."""
        if not self.problem.loss.classifies:
            return 1.0
        trained = self.bundle.loss.weight > 0
        total, positive = trained.sum(axis=0), trained[self.of_loss.y > 0].sum(axis=0)
        return np.maximum(np.minimum(positive, total - positive), 1) / np.maximum(total, 1)

    @property
    def cost(self) -> float:
        """How the losses of all rows are scaled by C, or by 1 / alpha."""
        if "alpha" in self.params:
            return 1.0 / self.params["alpha"]
        if (own := self.params.get("machine_cost")) is None:
            return self.params["C"]
        return self.params["C"] * float(own[self.of_loss.parts["machine"][0]])

    def train(self, tol: float, warm: State, rough: bool = False, path: bool = False) -> None:
        bundle, starts = self.bundle, [warm.get(job) for job in self.jobs]
        W, A = np.zeros_like(bundle.W), np.zeros_like(bundle.A)
        for lane, start in enumerate(starts):
            if start is None:
                continue
            if start.width is not None:
                bundle.widths[lane] = start.width
            ratio = self.cost / start.cost
            W[:, lane] = start.weights
            if start.rate is not None:
                W[:, lane] += np.log(ratio) * start.rate
            if start.beta is not None:  # Chu et al., eq. (14)
                A[:, lane] = ratio * start.beta[self.rows]
        bundle.start(W, A)
        train(bundle, tol, self.balance, rough, path)

    def state(self) -> State:
        bundle, found = self.bundle, {}
        n = len(self.problem.columns[0].target)
        for lane, job in enumerate(self.jobs):
            beta = None
            # the refit of many features is in the dual, however folds were trained
            if (
                bundle.dual
                or bundle.corners
                or (bundle.truncated and self.matrix.width > FEW_FEATURES)
            ):
                beta = np.zeros(n, dtype=bundle.A.dtype)
                beta[self.rows] = bundle.A[:, lane]
            rate = None if self._rate is None else self._rate[:, lane].copy()
            width = float(bundle.widths[lane]) if bundle.corners else None
            found[job] = Start(bundle.W[:, lane].copy(), beta, self.cost, rate, width)
        return found

    def inner(self, weights: Mapping[Job, np.ndarray]) -> dict[Job, tuple[float, np.ndarray]]:
        """Return objectives and their gradients at given weights."""
        bundle, scale = self.bundle, self.matrix.scale or 1.0
        W = np.zeros_like(bundle.W)
        for lane, job in enumerate(self.jobs):
            W[:, lane] = weights[job]
            W[-1, lane] = (W[-1, lane] - self.centre) / scale
        losses = bundle.slopes(self.matrix.times(W, bundle.Z))
        values = 0.5 * (bundle.penalty * W**2).sum(axis=0) + losses
        gradient = bundle.penalty * W - self.matrix.transposed(bundle.A)
        gradient[-1] /= scale
        return {job: (float(values[k]), gradient[:, k]) for k, job in enumerate(self.jobs)}

    def weights(self, job: Job) -> np.ndarray:
        """Return the weights of a machine, and its bias in units of outputs."""
        w = self.bundle.W[:, self.jobs.index(job)].astype(float)
        w[-1] = w[-1] * self.matrix.scale + self.centre
        return w

    def _places(self, rows: np.ndarray) -> np.ndarray:
        if len(self.rows) == self.rows[-1] + 1:  # all rows of the user
            return rows
        return np.searchsorted(self.rows, rows)

    def outputs(self, job: Job, rows: np.ndarray) -> np.ndarray:
        return self.bundle.Z[self._places(rows), self.jobs.index(job)].astype(float) + self.centre

    def differentiate(self, tol: float) -> None:
        """Find how weights and outputs move with the logarithm of the cost."""
        self._rate = self.bundle.derivative(tol)
        self._output_rate = self.matrix.times(self._rate, np.empty_like(self.bundle.Z))

    def rates(self, job: Job) -> np.ndarray:
        at = self._places(self.test[job[0]])
        return self._output_rate[at, self.jobs.index(job)].astype(float)

    def pullback(self, delta: Sequence[np.ndarray], tol: float) -> Params:
        """Turn gradients on the outputs of all folds into gradients on the hyperparameters."""
        bundle, E = self.bundle, np.zeros_like(self.bundle.Z)
        for lane, (f, c) in enumerate(self.jobs):
            if f != WHOLE:
                np.add.at(E[:, lane], self._places(self.test[f]), delta[f][:, c])
        P = bundle.solve(self.matrix.transposed(E), tol)
        cotangent = bundle.cotangent(bundle.outputs(P))
        return self.problem.loss.pullback(self.of_loss, self.params, cotangent)
