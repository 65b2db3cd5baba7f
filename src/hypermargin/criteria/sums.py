"""Criteria of rows that are in many places: a few sums come together, and never the rows.

An evaluation gives the moments of all out-of-fold outputs.  With these every place makes sums of
its rows, the sums of all places make the value, and with a few numbers from there every place has
the gradient by its outputs.  `Reduction` is these steps; `reduction_of` says which criteria have
them.  What a criterion is stands where it stands for rows in one place: here it is only taken
apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .base import Criterion
from .confusion import ConfusionCriterion, choose_at
from .ranking import SmoothAuc, SmoothCounts
from .rowwise import UnexplainedVariance

SMOOTH_CELLS = 4096  # of the sketch of outputs that areas are made of
LEAST_SPREAD = 1e-10  # of outputs, as in `spread_of`
TO_LARGEST = 1e-9


@dataclass(frozen=True)
class Scatter:
    """Weights, means and squares around the means of some groups of numbers, which can be added.

    Sums of squares would lose all digits where numbers are far from zero.
    """

    weight: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weight: np.ndarray, group: np.ndarray, n: int = 1) -> Scatter:
        """Return those of numbers in n groups."""
        total = np.bincount(group, weight, minlength=n)
        mean = np.bincount(group, weight * values, minlength=n) / np.where(total > 0, total, 1.0)
        around = weight * (values - mean[group]) ** 2
        return cls(total, mean, np.bincount(group, around, minlength=n))

    def __add__(self, other: Scatter) -> Scatter:
        """Return those of both together, as Chan, Golub and LeVeque (1983) add them."""
        total = self.weight + other.weight
        share = other.weight / np.where(total > 0, total, 1.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * self.weight * share
        return Scatter(total, self.mean + share * apart, squares)


@dataclass(frozen=True)
class Moments:
    """What all rows together say of outputs and targets; several of a row count as one group."""

    n_rows: float
    low: float
    high: float
    outputs: Scatter
    targets: Scatter
    n_columns: int = 1

    @classmethod
    def of(cls, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Moments:
        """Return those of some rows."""
        n_rows, n_columns = outputs.shape
        target = y.reshape(n_rows, -1).sum(axis=1).astype(float) if n_rows else np.zeros(0)
        same = np.zeros(outputs.size, dtype=int)
        return cls(
            float(n_rows),
            float(outputs.min(initial=np.inf)),
            float(outputs.max(initial=-np.inf)),
            Scatter.of(outputs.ravel(), np.repeat(weight, n_columns), same),
            Scatter.of(target, weight, same[:n_rows]),
            n_columns,
        )

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.n_rows + other.n_rows,
            min(self.low, other.low),
            max(self.high, other.high),
            self.outputs + other.outputs,
            self.targets + other.targets,
            self.n_columns,
        )

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.targets.weight[0])

    @property
    def mean(self) -> float:
        """The mean of all outputs."""
        return float(self.outputs.mean[0])

    @property
    def variance(self) -> float:
        """That of the targets; 1 where they are constant, as in `UnexplainedVariance`."""
        found = float(self.targets.squares[0]) / self.total
        return found if found > 1e-20 * (found + float(self.targets.mean[0]) ** 2) else 1.0

    @property
    def spread(self) -> tuple[float, bool]:
        """The standard deviation of all outputs, and whether it moves with them."""
        rho = float(np.sqrt(self.outputs.squares[0] / (self.total * self.n_columns)))
        least = max(TO_LARGEST * max(self.high, -self.low), LEAST_SPREAD)
        return (rho, True) if rho >= least else (least, False)


class Reduction:
    """A criterion of rows in many places.

    `sums` are added up over all places, and so are what `directions` returns second.  The gradient
    by the outputs of a place is a sum of its `directions`, each times one of the `coefficients`.
    """

    n_directions: ClassVar[int] = 1

    def __init__(self, criterion: Any):
        self.criterion = criterion

    def sums(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments
    ) -> np.ndarray:
        raise NotImplementedError

    def value(self, sums: np.ndarray, moments: Moments) -> tuple[float, np.ndarray]:
        """Return the value, and numbers that directions are made with."""
        raise NotImplementedError

    def directions(
        self,
        outputs: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        moments: Moments,
        numbers: np.ndarray,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        raise NotImplementedError

    def coefficients(self, dots: np.ndarray, moments: Moments) -> np.ndarray:
        return np.ones(1)


class MeanOfRows(Reduction):
    """The mean over rows of what depends on a row alone."""

    def sums(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments
    ) -> np.ndarray:
        if not weight.any():
            return np.zeros(1)
        return np.array([self.criterion(outputs, y, weight)[0] * weight.sum()])

    def value(self, sums: np.ndarray, moments: Moments) -> tuple[float, np.ndarray]:
        return float(sums[0] / moments.total), np.zeros(0)

    def directions(
        self,
        outputs: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        moments: Moments,
        numbers: np.ndarray,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        if not weight.any():
            return [np.zeros_like(outputs)], np.zeros(1)
        gradient = self.criterion(outputs, y, weight)[1] * (weight.sum() / moments.total)
        return [gradient], np.zeros(1)


class ShareOfVariance(Reduction):
    """Squared residuals, next to the variance of the targets in all places."""

    def sums(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments
    ) -> np.ndarray:
        return np.array([weight @ (outputs[:, 0] - y.reshape(-1)) ** 2])

    def value(self, sums: np.ndarray, moments: Moments) -> tuple[float, np.ndarray]:
        return float(sums[0] / moments.total / moments.variance), np.zeros(0)

    def directions(
        self,
        outputs: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        moments: Moments,
        numbers: np.ndarray,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        unit = 2.0 / (moments.total * moments.variance)
        return [unit * weight[:, None] * (outputs - y.reshape(-1, 1))], np.zeros(1)


class OfSpread(Reduction):
    """What is smoothed in units of the spread of the outputs, which moves with all of them."""

    n_directions = 2

    def own(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments,
        numbers: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Return the gradient at a fixed spread."""
        raise NotImplementedError

    def directions(
        self,
        outputs: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        moments: Moments,
        numbers: np.ndarray,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        own = self.own(outputs, y, weight, moments, numbers)
        rho, moves = moments.spread
        share = weight / (moments.total * moments.n_columns * rho) * float(moves)
        return [own, share[:, None] * (outputs - moments.mean)], np.array([np.vdot(own, outputs)])

    def coefficients(self, dots: np.ndarray, moments: Moments) -> np.ndarray:
        return np.array([1.0, -float(dots[0]) / moments.spread[0]])


class OfConfusion(OfSpread):
    """A function of the smooth confusion matrix."""

    def _chosen(self, outputs: np.ndarray, moments: Moments) -> tuple[np.ndarray, Any]:
        steepness = self.criterion.steepness(int(moments.n_rows))
        return choose_at(outputs, steepness / moments.spread[0], steepness)

    def sums(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments
    ) -> np.ndarray:
        chosen, _ = self._chosen(outputs, moments)
        return np.eye(chosen.shape[1])[y].T @ (weight[:, None] * chosen)

    def value(self, sums: np.ndarray, moments: Moments) -> tuple[float, np.ndarray]:
        value, dM = self.criterion.measure(sums / moments.total)
        return float(value), np.asarray(dM, dtype=float)

    def own(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments,
        numbers: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        _, pull = self._chosen(outputs, moments)
        return pull((weight / moments.total)[:, None] * numbers[y])


class OfOrder(OfSpread):
    """The area under the ROC curve, of a sketch of all outputs.

    An output is shared between the two nearest of `SMOOTH_CELLS` points, in proportion, so that its
    mean is kept.  With cells of width d and a step of width h, the value is off by no more than
    0.75 (d / h)^2: a smooth function that is read between two points d apart is off by d^2 / 8
    times its second derivative, here 3 / (2 h^2) at most, and both rows of a pair are.
    """

    def _points(self, moments: Moments) -> np.ndarray:
        room = max(moments.high - moments.low, moments.spread[0])
        return np.linspace(moments.low, moments.low + room, SMOOTH_CELLS)

    def sums(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments
    ) -> np.ndarray:
        return np.stack([
            shared(outputs[y == k, 0], weight[y == k], self._points(moments)) for k in (0, 1)
        ])  # fmt: skip

    def value(self, sums: np.ndarray, moments: Moments) -> tuple[float, np.ndarray]:
        points, h = self._points(moments), self._width(moments)
        down, up = sums
        value, *_ = self.criterion.loss(points, points, up, down, h)
        return float(value), sums

    def own(
        self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, moments: Moments,
        numbers: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        points, h, out = self._points(moments), self._width(moments), np.zeros_like(outputs)
        totals = numbers.sum(axis=1)
        for k, sign in ((1, -1.0), (0, 1.0)):
            rows = y == k
            _, slopes = SmoothCounts(points, numbers[1 - k], h)(outputs[rows, 0])
            out[rows, 0] = sign * weight[rows] * slopes / (totals[0] * totals[1])
        return out

    def _width(self, moments: Moments) -> float:
        return 3.0 * moments.spread[0] / self.criterion.t


def shared(values: np.ndarray, weight: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the weights of values at evenly spaced points, each shared by its two neighbours."""
    place = (values - points[0]) / (points[1] - points[0])
    cell = np.clip(place.astype(int), 0, len(points) - 2)
    part = weight * (place - cell)
    found = np.bincount(cell, weight - part, minlength=len(points))
    return found + np.bincount(cell + 1, part, minlength=len(points))


def reduction_of(criterion: Criterion) -> Reduction:
    """Return a criterion taken apart, or say which can be."""
    if isinstance(criterion, ConfusionCriterion):
        return OfConfusion(criterion)
    if isinstance(criterion, SmoothAuc):
        return OfOrder(criterion)
    if isinstance(criterion, UnexplainedVariance):
        return ShareOfVariance(criterion)
    if criterion.mean_of_rows:
        return MeanOfRows(criterion)
    raise ValueError(
        f"{criterion.label} is no sum over rows, which data in chunks need; give as criterion one "
        "of accuracy, balanced accuracy, F, precision, recall, Jaccard, Matthews or ROC area, the "
        "log loss of a model with logits, or the mean squared error ('neg_mean_squared_error')."
    )
