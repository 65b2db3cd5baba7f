"""Criteria made of the order of the outputs: areas, and what holds at a threshold of their own.

Whether one output is above another is counted smoothly, with a step of finite width.  The step is a
polynomial between two ends, so that sums over all pairs are differences of prefix sums of sorted
outputs: n log n operations, and no matrix of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn import metrics

from .base import (
    Criterion,
    Valued,
    check_fraction,
    check_positive,
    first_missing,
    spread_of,
)


def _cell_centre(z: np.ndarray) -> np.ndarray:
    return 2.0 * np.floor(z / 2.0) + 1.0


class SmoothCounts:
    """Sums over points x_j of w_j S((q - x_j) / h), and of w_j S'((q - x_j) / h) / h.

    S(u) = 1/2 + 3/4 u - 1/4 u^3 between -1 and 1, and 0 or 1 outside.  Powers are taken around the
    centres of cells of width two, of which a window has part in two: sums of powers around one
    centre would cancel where outputs are many widths apart.
    """

    def __init__(self, points: np.ndarray, weight: np.ndarray, h: float):
        order = np.argsort(points)
        self.h, self.total = h, float(weight.sum())
        self._centre = float(np.median(points)) if len(points) else 0.0
        self._z = (points[order] - self._centre) / h
        self._sums = np.zeros((4, len(points) + 1))
        local, power = self._z - _cell_centre(self._z), weight[order]
        for sums in self._sums:
            np.cumsum(power, out=sums[1:])
            power = power * local

    def __call__(self, queries: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the two sums for each query."""
        q = (np.asarray(queries, dtype=float) - self._centre) / self.h
        centre = _cell_centre(q - 1.0)
        places = [np.searchsorted(self._z, at) for at in (q - 1.0, centre + 1.0, q + 1.0)]
        counts, slopes = self._sums[0, places[0]].copy(), np.zeros(q.shape)
        for k in (0, 1):
            d = q - (centre + 2.0 * k)
            m0, m1, m2, m3 = (sums[places[k + 1]] - sums[places[k]] for sums in self._sums)
            first, second = d * m0 - m1, d**2 * m0 - 2.0 * d * m1 + m2
            third = d**3 * m0 - 3.0 * d**2 * m1 + 3.0 * d * m2 - m3
            counts += 0.5 * m0 + 0.75 * first - 0.25 * third
            slopes += 0.75 * (m0 - second) / self.h
        return counts, slopes

    def quantile(self, count: float) -> float:
        """Return a point below which that much of the weight is counted."""
        low, high = self._z[0] - 1.0, self._z[-1] + 1.0

        def excess(z: float) -> float:
            return float(self(self._centre + self.h * z)[0]) - count

        if excess(low) >= 0.0:  # all of it is above
            return self._centre + self.h * low
        return self._centre + self.h * brentq(excess, low, high, xtol=1e-14, rtol=1e-15)


