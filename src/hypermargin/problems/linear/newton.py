"""Newton's method for linear machines in lanes: see `train`."""

from __future__ import annotations

import numpy as np

from .bundle import Bundle

FORCING = 0.1  # accuracy of a step
MOST_CUTS, MOST_HALVINGS = 12, 20
DESCENT, HALVED = 1e-4, 1e-2  # part of the promised gain that a step is to have; if it is halved
NO_GAIN = 1e-14  # part of the objective that is next to nothing


def newton(
    bundle: Bundle,
    tol: float | np.ndarray,
    most: int,
    halve: bool = False,
    settle: bool = False,
    lanes: np.ndarray | None = None,
    by_gap: bool = False,
) -> None:
    """Take steps from W, each along the solution of (R + X' D X) s = -g, in some lanes or all.

    The step is cut back along the line, which needs no product with X.  (LIBLINEAR has gone the
    same way since version 2.40; before, a trust region bounded it.)  With `halve` it is cut back as
    there.  With `settle` the last step is to gain next to nothing, however short the gradient is:
    where features have different units, it is short far from the solution, too.

    Gradients are measured by those at zero, or `by_gap`: half their square is what the duality gap
    has because of them, and `tol` bounds it, relative to the objective.
    """
    active = bundle.used if lanes is None else lanes
    reach = np.empty(0) if by_gap else bundle.reach()
    bundle.matrix.times(bundle.W, bundle.Z)
    losses, stuck = bundle.slopes(bundle.Z), ~active
    last, moving = np.full(losses.shape, np.inf), active & settle
    for step in range(most + 1):
        gradient = bundle.gradient()
        size = _of_gap(bundle, gradient, losses) if by_gap else bundle.size(gradient, reach)
        # where the objective is flat to rounding, gradients tell whether steps still help; a lane
        # that has ended does not go on because others do
        active = active & ((size > tol) | moving) & ~(stuck & (size > 0.5 * last))
        last = size
        bundle.unfinished, bundle.converged = active, not active.any()
        if bundle.converged or step == most or bundle.budget.expired():
            return
        S = bundle.system.solve(bundle.D, -gradient, FORCING, active)
        S[:, ~active] = 0
        bundle.iterations += 1
        bundle.steps += active
        if settle:
            value = losses + 0.5 * bundle.dots(bundle.W, bundle.penalty * bundle.W)
            least = np.minimum(np.square(tol), NO_GAIN) * value
            moving = active & (-bundle.dots(gradient, S) > least)
        losses, stuck = _go(bundle, S, gradient, losses, active, halve)


class Bracket:
    """Steps by lane between which the slope along a line changes its sign.

    A look along the line is cheap next to a step, so it pays to go as far as the slope says.
    """

    def __init__(self, slope: np.ndarray):
        self.most = 0.5 * np.abs(slope)
        self.low, self.low_slope = np.zeros_like(slope), slope.copy()
        self.high, self.high_slope = np.full_like(slope, np.inf), np.full_like(slope, np.inf)

    def misses(self, size: np.ndarray, slope: np.ndarray, bad: np.ndarray) -> np.ndarray:
        """Note slopes at these steps; return which are still too steep, and those that are bad.

        A whole step is not made longer.
        """
        short = (slope < 0) & ~bad
        self.low = np.where(short, size, self.low)
        self.low_slope = np.where(short, slope, self.low_slope)
        self.high = np.where(short, self.high, size)
        self.high_slope = np.where(short, self.high_slope, slope)
        return bad | (slope > self.most) | ((slope < -self.most) & (self.high < np.inf))

    def next(self) -> np.ndarray:
        """Return the steps to try next, where there is a bracket: by the secant, not at its ends.

        Where both slopes fall, rounding hides where to go: the middle.
        """
        rise, fall = self.high_slope, -self.low_slope
        with np.errstate(invalid="ignore"):
            part = np.where(rise > 0, fall / np.maximum(fall + rise, 1e-300), 0.5)
            return self.low + np.clip(part, 0.1, 0.9) * (self.high - self.low)


def _of_gap(bundle: Bundle, gradient: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Return what of the duality gaps, relative to the objectives, is due to the gradients."""
    value = losses + 0.5 * bundle.dots(bundle.W, bundle.penalty * bundle.W)
    return 0.5 * bundle.dots(gradient, gradient) / np.maximum(value, 1e-300)


def _go(
    bundle: Bundle,
    S: np.ndarray,
    gradient: np.ndarray,
    losses: np.ndarray,
    active: np.ndarray,
    halve: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Go along S as far as that pays; return the losses, and lanes that can get no lower."""
    RS, dots = bundle.penalty * S, bundle.dots
    slope, inner, square = dots(gradient, S), dots(bundle.W, RS), dots(S, RS)
    value = losses + 0.5 * dots(bundle.W, bundle.penalty * bundle.W)
    noise = 10 * np.finfo(S.dtype).eps * np.abs(value)
    flat = -slope <= noise  # rounding hides what a step gains; it is taken as it is
    U, Z, size = np.empty_like(bundle.Z), np.empty_like(bundle.Z), np.ones_like(losses)
    bundle.matrix.times(S, U)
    share, most = (HALVED, MOST_HALVINGS) if halve else (DESCENT, MOST_CUTS)
    bracket = Bracket(slope)
    for _ in range(most):
        np.multiply(U, size.astype(U.dtype), out=Z)
        Z += bundle.Z
        new = bundle.slopes(Z)
        gain = new - losses + size * inner + 0.5 * size**2 * square
        bad = gain > share * size * slope + noise
        if not halve:
            bad = bracket.misses(size, inner + size * square - dots(bundle.A, U), bad)
        bad &= active & ~flat
        if not bad.any():
            break
        size = np.where(bad, 0.5 * size if halve else bracket.next(), size)
    else:  # weights and outputs are to be those of the same step
        size = np.where(bad & halve, 0.0, size)
        flat |= bad & halve
        np.multiply(U, size.astype(U.dtype), out=Z)
        Z += bundle.Z
        new = bundle.slopes(Z)
    bundle.Z = Z
    bundle.W = bundle.W + size.astype(S.dtype) * S
    return new, active & flat
