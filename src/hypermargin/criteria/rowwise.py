"""Criteria that are means over rows: of residuals for regressors, of margins for classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn import metrics

from .._core.spread import typical_deviation
from .base import Criterion, Valued, check_fraction, check_positive, tally_matrix

Losses = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class _Regression(Criterion):
    """Means over rows of a function of the residual, averaged over targets."""

    for_classifiers = False

    def residual_loss(self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray) -> Losses:
        """Return the loss of each residual and its slope; `cost` are weights that sum to one."""
        raise NotImplementedError

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        y = y.reshape(outputs.shape)
        n_targets = outputs.shape[1]
        cost = np.broadcast_to((weight / weight.sum())[:, None] / n_targets, outputs.shape)
        value, slope = self.residual_loss(outputs - y, y, cost)
        return float((cost * value).sum()), cost * slope


def _spread(y: np.ndarray, cost: np.ndarray) -> float:
    """Return how far the target typically deviates from its middle."""
    return typical_deviation(y, cost) or 1e-100


class MeanSquaredError(_Regression):
    """Mean of squared residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import MeanSquaredError
    >>> outputs, y = np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [2.0], [2.0]])
    >>> value, gradient = MeanSquaredError()(outputs, y, np.ones(3))
    >>> round(value, 2)
    1.67
    """

    score_func = staticmethod(metrics.mean_squared_error)
    sign = -1
    label = "the mean squared error"
    mean_of_rows = True

    def residual_loss(self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray) -> Losses:
        return residual**2, 2.0 * residual


class UnexplainedVariance(_Regression):
    """One minus r2: mean squared residual over the variance of the target.

    Where the target is constant, the mean squared residual itself.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import UnexplainedVariance
    >>> outputs, y = np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [2.0], [2.0]])
    >>> value, gradient = UnexplainedVariance()(outputs, y, np.ones(3))
    >>> round(value, 2)
    1.88
    """

    score_func = staticmethod(metrics.r2_score)
    label = "the unexplained variance"

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        y = y.reshape(outputs.shape)
        cost = (weight / weight.sum())[:, None]
        variance = (cost * (y - (cost * y).sum(axis=0)) ** 2).sum(axis=0)
        # a constant target has no variance to explain; the squared residual remains
        variance[variance <= 1e-20 * (cost * y**2).sum(axis=0)] = 1.0
        scaled = cost / variance / outputs.shape[1]
        residual = outputs - y
        return float((scaled * residual**2).sum()), 2.0 * scaled * residual


@dataclass(frozen=True, kw_only=True)
class SmoothAbsoluteError(_Regression):
    """Mean absolute residual, rounded off near zero.

    It is the mean of sqrt(residual^2 + h^2) - h, with h = spread of the target over `t`.

    Parameters
    ----------
    t : float, default=100.0
        How far the target typically deviates from its middle, in units of the rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothAbsoluteError
    >>> outputs, y = np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [2.0], [2.0]])
    >>> value, gradient = SmoothAbsoluteError()(outputs, y, np.ones(3))
    >>> round(value, 2)
    0.99
    """

    t: float = 100.0
    score_func = staticmethod(metrics.mean_absolute_error)
    sign = -1
    # squares would follow the few targets far out, which these are deaf to
    stands_in_for: ClassVar[Mapping[Any, int]] = {
        metrics.median_absolute_error: -1,
        metrics.d2_absolute_error_score: 1,
    }
    label = "the smooth absolute error"

    def __post_init__(self) -> None:
        check_positive(t=self.t)

    def residual_loss(self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray) -> Losses:
        h = _spread(y, cost) / self.t
        root = np.sqrt(residual**2 + h**2)
        return root - h, residual / root


@dataclass(frozen=True, kw_only=True)
class SmoothPinball(_Regression):
    """Pinball loss at a quantile, rounded off near zero.

    Parameters
    ----------
    alpha : float, default=0.5
        The quantile.
    t : float, default=100.0
        How far the target typically deviates from its middle, in units of the rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothPinball
    >>> outputs, y = np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [2.0], [2.0]])
    >>> value, gradient = SmoothPinball(alpha=0.9)(outputs, y, np.ones(3))
    >>> round(value, 2)
    0.36
    """

    t: float = 100.0
    alpha: float = 0.5
    score_func = staticmethod(metrics.mean_pinball_loss)
    sign = -1
    label = "the smooth pinball loss"

    def __post_init__(self) -> None:
        check_positive(t=self.t)
        if self.alpha not in (0, 1):
            check_fraction(alpha=self.alpha)

    def residual_loss(self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray) -> Losses:
        value, slope = SmoothAbsoluteError(t=self.t).residual_loss(residual, y, cost)
        lean = 0.5 - self.alpha  # residuals are outputs minus targets
        return 0.5 * value + lean * residual, 0.5 * slope + lean

    @classmethod
    def read(cls, arguments: Mapping[str, Any], classes: np.ndarray) -> Criterion | None:
        return None if set(arguments) - {"alpha"} else cls(**arguments)


@dataclass(frozen=True, kw_only=True)
class HuberLoss(_Regression):
    """Huber's loss: r^2 / 2 for small residuals r, and linear beyond.

    Parameters
    ----------
    delta : float, default=1.0
        Residuals up to it are squared, in units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import HuberLoss
    >>> outputs, y = np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [2.0], [2.0]])
    >>> value, gradient = HuberLoss(delta=1.0)(outputs, y, np.ones(3))
    >>> round(value, 2)
    0.67
    """

    delta: float = 1.0
    label = "Huber's loss"
    mean_of_rows = True

    def __post_init__(self) -> None:
        check_positive(delta=self.delta)

    def residual_loss(self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray) -> Losses:
        slope = np.clip(residual, -self.delta, self.delta)
        return slope * (residual - 0.5 * slope), slope


@dataclass(frozen=True, kw_only=True)
class _Margins(Criterion):
    """Means over rows of a function of the margin, over the machines that know the row's class."""

    mean_of_rows = True

    def margin_loss(self, margin: np.ndarray) -> Losses:
        """Return the loss of each margin and its slope."""
        raise NotImplementedError

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        side = tally_matrix(outputs.shape[1])[:, y].T  # 0 where a machine does not know the class
        cost = (weight / weight.sum())[:, None] * np.abs(side) / np.abs(side).sum(1, keepdims=True)
        value, slope = self.margin_loss(side * outputs)
        return float((cost * value).sum()), cost * slope * side


