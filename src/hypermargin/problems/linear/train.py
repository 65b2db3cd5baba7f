"""Training of linear machines in lanes: which solver, and how far it goes."""

from __future__ import annotations

import numpy as np

from .bundle import Bundle
from .corners import sharpen
from .descent import Descent
from .fista import fista
from .newton import newton

SHORTEST = 1e-6  # gradient in double precision
STILL = 1e-2  # gradient, or change of weights, of machines that need not be trained again
MOST_STEPS, ROUGH_STEPS, MOST_TRUNCATED = 50, 15, 1000  # of Newton's method
MOST_SMOOTH = 200  # without corners; separable classes and large costs take more than a hundred
MOST_SWEEPS, ROUGH_SWEEPS = 300, 20  # of coordinate descent
MOST_FISTA, ROUGH_FISTA = 20_000, 200  # steps of FISTA


def train(
    bundle: Bundle,
    tol: float,
    balance: float | np.ndarray = 1.0,
    rough: bool = False,
    path: bool = False,
) -> None:
    """Train until gradients are below `tol` times `balance`, relative to those at zero.

    `balance` may be one for each lane.  In coordinate descent and where the loss has corners,
    duality gaps are to be below it, relative to the objective.  A `rough` training stops early.
    Along a `path`, `still` tells whether the weights at the start were good enough already, to
    LIBLINEAR's tolerance.
    """
    steps, sweeps = (ROUGH_STEPS, ROUGH_SWEEPS) if rough else (MOST_STEPS, MOST_SWEEPS)
    start = bundle.W
    if path and not (bundle.corners or bundle.truncated):
        bundle.still = _gradients_below(bundle, STILL * balance)
    if bundle.truncated:
        newton(bundle, tol * balance, MOST_TRUNCATED, halve=True)
        bundle.still = bundle.iterations == 0
    elif bundle.fista:
        fista(bundle, tol * balance, ROUGH_FISTA if rough else MOST_FISTA)
    elif bundle.dual:
        Descent(bundle).run(tol, float(np.min(balance)), sweeps)
    elif bundle.corners:
        sharpen(bundle, tol, steps, rough)
    else:
        exactly = bundle.matrix.dtype == np.float64 and not rough
        steps = ROUGH_STEPS if rough else MOST_SMOOTH
        sharp = bundle.loss
        for loss in sharp.gentler():
            bundle.loss = loss
            newton(bundle, tol * balance, steps)
        bundle.loss = sharp
        newton(bundle, min(tol, SHORTEST) if exactly else tol * balance, steps, settle=exactly)
    if path and bundle.corners:
        change = bundle.dots(bundle.W - start, bundle.W - start)
        bundle.still = bool((change <= STILL**2 * bundle.dots(bundle.W, bundle.W)).all())


def _gradients_below(bundle: Bundle, tol: float | np.ndarray) -> bool:
    """Whether W is good enough: Chu et al., rule (24)."""
    reach = bundle.reach()
    bundle.matrix.times(bundle.W, bundle.Z)
    bundle.slopes(bundle.Z)
    return bool((bundle.size(bundle.gradient(), reach) <= tol)[bundle.used].all())
