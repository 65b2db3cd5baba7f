"""Training of linear machines in lanes: Newton's method, or dual coordinate descent.

Up to eight machines of one column, one per fold and one for all rows, minimise

    1/2 w' R w + sum_i weight_i loss_i(x_i' w)

side by side, R being one but for the bias.
"""

from __future__ import annotations

import numpy as np

from ._budget import Budget
from ._compiled import compiled
from ._lane_losses import LaneLoss
from ._lanes import LANES, Matrix, add_dots, add_outer
from ._linear_solve import FEW, ConjugateGradients, RowByRow, dots
from ._losses import Dual

FORCING = 0.1  # accuracy of a Newton step
MOST_STEPS = 50
MOST_CUTS = 12
MOST_SWEEPS = 300  # LIBLINEAR's own
CHECK = 4  # sweeps of coordinate descent between two looks at the duality gap
IDLE = 2  # sweeps without a change after which a row is passed over until the next look
GAP = 0.5  # duality gap, relative to the objective, that is as good as a gradient of one
COARSE = 1e-2  # tolerances from which on a gap that is slow to close is let be
EASY = 8  # sweeps after which it is slow


class Bundle:
    """Machines in lanes: weights W (features and bias, lanes), outputs Z (rows, lanes).

    A are the coefficients of the rows, minus the slopes of their losses, D the curvatures.
    `solver` is "primal" (Newton's method) or "dual" (coordinate descent); None chooses by shape.
    """

    def __init__(
        self,
        matrix: Matrix,
        loss: LaneLoss,
        bias_penalty: float,
        budget: Budget,
        solver: str | None = None,
    ):
        self.matrix, self.loss, self.budget = matrix, loss, budget
        self.penalty = np.ones((matrix.width, 1), dtype=matrix.dtype)
        self.penalty[-1] = bias_penalty if matrix.scale else 1.0
        self.used: np.ndarray = np.asarray(loss.weight.any(axis=0))
        by_rows = matrix.width > FEW or loss.has_corners
        self.dual = by_rows if solver is None else solver == "dual"
        if loss.has_corners and not self.dual:
            raise ValueError("solver='primal' needs a loss without corners; use 'dual'.")
        # Newton's method in many features is the asked-for exception: see `ConjugateGradients`
        kind = RowByRow if by_rows and self.dual else ConjugateGradients
        self.system: RowByRow | ConjugateGradients = kind(matrix, self.penalty, self.used, budget)
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
        self, tol: float, balance: float = 1.0, most: int | None = None, watch: bool = False
    ) -> None:
        """Train until gradients are below `tol` times `balance`, relative to those at zero.

        In coordinate descent duality gaps are to be below `tol`, relative to the objective.  With
        `watch`, `still` tells whether the weights at the start were good enough already.
        """
        if not self.dual:
            _newton(self, tol * balance, most or MOST_STEPS)
            return
        start = self.W
        if watch and not self.loss.has_corners:
            still = self._gradients_below(tol * balance)
        _Descent(self).run(tol, balance, most or MOST_SWEEPS)
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
            assert isinstance(self.system, RowByRow)
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
    losses, done = bundle.slopes(bundle.Z), ~bundle.used
    for step in range(most + 1):
        gradient = bundle.gradient()
        active = (np.sqrt(dots(gradient, gradient)) > limit) & ~done
        bundle.converged = not active.any()
        bundle.still = bundle.converged and step == 0
        if bundle.converged or step == most or bundle.budget.expired():
            return
        S = bundle.system.solve(bundle.D, -gradient, FORCING, active)
        S[:, ~active] = 0
        losses, stuck = _go(bundle, S, gradient, losses, active)
        done |= stuck


def _go(
    bundle: Bundle, S: np.ndarray, gradient: np.ndarray, losses: np.ndarray, active: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Go along S as far as that pays; return the losses, and lanes that can get no lower."""
    RS = bundle.penalty * S
    slope, inner, square = dots(gradient, S), dots(bundle.W, RS), dots(S, RS)
    value = losses + 0.5 * dots(bundle.W, bundle.penalty * bundle.W)
    noise = 10 * np.finfo(S.dtype).eps * np.abs(value)
    U, Z, size = np.empty_like(bundle.Z), np.empty_like(bundle.Z), np.ones(LANES)
    bundle.matrix.times(S, U)
    for _ in range(MOST_CUTS):
        np.multiply(U, size.astype(U.dtype), out=Z)
        Z += bundle.Z
        new = bundle.slopes(Z)
        gain = new - losses + size * inner + 0.5 * size**2 * square
        end = inner + size * square - dots(bundle.A, U)
        bad = active & ((gain > 1e-4 * size * slope + noise) | (end > 0.5 * np.abs(slope)))
        if not bad.any():
            break
        secant = np.clip(-slope / np.maximum(end - slope, 1e-300), 0.1, 0.7)
        size = np.where(bad, size * secant, size)
    bundle.Z = Z
    bundle.W = bundle.W + size.astype(S.dtype) * S
    return new, active & (-slope <= noise)


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
        self.reach = bundle.reach() if self.free_bias else np.ones(LANES)
        low, high = self.loss.bounds()
        self.B = np.clip(bundle.A0, low, high)

    def run(self, tol: float, balance: float, most: int) -> None:
        bundle = self.bundle
        coarse = tol >= COARSE
        tol = tol * balance if self.free_bias else GAP * tol
        for done in range(0, most + 1, CHECK):
            # at large costs gaps close slowly, and what they change in the end is little
            patience = max(1.0, done / EASY) ** 2 if coarse else 1.0
            bundle.converged = self.distance() <= tol * patience
            if bundle.converged or done >= most or bundle.budget.expired():
                break
            self.sweep(CHECK)
        bundle.A = self.B
        if self.loss.has_corners:
            bundle.D = self.loss.corners(self.B)

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
        bundle, last = self.bundle, self.bundle.W[-1].copy()
        bundle.W = bundle.matrix.transposed(self.B)
        if self.free_bias:
            bundle.W[-1] = last
        bundle.matrix.times(bundle.W, bundle.Z)
        if self.free_bias:
            self._set_bias()
        losses = bundle.slopes(bundle.Z)
        if not self.free_bias:
            square = dots(bundle.W, bundle.W)
            primal = losses + 0.5 * square
            gap = primal + 0.5 * square - self.loss.conjugate(self.B)
            ratio = gap / np.maximum(primal, 1e-300)
        else:
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
