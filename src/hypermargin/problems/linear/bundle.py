"""Linear machines in lanes: weights, outputs, slopes, and the systems behind their derivatives.

Up to eight machines of one column, one per fold and one for all rows, minimise

    1/2 w' R w + sum_i weight_i loss_i(x_i' w)

side by side, R being one but for the bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._core.budget import Budget
from ...losses.base import Dual
from ...losses.lanes import LaneLoss
from ..conjugate import dots
from .lanes import Matrix
from .loops import LANES
from .systems import FEW_FEATURES, ConjugateGradients, LaneByLane, RowByRow
from .truncated import Truncated

CACHED = 2**14  # features whose weights, in eight lanes, stay in the processor's cache


def choose_solver(asked: str | None, X: Any, corners: bool, path: bool = False) -> str:
    """Return how machines on X are trained, where "primal", "dual", "fista" or nothing was asked.

    "primal" is Newton's method, for few features, and "dual" coordinate descent, for many.  With
    few features Newton's method gives the machine that coordinate descent tends to, and goes all
    the way.  Both end at the same machine, so what was asked for (LinearSVC's `dual`) is for the
    refit.  Along a path it decides where that ends: there Newton's method is "truncated", with
    LIBLINEAR's steps, but where corners or so many features forbid it that only dual=False asks for
    it.
    """
    if asked == "fista":
        return asked
    few, slow = X.shape[1] < FEW_FEATURES, sparse.issparse(X) and X.shape[1] > CACHED
    if not path:
        return "primal" if few else "dual"
    if not corners and (asked == "primal" or (asked is None and not slow)):
        return "truncated"
    return "primal" if asked == "primal" or (few and not asked) else "dual"


class Bundle:
    """Machines in lanes: weights W (features and bias, lanes), outputs Z (rows, lanes).

    A are the coefficients of the rows, minus the slopes of their losses, D the curvatures.
    `solver` is what `choose_solver` says, of the shape alone if none is given.
    """

    dots = staticmethod(dots)  # inner products of machines, by lane

    def __init__(
        self,
        matrix: Matrix,
        loss: LaneLoss,
        bias_penalty: float,
        budget: Budget,
        solver: str | None = None,
    ):
        self.matrix, self.loss, self.budget = matrix, loss, budget
        self.penalty = np.ones((matrix.width, 1), dtype=matrix.dtype)
        self.penalty[-1] = bias_penalty if matrix.scale else 1.0
        self.used: np.ndarray = loss.used
        self.corners = loss.has_corners
        solver = solver or choose_solver(None, matrix.X, self.corners)
        self.truncated, self.dual = solver == "truncated", solver == "dual"
        self.fista = solver == "fista"
        self.system = self._system()
        self.converged, self.still, self.iterations = True, False, 0
        self.unfinished = np.zeros_like(self.used)  # which lanes Newton's method has given up
        self.steps = np.zeros(len(self.used), dtype=int)  # that it has taken, by lane
        self.widths = np.full(len(self.used), np.inf)  # of corners, at the start and in the end
        shape = matrix.n_rows, len(self.used)
        self.W = np.zeros((matrix.width, shape[1]), dtype=matrix.dtype)
        self.A0: np.ndarray | float = 0.0  # where coefficients begin
        self.Z, self.A, self.D = (np.zeros(shape, dtype=matrix.dtype) for _ in range(3))

    def _system(self) -> Any:
        """Return what solves systems."""
        matrix, many = self.matrix, self.matrix.width > FEW_FEATURES
        if many and self.corners and not self.dual:
            raise ValueError(
                f"dual=False is not for a loss with corners and {matrix.n_features} features; "
                "use dual='auto'."
            )
        kind: Any = Truncated if self.truncated else ConjugateGradients
        if self.corners or (many and self.dual):
            kind = RowByRow if self.dual else LaneByLane
        return kind(matrix, self.penalty, self.used, self.budget)

    def start(self, W: np.ndarray, A: np.ndarray | None = None) -> None:
        """Begin training at these weights and, where the solver asks for them, coefficients."""
        self.W = np.ascontiguousarray(W, dtype=self.matrix.dtype)
        if A is not None:
            self.A0 = np.ascontiguousarray(A, dtype=self.matrix.dtype)

    def slopes(self, Z: np.ndarray) -> np.ndarray:
        """Set coefficients and curvatures at the outputs Z; return the sums of the losses."""

        def run(part: slice) -> np.ndarray:
            return self.loss.slopes(Z, self.A, self.D, part)

        return sum(self.matrix.each(run, Z.size * LANES))

    def solve(self, B: np.ndarray, tol: float) -> np.ndarray:
        """Return (R + X' D X)^-1 B."""
        system = self.system
        if self.truncated:  # whose steps are too coarse for anything else
            system = ConjugateGradients(self.matrix, self.penalty, self.used, self.budget)
        B = B.astype(self.matrix.dtype, copy=False)
        return system.solve(self.D, B, tol, self.used)

    def outputs(self, P: np.ndarray) -> np.ndarray:
        """Return the outputs X P of what `solve` has found last."""
        if isinstance(self.system, RowByRow):
            return self.system.outputs(self.D, P)
        return self.matrix.times(P, np.empty_like(self.Z))

    def gradient(self) -> np.ndarray:
        return self.penalty * self.W - self.matrix.transposed(self.A)

    def reach(self) -> np.ndarray:
        """Return the lengths of the gradients at W = 0.

        Where the bias is free, what it would take away counts for the bias only: features far from
        zero would have long gradients for no other reason.
        """
        self.slopes(np.zeros_like(self.Z))
        G = self.matrix.transposed(self.A)
        if not self.penalty[-1]:
            G[:-1] -= self.matrix.means * (G[-1] / self.matrix.scale)
        return self._lengths(G)

    def size(self, gradient: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the lengths of gradients, relative to those at W = 0."""
        lengths = self._lengths(gradient)
        ratio = np.divide(lengths, reach, out=np.zeros_like(lengths), where=reach > 0)
        return ratio.max(axis=0)

    def _lengths(self, G: np.ndarray) -> np.ndarray:
        """Return lengths of gradients, and where the bias is free also those without it.

        With features in small units it would hide the rest.
        """
        parts = (G,) if self.penalty[-1] else (G, G[:-1])
        return np.sqrt([self.dots(part, part) for part in parts])

    def cotangent(self, Q: np.ndarray) -> Dual:
        """Return what cotangents Q on the coefficients say of the dual's data, by row.

        At a corner the output is held, and the coefficient gives way: it moves as much as the
        multiplier of the row says.
        """
        if not self.corners:
            return self.loss.cotangent(self.Z, Q)
        dual, A, held = self.loss.dual, self.A, np.isinf(self.D)
        move = np.where(held, 0.0, self.D) * Q
        if held.any():
            move = np.where(held, self.system.multipliers, move)
        Q = np.where(held, 0.0, Q)
        sign = np.sign(dual.target[:, None] - self.Z) * (dual.kink > 0)[:, None]
        # at fixed outputs coefficients are proportional to the bound on their side
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(A < 0, Q * A / dual.lower[:, None], 0.0)
            upper = np.where(A > 0, Q * A / dual.upper[:, None], 0.0)
        return Dual(
            target=move.sum(axis=1, dtype=float),
            lower=lower.sum(axis=1, dtype=float),
            upper=upper.sum(axis=1, dtype=float),
            kink=-(sign * move).sum(axis=1, dtype=float),
            ridge=np.zeros(len(A)),
        )

    def derivative(self, tol: float) -> np.ndarray:
        """Return the derivatives of the weights by the logarithm of all costs."""
        A = np.where(np.isinf(self.D), 0.0, self.A).astype(self.A.dtype)  # bounds move, corners not
        return self.solve(self.matrix.transposed(A), tol)