@dataclass(frozen=True, kw_only=True)
class ZeroOne(_Margins):
    """Smooth zero-one loss of Klatzer and Pock, eq. (24), in units of the margin.

    Parameters
    ----------
    mu : float, default=12.0
        Steepness of the smoothing.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import ZeroOne
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = ZeroOne()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.5
    """

    mu: float = 12.0
    label = "the smooth zero-one loss"

    def __post_init__(self) -> None:
        check_positive(mu=self.mu)

    def margin_loss(self, margin: np.ndarray) -> Losses:
        wrong = expit(-self.mu * margin)
        return wrong, -self.mu * wrong * (1.0 - wrong)


@dataclass(frozen=True, kw_only=True)
class SmoothHinge(_Margins):
    """Smooth hinge loss of Klatzer and Pock, eqs. (6) and (25).

    Parameters
    ----------
    mu : float, default=12.0
        Steepness of the smoothing.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothHinge
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothHinge()(outputs, y, np.ones(4))
    >>> round(value, 2)
    1.0
    """

    mu: float = 12.0
    label = "the smooth hinge loss"

    def __post_init__(self) -> None:
        check_positive(mu=self.mu)

    def margin_loss(self, margin: np.ndarray) -> Losses:
        short = self.mu * (1.0 - margin)
        return np.logaddexp(0.0, short) / self.mu, -expit(short)


class SquaredLabels(_Margins):
    """Half the mean squared distance to the labels -1 and 1, Klatzer and Pock, eq. (26).

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SquaredLabels
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SquaredLabels()(outputs, y, np.ones(4))
    >>> round(value, 2)
    2.0
    """

    label = "the squared error on labels"

    def margin_loss(self, margin: np.ndarray) -> Losses:
        return 0.5 * (1.0 - margin) ** 2, margin - 1.0
