"""Dual coordinate descent for linear machines in lanes: see `train`."""

from __future__ import annotations

import numpy as np

from ..._core.compiled import compiled
from .bundle import Bundle
from .corners import COARSE, EASY, GAP, duality_gaps, put_on_corners
from .interior import solve_inside
from .loops import add_dots, add_outer
from .systems import TIGHT

CHECK = 4  # sweeps between two looks at the duality gap
IDLE = 2  # sweeps without a change after which a row is passed over until the next look
CHEAP = 1e6  # entries that are read in no time, so that no gap is slow to close


@compiled
def _sweep(
    indptr, indices, values, full, scale, square, target, lower, upper, kink, ridge, weight, order,
    B, W, bias, offset, idle,
):  # fmt: skip
    """Minimise over the coefficients of every row of `order` in turn."""
    zero, n_lanes = W.dtype.type(0), W.shape[1]
    u = np.zeros((1, n_lanes), dtype=W.dtype)
    for t in range(len(order)):
        i = order[t]
        base = indptr[i] if full else 0
        for lane in range(n_lanes):
            u[0, lane] = offset[lane] + scale * bias[lane]
        add_dots(indices, base, values, indptr[i], indptr[i + 1], W, u, 0)
        moved = False
        for lane in range(n_lanes):
            w, step = weight[i, lane], zero
            if w > 0:
                size = square[i] + ridge[i] / w
                c = square[i] * B[i, lane] + target[i] - u[0, lane]
                s = c - min(max(c, -kink[i]), kink[i])
                new = zero if s == 0 else min(max(s / size, w * lower[i]), w * upper[i])
                step = new - B[i, lane]
                B[i, lane] = new
                moved = moved or step != 0
            u[0, lane] = step
            bias[lane] += scale * step
        if moved:
            add_outer(indices, base, values, indptr[i], indptr[i + 1], u, 0, W)
            idle[i] = 0
        else:
            idle[i] += 1


@compiled
def _share(share, margin, reach, close):
    """Solve logit(s) = margin + reach (share - s) for the share s of a soft loss's bound.

    Newton's method on m = logit(s), which the two ends of s bracket.
    """
    low, high = margin - reach * (1 - share), margin + reach * share
    m, last = margin, high - low
    for _ in range(50):
        e = np.exp(-abs(m))
        s = 1 / (1 + e) if m > 0 else e / (1 + e)
        excess = m - margin - reach * (share - s)
        if excess > 0:
            high = m
        else:
            low = m
        new = m - excess / (1 + reach * s * (1 - s))
        # steps that leave the bracket, or go to and fro in it, are replaced by its middle
        if new < low or new > high or 2 * abs(new - m) > last:
            new = (low + high) / 2
        last = abs(new - m)
        if last < close:
            break
        m = new
    # a last step from the slope of the logistic curve
    return s + s * (1 - s) * (new - m)


@compiled
def _sweep_soft(
    indptr, indices, values, full, scale, square, target, bound, soft, weight, order, B, W, bias,
    offset, idle,
):  # fmt: skip
    """As `_sweep`, for losses with a logistic curve."""
    zero, n_lanes = W.dtype.type(0), W.shape[1]
    eps = 4 * np.finfo(W.dtype).eps
    close = np.sqrt(eps) / 4
    u = np.zeros((1, n_lanes), dtype=W.dtype)
    for t in range(len(order)):
        i = order[t]
        base = indptr[i] if full else 0
        for lane in range(n_lanes):
            u[0, lane] = offset[lane] + scale * bias[lane]
        add_dots(indices, base, values, indptr[i], indptr[i + 1], W, u, 0)
        moved, sign = False, 1 if bound[i] > 0 else -1
        for lane in range(n_lanes):
            most, step = weight[i, lane] * bound[i], zero
            if most != 0:
                old = B[i, lane] / most
                margin = sign * (target[i] - u[0, lane]) / soft
                new = _share(old, margin, square[i] * abs(most) / soft, close)
                if abs(new - old) > eps * old:
                    step = W.dtype.type(most * (new - old))
                    B[i, lane] += step
                    moved = True
            u[0, lane] = step
            bias[lane] += scale * step
        if moved:
            add_outer(indices, base, values, indptr[i], indptr[i + 1], u, 0, W)
            idle[i] = 0
        else:
            idle[i] += 1


