"""Steps of Newton's method as LIBLINEAR takes them since version 2.40, for the path of Chu et al.

Which C a path chooses hangs on where training stops, and that on the steps it takes; with the same
steps it is the C of `train -C`.  (On a9a and two sets of news with two losses, 3 of 6 choices are
others with the steps of `newton`, by factors of two and four.)  They are coarse: conjugate
gradients end as soon as an iteration gains less than a share of the mean gain of all.  The
preconditioner is for the most part one, for the rest the diagonal of the Hessian.  (Along the line
steps are halved: see `newton`.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.compiled import compiled
from ..conjugate import MOST_CG, Rule
from .lanes import SparseMatrix
from .loops import curved
from .systems import ConjugateGradients

SHARE = 0.5  # of the mean gain of iterations that the last one is to have
DIAGONAL = 0.01  # part of the diagonal of the Hessian in the preconditioner


@compiled
def _gains(model, last, share, count):
    """Tell where an iteration has lowered the quadratic model by a share of the mean so far."""
    gain = model - last
    return (model <= 0) & (gain <= 0) & (count * gain < share * model)


@compiled(fastmath={"contract", "nsz"})
def _cut_short(indptr, indices, values, scale, penalty, D, inverse, B, on):
    """Return the steps of lanes on sparse rows, as `ConjugateGradients.solve` does with our rule.

    All is in as few passes as possible: on small text these are what takes time, a fifth of a path.
    """
    n, n_lanes = B.shape
    S, residual, Q, P = np.zeros_like(B), B.copy(), np.empty_like(B), B * inverse
    product, model = np.zeros(n_lanes), np.zeros(n_lanes)
    for j in range(n):
        for lane in range(n_lanes):
            product[lane] += B[j, lane] * P[j, lane]
    share = np.minimum(SHARE, product**0.25)
    count = 0
    while on.any() and count < MOST_CG:
        count += 1
        of_bias, curvature, step = np.zeros(n_lanes), np.zeros(n_lanes), np.zeros(n_lanes)
        last, model, old, product = model, np.zeros(n_lanes), product, np.zeros(n_lanes)
        for j in range(n):
            for lane in range(n_lanes):
                Q[j, lane] = penalty[j, 0] * P[j, lane]
        curved(indptr, indices, values, P, scale * P[-1], D, Q, of_bias, 0, len(D))
        Q[-1] += scale * of_bias
        for j in range(n):
            for lane in range(n_lanes):
                curvature[lane] += P[j, lane] * Q[j, lane]
        for lane in range(n_lanes):
            on[lane] &= curvature[lane] > 0
            if on[lane]:
                step[lane] = old[lane] / curvature[lane]
        for j in range(n):
            for lane in range(n_lanes):
                S[j, lane] += step[lane] * P[j, lane]
                r = residual[j, lane] - step[lane] * Q[j, lane]
                residual[j, lane] = r
                model[lane] -= 0.5 * S[j, lane] * (r + B[j, lane])
                Q[j, lane] = r * inverse[j, lane]
                product[lane] += r * Q[j, lane]
        on &= _gains(model, last, share, count)
        turn = np.where(on, product / old, 0.0)
        for j in range(n):
            for lane in range(n_lanes):
                P[j, lane] = Q[j, lane] + turn[lane] * P[j, lane]
    return S


class Truncated(ConjugateGradients):
    """Conjugate gradients that are cut short, each lane having a preconditioner of its own."""

    def solve(self, D: np.ndarray, B: np.ndarray, tol: float, active: np.ndarray) -> np.ndarray:
        if not isinstance(self.matrix, SparseMatrix):
            return super().solve(D, B, tol, active)
        rows, on = self.matrix.rows[:3], active & B.any(axis=0)
        return _cut_short(*rows, self.matrix.scale, self.penalty, D, self._inverse(D), B, on)

    def _rule(self, B: np.ndarray, tol: float, product: np.ndarray) -> Rule:
        share, model = np.minimum(SHARE, product**0.25), np.zeros_like(product)

        def goes_on(S: np.ndarray, residual: np.ndarray, left: Any, count: int) -> np.ndarray:
            nonlocal model
            last, model = model, -0.5 * (self.dots(S, residual) + self.dots(S, B))
            return _gains(model, last, share, count)

        return goes_on

    def worn(self, count: int) -> bool:
        return True

    def _preconditioner(self, D: np.ndarray) -> Callable:
        inverse = self._inverse(D)
        return lambda B: B * inverse

    def _inverse(self, D: np.ndarray) -> np.ndarray:
        diagonal = self.penalty + self.matrix.sums_of_squares(D)
        return 1.0 / ((1 - DIAGONAL) + DIAGONAL * diagonal)
