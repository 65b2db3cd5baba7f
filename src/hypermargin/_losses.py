"""Losses, each as the dual problem it leads to.

Every loss here trains by the same quadratic programme in beta (one number per point),

    min  1/2 beta' (K + diag(ridge)) beta - target' beta + sum_i kink_i |beta_i|
    s.t. lower <= beta <= upper,  and  sum beta = 0  if the machine has a bias,

and the machine's output is  o(x) = sum_j beta_j K(x, x_j) + bias.  A loss says how target, lower,
upper, kink and ridge follow from the labels, the weights and its hyperparameters, and pulls
cotangents on them back to the hyperparameters.  (keerthi-2006 writes beta_j = alpha_j y_j and
minus b for the bias; in beta the matrix P of eq. (5) becomes symmetric.)

To add a loss, write the class and list it in `LOSSES`; the contract tests of losses pick it up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ._kernels import Params
from ._space import Dimension


@dataclass(frozen=True)
class Dual:
    """The data of the quadratic programme, or cotangents on them.

    One entry per point, or one row of them per fold: machines of several folds are trained
    together on the same points, and a point that a fold leaves out has lower = upper there.
    """

    target: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray


class Loss:
    """Labels, weights and hyperparameters to the dual problem, and back.

    `y` has one entry per point, `weight` the same or one row per fold, which the dual then has too.
    Every point is on its own: those of several machines may follow each other.
    """

    hyperparameters: ClassVar[tuple[str, ...]]
    bias: ClassVar[bool] = True

    def dual(self, y: np.ndarray, weight: np.ndarray, params: Params) -> Dual:
        raise NotImplementedError

    def pullback(self, y: np.ndarray, weight: np.ndarray, cotangent: Dual) -> Params:
        """Return the derivatives with respect to the hyperparameters, summed over all folds."""
        raise NotImplementedError

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        """Return a sensible range, `kernel_scale` being the mean of the centred diagonal of K."""
        raise NotImplementedError


class Hinge(Loss):
    """C sum_i w_i max(0, 1 - y_i o_i), labels -1 and +1."""

    hyperparameters = ("C",)

    def dual(self, y: np.ndarray, weight: np.ndarray, params: Params) -> Dual:
        reach = params["C"] * weight * y
        target, zero = np.broadcast_to(y, reach.shape), np.zeros_like(reach)
        return Dual(target, np.minimum(reach, 0.0), np.maximum(reach, 0.0), zero, zero)

    def pullback(self, y: np.ndarray, weight: np.ndarray, cotangent: Dual) -> Params:
        reach = weight * y
        at_bound = np.where(y > 0, cotangent.upper, cotangent.lower)
        return {"C": float((reach * at_bound).sum())}

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        low, high = 1e-2 / kernel_scale, 1e4 / kernel_scale
        usual = (0.2 / kernel_scale, 200.0 / kernel_scale)
        return Dimension(low, high, "log", drift=-0.2, lean=0.02, usual=usual)


class EpsilonInsensitive(Loss):
    """C sum_i w_i max(0, |y_i - o_i| - epsilon)."""

    hyperparameters = ("C", "epsilon")

    def dual(self, y: np.ndarray, weight: np.ndarray, params: Params) -> Dual:
        reach = params["C"] * weight
        target, kink = np.broadcast_to(y, reach.shape), np.full_like(reach, params["epsilon"])
        return Dual(target, -reach, reach, kink, np.zeros_like(reach))

    def pullback(self, y: np.ndarray, weight: np.ndarray, cotangent: Dual) -> Params:
        return {
            "C": float((weight * (cotangent.upper - cotangent.lower)).sum()),
            "epsilon": float(cotangent.kink.sum()),
        }

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        spread = float(np.std(y)) or 1.0
        if name == "epsilon":
            return Dimension(1e-3 * spread, spread, "log", usual=(0.01 * spread, 0.5 * spread))
        unit = spread / kernel_scale
        return Dimension(1e-2 * unit, 1e4 * unit, "log", lean=0.02, usual=(0.1 * unit, 100 * unit))


class Squared(Loss):
    """sum_i w_i (y_i - o_i)^2 + alpha |f|^2 without a bias: kernel ridge regression."""

    hyperparameters = ("alpha",)
    bias = False

    def dual(self, y: np.ndarray, weight: np.ndarray, params: Params) -> Dual:
        ridge = params["alpha"] * _inverse(weight)
        target, free = np.broadcast_to(y, ridge.shape), np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, y: np.ndarray, weight: np.ndarray, cotangent: Dual) -> Params:
        trained = weight > 0
        return {"alpha": float((cotangent.ridge[trained] / weight[trained]).sum())}

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        usual = (1e-4 * kernel_scale, kernel_scale)
        return Dimension(1e-6 * kernel_scale, 1e2 * kernel_scale, "log", usual=usual)


def _inverse(weight: np.ndarray) -> np.ndarray:
    """Return 1 / weight; a row without weight gets an infinite ridge, which leaves it out."""
    return np.divide(1.0, weight, out=np.full_like(weight, np.inf), where=weight > 0)


LOSSES: tuple[type[Loss], ...] = (Hinge, EpsilonInsensitive, Squared)
