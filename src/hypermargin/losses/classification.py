"""Losses of labels: hinge, its squares and its smooth forms, logistic, least squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._core.space import Dimension, Params
from .base import COSTS, FACTOR, Costly, Dual, Rows, inverse, unreached


class _Classification(Costly):
    """Labels -1 and +1, and margins m_i that are to be kept: slack is max(0, m_i - y_i o_i)."""

    by_part: ClassVar[Mapping[str, str]] = {**COSTS, "margin": "class"}
    classifies = True

    def targets(self, rows: Rows, params: Params) -> np.ndarray:
        target = rows.y * self.gather(rows, params, "margin")
        return np.broadcast_to(target, rows.weight.shape)

    def pull_targets(self, rows: Rows, params: Params, on_targets: np.ndarray) -> Params:
        """Turn a cotangent on the targets into one on the margins."""
        return self.sums(rows, params, "margin", rows.y * on_targets)

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        if name in COSTS:
            return FACTOR
        if name == "margin":
            return Dimension(0.1, 10.0, "log", usual=(0.5, 2.0))
        low, high = 1e-2 / kernel_scale, 1e4 / kernel_scale
        usual = (0.2 / kernel_scale, 200.0 / kernel_scale)
        return Dimension(low, high, "log", drift=-0.2, lean=0.02, usual=usual)


class Hinge(_Classification):
    """sum_i c_i max(0, m_i - y_i o_i): the weighted hinge loss of Keerthi et al., section 2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KernelSVC(loss="hinge").fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    corners: ClassVar[bool] = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        reach = self.costs(rows, params) * rows.y
        zero = np.zeros_like(reach)
        target = self.targets(rows, params)
        return Dual(target, np.minimum(reach, 0.0), np.maximum(reach, 0.0), zero, zero)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        on_costs = rows.y * np.where(rows.y > 0, cotangent.upper, cotangent.lower)
        margins = self.pull_targets(rows, params, cotangent.target)
        return self.pull_costs(rows, params, on_costs) | margins


@dataclass(frozen=True)
class SmoothHinge(Hinge):
    """sum_i c_i log(1 + exp(mu (m_i - y_i o_i))) / mu: Klatzer and Pock, eq. (6).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KernelSVC(loss="smooth_hinge", mu=12.0).fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    mu: float = 12.0
    corners = False

    def dual(self, rows: Rows, params: Params) -> Dual:
        dual = super().dual(rows, params)
        return replace(dual, ridge=np.zeros_like(dual.ridge), soft=1.0 / self.mu)


class Logistic(Hinge):
    """sum_i c_i log(1 + exp(-y_i o_i)): kernel logistic regression.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KernelSVC(loss="logistic").fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    softens = True
    corners = False
    by_part: ClassVar[Mapping[str, str]] = COSTS

    def dual(self, rows: Rows, params: Params) -> Dual:
        dual = super().dual(rows, params)
        zero = np.zeros_like(dual.lower)
        return replace(dual, target=zero, ridge=zero.copy(), soft=1.0)


class SquaredHinge(_Classification):
    """sum_i c_i max(0, m_i - y_i o_i)^2.

    A coefficient is at most 2 c_i times the slack, and the squares of slacks cost no more than they
    do at o = 0: this bounds it, so that no bound is ever met, if the kernel is positive definite.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KernelSVC(loss="squared_hinge").fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    unreached = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, target = self.costs(rows, params), self.targets(rows, params)
        reach = rows.y * unreached(costs, target)
        ridge = 0.5 * inverse(costs, 0.0)
        lower, upper = np.minimum(reach, 0.0), np.maximum(reach, 0.0)
        return Dual(target, lower, upper, np.zeros_like(reach), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        margins = self.pull_targets(rows, params, cotangent.target)
        return self.pull_ridge(rows, params, cotangent.ridge) | margins


class ModifiedHuber(_Classification):
    """The squared hinge loss up to a slack of 2 m_i, and its tangent beyond.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KernelSVC(loss="modified_huber").fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, target = self.costs(rows, params), self.targets(rows, params)
        reach = 4.0 * costs * target
        lower, upper = np.minimum(reach, 0.0), np.maximum(reach, 0.0)
        return Dual(target, lower, upper, np.zeros_like(reach), 0.5 * inverse(costs, 0.0))

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        costs, target = self.costs(rows, params), self.targets(rows, params)
        at_bound = np.where(rows.y > 0, cotangent.upper, cotangent.lower)
        on_logarithms = 4.0 * costs * target * at_bound - 0.5 * cotangent.ridge * inverse(
            costs, 0.0
        )
        on_target = cotangent.target + 4.0 * costs * at_bound
        margins = self.pull_targets(rows, params, on_target)
        return self._pull_logarithms(rows, params, on_logarithms) | margins


class LeastSquares(_Classification):
    """sum_i c_i (m_i y_i - o_i)^2 with a bias: the least-squares SVM, and regression alike.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> KernelSVC(loss="squared").fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    linear = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        target, ridge = self.targets(rows, params), 0.5 * inverse(self.costs(rows, params))
        free = np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        margins = self.pull_targets(rows, params, cotangent.target)
        return self.pull_ridge(rows, params, cotangent.ridge) | margins
