"""Leave-one-out of the squared loss, in closed form: a cheap stand-in for cross-validation.

A machine of the squared loss is one linear system, and its outputs with every single row left out
can be read off the inverse.  With  A = K + ridge diag(1 / weight)  and a bias,

    [ A  1 ] [ alpha ]   [ y ]
    [ 1' 0 ] [ bias  ] = [ 0 ],   alpha = G y,   G = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1),

the output at row i of the machine without it is  o_i = y_i - alpha_i / G_ii.  For a cotangent delta
on these outputs, the one on A is

    M = (G s) alpha' - G diag(t) G,   s_i = delta_i / G_ii,   t_i = delta_i alpha_i / G_ii^2,

summed over the columns of y.  So value and gradient by all hyperparameters of a kernel cost a
factor and a product of matrices, without folds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.compiled import compiled
from .._core.lapack import cholesky, cholesky_solve, inverse_of
from .._core.space import Params
from ..kernels.base import Kernel
from ..kernels.points import Points


@dataclass(frozen=True)
class LeftOut:
    """Outputs (rows, columns) of the machines that were not trained on their row.

    `pullback` turns a cotangent on them into one on the kernel's hyperparameters and on log(ridge).
    """

    outputs: np.ndarray
    pullback: Callable[[np.ndarray], tuple[Params, float]]


@dataclass(frozen=True)
class Trained:
    """The machine that was trained on all rows, by its coefficients.

    `predict` gives its outputs at other points, with other hyperparameters of the kernel if they
    are given.
    """

    coefficients: np.ndarray
    predict: Callable[..., np.ndarray]


class LeaveOneOut:
    """A machine of the squared loss on a few rows, as a function of kernel and ridge.

    Parameters
    ----------
    kernel : Kernel
    points : Points
    targets : ndarray of shape (n_rows, n_columns)
    weight : ndarray of shape (n_rows,)
        All positive.
    """

    def __init__(self, kernel: Kernel, points: Points, targets: np.ndarray, weight: np.ndarray):
        self.kernel, self.points = kernel, points
        self.weight = weight / weight.mean()
        self.middle = np.average(targets, axis=0, weights=weight)  # so that more digits are left
        self.targets = targets - self.middle

    def evaluate(self, params: Params, ridge: float) -> LeftOut:
        """Return left-out outputs at hyperparameters of the kernel, and their pullback."""
        points = self.kernel.at(self.points, params)
        K = self.kernel.block(points, points, params)
        G = _inverse(K, ridge / self.weight)
        alpha = G @ self.targets
        g = np.diag(G)[:, None]
        outputs = self.targets - alpha / g + self.middle

        def pullback(delta: np.ndarray) -> tuple[Params, float]:
            M = (G @ (delta / g)) @ alpha.T
            M -= _squares(G, (delta * alpha / g**2).sum(axis=1))
            by_ridge = ridge * float((np.diag(M) / self.weight).sum())
            return self.kernel.pullback(points, points, K, M, params), by_ridge

        return LeftOut(outputs, pullback)

    def train(self, params: Params, ridge: float) -> Trained:
        """Train on all rows: one factor, a third of the work of an inverse."""
        points = self.kernel.at(self.points, params)
        factor = _factor(self.kernel.block(points, points, params), ridge / self.weight)
        beside = np.vstack([self.targets.T, np.ones(len(factor))])
        solved = cholesky_solve(factor, beside)
        _check(bool(np.isfinite(solved).all()))
        alpha, u = solved[:-1].T, solved[-1]
        bias = alpha.sum(axis=0) / u.sum()
        alpha = alpha - np.outer(u, bias)

        def predict(others: Points, moved: Params | None = None) -> np.ndarray:
            own = points if moved is None else self.kernel.at(self.points, moved)
            now = params if moved is None else moved
            block = self.kernel.block(self.kernel.at(others, now), own, now)
            return block @ alpha + bias + self.middle

        return Trained(alpha, predict)


def _check(definite: bool) -> None:
    if not definite:
        raise FloatingPointError("the kernel matrix with its ridge is not positive definite.")


def _factor(K: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of K with a ridge."""
    A = np.array(K, dtype=float, order="C")
    A[np.diag_indices_from(A)] += ridge
    _check(cholesky(A))
    return A


def _inverse(K: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return the block G of the bordered inverse."""
    G = _factor(K, ridge)
    _check(inverse_of(G))
    u = np.zeros(len(G))
    _sums(G, u)
    _check(bool(np.isfinite(u).all()))
    _whole(G, u, u / u.sum())
    return G


@compiled(fastmath=True)
def _sums(G, u):
    """Add to u the sums of the rows of a symmetric matrix, of which the lower half is there."""
    for i in range(len(u)):
        total = G[i, i]
        for j in range(i):
            total += G[i, j]
            u[j] += G[i, j]
        u[i] += total


@compiled
def _whole(G, u, row):
    """Subtract an outer product from the lower half of a symmetric matrix; fill in the upper."""
    for i in range(len(u)):
        for j in range(i + 1):
            value = G[i, j] - u[i] * row[j]
            G[i, j] = value
            G[j, i] = value


def _squares(G: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return G diag(t) G, of a symmetric G.

    Products of a matrix with its own transpose take half the work of others.
    """
    positive = t > 0.0
    found, negative = _square(G[positive], t[positive]), ~positive & (t != 0.0)
    if negative.any():
        found -= _square(G[negative], -t[negative])
    return found


def _square(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    rows *= np.sqrt(weight)[:, None]
    return rows.T @ rows
