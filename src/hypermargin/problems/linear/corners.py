"""Losses with corners: rounded ones for Newton's method, and the rows that sit at a corner.

With few features corners are rounded, and made sharper while the rows in them are held there; where
that is slow, as it is with large costs, an interior-point method goes on (see `interior`).  With
many features, coordinate descent finds which rows are at corners.  Either way they are few in the
end: a direct method puts them onto their corners, and systems with infinite curvature (see
`systems`) are solved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.budget import cached
from ..._core.spread import typical_deviation
from ...losses.base import Dual
from ...losses.lanes import LaneLoss
from ..conjugate import dots
from .bundle import Bundle
from .interior import solve_inside
from .lanes import Matrix
from .newton import newton
from .systems import MOST_HELD, TIGHT, Held

GAP = 1.0  # duality gap, relative to the objective, that is as good as a gradient of one
NARROWER = 0.3  # corners that are next, at most
WANTED = 0.7  # part of the gap to be reached that sharper corners aim at; it goes with the square
COARSE = 2e-3  # tolerances from which on a gap that is slow to close is let be:
EASY = 8  # steps, or sweeps, after which it is slow
SHARPEST = {False: 1e-4, True: 1e-8}  # in single and in double precision, in units of the targets
CLOSED = 1e-9  # duality gap in double precision
OFF = 0.1  # part of the gap that gradients may have; the rest is due to rounded corners
HELD = 1e-3  # accuracy of weights with which rows stay inside of corners
MOST_TURNS = 500
NO_VIOLATION = 1e-12  # violations that are rounding, relative to the outputs


def sharpen(bundle: Bundle, tol: float, most: int, rough: bool) -> None:
    """Round the corners of the loss, train, and make them sharper until that changes nothing.

    Coefficients of the rounded loss are good ones for the sharp loss too, so the duality gap tells
    how far there is to go.  In the end lanes have the sharp loss if rows were put onto its corners,
    else the rounded one: derivatives are those of what was trained.
    """
    run = Sharpening(bundle, tol, most, rough)
    run.begin()
    while True:
        B, inside = run.judge()
        if not run.pending.any() or bundle.budget.expired():
            break
        run.narrow(B, inside)
    run.end()


class Sharpening:
    """Lanes on their way to sharp corners, each at its own pace.

    Folds train on each other's validation rows: nothing that a lane does may depend on another.
    """

    def __init__(self, bundle: Bundle, tol: float, most: int, rough: bool):
        matrix, precise = bundle.matrix, bundle.matrix.dtype == np.float64
        self.bundle, self.sharp, self.most, self.coarse = bundle, bundle.loss, most, tol >= COARSE
        self.exactly = precise and not rough and (matrix.small or tol <= TIGHT)
        self.tol = min(tol, CLOSED) if self.exactly else tol
        self.unit, self.wide = _widths(bundle.loss)
        self.width, self.begun = self.wide.copy(), bundle.steps.copy()
        self.pending, self.good = bundle.used.copy(), ~bundle.used
        # the best so far: widths, zero for lanes on corners, weights, outputs and so on
        self.gap, self.kept = np.full_like(self.unit, np.inf), self.width.copy()
        self.W, self.Z, self.A, self.D = (
            a.copy() for a in (bundle.W, bundle.Z, bundle.A, bundle.D)
        )

    def begin(self) -> None:
        """Go on from where machines ended with other costs, else train with wide corners.

        Machines that are zero, or far off, have no row near a corner that is not wide.
        """
        bundle, start = self.bundle, self.bundle.widths
        bundle.matrix.times(bundle.W, bundle.Z)
        near = self.pending & np.isfinite(start)
        if self.exactly:
            # one and more if the dual of the start says nothing of these costs
            gap = duality_gaps(bundle, np.clip(bundle.A0, *self.sharp.bounds()))
            self._go_inside(near & (gap < 1), near=True)
            self.pending &= ~self.good
        near &= self.pending
        self.width = np.where(near, np.minimum(start, self.wide), self.wide)
        while (sharp := near & (self.width < self.wide)).any() and not bundle.budget.expired():
            self._train(sharp, OFF * self._rounding(), EASY)
            # where that was too far to go, corners were too sharp for it
            near = sharp & bundle.unfinished
            self.width = np.where(near, np.minimum(self.width / NARROWER, self.wide), self.width)
        if (far := self.pending & (self.width >= self.wide)).any():
            self._train(far, np.full_like(self.unit, OFF), self.most)

    def _rounding(self) -> np.ndarray:
        """Return what of the duality gaps at the present outputs is due to rounded corners."""
        bundle = self.bundle
        bundle.loss = self.sharp.rounded(self.width)
        bundle.slopes(bundle.Z)
        B, bundle.loss = bundle.A.copy(), self.sharp
        losses = bundle.slopes(bundle.Z)
        primal = losses + 0.5 * dots(bundle.W, bundle.W)
        part = losses - self.sharp.conjugate(B) + dots(B, bundle.Z)
        return part / np.maximum(primal, 1e-300)

    def _train(self, lanes: np.ndarray, aim: np.ndarray, most: int) -> None:
        self.bundle.loss = self.sharp.rounded(self.width)
        newton(self.bundle, np.maximum(aim, OFF * self.tol), most, lanes=lanes, by_gap=True)

    def judge(self) -> tuple[np.ndarray, np.ndarray]:
        """See which lanes have come to an end; return coefficients, and rows inside of corners."""
        bundle, bundle.loss = self.bundle, self.sharp
        B, inside = bundle.A.copy(), bundle.D > 0
        gap = duality_gaps(bundle, B)
        slow = np.maximum(1.0, (bundle.steps - self.begun) / EASY) ** 2 if self.coarse else 1.0
        good = gap <= GAP * self.tol * slow
        better = gap < self.gap  # or rounding errors have come to that
        self._keep(self.pending & better, gap, self.width)
        self.good |= self.pending & good
        few = inside.sum(axis=0) <= bundle.matrix.width
        met = self._meet(B, inside, self.pending & few & ~good & ~bundle.unfinished)
        self.pending &= ~good & ~met
        sharpest = self.width <= SHARPEST[self.exactly] * self.unit
        slow = self.pending & (bundle.unfinished | sharpest | ~better)
        self._go_inside(slow)
        self.pending &= ~slow
        return B, inside

    def narrow(self, B: np.ndarray, inside: np.ndarray) -> None:
        """Train with sharper corners the lanes that are not there yet."""
        bundle, lanes = self.bundle, self.pending
        wanted = WANTED * self.tol / np.maximum(self.gap, self.tol)
        factor = np.maximum(np.sqrt(wanted), NARROWER)
        self.width = np.where(lanes, factor, 1.0) * self.width
        bundle.loss = self.sharp.rounded(self.width)
        _hold(bundle, B, inside, lanes)
        # what rounding leaves of the gap shrinks with the width of corners
        self._train(lanes, OFF * NARROWER * self.gap, min(self.most, EASY))

    def _go_inside(self, lanes: np.ndarray, near: bool = False) -> None:
        """Train lanes by the interior-point method, from the best that they have come to."""
        tol = GAP * self.tol
        machines = solve_inside(self.bundle, self.sharp, lanes, self.W, tol, near)
        for lane, found in machines.items():
            if not found.gap < self.gap[lane]:
                continue
            self.W[:, lane], self.A[:, lane] = found.w, found.b
            self.D[:, lane], self.Z[:, lane] = found.curvature, found.outputs
            self.gap[lane], self.kept[lane] = found.gap, 0.0
            self.good[lane] = found.gap <= tol

    def end(self) -> None:
        """Set the best that lanes have come to, on their corners if that can be done."""
        bundle = self.bundle
        self._set()
        # a small gap says little of single rows where one far out has most of the objective
        if self.exactly and not bundle.budget.expired():
            bundle.loss = self.sharp
            done = put_on_corners(bundle, bundle.A)
            self.good |= done
            self._keep(done, self.gap, np.zeros_like(self.width))
            self._set()
        bundle.converged = bool(self.good.all())

    def _set(self) -> None:
        bundle, sharp = self.bundle, self.kept == 0
        bundle.W, bundle.Z = self.W.copy(), self.Z.copy()
        bundle.loss, bundle.widths = self.sharp.rounded(self.kept), self.width.copy()
        bundle.slopes(bundle.Z)
        bundle.A[:, sharp], bundle.D[:, sharp] = self.A[:, sharp], self.D[:, sharp]

    def _keep(self, lanes: np.ndarray, gap: np.ndarray, width: np.ndarray) -> None:
        """Keep what the bundle has in some lanes."""
        bundle = self.bundle
        self.gap, self.kept = np.where(lanes, gap, self.gap), np.where(lanes, width, self.kept)
        for ours, now in zip(
            (self.W, self.Z, self.A, self.D), (bundle.W, bundle.Z, bundle.A, bundle.D)
        ):
            ours[:, lanes] = now[:, lanes]

    def _meet(self, B: np.ndarray, inside: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Put the rows inside of a corner onto it; return the lanes for which that was right.

        If rows and coefficients are what they are at the solution, this is the solution.
        """
        if not lanes.any():
            return lanes
        bundle = self.bundle
        W, Z, outputs = bundle.W, bundle.Z, _corner_outputs(bundle, B)
        exact, bundle.W = bundle.system.meet(inside & lanes, B, outputs)
        exact = np.clip(exact, *bundle.loss.bounds())
        bundle.Z = bundle.matrix.times(bundle.W, np.empty_like(Z))
        gap = duality_gaps(bundle, exact)
        met = lanes & (gap <= GAP * self.tol)
        if met.any():
            bundle.A, bundle.D = exact, _curvatures(bundle, exact)
            self._keep(met, gap, np.zeros_like(self.width))
            self.good |= met
        bundle.W, bundle.Z = W, Z
        return met