class Descent:
    """Dual coordinate descent on the coefficients of a bundle's rows.

    Rows that no longer move are passed over between two looks at how far there is to go
    (shrinking).  That is the duality gap, relative to the objective.  A bias without penalty is no
    business of the rows: it is found between sweeps, with all weights held, and gradients have to
    tell how far it is.
    """

    def __init__(self, bundle: Bundle):
        self.bundle, self.loss = bundle, bundle.loss
        self.rng = np.random.default_rng(0)
        self.rows = np.flatnonzero(self.loss.weight.any(axis=1))
        self.free_bias = bundle.matrix.scale != 0 and bundle.penalty[-1, 0] == 0
        self.scale = 0.0 if self.free_bias else bundle.matrix.scale
        square = bundle.matrix.squared_lengths
        self.square = square - bundle.matrix.scale**2 + self.scale**2
        self.low, self.high = self.loss.bounds()
        self.B = np.clip(bundle.A0, self.low, self.high)
        self.by_gradient = False

    def run(self, tol: float, balance: float, most: int) -> None:
        bundle, tight = self.bundle, tol <= TIGHT
        ends = self.loss.has_corners and not self.free_bias and bundle.matrix.dtype == np.float64
        self._descend(10 * TIGHT if tight and ends else tol, balance, most)
        if ends and (tight or not bundle.converged) and not bundle.budget.expired():
            W, Z = bundle.W, bundle.Z
            done = put_on_corners(bundle, self.B)
            bundle.converged = bool(done[bundle.used].all())
            if bundle.converged:
                return
            bundle.W, bundle.Z = W, Z
            if tight:
                self._descend(tol, balance, most)
        bundle.A = self.B
        if self.loss.has_corners:
            bundle.D = self.loss.corners(self.B)
            if not (bundle.converged or self.free_bias or bundle.budget.expired()):
                self._go_inside(GAP * tol)

    def _go_inside(self, tol: float) -> None:
        """Go on by the interior-point method, where features are not too many for it."""
        bundle = self.bundle
        machines = solve_inside(bundle, self.loss, bundle.used, bundle.W, tol, near=True)
        for lane, found in machines.items():
            if found.gap <= tol:
                bundle.W[:, lane], bundle.Z[:, lane] = found.w, found.outputs
                bundle.A[:, lane], bundle.D[:, lane] = found.b, found.curvature
        done = [lane for lane, found in machines.items() if found.gap <= tol]
        bundle.converged = len(done) == np.count_nonzero(bundle.used)

    def _descend(self, tol: float, balance: float, most: int) -> None:
        bundle = self.bundle
        coarse, tight = tol >= COARSE, tol <= TIGHT
        # a gap says too little in the end: weights are off by its root
        self.by_gradient = self.free_bias or (tight and not self.loss.has_corners)
        if self.by_gradient:
            self.reach = bundle.reach()
        tol = tol * balance if self.by_gradient else GAP * tol
        most = 10 * most if tight else most
        easy = max(EASY, CHEAP / max(len(bundle.matrix.rows[2]), 1))
        for done in range(0, most + 1, CHECK):
            # at large costs gaps close slowly, and what they change in the end is little
            patience = max(1.0, done / easy) ** 2 if coarse else 1.0
            bundle.converged = self.distance() <= tol * patience
            if bundle.converged or done >= most or bundle.budget.expired():
                break
            self.sweep(CHECK)

    def sweep(self, times: int) -> None:
        bundle, dual = self.bundle, self.loss.dual
        dtype = bundle.matrix.dtype
        weights, last = np.array(bundle.W[:-1], order="C"), bundle.W[-1].copy()
        bias = np.zeros_like(last) if self.free_bias else last
        offset = dtype.type(bundle.matrix.scale) * last if self.free_bias else np.zeros_like(last)
        idle = np.zeros(bundle.matrix.n_rows, dtype=np.int64)
        common = *bundle.matrix.rows, dtype.type(self.scale), self.square.astype(dtype)
        bundle.iterations += times
        for _ in range(times):
            order = self.rng.permutation(self.rows[idle[self.rows] < IDLE])
            ends = self.loss.weight, order, self.B, weights, bias, offset, idle
            if dual.soft:
                _sweep_soft(*common, dual.target, self.loss.bound, dtype.type(dual.soft), *ends)
            else:
                _sweep(*common, dual.target, dual.lower, dual.upper, dual.kink, dual.ridge, *ends)

    def distance(self) -> float:
        """Set weights and outputs of the coefficients; return how far they are from the best."""
        bundle = self.bundle
        last = bundle.W[-1].copy()
        bundle.W = bundle.matrix.transposed(self.B)
        if self.free_bias:
            bundle.W[-1] = last
        bundle.matrix.times(bundle.W, bundle.Z)
        if self.free_bias:
            self._set_bias()
        if not self.by_gradient:
            return float(duality_gaps(bundle, self.B)[bundle.used].max(initial=0.0))
        bundle.slopes(bundle.Z)
        ratio = bundle.size(bundle.gradient(), self.reach)
        return float(ratio[bundle.used].max(initial=0.0))

    def _set_bias(self) -> None:
        """Minimise over the bias, weights held."""
        bundle, scale = self.bundle, self.bundle.matrix.dtype.type(self.bundle.matrix.scale)
        for _ in range(5):
            bundle.slopes(bundle.Z)
            slope = bundle.A.sum(axis=0, dtype=float) * float(scale)
            curvature = bundle.D.sum(axis=0, dtype=float) * float(scale) ** 2
            step = slope / np.where(curvature > 0, curvature, 1.0)
            step = np.clip(step, -1.0, 1.0).astype(bundle.Z.dtype)
            bundle.W[-1] += step
            bundle.Z += scale * step
            if np.abs(step).max() < 1e-4:
                break
