"""Losses of numbers: epsilon-insensitive and its square, least squares, pinball, ridge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.space import Dimension, Params
from .base import FACTOR, Costly, Dual, Loss, Rows, inverse, unreached


class _Regression(Costly):
    """Targets in their own unit."""

    noise: ClassVar[float | None] = None  # the best epsilon, in standard deviations of the noise

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        spread = self.spread(y) or 1.0
        if name in self.by_part:
            return FACTOR
        if name == "epsilon":
            usual = 0.01 * spread, 0.5 * spread
            return Dimension(1e-3 * spread, spread, "log", usual=usual, noise=self.noise)
        unit = spread / kernel_scale
        return Dimension(1e-2 * unit, 1e4 * unit, "log", lean=0.02, usual=(0.1 * unit, 100 * unit))


class EpsilonInsensitive(_Regression):
    """sum_i c_i max(0, |y_i - o_i| - e_i), with e_i = epsilon times the factor of the group.

    Moore, Bergeron and Bennett have C and epsilon by group.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVR
    >>> X = np.linspace(0, 3, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> KernelSVR(C=10.0, epsilon=0.05).fit(X, y).score(X, y) > 0.9
    True
    """

    corners = True
    noise: ClassVar[float | None] = (
        0.612  # Smola, Murata, Schoelkopf and Mueller (1998), for normal noise
    )
    hyperparameters = ("C", "epsilon")
    by_part = {"group_cost": "group", "group_epsilon": "group"}

    def tubes(self, rows: Rows, params: Params) -> np.ndarray:
        tube = params["epsilon"] * self.gather(rows, params, "group_epsilon")
        return np.array(np.broadcast_to(tube, rows.weight.shape))

    def pull_tubes(self, rows: Rows, params: Params, on_tubes: np.ndarray) -> Params:
        factors = self.gather(rows, params, "group_epsilon")
        of_groups = self.sums(rows, params, "group_epsilon", params["epsilon"] * on_tubes)
        return {"epsilon": float((factors * on_tubes).sum())} | of_groups

    def dual(self, rows: Rows, params: Params) -> Dual:
        reach, kink = self.costs(rows, params), self.tubes(rows, params)
        target = np.broadcast_to(rows.y, reach.shape)
        return Dual(target, -reach, reach, kink, np.zeros_like(reach))

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        gradient = self.pull_costs(rows, params, cotangent.upper - cotangent.lower)
        return gradient | self.pull_tubes(rows, params, cotangent.kink)


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """sum_i c_i max(0, |y_i - o_i| - e_i)^2; bounded as in `SquaredHinge`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVR
    >>> X = np.linspace(0, 3, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> KernelSVR(C=10.0, loss="squared_epsilon_insensitive").fit(X, y).score(X, y) > 0.9
    True
    """

    corners = False
    noise = None
    unreached = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, total = self.costs(rows, params), rows.weight.sum(axis=-1, keepdims=True)
        # the bias alone could be here; rows that are not trained on have no say in it
        centre = (rows.weight * rows.y).sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1)
        reach, target = unreached(costs, rows.y - centre), np.broadcast_to(rows.y, costs.shape)
        return Dual(target, -reach, reach, self.tubes(rows, params), 0.5 * inverse(costs, 0.0))

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        gradient = self.pull_ridge(rows, params, cotangent.ridge)
        return gradient | self.pull_tubes(rows, params, cotangent.kink)


class LeastSquaresRegression(_Regression):
    """sum_i c_i (y_i - o_i)^2 with a bias.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVR
    >>> X = np.linspace(0, 3, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> KernelSVR(C=10.0, loss="squared").fit(X, y).score(X, y) > 0.9
    True
    """

    linear = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        ridge = 0.5 * inverse(self.costs(rows, params))
        target, free = np.broadcast_to(rows.y, ridge.shape), np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        return self.pull_ridge(rows, params, cotangent.ridge)


class Pinball(_Regression):
    """sum_i c_i times the pinball loss at `quantile`: of the residuals, so many are above zero.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVR
    >>> X = np.linspace(0, 3, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> KernelSVR(C=100.0, loss="pinball", quantile=0.5).fit(X, y).score(X, y) > 0.9
    True
    """

    corners = True
    hyperparameters = ("C", "quantile")

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, q = self.costs(rows, params), params["quantile"]
        target, zero = np.broadcast_to(rows.y, costs.shape), np.zeros_like(costs)
        return Dual(target, (q - 1.0) * costs, q * costs, zero, zero)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        costs, q = self.costs(rows, params), params["quantile"]
        on_costs = (q - 1.0) * cotangent.lower + q * cotangent.upper
        on_quantile = float((costs * (cotangent.lower + cotangent.upper)).sum())
        return self.pull_costs(rows, params, on_costs) | {"quantile": on_quantile}

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        if name == "quantile":
            return Dimension(0.01, 0.99, "linear")
        return super().dimension(name, y, kernel_scale)


class Squared(Loss):
    """sum_i w_i (y_i - o_i)^2 + alpha |f|^2 without a bias: kernel ridge regression.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from hypermargin import GradientSearchCV
    >>> X = np.linspace(0, 3, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> GradientSearchCV(KernelRidge(kernel="rbf"), cv=3).fit(X, y).score(X, y) > 0.9
    True
    """

    hyperparameters = ("alpha",)
    bias = False
    linear = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        ridge = params["alpha"] * inverse(rows.weight)
        target, free = np.broadcast_to(rows.y, ridge.shape), np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        return {"alpha": float((cotangent.ridge * inverse(rows.weight, 0.0)).sum())}

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        usual = (1e-4 * kernel_scale, kernel_scale)
        return Dimension(1e-6 * kernel_scale, 1e2 * kernel_scale, "log", usual=usual)
