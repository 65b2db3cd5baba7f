"""Training of linear machines in lanes: Newton's method, or dual coordinate descent.

Up to eight machines of one column, one per fold and one for all rows, minimise

    1/2 w' R w + sum_i weight_i loss_i(x_i' w)

side by side, R being one but for the bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._budget import Budget
from ._compiled import compiled
from ._corners import Corners
from ._lane_losses import LaneLoss
from ._lanes import LANES, Matrix, add_dots, add_outer
from ._linear_solve import FEW, TIGHT, ConjugateGradients, LaneByLane, RowByRow, dots
from ._losses import Dual

FORCING = 0.1  # accuracy of a Newton step
MOST_STEPS, ROUGH_STEPS = 50, 15
MOST_CUTS = 12
MOST_SWEEPS, ROUGH_SWEEPS = 300, 20
CHECK = 4  # sweeps of coordinate descent between two looks at the duality gap
IDLE = 2  # sweeps without a change after which a row is passed over until the next look
GAP = 0.5  # duality gap, relative to the objective, that is as good as a gradient of one
COARSE = 1e-2  # tolerances from which on a gap that is slow to close is let be
EASY = 8  # sweeps after which it is slow, or more on few data:
CHEAP = 1e6  # entries that are read in no time
WARM = 0.1  # width of rounded corners at first, in units of the targets, after a warm start
NARROWER = 0.1
SHARPEST = {False: 1e-4, True: 1e-8}  # in single and in double precision, in the same units
INNER = 1e-2  # accuracy of the rounded machine, relative to that of the sharp one


class Bundle:
    """Machines in lanes: weights W (features and bias, lanes), outputs Z (rows, lanes).

    A are the coefficients of the rows, minus the slopes of their losses, D the curvatures.
    """

    def __init__(self, matrix: Matrix, loss: LaneLoss, bias_penalty: float, budget: Budget):
        self.matrix, self.loss, self.budget = matrix, loss, budget
        self.penalty = np.ones((matrix.width, 1), dtype=matrix.dtype)
        self.penalty[-1] = bias_penalty if matrix.scale else 1.0
        self.used: np.ndarray = np.asarray(loss.weight.any(axis=0))
        self.dual = matrix.width > FEW
        kind: Any = ConjugateGradients
        if self.dual or loss.has_corners:
            kind = RowByRow if self.dual else LaneByLane
        self.system = kind(matrix, self.penalty, self.used, budget)
        self.converged, self.still = True, False
        shape = matrix.n_rows, LANES
        self.W = np.zeros((matrix.width, LANES), dtype=matrix.dtype)
        self.A0 = np.zeros(shape, dtype=matrix.dtype)
        self.Z, self.A, self.D = (np.zeros(shape, dtype=matrix.dtype) for _ in range(3))

    def start(self, W: np.ndarray, A: np.ndarray | None = None) -> None:
        """Begin training at these weights, coordinate descent at these coefficients."""
        self.W = np.ascontiguousarray(W, dtype=self.matrix.dtype)
        if A is not None:
            self.A0 = np.ascontiguousarray(A, dtype=self.matrix.dtype)

    def train(
        self, tol: float, balance: float = 1.0, rough: bool = False, watch: bool = False
    ) -> None:
        """Train until gradients are below `tol` times `balance`, relative to those at zero.

        In coordinate descent and where the loss has corners, duality gaps are to be below it,
        relative to the objective.  A `rough` training stops early.  With `watch`, `still` tells
        whether the weights at the start were good enough already.
        """
        steps, sweeps = (ROUGH_STEPS, ROUGH_SWEEPS) if rough else (MOST_STEPS, MOST_SWEEPS)
        if not self.dual and not self.loss.has_corners:
            _newton(self, tol * balance, steps)
            return
        start = self.W
        if watch and not self.loss.has_corners:
            still = self._gradients_below(tol * balance)
        if self.dual:
            _Descent(self).run(tol, balance, sweeps)
        else:
            _sharpen(self, tol, steps)
        if watch and self.loss.has_corners:
            change = self.W - start
            still = bool((dots(change, change) <= tol**2 * dots(self.W, self.W)).all())
        self.still = watch and still

    def _gradients_below(self, tol: float) -> bool:
        """Whether W is good enough: chu-2015, rule (24)."""
        reach = self.reach()
        self.matrix.times(self.W, self.Z)
        self.slopes(self.Z)
        gradient = self.gradient()
        return bool((np.sqrt(dots(gradient, gradient)) <= tol * reach)[self.used].all())

    def slopes(self, Z: np.ndarray) -> np.ndarray:
        """Set coefficients and curvatures at the outputs Z; return the sums of the losses."""

        def run(part: slice) -> np.ndarray:
            return self.loss.slopes(Z, self.A, self.D, part)

        return sum(self.matrix.each(run, Z.size * LANES))

    def solve(self, B: np.ndarray, tol: float) -> np.ndarray:
        """Return (R + X' D X)^-1 B."""
        return self.system.solve(self.D, B.astype(self.matrix.dtype, copy=False), tol, self.used)

    def gradient(self) -> np.ndarray:
        return self.penalty * self.W - self.matrix.transposed(self.A)

    def reach(self) -> np.ndarray:
        """Return the lengths of the gradients at W = 0."""
        self.slopes(np.zeros_like(self.Z))
        G = self.matrix.transposed(self.A)
        return np.sqrt(dots(G, G))

    def cotangent(self, Q: np.ndarray) -> Dual:
        """Return what cotangents Q on the coefficients say of the dual's data, by row.

        At a corner the output is held, and the coefficient gives way: it moves as much as the
        multiplier of the row says.
        """
        cotangent = self.loss.cotangent(self.Z, np.where(np.isinf(self.D), 0.0, Q).astype(Q.dtype))
        if self.loss.has_corners:
            held = np.where(np.isinf(self.D), self.system.multipliers, 0.0)
            cotangent.target[:] += held.sum(axis=1)
            sign = np.sign(self.A) * (self.loss.dual.kink > 0)[:, None]
            cotangent.kink[:] -= (sign * held).sum(axis=1)
        return cotangent

    def derivative(self, tol: float) -> np.ndarray:
        """Return the derivatives of the weights by the logarithm of all costs."""
        A = np.where(np.isinf(self.D), 0.0, self.A).astype(self.A.dtype)  # bounds move, corners not
        return self.solve(self.matrix.transposed(A), tol)


def _newton(bundle: Bundle, tol: float, most: int) -> None:
    """Take steps from W, each along the solution of (R + X' D X) s = -g.

    The step is cut back along the line, which needs no product with X.  (LIBLINEAR has gone the
    same way since version 2.40; before, a trust region bounded it.)
    """
    limit = tol * bundle.reach()
    bundle.matrix.times(bundle.W, bundle.Z)
    losses, stuck, last = bundle.slopes(bundle.Z), ~bundle.used, np.full(LANES, np.inf)
    for step in range(most + 1):
        gradient = bundle.gradient()
        size = np.sqrt(dots(gradient, gradient))
        # where the objective is flat to rounding, gradients tell whether steps still help
        active = (size > limit) & ~(stuck & (size > 0.5 * last)) & bundle.used
        last = size
        bundle.converged = not active.any()
        bundle.still = bundle.converged and step == 0
        if bundle.converged or step == most or bundle.budget.expired():
            return
        S = bundle.system.solve(bundle.D, -gradient, FORCING, active)
        S[:, ~active] = 0
        losses, stuck = _go(bundle, S, gradient, losses, active)


def _sharpen(bundle: Bundle, tol: float, most: int) -> None:
    """Round the corners of the loss, train, and make them sharper until that changes nothing.

    Coefficients of the rounded loss are good ones for the sharp loss too, so the duality gap tells
    how far there is to go.  In the end the bundle has the sharp loss if rows were put onto its
    corners, else the rounded one: derivatives are those of what was trained.
    """
    sharp = bundle.loss
    target = sharp.dual.target
    unit = max(float(np.std(target)), 1e-300)
    # machines that are zero have no row near a corner that is not wide
    width = WARM * unit if bundle.W.any() else 2.0 * max(float(np.abs(target).max()), unit)
    least = SHARPEST[bundle.matrix.dtype == np.float64] * unit
    bundle.loss = sharp.rounded(width)
    best: tuple = (np.inf,)
    inner = INNER * min(tol, 1.0)
    while True:
        _newton(bundle, inner, most)
        rounded, bundle.loss = bundle.loss, sharp
        B, inside, trained = bundle.A.copy(), bundle.D > 0, bundle.converged
        gap = _gap(bundle, B)
        bundle.converged = gap <= GAP * tol
        few = inside.sum(axis=0).max() <= bundle.matrix.width
        if trained and few and not bundle.converged and _meet(bundle, B, inside, tol):
            return
        stalled = gap > 0.5 * best[0]  # what rounding errors of single precision come to
        if gap < best[0]:
            best = gap, bundle.W, bundle.Z.copy(), rounded
        if bundle.converged or stalled or width <= least or bundle.budget.expired():
            break
        width, inner = NARROWER * width, NARROWER * inner
        bundle.loss = sharp.rounded(width)
        _hold(bundle, B, inside)
    _, bundle.W, bundle.Z, bundle.loss = best
    bundle.slopes(bundle.Z)


def _meet(bundle: Bundle, B: np.ndarray, inside: np.ndarray, tol: float) -> bool:
    """Put the rows inside of a corner onto it; return whether that was right, else undo it.

    If rows and coefficients are what they are at the solution, this is the solution.
    """
    W, Z = bundle.W, bundle.Z
    exact = bundle.system.meet(inside, B, _corner_outputs(bundle, B))
    exact = np.clip(exact, *bundle.loss.bounds())
    bundle.W, bundle.Z = bundle.matrix.transposed(exact), np.empty_like(Z)
    bundle.matrix.times(bundle.W, bundle.Z)
    bundle.converged = _gap(bundle, exact) <= GAP * tol
    if bundle.converged:
        bundle.A, bundle.D = exact, bundle.loss.corners(exact)
    else:
        bundle.W, bundle.Z = W, Z
    return bundle.converged


def _corner_outputs(bundle: Bundle, B: np.ndarray) -> np.ndarray:
    """Return the outputs that rows at a corner of the loss have."""
    dual = bundle.loss.dual
    return dual.target[:, None] - np.sign(B) * dual.kink[:, None]


def _hold(bundle: Bundle, B: np.ndarray, inside: np.ndarray) -> None:
    """Set the weights that are best if rows inside of a corner stay there, and others as they are.

    Without this step a sharper corner would look to Newton's method as if no row were near it.
    """
    loss, dtype = bundle.loss, bundle.matrix.dtype
    D = np.where(inside, loss.weight * loss.stiffness[:, None], 0.0).astype(dtype)
    target = _corner_outputs(bundle, B)
    right = bundle.matrix.transposed(np.where(inside, D * target, B).astype(dtype))
    bundle.W = bundle.system.solve(D, right, 1e-2 * INNER, bundle.used)


def _gap(bundle: Bundle, B: np.ndarray) -> float:
    """Return the largest duality gap between weights and coefficients B, relative to the primal."""
    V = bundle.matrix.transposed(B)
    primal = bundle.slopes(bundle.Z) + 0.5 * dots(bundle.W, bundle.W)
    gap = primal + 0.5 * dots(V, V) - bundle.loss.conjugate(B)
    return float((gap / np.maximum(primal, 1e-300))[bundle.used].max(initial=0.0))


def _go(
    bundle: Bundle, S: np.ndarray, gradient: np.ndarray, losses: np.ndarray, active: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Go along S as far as that pays; return the losses, and lanes that can get no lower."""
    RS = bundle.penalty * S
    slope, inner, square = dots(gradient, S), dots(bundle.W, RS), dots(S, RS)
    value = losses + 0.5 * dots(bundle.W, bundle.penalty * bundle.W)
    noise = 10 * np.finfo(S.dtype).eps * np.abs(value)
    flat = -slope <= noise  # rounding hides what a step gains; it is taken as it is
    U, Z, size = np.empty_like(bundle.Z), np.empty_like(bundle.Z), np.ones(LANES)
    bundle.matrix.times(S, U)
    for _ in range(MOST_CUTS):
        np.multiply(U, size.astype(U.dtype), out=Z)
        Z += bundle.Z
        new = bundle.slopes(Z)
        gain = new - losses + size * inner + 0.5 * size**2 * square
        end = inner + size * square - dots(bundle.A, U)
        bad = active & ~flat & ((gain > 1e-4 * size * slope + noise) | (end > 0.5 * np.abs(slope)))
        if not bad.any():
            break
        secant = np.clip(-slope / np.maximum(end - slope, 1e-300), 0.1, 0.7)
        size = np.where(bad, size * secant, size)
    bundle.Z = Z
    bundle.W = bundle.W + size.astype(S.dtype) * S
    return new, active & flat


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


class _Descent:
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
            bundle.converged = self._end()
            if tight and not bundle.converged:
                self._descend(tol, balance, most)
        bundle.A = self.B
        if self.loss.has_corners:
            bundle.D = self.loss.corners(self.B)

    def _end(self) -> bool:
        """Go to the very optimum of a loss with corners; whether that could be done."""
        matrix, dual, B = self.bundle.matrix, self.loss.dual, self.B.copy()
        for lane in np.flatnonzero(self.bundle.used):
            corners = Corners(matrix, dual, self.low[:, lane], self.high[:, lane])
            found = corners.polish(B[:, lane])
            if found is None:
                return False
            B[:, lane] = found
        self.B = B
        self.distance()
        return True

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
            return _gap(bundle, self.B)
        bundle.slopes(bundle.Z)
        gradient = bundle.gradient()
        ratio = np.sqrt(dots(gradient, gradient)) / np.maximum(self.reach, 1e-300)
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