def _widths(loss: LaneLoss) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit of the widths of corners, and one that has all rows in it, by lane.

    Targets that a lane is not trained on are none of its business.
    """
    unit, wide = np.ones((2, loss.weight.shape[1]))
    for lane in np.flatnonzero(loss.used):
        target = loss.dual.target[loss.weight[:, lane] > 0]
        unit[lane] = typical_deviation(target) or 1.0
        wide[lane] = 2.0 * max(float(np.abs(target).max()), unit[lane])
    return unit, wide


def put_on_corners(bundle: Bundle, B: np.ndarray) -> np.ndarray:
    """Go from coefficients B to the very optimum of the loss; return the lanes that are there."""
    low, high = bundle.loss.bounds()
    B, W, done = B.copy(), bundle.W.copy(), np.zeros_like(bundle.used)
    for lane in np.flatnonzero(bundle.used):
        corners = Corners(bundle.matrix, bundle.loss.dual, low[:, lane], high[:, lane])
        found = corners.polish(B[:, lane])
        if found is not None:
            B[:, lane], W[:, lane] = found
            done[lane] = True
    bundle.W = W
    bundle.Z = bundle.matrix.times(W, np.empty_like(bundle.Z))
    bundle.A, bundle.D = B, _curvatures(bundle, B)
    return done


def _curvatures(bundle: Bundle, B: np.ndarray) -> np.ndarray:
    """Return the curvatures of exact coefficients B, with all rows at corners if these are few."""
    lengths = np.sqrt(bundle.matrix.squared_lengths)
    size = np.multiply.outer(lengths, np.sqrt(dots(bundle.W, bundle.W)))
    D = bundle.loss.corners(B, bundle.Z, size)
    few = np.isinf(D).sum(axis=0) <= MOST_HELD
    return np.where(few, D, bundle.loss.corners(B))


def _corner_outputs(bundle: Bundle, B: np.ndarray) -> np.ndarray:
    """Return the outputs that rows at a corner of the loss have."""
    dual = bundle.loss.dual
    return dual.target[:, None] - np.sign(B) * dual.kink[:, None]


def _hold(bundle: Bundle, B: np.ndarray, inside: np.ndarray, lanes: np.ndarray) -> None:
    """Set the weights that are best if rows inside of a corner stay there, and others as they are.

    Without this step a sharper corner would look to Newton's method as if no row were near it.
    """
    loss, dtype = bundle.loss, bundle.matrix.dtype
    D = np.where(inside & lanes, loss.weight * loss.stiffness[:, None] * loss.steep, 0.0).astype(
        dtype
    )
    target = _corner_outputs(bundle, B)
    right = bundle.matrix.transposed(np.where(inside, D * target, B).astype(dtype))
    found = bundle.system.solve(D, right, HELD, lanes)
    bundle.W = np.where(lanes, found, bundle.W)


def duality_gaps(bundle: Bundle, B: np.ndarray) -> np.ndarray:
    """Return the duality gaps of weights and coefficients B, relative to the primal, by lane."""
    V = bundle.matrix.transposed(B)
    primal = bundle.slopes(bundle.Z) + 0.5 * dots(bundle.W, bundle.W)
    gap = primal + 0.5 * dots(V, V) - bundle.loss.conjugate(B)
    return gap / np.maximum(primal, 1e-300)


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
        slack = 1e-7 * np.minimum(self.high - self.low, np.abs(b).max(initial=0.0))
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
        return NO_VIOLATION * float(np.abs(self.dual.target[self.low < self.high]).max(initial=0.0))

    def _go(self, b: np.ndarray, w: np.ndarray, free: list[int], side: np.ndarray) -> int | None:
        """Move the free coefficients to their optimum; return the row that met a corner first."""
        held = Held(self.matrix, np.array(free))
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
        if gain[worst] <= self._rounding + NO_VIOLATION * np.abs(out[worst]):
            return None
        up = rise[worst] > fall[worst]
        at_zero = 1.0 if up else -1.0
        side[worst] = np.sign(b[worst]) or at_zero
        return worst
