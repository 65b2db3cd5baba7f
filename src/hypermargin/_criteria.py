"""Criteria: a number and its gradient, made of out-of-fold outputs.

A criterion is minimised.  It is called with the pooled outputs (rows, columns), the targets and the
weights of the same rows, and returns the value and its gradient with respect to the outputs.  For
classifiers the targets are class numbers and the columns are the one-vs-one machines in the order
(0, 1), (0, 2), ..., an output above zero speaking for the second class of its pair; for two classes
that is the one output of a usual SVM.

To add a criterion, write the class and list it in `CRITERIA`; the contract tests of criteria pick
it up.  `score_func` is the scikit-learn metric that the criterion stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn import metrics

Valued = tuple[float, np.ndarray]


class Criterion:
    """A smooth stand-in for a score, to be minimised."""

    score_func: ClassVar[Any]
    sign: ClassVar[int] = (
        1  # of scikit-learn's scorer: whether greater values of the score are better
    )
    for_classifiers: ClassVar[bool]
    label: ClassVar[str]  # what users call it
    resolution: ClassVar[float] = 0.0  # the least change that means anything, in rows

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        raise NotImplementedError


@dataclass(frozen=True)
class SmoothError(Criterion):
    """One minus accuracy, smoothed by the direct method of keerthi-2006, eq. (16).

    The step function becomes a sigmoid of slope t / rho, rho being the standard deviation of the
    outputs, and the derivative of rho is part of the gradient, eq. (17).  For more than two
    classes the votes of the machines are smoothed that way, and the class is then chosen by a
    softmax of the votes instead of their maximum; as t grows, both become SVC's own vote.

    The paper has t = 10.  More rows need less smoothing: from 500 to 2,000 of them t grows as
    n^(1/3), as the bandwidth of a smoothed distribution function shrinks.  Beyond that more
    steepness does not lower the test error, and makes the loss rough and the search longer.
    """

    t: float = 10.0
    score_func = staticmethod(metrics.accuracy_score)
    for_classifiers = True
    label = "the smooth error"
    resolution = 0.5

    def steepness(self, n_rows: int) -> float:
        return self.t * min(max(1.0, n_rows / 500.0), 4.0) ** (1.0 / 3.0)

    def row_weights(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return what an error on each row costs; the costs sum to one."""
        return weight / weight.sum()

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        cost = self.row_weights(y, weight)
        share = (weight / (weight.sum() * outputs.shape[1]))[:, None]
        centred = outputs - (share * outputs).sum()
        rho = float(np.sqrt((share * centred**2).sum()))
        # outputs that differ by rounding only say nothing, and must not be blown up
        rho = max(rho, 1e-9 * float(np.abs(outputs).max()), 1e-10)
        t = self.steepness(len(y))
        votes = expit(t / rho * outputs)
        slope = votes * (1.0 - votes) * (t / rho)
        right, d_votes = self._right(votes, y, sharpness=t / 2.0)
        d_scaled = -cost[:, None] * d_votes * slope
        # the slope t / rho moves with every output
        d_rho = -float((d_scaled * outputs).sum()) / rho
        gradient = d_scaled + d_rho * share * centred / rho
        return float(cost @ (1.0 - right)), gradient

    def _right(
        self, votes: np.ndarray, y: np.ndarray, sharpness: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each row is voted into its class, and the derivative by the votes."""
        if votes.shape[1] == 1:
            second = y == 1
            right = np.where(second, votes[:, 0], 1.0 - votes[:, 0])
            return right, np.where(second, 1.0, -1.0)[:, None]
        tally = tally_matrix(votes.shape[1])
        chosen = softmax(sharpness * (votes - 0.5) @ tally, axis=1)
        rows = np.arange(len(y))
        right = chosen[rows, y]
        d_sums = -right[:, None] * chosen
        d_sums[rows, y] += right
        return right, sharpness * d_sums @ tally.T


@dataclass(frozen=True)
class SmoothBalancedError(SmoothError):
    """One minus the mean of the classes' accuracies, smoothed in the same way."""

    score_func = staticmethod(metrics.balanced_accuracy_score)
    label = "the smooth balanced error"

    def row_weights(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        totals = np.bincount(y, weights=weight)
        return weight / totals[y] / np.count_nonzero(totals)


@dataclass(frozen=True)
class LogLoss(Criterion):
    """Negative log-likelihood per row under Platt's sigmoid, fitted to the same outputs.

    This is the minimisation method of keerthi-2006 with N = N_nll.  At the fitted sigmoid the
    derivative with respect to its parameters vanishes, so the terms of eq. (17) that go through
    them drop out.  For more than two classes the sigmoid becomes a softmax of the classes' summed
    outputs with one slope and one offset per class; for two classes it is Platt's.
    """

    score_func = staticmethod(metrics.log_loss)
    sign = -1
    for_classifiers = True
    label = "the log loss"

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        tally = tally_matrix(outputs.shape[1])
        slope, offsets = fit_sigmoid(outputs, y, weight)
        logits = slope * (outputs @ tally) + offsets
        cost = weight / weight.sum()
        value = -float(cost @ log_softmax(logits, axis=1)[np.arange(len(y)), y])
        excess = softmax(logits, axis=1)
        excess[np.arange(len(y)), y] -= 1.0
        return value, slope * (cost[:, None] * excess) @ tally.T


def tally_matrix(n_pairs: int) -> np.ndarray:
    """Return T (pairs, classes): outputs @ T adds each to its second class, minus to its first."""
    n_classes = round((1 + (1 + 8 * n_pairs) ** 0.5) / 2)
    T = np.zeros((n_pairs, n_classes))
    for p, (i, j) in enumerate(combinations(range(n_classes), 2)):
        T[p, i], T[p, j] = -1.0, 1.0
    return T


def fit_sigmoid(outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Fit the slope and the class offsets of the softmax of summed outputs by Newton's method.

    The offset of the first class is zero.  A tiny ridge keeps the fit finite where the outputs
    separate the classes.
    """
    sums = outputs @ tally_matrix(outputs.shape[1])
    unit = max(float(sums.std()), np.finfo(float).tiny)
    z = sums / unit
    cost = (weight / weight.sum())[:, None]
    truth = np.eye(z.shape[1])[y]
    ridge = 1e-12

    def logits(p: np.ndarray) -> np.ndarray:
        return p[0] * z + np.append(0.0, p[1:])

    def loss(p: np.ndarray) -> float:
        fit = -float((cost * truth * log_softmax(logits(p), axis=1)).sum())
        return fit + 0.5 * ridge * float(p @ p)

    p = np.zeros(z.shape[1])
    value = loss(p)
    for _ in range(100):
        P = softmax(logits(p), axis=1)
        excess, mean = cost * (P - truth), (P * z).sum(axis=1, keepdims=True)
        gradient = np.append((excess * z).sum(), excess.sum(axis=0)[1:]) + ridge * p
        hessian = ridge * np.eye(len(p))
        hessian[0, 0] += (cost * P * (z - mean) ** 2).sum()
        hessian[0, 1:] = hessian[1:, 0] = (cost * P * (z - mean)).sum(axis=0)[1:]
        hessian[1:, 1:] += (np.diag((cost * P).sum(axis=0)) - (cost * P).T @ P)[1:, 1:]
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        # rounding must not keep the last steps from being taken: they make the gradient exact
        while (new := loss(p - size * step)) > value * (1.0 + 1e-14) and size > 1e-10:
            size /= 2.0
        p = p - size * step
        if np.abs(gradient).max() < 1e-13 or (value - new <= 0.0 and size < 1.0):
            break
        value = new
    return float(p[0] / unit), np.append(0.0, p[1:])


class _Regression(Criterion):
    """Means over rows of a function of the residual, averaged over targets."""

    for_classifiers = False

    def residual_loss(
        self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of each residual and its slope; `cost` are weights that sum to one."""
        raise NotImplementedError

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        y = y.reshape(outputs.shape)
        n_targets = outputs.shape[1]
        cost = np.broadcast_to((weight / weight.sum())[:, None] / n_targets, outputs.shape)
        value, slope = self.residual_loss(outputs - y, y, cost)
        return float((cost * value).sum()), cost * slope


class MeanSquaredError(_Regression):
    """Mean of squared residuals."""

    score_func = staticmethod(metrics.mean_squared_error)
    sign = -1
    label = "the mean squared error"

    def residual_loss(
        self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return residual**2, 2.0 * residual


class UnexplainedVariance(_Regression):
    """One minus r2 of the pooled outputs: mean squared residual over the variance of the target."""

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


@dataclass(frozen=True)
class SmoothAbsoluteError(_Regression):
    """Mean of sqrt(residual^2 + h^2) - h, with h = spread of the target over `t`."""

    t: float = 100.0
    score_func = staticmethod(metrics.mean_absolute_error)
    sign = -1
    label = "the smooth absolute error"

    def residual_loss(
        self, residual: np.ndarray, y: np.ndarray, cost: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        spread = float(np.sqrt((cost * (y - (cost * y).sum()) ** 2).sum()))
        h = max(spread, 1e-100) / self.t
        root = np.sqrt(residual**2 + h**2)
        return root - h, residual / root


CRITERIA: dict[str, Criterion] = {
    "accuracy": SmoothError(),
    "balanced_accuracy": SmoothBalancedError(),
    "neg_log_loss": LogLoss(),
    "neg_mean_squared_error": MeanSquaredError(),
    "r2": UnexplainedVariance(),
    "neg_mean_absolute_error": SmoothAbsoluteError(),
}


def criterion_for(scorer: Any, is_classifier: bool) -> tuple[Criterion, bool]:
    """Return the criterion of a scorer, and whether it is that score's own smooth form."""
    if type(scorer).__name__ == "_PassthroughScorer":  # the estimator's own score
        return CRITERIA["accuracy" if is_classifier else "r2"], True
    score_func = getattr(scorer, "_score_func", None)
    if score_func is not None and not getattr(scorer, "_kwargs", None):
        for criterion in CRITERIA.values():
            same = criterion.score_func is score_func and criterion.sign == scorer._sign
            if same and criterion.for_classifiers == is_classifier:
                return criterion, True
    return CRITERIA["accuracy" if is_classifier else "neg_mean_squared_error"], False
