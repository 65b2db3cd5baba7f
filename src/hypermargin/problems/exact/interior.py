"""One machine by an interior-point method, where pairs would take longer.

With beta = a - b, a in [0, upper] and b in [0, -lower], the dual of `losses` is the quadratic
programme

    min  beta'Q beta / 2 - target'beta + kink'(a + b),   1'beta = 0,   Q = K + diag(ridge).

All a and b are entries of one x, with s = u - x the room above it, z and w the multipliers of the
two bounds.  A step of Newton's method on the optimality conditions, in which products of variables
and multipliers are what they are to become and not zero, is

    D = z / x + w / s,   E_i = 1 / sum_k 1 / D_k  over the entries k of row i,
    (Q + E) dbeta + dy = E sum_k sign_k rho_k / D_k,   1'dbeta = -1'beta.

Some twenty such systems are solved however badly conditioned Q is, while pairs may need millions of
steps.  Centring and correction are Mehrotra's (1992).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.budget import Budget
from ..._core.lapack import cholesky, cholesky_solve
from ...losses.base import Dual
from .smo import make_feasible

CENTRAL_STEPS = 60  # at most; some twenty are usual
PRODUCTS = 1e-9  # products of variables and multipliers in the end, in units of gap and coefficient
PART_OF_WAY = 0.995  # the part of the way to the nearest bound that a step goes
FAR = 1e6, 1e12  # coefficients to begin with and in the end, if bounds are further away
LIFTS = 1e-14, 1e-7  # what rounding may take from the diagonal of K, at least and at most


def solve_inside(K: np.ndarray, dual: Dual, gap: float, budget: Budget) -> np.ndarray:
    """Return the coefficients of a machine, as exact as rounding and the budget let them be."""
    rows = np.flatnonzero(dual.lower < dual.upper)
    fields = (getattr(dual, name)[rows] for name in ("target", "lower", "upper", "kink", "ridge"))
    programme = _Programme(K[np.ix_(rows, rows)], Dual(*fields))
    with np.errstate(all="ignore"):  # bounds may be as large as numbers are
        product = np.inf
        for _ in range(CENTRAL_STEPS):
            if budget.expired() or not programme.step():
                break
            before, product = product, programme.mean_product / (gap * programme.typical)
            if product <= PRODUCTS or 1.0 > product > 0.5 * before:  # or rounding allows no more
                break
    beta = np.zeros(len(K))
    beta[rows] = programme.beta_at_bounds()
    return beta


class _Programme:
    """The variables, and their steps."""

    def __init__(self, K: np.ndarray, dual: Dual):
        n = len(K)
        self.Q, self.dual = K.astype(float), dual
        self.Q.reshape(-1)[:: n + 1] += dual.ridge
        self.lift = LIFTS[0] * float(np.abs(np.diagonal(K)).mean())
        rows = np.arange(n)
        rises, falls = dual.upper > 0, dual.lower < 0
        self.row = np.concatenate([rows[rises], rows[falls]])
        self.sign = np.repeat([1.0, -1.0], [rises.sum(), falls.sum()])
        self.u = np.concatenate([dual.upper[rises], -dual.lower[falls]])
        self.unit = float(np.ptp(dual.target)) + float(dual.kink.max()) or 1.0
        # in the middle; but there may be no bound to speak of, in units of what one row would have
        single = self.unit / (float(np.diagonal(self.Q).mean()) or 1.0)
        self.u = np.minimum(self.u, FAR[1] * single)
        self.x = np.minimum(0.5 * self.u, FAR[0] * single)
        self.s = self.u - self.x
        self.z = np.full(len(self.u), self.unit)
        self.w = self.z * self.x / self.s
        self.y = -float(np.median(-dual.target))

    def _summed(self, entries: np.ndarray) -> np.ndarray:
        """Return the sums over the entries of each row."""
        return np.bincount(self.row, entries, minlength=len(self.Q))

    @property
    def beta(self) -> np.ndarray:
        return self._summed(self.sign * self.x)

    @property
    def mean_product(self) -> float:
        return float(self.x @ self.z + self.s @ self.w) / (2.0 * len(self.x))

    @property
    def typical(self) -> float:
        """The mean size of a coefficient."""
        return float(np.abs(self.beta).mean()) + 1e-300

    def step(self) -> bool:
        """Take a step; return whether that was possible."""
        beta, D = self.beta, self.z / self.x + self.w / self.s
        E = 1.0 / self._summed(1.0 / D)
        system = self._system(E)
        if system is None:
            return False
        slope = self.Q @ beta - self.dual.target + self.y
        slope = self.sign * slope[self.row] + self.dual.kink[self.row]

        def direction(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
            rho = -slope + low / self.x - high / self.s
            rhs = E * self._summed(self.sign * rho / D)
            dbeta, dy = system(rhs, -float(beta.sum()))
            dx = (rho - self.sign * (rhs - E * dbeta)[self.row]) / D
            dz = low / self.x - self.z - self.z / self.x * dx
            dw = high / self.s - self.w + self.w / self.s * dx
            return dx, dz, dw, np.array(dy)

        nothing = np.zeros(len(self.x))
        dx, dz, dw, _ = direction(nothing, nothing)
        t, before = self._reach(dx, dz, dw), self.mean_product
        after = (self.x + t * dx) @ (self.z + t * dz) + (self.s - t * dx) @ (self.w + t * dw)
        centre = before * (after / (2.0 * len(dx) * before)) ** 3
        dx, dz, dw, dy = direction(centre - dx * dz, centre + dx * dw)
        t = PART_OF_WAY * self._reach(dx, dz, dw) if self._reach(dx, dz, dw) < 1.0 else 1.0
        if not all(np.isfinite(d).all() for d in (dx, dz, dw)) or t < 1e-10:
            return False
        self.x, self.s = self.x + t * dx, self.s - t * dx
        self.z, self.w, self.y = self.z + t * dz, self.w + t * dw, self.y + t * float(dy)
        return bool((self.x > 0).all() and (self.s > 0).all())

    def _system(
        self, E: np.ndarray
    ) -> Callable[[np.ndarray, float], tuple[np.ndarray, float]] | None:
        """Return what solves (Q + E) v + c 1 = rhs, 1'v = total; None if nothing does."""
        A = self.Q.copy()
        A.reshape(-1)[:: len(A) + 1] += E + self.lift
        factor = A.copy()
        while not cholesky(factor):
            if self.lift > LIFTS[1] * np.abs(np.diagonal(self.Q)).mean():
                return None
            A.reshape(-1)[:: len(A) + 1] += 99.0 * self.lift
            self.lift *= 100.0
            factor = A.copy()
        ones = cholesky_solve(factor, np.ones(len(A)))

        def solve(rhs: np.ndarray, total: float) -> tuple[np.ndarray, float]:
            v, c = np.zeros(len(A)), 0.0
            for _ in range(2):  # the second one refines the first
                found = cholesky_solve(factor, rhs - A @ v - c)
                more = (found.sum() + v.sum() - total) / ones.sum()
                v, c = v + found - more * ones, c + more
            return v, float(c)

        return solve

    def _reach(self, dx: np.ndarray, dz: np.ndarray, dw: np.ndarray) -> float:
        """Return the longest step, at most one, that keeps everything positive."""
        steps = [
            (-v[d < 0] / d[d < 0]).min(initial=1.0)
            for v, d in ((self.x, dx), (self.s, -dx), (self.z, dz), (self.w, dw))
        ]
        return float(min(steps))

    def beta_at_bounds(self) -> np.ndarray:
        """Return the coefficients, those at a bound being there: where the multiplier is larger."""
        ratio = self.typical / self.unit
        x = np.where(self.x < ratio * self.z, 0.0, self.x)
        x = np.where(self.s < ratio * self.w, self.u, x)
        beta = self._summed(self.sign * x)
        make_feasible(beta, self.dual.lower, self.dual.upper)
        return beta