@dataclass(frozen=True, kw_only=True)
class RankingCriterion(Criterion):
    """A measure of two classes that goes by the order of the outputs.

    The width of the step is 3 rho / t, rho being the standard deviation of the outputs: its slope
    is that of the sigmoid of the direct method of Keerthi et al.
    """

    t: float = 10.0
    two_classes = True

    def __post_init__(self) -> None:
        check_positive(t=self.t)

    def missing(self, present: np.ndarray) -> int | None:
        return first_missing(present)

    def loss(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the loss and its gradients by the outputs of positive and of negative rows."""
        raise NotImplementedError

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        rho, add_rho = spread_of(outputs, weight)
        o, positive = outputs[:, 0], y == 1
        if not weight[positive].any() or not weight[~positive].any():
            raise ValueError(
                f"{self.label} needs rows of both classes among those that it is applied to; use "
                "stratified folds, or pooled=True."
            )
        gradient = np.empty_like(o)
        value, gradient[positive], gradient[~positive] = self.loss(
            o[positive], o[~positive], weight[positive], weight[~positive], 3.0 * rho / self.t
        )
        return float(value), add_rho(gradient[:, None])


@dataclass(frozen=True, kw_only=True)
class SmoothAuc(RankingCriterion):
    """One minus the area under the ROC curve: the weight of pairs in the wrong order.

    For two classes; undefined where one of them has no rows.

    Parameters
    ----------
    t : float, default=10.0
        Steepness of the smoothing, in units of the outputs' standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothAuc
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothAuc()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.25
    """

    score_func = staticmethod(metrics.roc_auc_score)
    label = "one minus the smooth area under the ROC curve"

    def loss(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        pairs = w_up.sum() * w_down.sum()
        below, slope = SmoothCounts(down, w_down, h)(up)
        _, slope_down = SmoothCounts(up, w_up, h)(down)
        return 1.0 - w_up @ below / pairs, -w_up * slope / pairs, w_down * slope_down / pairs


@dataclass(frozen=True, kw_only=True)
class SmoothAveragePrecision(RankingCriterion):
    """One minus average precision.

    That is the mean, over positive rows, of the precision among the rows not below them.  For two
    classes; undefined where one of them has no rows.

    Parameters
    ----------
    t : float, default=10.0
        Steepness of the smoothing, in units of the outputs' standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothAveragePrecision
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothAveragePrecision()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.17
    """

    score_func = staticmethod(metrics.average_precision_score)
    label = "one minus the smooth average precision"

    def loss(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        # the step ends at an output itself, so that a row and its ties count in full
        begin = up - h
        below, slope = SmoothCounts(up, w_up, h)(begin)
        below_down, slope_down = SmoothCounts(down, w_down, h)(begin)
        a, b = w_up.sum() - below, w_down.sum() - below_down
        share = w_up / w_up.sum()
        put = np.where(share > 0, a + b, 1.0)  # above a row without weight there may be nothing
        d_a, d_b = share * b / put**2, -share * a / put**2
        g_up = w_up * SmoothCounts(begin, d_a, h)(up)[1] - d_a * slope - d_b * slope_down
        g_down = w_down * SmoothCounts(begin, d_b, h)(down)[1]
        return 1.0 - share @ (a / put), -g_up, -g_down


@dataclass(frozen=True, kw_only=True)
class AtThreshold(RankingCriterion):
    """A measure at a threshold that follows from the outputs.

    Where a count of outputs is fixed, the threshold moves with an output by that output's part of
    the slope of the count.  Where no output is near it is not unique, and stays.
    """

    def counts(
        self,
        up: np.ndarray,
        w_up: np.ndarray,
        down: np.ndarray,
        w_down: np.ndarray,
        h: float,
        theta: float,
    ) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Return true and false positives at a threshold, and their slopes by every output."""
        tp = w_up.sum() - SmoothCounts(up, w_up, h)(theta)[0]
        fp = w_down.sum() - SmoothCounts(down, w_down, h)(theta)[0]
        return float(tp), float(fp), w_up * _slope(up - theta, h), w_down * _slope(down - theta, h)


def _slope(difference: np.ndarray, h: float) -> np.ndarray:
    u = np.clip(difference / h, -1.0, 1.0)
    return 0.75 * (1.0 - u**2) / h


def _share(slopes: np.ndarray) -> np.ndarray:
    """Return slopes over their sum: how a threshold at a fixed count moves with each output."""
    total = slopes.sum()
    return slopes / total if total > 0 else np.zeros_like(slopes)


@dataclass(frozen=True, kw_only=True)
class PrecisionAtRecall(AtThreshold):
    """One minus the precision at the threshold that has a given recall.

    For two classes; undefined where one of them has no rows.

    Parameters
    ----------
    recall : float, default=0.9
        The share of positive rows, those of the second class, that are to be found; at most 1.
    t : float, default=10.0
        Steepness of the smoothing, in units of the outputs' standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import PrecisionAtRecall
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = PrecisionAtRecall(recall=1.0)(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.33
    """

    recall: float = 0.9
    label = "one minus the smooth precision at a recall"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recall != 1.0:
            check_fraction(recall=self.recall)

    def loss(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        theta = SmoothCounts(up, w_up, h).quantile((1.0 - self.recall) * w_up.sum())
        tp, fp, d_up, d_down = self.counts(up, w_up, down, w_down, h, theta)
        # recall is fixed, so only false positives move; at recall 1 with the least output
        moves = _share(d_up) if self.recall < 1.0 else np.eye(len(up))[np.argmin(up)]
        d_fp = -tp / (tp + fp) ** 2
        return 1.0 - tp / (tp + fp), d_fp * d_down.sum() * moves, -d_fp * d_down


@dataclass(frozen=True, kw_only=True)
class BreakEven(AtThreshold):
    """One minus precision where it equals recall: as many rows are put in as there are.

    For two classes; undefined where one of them has no rows.

    Parameters
    ----------
    t : float, default=10.0
        Steepness of the smoothing, in units of the outputs' standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import BreakEven
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = BreakEven()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.5
    """

    label = "one minus the smooth precision-recall break-even point"

    def loss(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        everyone = np.concatenate([up, down]), np.concatenate([w_up, w_down])
        theta = SmoothCounts(*everyone, h).quantile(w_down.sum())
        tp, _, d_up, d_down = self.counts(up, w_up, down, w_down, h, theta)
        moves = _share(np.concatenate([d_up, d_down]))
        unit = w_up.sum()
        g_up = d_up - d_up.sum() * moves[: len(up)]
        return 1.0 - tp / unit, -g_up / unit, d_up.sum() * moves[len(up) :] / unit


@dataclass(frozen=True, kw_only=True)
class RecallAtPrecision(AtThreshold):
    """One minus the recall at the least threshold that has a given precision.

    Where no threshold up to the largest output has it, the loss is one plus what is missing at the
    best one, so that a descent still sees where to go.  For two classes; undefined where one of
    them has no rows.

    Parameters
    ----------
    precision : float, default=0.9
        The share of rows put into the second class that are to belong to it; below 1.
    t : float, default=10.0
        Steepness of the smoothing, in units of the outputs' standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import RecallAtPrecision
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = RecallAtPrecision(precision=0.6)(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.0
    """

    precision: float = 0.9
    label = "one minus the smooth recall at a precision"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(precision=self.precision)

    def loss(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        surplus = Surplus(up, down, w_up, w_down, h)
        theta, values = surplus.turns(self.precision)
        met = np.flatnonzero(values >= -1e-12 * surplus.total)
        if not len(met):
            return self._missed(up, down, w_up, w_down, h, surplus)
        first = met[0]
        at = theta[first]
        if first > 0 and values[first - 1] < 0.0 < values[first]:
            ends = theta[first - 1], theta[first]
            at = brentq(surplus, *ends, args=(self.precision,), xtol=1e-15, rtol=1e-15)
        tp, _, d_up, d_down = self.counts(up, w_up, down, w_down, h, at)
        p, unit = self.precision, w_up.sum()
        # surplus(theta, outputs) = 0 says how theta moves
        by_theta = -(1.0 - p) * d_up.sum() + p * d_down.sum()
        rate = 0.0 if first == 0 or by_theta == 0.0 else d_up.sum() / by_theta
        return (
            1.0 - tp / unit,
            -(d_up + rate * (1.0 - p) * d_up) / unit,
            rate * p * d_down / unit,
        )

    def _missed(
        self,
        up: np.ndarray,
        down: np.ndarray,
        w_up: np.ndarray,
        w_down: np.ndarray,
        h: float,
        surplus: Surplus,
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return what is missing at the threshold of the largest precision, and its gradients."""
        at = surplus.most_precise()
        tp, fp, d_up, d_down = self.counts(up, w_up, down, w_down, h, at)
        put = tp + fp
        g_up, g_down = -d_up * fp / put**2, d_down * tp / put**2
        if at == surplus.last:  # which moves with the largest output; elsewhere precision is level
            side, g = (up, g_up) if at in up else (down, g_down)
            g[np.argmax(side)] -= g_up.sum() + g_down.sum()
        return 1.0 + self.precision - tp / put, g_up, g_down


class Surplus:
    """(1 - p) tp - p fp as a function of the threshold: positive where precision is above p.

    Thresholds end at the largest output, where half a row is counted: with less, precision would be
    that of nothing.
    """

    def __init__(
        self, up: np.ndarray, down: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, h: float
    ):
        self._up, self._down = SmoothCounts(up, w_up, h), SmoothCounts(down, w_down, h)
        self.total = self._up.total + self._down.total
        everyone = np.concatenate([up[w_up > 0], down[w_down > 0]])
        self.last = float(everyone.max())
        ends = np.unique(np.concatenate([everyone - h, everyone + h]))
        self._ends = np.append(ends[ends < self.last], self.last)

    def _counts(self, theta: Any) -> tuple[np.ndarray, np.ndarray]:
        return self._up.total - self._up(theta)[0], self._down.total - self._down(theta)[0]

    def __call__(self, theta: Any, p: float) -> Any:
        tp, fp = self._counts(theta)
        return (1.0 - p) * tp - p * fp

    def turns(self, p: float) -> tuple[np.ndarray, np.ndarray]:
        """Return thresholds between which the surplus only rises or only falls, and its values.

        It is a cubic from one end of a step to the next; its slope is a parabola, with two roots.
        """
        a, b = self._ends[:-1], self._ends[1:]
        left, middle, right = (
            p * self._down(at)[1] - (1.0 - p) * self._up(at)[1] for at in (a, 0.5 * (a + b), b)
        )
        # the slope at a + t (b - a) is  square t^2 + linear t + left
        square, linear = 2.0 * (left + right - 2.0 * middle), 4.0 * middle - 3.0 * left - right
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(linear**2 - 4.0 * square * left)
            far = -0.5 * (linear + np.copysign(root, linear))
            t = np.concatenate([far / square, left / far])
        inside = (t > 0.0) & (t < 1.0)
        within = (np.tile(a, 2) + t * np.tile(b - a, 2))[inside]
        theta = np.sort(np.concatenate([self._ends, within]))
        return theta, self(theta, p)

    def most_precise(self) -> float:
        """Return the threshold of the largest precision.

        Where the surplus over the precision r of a threshold is largest, precision is above r, if
        it is so anywhere (Dinkelbach): that is repeated until it is nowhere.
        """
        best, r = self.last, -1.0
        while True:
            tp, fp = self._counts(best)
            if tp / (tp + fp) <= r:
                return best
            r = float(tp / (tp + fp))
            theta, values = self.turns(r)
            best = theta[np.argmax(values)] if values.max() > 0.0 else best
