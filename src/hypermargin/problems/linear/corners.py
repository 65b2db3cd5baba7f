"""Losses with corners: rounded ones for Newton's method, and the rows that sit at a corner.

With few features corners are rounded, and made sharper while the rows in them are held there.  With
many, coordinate descent finds which rows these are.  Either way they are few in the end: a direct
method puts them onto their corners, and systems with infinite curvature (see `systems`) are
solved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.budget import cached
from ..._core.spread import typical_deviation
from ...losses.base import Dual
from ...losses.lanes import LaneLoss
from .bundle import Bundle
from .lanes import Matrix
from .newton import newton
from .systems import MOST_HELD, TIGHT, Held, dots

GAP = 1.0  # duality gap, relative to the objective, that is as good as a gradient of one
WARM = 0.1  # width of rounded corners at first, in units of the targets, after a warm start
WARM_STEPS = 25  # in which a warm start has to show that it is one
NARROWER = 0.3
COARSE = 2e-3  # tolerances from which on a gap that is slow to close is let be:
EASY = 8  # steps, or sweeps, after which it is slow
SHARPEST = {False: 1e-4, True: 1e-8}  # in single and in double precision, in the same units
EXACT = 1e-9  # duality gap in double precision
INNER = 1e-2  # accuracy of the rounded machine, relative to that of the sharp one
MOST_TURNS = 500
SETTLED = 1e-12  # violations that are rounding, relative to the outputs


def sharpen(bundle: Bundle, tol: float, most: int, rough: bool) -> None:
    """Round the corners of the loss, train, and make them sharper until that changes nothing.

    Coefficients of the rounded loss are good ones for the sharp loss too, so the duality gap tells
    how far there is to go.  In the end the bundle has the sharp loss if rows were put onto its
    corners, else the rounded one: derivatives are those of what was trained.
    """
    sharp, matrix, coarse = bundle.loss, bundle.matrix, tol >= COARSE
    exactly = matrix.dtype == np.float64 and not rough and (matrix.small or tol <= TIGHT)
    tol = min(tol, EXACT) if exactly else tol
    unit, wide = _widths(sharp)
    width, inner, begun = WARM * unit, INNER * min(tol, 1.0), bundle.iterations
    best: tuple = (np.inf,)
    if bundle.W.any():
        bundle.loss = sharp.rounded(width)
        newton(bundle, inner, min(most, WARM_STEPS))
    # machines that are zero, or far off, have no row near a corner that is not wide
    if not (bundle.W.any() and bundle.converged):
        width, begun, bundle.loss = wide, bundle.iterations, sharp.rounded(wide)
        newton(bundle, inner, most)
    while True:
        rounded, bundle.loss = bundle.loss, sharp
        B, inside, trained = bundle.A.copy(), bundle.D > 0, bundle.converged
        gap = duality_gap(bundle, B)
        patience = max(1.0, (bundle.iterations - begun) / EASY) ** 2 if coarse else 1.0
        bundle.converged = gap <= GAP * tol * patience
        few = inside.sum(axis=0).max() <= matrix.width
        if trained and few and not bundle.converged and _meet(bundle, B, inside, tol):
            return
        better = gap < best[0]  # or rounding errors have come to that
        if better:
            best = gap, bundle.W, bundle.Z.copy(), rounded
        ended = bundle.converged or width <= SHARPEST[exactly] * unit
        if ended or not better or bundle.budget.expired():
            break
        width, inner = NARROWER * width, NARROWER * inner
        bundle.loss = sharp.rounded(width)
        _hold(bundle, B, inside)
        newton(bundle, inner, most)
    _, bundle.W, bundle.Z, bundle.loss = best
    bundle.slopes(bundle.Z)
    if exactly and not bundle.converged and not bundle.budget.expired():
        _end_on_corners(bundle, sharp)


def _widths(loss: LaneLoss) -> tuple[float, float]:
    """Return the unit of the widths of corners, and one that has all rows in it."""
    target = loss.dual.target
    unit = typical_deviation(target) or 1.0
    return unit, 2.0 * max(float(np.abs(target).max()), unit)


def _end_on_corners(bundle: Bundle, sharp: LaneLoss) -> None:
    """Go from the rounded loss to the sharp one, if that can be done."""
    B, bundle.loss, rounded = bundle.A.copy(), sharp, bundle.loss
    bundle.converged = put_on_corners(bundle, B)
    if not bundle.converged:
        bundle.loss = rounded
        bundle.slopes(bundle.Z)


def put_on_corners(bundle: Bundle, B: np.ndarray) -> bool:
    """Go from coefficients B to the very optimum of the loss; whether that could be done."""
    low, high = bundle.loss.bounds()
    B, W = B.copy(), np.zeros_like(bundle.W)
    for lane in np.flatnonzero(bundle.used):
        corners = Corners(bundle.matrix, bundle.loss.dual, low[:, lane], high[:, lane])
        found = corners.polish(B[:, lane])
        if found is None:
            return False
        B[:, lane], W[:, lane] = found
    bundle.W = W
    bundle.Z = bundle.matrix.times(bundle.W, np.empty_like(bundle.Z))
    bundle.A, bundle.D = B, _curvatures(bundle, B)
    return True


def _curvatures(bundle: Bundle, B: np.ndarray) -> np.ndarray:
    """Return the curvatures of exact coefficients B, with all rows at corners if these are few."""
    D = bundle.loss.corners(B, bundle.Z)
    few = np.isinf(D).sum(axis=0).max(initial=0) <= MOST_HELD
    return D if few else bundle.loss.corners(B)


def _meet(bundle: Bundle, B: np.ndarray, inside: np.ndarray, tol: float) -> bool:
    """Put the rows inside of a corner onto it; return whether that was right, else undo it.

    If rows and coefficients are what they are at the solution, this is the solution.
    """
    W, Z = bundle.W, bundle.Z
    exact, bundle.W = bundle.system.meet(inside, B, _corner_outputs(bundle, B))
    exact = np.clip(exact, *bundle.loss.bounds())
    bundle.Z = np.empty_like(Z)
    bundle.matrix.times(bundle.W, bundle.Z)
    bundle.converged = duality_gap(bundle, exact) <= GAP * tol
    if bundle.converged:
        bundle.A, bundle.D = exact, _curvatures(bundle, exact)
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


def duality_gap(bundle: Bundle, B: np.ndarray) -> float:
    """Return the largest duality gap between weights and coefficients B, relative to the primal."""
    V = bundle.matrix.transposed(B)
    primal = bundle.slopes(bundle.Z) + 0.5 * dots(bundle.W, bundle.W)
    gap = primal + 0.5 * dots(V, V) - bundle.loss.conjugate(B)
    return float((gap / np.maximum(primal, 1e-300))[bundle.used].max(initial=0.0))


@dataclass
class Corners:
    """One lane's dual: minimise 1/2 |X'b|^2 - target'b + kink'|b| over low <= b <= high.

    A row whose coefficient is at zero (if it has a kink) or at a bound is held; others are free,
    and `side` is the sign that they keep.  Weights X'b go along: where features are large, the last
    digits of b decide about outputs, and b has not got them.
    """

    matrix: Matrix
    dual: Dual
    low: np.ndarray
    high: np.ndarray

    def polish(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the optimum near b and its weights; None if that is too much work."""
        b = self._snapped(b)
        w = np.append(self.matrix.X.T @ b, self.matrix.scale * b.sum())
        free = np.flatnonzero((b > self.low) & (b < self.high) & self._off_kink(b)).tolist()
        side = np.sign(b)
        for _ in range(MOST_TURNS):
            if len(free) > MOST_HELD:
                return None
            stop = self._go(b, w, free, side) if free else None
            if stop is not None:
                free.remove(stop)
                continue
            entering = self._most_violating(b, free, side, self._outputs(w))
            if entering is None:
                return b, w
            free.append(entering)
        return None

    def _snapped(self, b: np.ndarray) -> np.ndarray:
        """Put coefficients that are next to a corner onto it."""
        b = np.clip(b, self.low, self.high)
        slack = 1e-7 * (self.high - self.low)
        b = np.where(b < self.low + slack, self.low, b)
        b = np.where(b > self.high - slack, self.high, b)
        return np.where((np.abs(b) < slack) & (self.dual.kink > 0), 0.0, b)

    def _off_kink(self, b: np.ndarray) -> np.ndarray:
        return (b != 0) | (self.dual.kink == 0)

    def _outputs(self, w: np.ndarray) -> np.ndarray:
        return self.matrix.X @ w[:-1] + self.matrix.scale * w[-1]

    @cached
    def _rounding(self) -> float:
        """Violations that are none: of outputs like the targets that are trained on."""
        return SETTLED * float(np.abs(self.dual.target[self.low < self.high]).max(initial=0.0))

    def _go(self, b: np.ndarray, w: np.ndarray, free: list[int], side: np.ndarray) -> int | None:
        """Move the free coefficients to their optimum; return the row that met a corner first."""
        held = Held(self.matrix, free)
        residual = self.dual.target[free] - self.dual.kink[free] * side[free] - held.outputs(w)
        change, step, rest = held.move(residual)
        endless = np.abs(rest).max() > max(1e-9 * np.abs(residual).max(), self._rounding)
        if endless:  # the objective falls along a line, on which some row must meet a corner
            change, step = np.zeros_like(w), rest / held.lengths**2
        up, kinked = step > 0, self.dual.kink[free] > 0
        upper = np.where(kinked & (side[free] < 0), 0.0, self.high[free])
        lower = np.where(kinked & (side[free] > 0), 0.0, self.low[free])
        room = np.where(up, upper, lower) - b[free]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(step != 0, room / step, np.inf)
        first = int(np.argmin(reach))
        if reach[first] >= 1 and not endless:
            b[free] += step
            w += change
            return None
        b[free] += reach[first] * step
        w += reach[first] * change
        b[free[first]] = upper[first] if up[first] else lower[first]
        return free[first]

    def _most_violating(
        self, b: np.ndarray, free: list[int], side: np.ndarray, out: np.ndarray
    ) -> int | None:
        """Return the held row that gains most by moving, its side set; None at the optimum."""
        residual, kink = self.dual.target - out, self.dual.kink
        rise = np.where(b < self.high, residual - np.where(b >= 0, kink, -kink), -np.inf)
        fall = np.where(b > self.low, -residual - np.where(b <= 0, kink, -kink), -np.inf)
        gain = np.maximum(rise, fall)
        gain[free] = -np.inf
        worst = int(np.argmax(gain))
        if gain[worst] <= self._rounding + SETTLED * np.abs(out[worst]):
            return None
        up = rise[worst] > fall[worst]
        at_zero = 1.0 if up else -1.0
        side[worst] = np.sign(b[worst]) or at_zero
        return worst
