"""The symmetric system behind training and its adjoint, eqs. (5) and (14) of Keerthi et al.

For the free variables of a machine with a bias the matrix is  [[A, 1], [1', 0]]  with A the free
block of K + diag(ridge); without a bias it is A alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..._core.budget import cached
from ..._core.compiled import compiled
from ..._core.lapack import cholesky, cholesky_solve

REFINEMENTS = 6  # of a single-precision factor, before it is given up
ROUNDING = 1e-6, 1e-5, 1e-4  # of a single-precision matrix, as ridge, relative to its diagonal
PROBE = 4  # a factor of a fourth of the rows takes a sixty-fourth of the time


@compiled(fastmath=True)
def _product(A, v, out):
    """Set out to A v, summed in double."""
    for i in range(A.shape[0]):
        row, total = A[i], 0.0
        for j in range(A.shape[1]):
            total += row[j] * v[j]
        out[i] = total


def _factor(A: np.ndarray, factor: np.ndarray) -> bool:
    """Set factor to that of Cholesky; False if there is none whose pivots have digits left."""
    np.copyto(factor, A)
    if not len(A):
        return True
    # pivots are square roots: single precision serves condition numbers up to about 1e5
    least = 3e-3 if factor.dtype == np.float32 else 1e-6
    found, pivots = cholesky(factor), np.diagonal(factor)
    return found and bool(pivots.min() > least * pivots.max())


def _lift(A: np.ndarray, ridge: Any) -> None:
    """Add a ridge to the diagonal."""
    A.reshape(-1)[:: len(A) + 1] += np.asarray(ridge).astype(A.dtype)


class SaddleSystem:
    """Factor once, solve for many right-hand sides.

    Cholesky of A with the bias eliminated is the fast way, in the precision of K, with refinement
    against residuals in double; a single-precision factor that does not do is replaced by a double
    one.  Where A is singular (duplicate points, more free points than features) or indefinite
    (sigmoid kernels) the least-norm solution of the whole system is taken: right-hand sides that
    arise from training and from outputs lie in its range, so every solution gives the same outputs
    and the same hypergradient.

    Parameters
    ----------
    K : ndarray of shape (n, n), contiguous
        The free block of the kernel matrix.  Rounding of a single-precision one counts as ridge.
    ridge : ndarray of shape (n,)
    bias : bool
    work : ndarray of the shape and type of K, optional
        Memory for the factor; with it, K is overwritten as well.
    kernel_is_definite : bool
        Whether it can only be rounding that makes K indefinite.
    """

    def __init__(
        self,
        K: np.ndarray,
        ridge: np.ndarray,
        bias: bool,
        work: np.ndarray | None = None,
        kernel_is_definite: bool = True,
    ):
        self.bias = bias
        if work is None:
            K, work = K.copy(), np.empty_like(K)
        # what rounding makes of eigenvalues grows with the number of rows
        unit = float(np.abs(np.diagonal(K)).mean()) if K.dtype == np.float32 else 0.0
        self._lifts = unit * np.diff(ROUNDING, prepend=0.0)
        self._may_lift = unit > 0.0 and kernel_is_definite
        _lift(K, ridge + self._lifts[0])
        self._make(K, work)

    def _make(self, A: np.ndarray, factor: np.ndarray) -> None:
        self.A, single = A, factor.dtype == np.float32
        # a factor has that of the first rows in its corner: some tell, at little cost, for all
        few = len(A) // PROBE if single else 0
        self.definite = _factor(A[:few, :few], np.empty((few, few), A.dtype)) and _factor(A, factor)
        if self.definite:
            self._take(factor)
        elif single:
            self._make(A.astype(float), np.empty(A.shape))

    def _make_with_more_ridge(self) -> None:
        """Try with more ridge, once; eigenvalues take fifty times as long as a factor."""
        factor, self._may_lift = np.empty(self.A.shape), False
        for lift in self._lifts[1:]:
            _lift(self.A, lift)
            if _factor(self.A, factor):
                self._take(factor)
                return
        _lift(self.A, -self._lifts[1:].sum())

    def _take(self, factor: np.ndarray) -> None:
        self.definite, self._cholesky = True, factor
        self._inverse_ones = cholesky_solve(factor, np.ones(len(factor)))

    def solve(self, rhs: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """Return v and c with  A v + c 1 = rhs  and  1'v = total  (c = 0 without a bias)."""
        if not self.definite and self._may_lift:
            self._make_with_more_ridge()
        v, c = self._solve(rhs, total)
        if not self.definite:
            return v, c
        # bordering loses digits when A is ill-conditioned; single precision has few of them
        size = np.abs(rhs).max(initial=0.0) + abs(total) + 1e-300
        product = np.empty(len(v))
        for _ in range(1 if self.A.dtype == np.float64 else REFINEMENTS):
            _product(self.A, v, product)
            residual = rhs - product - c
            dv, dc = self._solve(residual, total - v.sum() if self.bias else 0.0)
            v, c = v + dv, c + dc
            if self.A.dtype == np.float32 and np.abs(residual).max() < 1e-6 * size:
                break
        return v, c

    def _solve(self, rhs: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        if self.definite:
            v = cholesky_solve(self._cholesky, rhs)
            if not self.bias:
                return v, 0.0
            c = (v.sum() - total) / self._inverse_ones.sum()
            return v - c * self._inverse_ones, c
        values, vectors = self._spectrum
        keep = np.abs(values) > 1e-11 * np.abs(values).max()
        whole = np.append(rhs, self._unit * total) if self.bias else rhs
        solution = vectors[:, keep] @ ((vectors[:, keep].T @ whole) / values[keep])
        if not self.bias:
            return solution, 0.0
        return solution[:-1], self._unit * float(solution[-1])

    @cached
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        return eigh(self._whole(), check_finite=False)

    @property
    def _unit(self) -> float:
        """The size of A, in which the bias is counted: beside large values ones would be lost."""
        return float(np.abs(self.A).max(initial=0.0)) or 1.0

    def _whole(self) -> np.ndarray:
        if not self.bias:
            return self.A
        n = len(self.A)
        whole = np.full((n + 1, n + 1), self._unit)
        whole[:n, :n] = self.A
        whole[n, n] = 0.0
        return whole
