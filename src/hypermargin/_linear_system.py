"""The symmetric system behind training and its adjoint, eqs. (5) and (14) of keerthi-2006.

For the free variables of a machine with a bias the matrix is  [[A, 1], [1', 0]]  with A the free
block of K + diag(ridge); without a bias it is A alone.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, eigh
from scipy.linalg.lapack import dpotrf


class SaddleSystem:
    """Factor once, solve for many right-hand sides.

    Cholesky of A with the bias eliminated is the fast way.  Where A is singular (duplicate points,
    more free points than features) or indefinite (sigmoid kernels) the least-norm solution of the
    whole system is taken: right-hand sides that arise from training and from outputs lie in its
    range, so every solution gives the same outputs and the same hypergradient.
    """

    def __init__(self, A: np.ndarray, bias: bool):
        self.A = A
        self.bias = bias
        factor, failed = dpotrf(A, lower=True, clean=False)
        pivots = np.diagonal(factor)
        self.definite = not failed and bool(pivots.min() > 1e-6 * pivots.max())
        if self.definite:
            self._factor = (factor, True)
            ones = np.ones(len(A))
            self._inverse_ones = cho_solve(self._factor, ones, check_finite=False)
        else:
            self._spectrum = eigh(self._whole(), check_finite=False)

    def solve(self, rhs: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """Return v and c with  A v + c 1 = rhs  and  1'v = total  (c = 0 without a bias)."""
        v, c = self._solve(rhs, total)
        if self.definite:  # one refinement: bordering loses digits when A is ill-conditioned
            dv, dc = self._solve(rhs - self.A @ v - c, total - v.sum() if self.bias else 0.0)
            v, c = v + dv, c + dc
        return v, c

    def _solve(self, rhs: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        if self.definite:
            v = cho_solve(self._factor, rhs, check_finite=False)
            if not self.bias:
                return v, 0.0
            c = (v.sum() - total) / self._inverse_ones.sum()
            return v - c * self._inverse_ones, c
        values, vectors = self._spectrum
        keep = np.abs(values) > 1e-11 * np.abs(values).max()
        whole = np.append(rhs, total) if self.bias else rhs
        solution = vectors[:, keep] @ ((vectors[:, keep].T @ whole) / values[keep])
        return (solution[:-1], float(solution[-1])) if self.bias else (solution, 0.0)

    def _whole(self) -> np.ndarray:
        if not self.bias:
            return self.A
        n = len(self.A)
        whole = np.ones((n + 1, n + 1))
        whole[:n, :n] = self.A
        whole[n, n] = 0.0
        return whole
