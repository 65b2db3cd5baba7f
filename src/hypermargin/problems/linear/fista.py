"""FISTA for linear machines in lanes: Klatzer and Pock, section 4, and Beck and Teboulle (2009).

The objective of a machine, their eq. (4) with C = 1 / c, is a smooth sum f of losses and
the penalty.  A step goes from Y along the gradient of f, and the penalty shrinks it:

    W+ = (Y - grad f(Y) / L) / (1 + R / L),      Y+ = W+ + (t - 1) / t+ (W+ - W),

L being doubled until f lies below its parabola at Y: FISTA with backtracking.  A lane whose step
turns against the momentum begins without it again (O'Donoghue and Candes, 2015): the penalty makes
the objective strongly convex, and the last steps would go round and round.
"""

from __future__ import annotations

import numpy as np

from .bundle import Bundle

MOST_DOUBLINGS = 100  # of L in one step: more than separate the largest from the least number


def fista(bundle: Bundle, tol: float | np.ndarray, most: int) -> None:
    """Take steps from W until gradients are below `tol`, relative to those at W = 0."""
    reach, active = bundle.reach(), bundle.used
    W = Y = bundle.W
    Z = ZY = bundle.matrix.times(W, np.empty_like(bundle.Z))
    bound, t = np.ones(W.shape[1]), np.ones(W.shape[1])
    for step in range(most + 1):
        losses = bundle.slopes(ZY)
        slope = -bundle.matrix.transposed(bundle.A)
        active = active & ~(bundle.size(bundle.penalty * Y + slope, reach) <= tol)
        bundle.W, bundle.Z = Y, ZY
        bundle.unfinished, bundle.converged = active, not active.any()
        if bundle.converged or step == most or bundle.budget.expired():
            return
        bundle.iterations += 1
        bundle.steps += active
        new, Z_new, bound = _step(bundle, Y, ZY, losses, slope, bound, active)
        back = bundle.dots(Y - new, new - W) > 0
        t_new = np.where(back, 1.0, 0.5 + np.sqrt(0.25 + t**2))
        momentum = np.where(back | ~active, 0.0, (t - 1.0) / t_new)
        Y = np.where(active, new + momentum * (new - W), Y)
        ZY = np.where(active, Z_new + momentum * (Z_new - Z), ZY)
        W, Z, t = new, Z_new, t_new


def _step(
    bundle: Bundle,
    Y: np.ndarray,
    ZY: np.ndarray,
    losses: np.ndarray,
    slope: np.ndarray,
    bound: np.ndarray,
    active: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights and outputs after one step from Y, and the L that it took, by lane.

    Where rounding hides what a step gains, slopes at its two ends tell as much: f is convex, so it
    is below the parabola if they differ by no more than that rises.
    """
    dots, coefficients = bundle.dots, bundle.A.copy()
    for _ in range(MOST_DOUBLINGS):
        W = (Y - slope / bound) / (1.0 + bundle.penalty / bound)
        Z, D = bundle.matrix.times(W, np.empty_like(bundle.Z)), W - Y
        rise = 0.5 * bound * dots(D, D)
        below = bundle.slopes(Z) <= losses + dots(slope, D) + rise
        below |= dots(coefficients - bundle.A, Z - ZY) <= rise
        bad = active & ~below
        if not bad.any():
            break
        bound = np.where(bad, 2.0 * bound, bound)
    return W, Z, bound
