"""Criteria made of a confusion matrix: errors, F, precision, recall, Matthews, costs.

The class of a row is chosen softly, so that the confusion matrix, whose entry (k, l) is the weight
of rows of class k that are put into class l, is a smooth function of the outputs.  A measure gives
its value and its derivative by that matrix, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax
from sklearn import metrics

from .._core.compiled import compiled
from .base import Criterion, Valued, check_positive, first_missing, n_classes_of, spread_of

Pull = Callable[[np.ndarray], np.ndarray]


def choose_softly(outputs: np.ndarray, weight: np.ndarray, t: float) -> tuple[np.ndarray, Pull]:
    """Return how far each row is put into each class, and the pullback of that.

    Direct method of Keerthi et al., eq. (16): the step function becomes a sigmoid of slope t / rho,
    rho being the standard deviation of the outputs, and the derivative of rho is part of the
    gradient, eq. (17).
    """
    rho, add_rho = spread_of(outputs, weight)
    chosen, pull = choose_at(outputs, t / rho, t)
    return chosen, lambda d_chosen: add_rho(pull(d_chosen))


def choose_at(outputs: np.ndarray, slope: float, t: float) -> tuple[np.ndarray, Pull]:
    """Return how far each row is put into each class by sigmoids of a slope, and its pullback.

    For more than two classes the votes of the machines are smoothed that way, and the class is then
    chosen by a softmax of the votes instead of their maximum; as t grows, both become SVC's own
    vote.
    """
    if outputs.shape[1] == 1:
        votes = expit(slope * outputs)
        chosen = np.hstack([1.0 - votes, votes])

        def pull(d_chosen: np.ndarray) -> np.ndarray:
            return (d_chosen[:, 1:] - d_chosen[:, :1]) * (votes * (1.0 - votes) * slope)

        return chosen, pull
    sharpness = t / 2.0
    sums = np.zeros((len(outputs), n_classes_of(outputs.shape[1])))
    add_votes(np.ascontiguousarray(outputs, dtype=float), slope, sums)
    chosen = softmax(sharpness * sums, axis=1)

    def pull_votes(d_chosen: np.ndarray) -> np.ndarray:
        d_sums = chosen * (d_chosen - (chosen * d_chosen).sum(axis=1, keepdims=True))
        gradient = np.array(outputs, dtype=float, order="C")
        take_votes(gradient, slope, sharpness * d_sums)
        return gradient

    return chosen, pull_votes


@compiled
def add_votes(outputs, slope, sums):
    """Add what each machine says, between -1/2 and 1/2, to its second class, minus to its first."""
    for row in range(outputs.shape[0]):
        p = 0
        for i in range(sums.shape[1]):
            for j in range(i + 1, sums.shape[1]):
                vote = 1.0 / (1.0 + np.exp(-slope * outputs[row, p])) - 0.5
                sums[row, i] -= vote
                sums[row, j] += vote
                p += 1


@compiled
def take_votes(outputs, slope, d_sums):
    """Replace outputs by the derivatives that those of the sums lead to."""
    for row in range(outputs.shape[0]):
        p = 0
        for i in range(d_sums.shape[1]):
            for j in range(i + 1, d_sums.shape[1]):
                vote = 1.0 / (1.0 + np.exp(-slope * outputs[row, p]))
                outputs[row, p] = (d_sums[row, j] - d_sums[row, i]) * vote * (1.0 - vote) * slope
                p += 1


@dataclass(frozen=True, kw_only=True)
class ConfusionCriterion(Criterion):
    """A function of the smooth confusion matrix.

    The paper has t = 10.  More rows need less smoothing: from 500 to 2,000 of them t grows as
    n^(1/3), as the bandwidth of a smoothed distribution function shrinks.  Beyond that more
    steepness does not lower the test error, and makes the loss rough and the search longer.
    """

    t: float = 10.0

    def __post_init__(self) -> None:
        check_positive(t=self.t)

    def steepness(self, n_rows: int) -> float:
        return self.t * min(max(1.0, n_rows / 500.0), 4.0) ** (1.0 / 3.0)

    def measure(self, M: np.ndarray) -> Valued:
        """Return the loss and its derivative by M, whose entries sum to one."""
        raise NotImplementedError

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        chosen, pull = choose_softly(outputs, weight, self.steepness(len(y)))
        cost = weight / weight.sum()
        truth = np.eye(chosen.shape[1])[y]
        value, dM = self.measure(truth.T @ (cost[:, None] * chosen))
        return float(value), pull(cost[:, None] * dM[y])


@dataclass(frozen=True, kw_only=True)
class SmoothError(ConfusionCriterion):
    """One minus accuracy.

    Parameters
    ----------
    t : float, default=10.0
        Steepness of the smoothing, in units of the outputs' standard deviation; from 500 rows on
        it grows with their number.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothError
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothError()(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    score_func = staticmethod(metrics.accuracy_score)
    label = "the smooth error"
    resolution = 0.5

    def measure(self, M: np.ndarray) -> Valued:
        return 1.0 - np.trace(M), -np.eye(len(M))


@dataclass(frozen=True, kw_only=True)
class SmoothBalancedError(ConfusionCriterion):
    """One minus the mean of the classes' accuracies.

    Classes that have no rows are left out of the mean, as in scikit-learn.

    Parameters
    ----------
    t : float, default=10.0
        Steepness of the smoothing, as in :class:`SmoothError`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothBalancedError
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothBalancedError()(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    score_func = staticmethod(metrics.balanced_accuracy_score)
    label = "the smooth balanced error"
    resolution = 0.5

    def measure(self, M: np.ndarray) -> Valued:
        totals = M.sum(axis=1)
        share = np.where(totals > 0, 1.0, 0.0) / np.where(totals > 0, totals, 1.0)
        share /= np.count_nonzero(totals)
        # totals do not move with the outputs: they are those of the targets
        return 1.0 - float(share @ np.diagonal(M)), -np.diag(share)


@dataclass(frozen=True, kw_only=True)
class SmoothMatthews(ConfusionCriterion):
    """One minus the correlation of Matthews.

    It is 1 where one class only is predicted, and undefined where the rows have one only.

    Parameters
    ----------
    t : float, default=10.0
        Steepness of the smoothing, as in :class:`SmoothError`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothMatthews
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothMatthews()(outputs, y, np.ones(4))
    >>> round(value, 1)
    1.0
    """

    score_func = staticmethod(metrics.matthews_corrcoef)
    label = "one minus the smooth correlation of Matthews"

    def missing(self, present: np.ndarray) -> int | None:
        return first_missing(present) if np.count_nonzero(present) < 2 else None

    def measure(self, M: np.ndarray) -> Valued:
        true, put = M.sum(axis=1), M.sum(axis=0)
        if min(1.0 - true @ true, 1.0 - put @ put) < 1e-12:
            return 1.0, np.zeros_like(M)
        agreement = np.trace(M) - true @ put
        spread = np.sqrt((1.0 - true @ true) * (1.0 - put @ put))
        d_agreement = np.eye(len(M)) - np.broadcast_to(true, M.shape)
        d_spread = -(1.0 - true @ true) / spread * np.broadcast_to(put, M.shape)
        value = agreement / spread
        return 1.0 - value, -(d_agreement - value * d_spread) / spread


@dataclass(frozen=True, kw_only=True)
class WeightedError(ConfusionCriterion):
    """Weighted error of two classes, Keerthi et al., section 4.

    Weights are such that it is 1 where all rows are put into the wrong class.

    Parameters
    ----------
    eta : float, default=1.0
        What an error on the negative class, the first one, costs, in units of one on the positive.
    t : float, default=10.0
        Steepness of the smoothing, as in :class:`SmoothError`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import WeightedError
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = WeightedError(eta=0.1)(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    eta: float = 1.0
    label = "the smooth weighted error"
    two_classes = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(eta=self.eta)

    def measure(self, M: np.ndarray) -> Valued:
        negative, positive = M.sum(axis=1)
        unit = positive + self.eta * negative
        dM = np.array([[0.0, self.eta], [1.0, 0.0]]) / unit
        return float((dM * M).sum()), dM


@dataclass(frozen=True, kw_only=True)
class ExpectedCost(ConfusionCriterion):
    """Mean cost of the predictions.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_classes), default=((0, 1), (1, 0))
        ``costs[k][l]`` is that of putting a row of class k into class l, classes in the order of
        the sorted labels.  An error must cost more than the right answer, ``costs[k][k]``, which
        may be negative.
    t : float, default=10.0
        Steepness of the smoothing, as in :class:`SmoothError`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import ExpectedCost
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = ExpectedCost(costs=[[0, 1], [5, 0]])(outputs, y, np.ones(4))
    >>> round(value, 1)
    1.5
    """

    costs: tuple = ((0.0, 1.0), (1.0, 0.0))
    label = "the smooth expected cost"

    def __post_init__(self) -> None:
        super().__post_init__()
        table = np.asarray(self.costs, dtype=float)
        if table.ndim != 2 or len(table) != len(table.T) or not np.isfinite(table).all():
            raise ValueError(f"costs={self.costs!r} must be a square table of finite numbers.")
        errors = ~np.eye(len(table), dtype=bool)
        if (table <= np.diagonal(table)[:, None])[errors].any():
            raise ValueError(
                f"costs={self.costs!r} has an error that costs no more than the right answer; "
                "costs[k][l] must be greater than costs[k][k]."
            )
        object.__setattr__(self, "costs", tuple(map(tuple, table.tolist())))

    def check(self, n_classes: int | None) -> None:
        super().check(n_classes)
        if len(self.costs) != n_classes:
            raise ValueError(f"costs are for {len(self.costs)} classes, but y has {n_classes}.")

    def measure(self, M: np.ndarray) -> Valued:
        table = np.asarray(self.costs)
        return float((table * M).sum()), table
