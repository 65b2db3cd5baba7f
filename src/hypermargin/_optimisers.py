"""Optimisers: they see only `value_and_grad(theta)`, a start and bounds.

To add one, write a function of this signature and list it in `OPTIMISERS`; the contract tests of
optimisers pick it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

ValueAndGrad = Callable[[np.ndarray], tuple[float, np.ndarray]]
Optimiser = Callable[[ValueAndGrad, np.ndarray, np.ndarray, float], np.ndarray]


def lbfgs(
    value_and_grad: ValueAndGrad, start: np.ndarray, bounds: np.ndarray, tol: float
) -> np.ndarray:
    """L-BFGS-B, ended by the rule of keerthi-2006: |f_new - f_old| <= tol |f_old|.

    The objective is rescaled so that the first step has length one: with bounds on all sides
    SciPy takes the bare gradient as its first step, and smooth errors have tiny gradients.
    """
    start = np.clip(start, *bounds.T)
    first = value_and_grad(start)
    norm = float(np.linalg.norm(_projected(start, first[1], bounds)))
    if not np.isfinite(first[0]) or norm == 0.0:
        return start
    scale = 1.0 / norm
    previous = first[0]
    known = {start.tobytes(): first}  # SciPy asks for the start once more

    def scaled(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = known.pop(theta.tobytes(), None) or value_and_grad(theta)
        return value * scale, gradient * scale

    def check(intermediate_result: Any) -> None:
        nonlocal previous
        value = intermediate_result.fun / scale
        if abs(previous - value) <= tol * abs(previous):
            raise StopIteration
        previous = value

    found = minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=check,
        options={"maxls": 10, "ftol": 0.0, "gtol": 1e-6},
    )
    return np.clip(found.x, *bounds.T)


def _projected(theta: np.ndarray, gradient: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the part of the gradient along which the bounds let theta descend."""
    low, high = bounds.T
    stuck = ((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0))
    return np.where(stuck, 0.0, gradient)


OPTIMISERS: dict[str, Optimiser] = {"lbfgs": lbfgs}
