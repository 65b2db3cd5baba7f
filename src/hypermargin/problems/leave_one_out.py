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
from scipy.linalg import blas, lapack

from .._core.compiled import compiled
from .._core.space import Params
from ..kernels.base import Kernel
from ..kernels.points import Points


@dataclass(frozen=True)
class LeftOut:
    """Outputs (rows, columns) of the machines that were not trained on their row.

    `pullback` turns a cotangent on them into one on the kernel's hyperparameters and on log(ridge);
    `predict` gives the outputs at other points of the machine that was trained on all rows, with
    other hyperparameters of the kernel if they are given, and `coefficients` are that machine's.
    """

    outputs: np.ndarray
    pullback: Callable[[np.ndarray], tuple[Params, float]]
    predict: Callable[..., np.ndarray]
    coefficients: np.ndarray


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
        G, u = _inverse(K, ridge / self.weight)
        alpha = G @ self.targets
        bias = u @ self.targets
        g = np.diag(G)[:, None]
        outputs = self.targets - alpha / g + self.middle

        def pullback(delta: np.ndarray) -> tuple[Params, float]:
            M = (G @ (delta / g)) @ alpha.T
            M -= _squares(G, (delta * alpha / g**2).sum(axis=1))
            by_ridge = ridge * float((np.diag(M) / self.weight).sum())
            return self.kernel.pullback(points, points, K, M, params), by_ridge

        def predict(others: Points, moved: Params | None = None) -> np.ndarray:
            own = points if moved is None else self.kernel.at(self.points, moved)
            now = params if moved is None else moved
            block = self.kernel.block(self.kernel.at(others, now), own, now)
            return block @ alpha + bias + self.middle

        return LeftOut(outputs, pullback, predict, alpha)


def _inverse(K: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the block G of the bordered inverse, and the row that gives the bias."""
    A = np.array(K, dtype=float, order="F")
    A[np.diag_indices_from(A)] += ridge
    G, failed = lapack.dpotrf(A, lower=True, overwrite_a=True)
    if not failed:
        G, failed = lapack.dpotri(G, lower=True, overwrite_c=True)
    u = np.full(len(K), np.nan) if failed else blas.dsymv(1.0, G, np.ones(len(K)), lower=True)
    if not np.isfinite(u).all():
        raise FloatingPointError("the kernel matrix with its ridge is not positive definite.")
    row = u / u.sum()
    _whole(G.T, u, row)
    return G, row


@compiled
def _whole(G, u, row):
    """Subtract an outer product from the upper half of a symmetric matrix; fill in the lower."""
    for i in range(len(u)):
        for j in range(i, len(u)):
            value = G[i, j] - u[i] * row[j]
            G[i, j] = value
            G[j, i] = value


def _squares(G: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return a triangular matrix that has the sums over all pairs of rows of G diag(t) G.

    That is enough for products with the derivatives of K, which are symmetric.
    """
    found = np.zeros_like(G, order="F")
    for sign in (1.0, -1.0):
        part = np.flatnonzero(sign * t > 0.0)
        half = G[:, part] * np.sqrt(np.abs(t[part]))
        found = blas.dsyrk(2.0 * sign, half, 1.0, found, lower=True, overwrite_c=True)
    found[np.diag_indices_from(found)] *= 0.5
    return found.T
