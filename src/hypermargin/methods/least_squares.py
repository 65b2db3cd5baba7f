"""The least-squares subproblem of Moore et al.'s PBP, eq. (45), by a solver of its own.

Every machine t has its weights; hyperparameters are common to all.  In moves dw and dx it is

    min  sum_t g' dw + 1/2 dw' (V + tau v) dw + b |r + H dw + B dx|^2   +  1/2 tau u |dx|^2
    s.t. G dx >= h

with the outer loss's gradient g and curvature V, the machine's gradient r and its derivatives H and
B.  With  N = H^-1 B,  m = H^-1 r,  U = V + tau v  and  K = U + 2 b H H,  the best dw of given dx is

    dw = -e - K^-1 (g - U e),    e = m + N dx,

and what is left is a problem of the few hyperparameters with the matrix  sum_t N' (U - U K^-1 U) N
+ tau u.  Nothing in it cancels, however large the penalty b becomes: K^-1 then tends to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import nnls

from .._core.budget import cached

# what may be added to a matrix that rounding has made singular, relative to its largest entry
LACKS = 1e-13, 1e-11, 1e-9, 1e-7


@dataclass(frozen=True)
class Block:
    """What the subproblem has of one machine."""

    slope: np.ndarray  # g
    curvature: np.ndarray  # V
    residual: np.ndarray  # r
    by_weights: np.ndarray  # H
    by_hyperparameters: np.ndarray  # B
    penalty: float  # b
    unit: float  # v

    @cached
    def newton(self) -> np.ndarray:
        """The columns of N, and m: they are the same for every proximity."""
        right = np.column_stack([self.by_hyperparameters, self.residual])
        return _solved(_factor(self.by_weights), right)

    @cached
    def squared(self) -> np.ndarray:
        return 2.0 * self.penalty * (self.by_weights.T @ self.by_weights)

    def eliminated(self, tau: float) -> Eliminated:
        """Return the best weights as a function of the hyperparameters."""
        near, e = tau * self.unit, self.newton
        bent = self.curvature @ e + near * e
        bent[:, -1] -= self.slope
        moves = _solved(_factor(self.curvature + self.squared, near), bent) - e
        # derivatives of the best value: -N' (g + U dw)
        along = e[:, :-1].T @ (self.curvature @ moves + near * moves)
        return Eliminated(moves, -along[:, :-1], -along[:, -1] - e[:, :-1].T @ self.slope)

    def gain(self) -> float:
        """Return what the best weights gain, hyperparameters being what they are."""
        factor = _factor(self.curvature + self.squared)
        return 0.5 * float(self.slope @ _solved(factor, self.slope))

    def untrained(self) -> float:
        """Return how much more the outer loss is where the machine's gradient is zero."""
        m = self.newton[:, -1]
        return float(0.5 * m @ self.curvature @ m - self.slope @ m)

    def change(self, dw: np.ndarray, dx: np.ndarray) -> float:
        """Return how much the approximation moves, proximity left out."""
        after = self.residual + self.by_weights @ dw + self.by_hyperparameters @ dx
        outer = self.slope @ dw + 0.5 * dw @ self.curvature @ dw
        return float(outer + self.penalty * (after @ after - self.residual @ self.residual))


@dataclass(frozen=True)
class Eliminated:
    """dw = moves [dx, 1], and the quadratic in dx that is left."""

    moves: np.ndarray
    matrix: np.ndarray
    slope: np.ndarray


@dataclass(frozen=True)
class Step:
    """A solution of the subproblem, and how much the approximation moves to it."""

    weights: list[np.ndarray]
    hyperparameters: np.ndarray
    change: float


def solve(blocks: Sequence[Block], tau: float, unit: float, G: np.ndarray, h: np.ndarray) -> Step:
    """Solve the subproblem; dx = 0 must be feasible."""
    parts = [block.eliminated(tau) for block in blocks]
    S = np.sum([part.matrix for part in parts], axis=0) + tau * unit * np.eye(G.shape[1])
    dx = least(S, np.sum([part.slope for part in parts], axis=0), G, h)
    weights = [part.moves[:, :-1] @ dx + part.moves[:, -1] for part in parts]
    change = sum(block.change(dw, dx) for block, dw in zip(blocks, weights, strict=True))
    return Step(weights, dx, change)


def least(S: np.ndarray, c: np.ndarray, G: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return where  1/2 x' S x + c' x  is least among G x >= h.

    A problem of least distance, which Lawson and Hanson solve by nonnegative least squares.
    """
    L = _factor(S)
    free = -_solved(L, c)
    if not len(h) or (G @ free >= h).all():
        return free
    E = solve_triangular(L, G.T, lower=True)
    short = h - G @ free  # what constraints lack at the free solution
    size = float(np.abs(short).max()) / float(np.abs(E).max())
    multipliers, _ = nnls(np.vstack([E, short / size]), np.append(np.zeros(len(S)), 1.0))
    rest = np.append(E @ multipliers, short / size @ multipliers - 1.0)
    away = -size * rest[:-1] / rest[-1]
    return free + solve_triangular(L, away, lower=True, trans="T")


def _factor(S: np.ndarray, shift: float = 0.0) -> np.ndarray:
    """Return the lower factor of S + shift, a matrix that is positive definite, or nearly."""
    largest = max(float(S.diagonal().max()), 1e-300)
    for more in LACKS:
        L = np.array(S, order="F")
        np.einsum("ii->i", L)[:] += shift + more * largest
        L, failed = dpotrf(L, lower=1, overwrite_a=1)
        if not failed:
            return L
    raise FloatingPointError("the subproblem of the penalty method has no solution.")


def _solved(L: np.ndarray, right: np.ndarray) -> np.ndarray:
    return dpotrs(L, right, lower=1)[0]
