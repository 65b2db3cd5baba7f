"""A certificate of optimality: the coefficients of a kernel machine against its own outputs.

A machine minimises |f|^2 / 2 + sum_i c_i loss_i(f(x_i)), so the coefficient of row i is c_i times a
slope of the loss at its output, with the other sign.  Slopes are monotone; hence a machine is
optimal up to t if every coefficient lies between what the slopes at its output plus and minus t
give.  No solver is needed, and the losses are written down anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.metrics.pairwise import pairwise_kernels

from hypermargin import KernelSVC, KernelSVR


def slope(machine: Any, s: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """Return the slopes by s, the margin less the output (of regressions, the residual)."""
    loss = machine.loss
    if loss == "hinge":
        return (s >= 0).astype(float)
    if loss == "squared_hinge":
        return 2 * np.maximum(s, 0.0)
    if loss == "modified_huber":
        return 2 * np.clip(s, 0.0, 2 * margin)
    if loss == "smooth_hinge":
        return expit(machine.mu * s)
    if loss == "logistic":
        return expit(s - margin)
    if loss == "pinball":
        return np.where(s >= 0, machine.quantile, machine.quantile - 1.0)
    if loss == "squared":
        return 2 * s
    beyond = np.sign(s) * np.maximum(np.abs(s) - machine.epsilon, 0.0)
    if loss == "squared_epsilon_insensitive":
        return 2 * beyond
    return (s >= machine.epsilon).astype(float) - (s < -machine.epsilon)


def violation(machine: Any, X: Any, y: Any, weight: Any, reach: float) -> tuple[float, float]:
    """Return by how much coefficients are off, and the largest one, in units of the costs.

    It is known for KernelSVR, and for KernelSVC with two classes, else nothing is off.
    """
    if not isinstance(machine, (KernelSVC, KernelSVR)):
        return 0.0, 0.0
    y, cost = np.asarray(y).ravel(), np.full(len(y), float(machine.C))
    if weight is not None:
        cost = cost * np.asarray(weight, dtype=float)
    beta = np.zeros(len(y))
    beta[machine.support_] = machine.dual_coef_[0]
    if isinstance(machine, KernelSVR):
        margin, s = y, y - machine.predict(X)
    elif len(machine.classes_) == 2:
        sign = np.where(y == machine.classes_[1], 1.0, -1.0)
        margin = _by_class(machine, machine.margin, y)
        cost = cost * _by_class(machine, machine.class_cost, y)
        beta, s = sign * beta, margin - sign * machine.decision_function(X)
    else:
        return 0.0, 0.0
    # what rounding makes of the coefficients that there are, and of those that there should be
    reach += rounding(
        machine, X, np.maximum(np.abs(beta), cost * np.abs(slope(machine, s, margin)))
    )
    low, high = (cost * slope(machine, s + moved, margin) for moved in (-reach, reach))
    counted = cost > 0
    over = np.maximum(beta - high, low - beta)[counted] / cost[counted]
    sizes = np.abs(beta)[counted] / cost[counted]
    return float(over.max(initial=0.0)), float(sizes.max(initial=0.0))


def rounding(machine: Any, X: Any, beta: np.ndarray) -> float:
    """Return how far outputs are off by the rounding of the kernel matrix.

    Where the tolerance allows it, training is in single precision, as libsvm's is everywhere.
    """
    K = X
    if machine.kernel != "precomputed":
        K = pairwise_kernels(X, metric=machine.kernel, filter_params=True, **_values(machine, X))
    eps = np.finfo(np.float32 if machine.tol >= 1e-3 else float).eps
    return float(10 * eps * (np.abs(K) @ np.abs(beta)).max())


def _values(machine: Any, X: Any) -> dict[str, Any]:
    gamma = machine.gamma
    if not isinstance(gamma, float):
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
        scale = dense.shape[1] * (dense.var() if gamma == "scale" else 1.0)
        gamma = 1.0 / scale if scale else 1.0
    return {"gamma": gamma, "degree": machine.degree, "coef0": machine.coef0}


def _by_class(machine: Any, given: Any, y: np.ndarray) -> np.ndarray:
    """Return a value for each row of a parameter that classes may have each their own of."""
    if given is None:
        return np.ones(len(y))
    if isinstance(given, float):
        return np.full(len(y), given)
    if not isinstance(given, dict):
        given = dict(zip(machine.classes_.tolist(), given))
    return np.array([given.get(label, 1.0) for label in y.tolist()])
