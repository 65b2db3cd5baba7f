"""Losses with corners, to the end: the few rows that sit at a corner, by direct methods.

Coordinate descent finds which rows these are soon, and their coefficients late where there are as
many of them as features.  Their matrix is small then: an active-set method ends where the optimum
is, and systems with infinite curvature (see `_linear_solve`) are solved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq

from ._lanes import Matrix
from ._losses import Dual

MOST_FREE = 300  # rows whose products are kept in a matrix
MOST_TURNS = 500
NULL = 1e-11  # eigenvalues, relative to the largest, that are none
SETTLED = 1e-12  # violations that are rounding, relative to the outputs


@dataclass
class Corners:
    """One lane's dual: minimise 1/2 |X'b|^2 - target'b + kink'|b| over low <= b <= high.

    A row whose coefficient is at zero (if it has a kink) or at a bound is held; others are free,
    and `side` is the sign that they keep.
    """

    matrix: Matrix
    dual: Dual
    low: np.ndarray
    high: np.ndarray

    def polish(self, b: np.ndarray) -> np.ndarray | None:
        """Return the optimum near b; None if that is too much work."""
        b = self._snapped(b)
        free = np.flatnonzero((b > self.low) & (b < self.high) & self._off_kink(b)).tolist()
        side = np.sign(b)
        for _ in range(MOST_TURNS):
            if len(free) > MOST_FREE:
                return None
            out = self._outputs(b)
            stop = self._go(b, free, side, out) if free else None
            if stop is not None:
                free.remove(stop)
                continue
            entering = self._most_violating(b, free, side, self._outputs(b))
            if entering is None:
                return b
            free.append(entering)
        return None

    def _snapped(self, b: np.ndarray) -> np.ndarray:
        """Put coefficients that are next to a corner onto it."""
        b = np.clip(b, self.low, self.high)
        slack = 1e-7 * (self.high - self.low)
        b = np.where(b < self.low + slack, self.low, b)
        b = np.where(b > self.high - slack, self.high, b)
        return np.where((np.abs(b) < slack) & (self.dual.kink > 0), 0.0, b)

    def _off_kink(self, b: np.ndarray) -> np.ndarray:
        return (b != 0) | (self.dual.kink == 0)

    def _outputs(self, b: np.ndarray) -> np.ndarray:
        X = self.matrix.X
        return X @ (X.T @ b) + self.matrix.scale**2 * b.sum()

    def _go(self, b: np.ndarray, free: list[int], side: np.ndarray, out: np.ndarray) -> int | None:
        """Move the free coefficients to their optimum; return the row that met a corner first."""
        residual = self.dual.target[free] - self.dual.kink[free] * side[free] - out[free]
        step, rest = solve_gram(self.matrix.gram(free), residual)
        endless = np.abs(rest).max() > 1e-9 * max(np.abs(residual).max(), 1e-300)
        if endless:  # the objective falls along a line, on which some row must meet a corner
            step = rest
        up, kinked = step > 0, self.dual.kink[free] > 0
        upper = np.where(kinked & (side[free] < 0), 0.0, self.high[free])
        lower = np.where(kinked & (side[free] > 0), 0.0, self.low[free])
        room = np.where(up, upper, lower) - b[free]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(step != 0, room / step, np.inf)
        first = int(np.argmin(reach))
        if reach[first] >= 1 and not endless:
            b[free] += step
            return None
        b[free] += reach[first] * step
        b[free[first]] = upper[first] if up[first] else lower[first]
        return free[first]

    def _most_violating(
        self, b: np.ndarray, free: list[int], side: np.ndarray, out: np.ndarray
    ) -> int | None:
        """Return the held row that gains most by moving, its side set; None at the optimum."""
        residual, kink = self.dual.target - out, self.dual.kink
        rise = np.where(b < self.high, residual - np.where(b >= 0, kink, -kink), -np.inf)
        fall = np.where(b > self.low, -residual - np.where(b <= 0, kink, -kink), -np.inf)
        gain = np.maximum(rise, fall)
        gain[free] = -np.inf
        worst = int(np.argmax(gain))
        if gain[worst] <= SETTLED * (1.0 + np.abs(out).max()):
            return None
        up = rise[worst] > fall[worst]
        at_zero = 1.0 if up else -1.0
        side[worst] = np.sign(b[worst]) or at_zero
        return worst


def solve_gram(K: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shortest least-squares solution of K S = B, and what is left of B."""
    S = lstsq(K, B, cond=NULL, check_finite=False)[0]
    return S, B - K @ S


def project(matrix: Matrix, D: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what of B the rows of infinite curvature do not see, and the multipliers of them.

    None if there are too many such rows.
    """
    free = np.isinf(D)
    if free.sum(axis=0).max() > MOST_FREE:
        return None
    P, G = B.copy(), np.zeros_like(B, shape=D.shape)
    for lane in np.flatnonzero(free.any(axis=0)):
        rows = np.flatnonzero(free[:, lane])
        X = matrix.X[rows]
        for _ in range(2):  # once more, for what rounding has left
            seen = X @ P[:-1, lane] + matrix.scale * P[-1, lane]
            G[rows, lane] += (part := solve_gram(matrix.gram(rows), seen)[0])
            P[:-1, lane] -= X.T @ part
            P[-1, lane] -= matrix.scale * part.sum()
    return P, G
