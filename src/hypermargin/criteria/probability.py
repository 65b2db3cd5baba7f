"""Criteria of probabilities: a sigmoid is fitted to the outputs, and differentiated through."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax
from sklearn import metrics

from .base import Criterion, Valued, first_missing, tally_matrix


@dataclass(frozen=True)
class Calibration:
    """Fitted sigmoids, one for each pair of classes: what makes probabilities of outputs."""

    slopes: np.ndarray
    offsets: np.ndarray

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Return the probabilities of all classes for outputs of the same machines.

        Those of pairs are coupled as Price et al. (1995) do: with the log-odds m_kj of class k
        against class j, that of k is 1 / (1 + sum_j exp(-m_kj)), but for a factor.  The outputs of
        pairs that a row is of neither class of have next to no say in it.
        """
        signs = tally_matrix(outputs.shape[1])
        odds = self.slopes * outputs + self.offsets
        against = [-odds[:, of != 0] * of[of != 0] for of in signs.T]
        return softmax([-np.logaddexp(0.0, logsumexp(m, axis=1)) for m in against], axis=0).T


def calibrated(outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Calibration:
    """Fit a sigmoid to the outputs of every pair of classes, on the rows of these two.

    Where outputs separate classes the best sigmoid is a step, whatever the number of rows.  So one
    row that is right and one that is wrong are added (Laplace's rule of succession; Platt's, which
    adds them to every class, doubts more than test data do).  They are spread over all rows.
    """
    n_classes, found = tally_matrix(outputs.shape[1]).shape[1], []
    for column, (first, second) in zip(outputs.T, combinations(range(n_classes), 2)):
        rows = ((y == first) | (y == second)) & (weight > 0)
        found.append(_platt(column[rows, None], (y[rows] == second).astype(int), weight[rows]))
    slopes, offsets = np.array(found).T
    return Calibration(slopes, offsets)


def _platt(outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return slope and offset of the log-odds of two classes, which are to rise with outputs."""
    n_rows = weight.sum() ** 2 / (weight**2).sum()  # that would say as much, if all were equal
    sigmoid = Sigmoid(outputs, y, weight, doubt=1.0 / (n_rows + 2.0))
    if sigmoid.slope > 0.0:
        return 2.0 * sigmoid.slope, float(sigmoid.offsets[1])
    return 0.0, float(np.log(weight[y == 1].sum() / weight[y == 0].sum()))


class Sigmoid:
    """A softmax of the classes' summed outputs with one slope and one offset per class.

    For two classes it is Platt's sigmoid.  It is fitted by Newton's method; the offset of the first
    class is zero, and a tiny ridge keeps the fit finite where the outputs separate the classes.
    `doubt` is the probability that rows are of another class than they say.
    """

    ridge = 1e-12

    def __init__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray, doubt: float = 0.0):
        self.tally = tally_matrix(outputs.shape[1])
        sums = outputs @ self.tally
        self.unit = max(float(sums.std()), np.finfo(float).tiny)
        self._z, self._cost = sums / self.unit, (weight / weight.sum())[:, None]
        own = np.eye(sums.shape[1])
        self._truth = ((1.0 - doubt) * own + doubt / (len(own) - 1) * (1.0 - own))[y]
        self._p = self._fit()

    @property
    def slope(self) -> float:
        return float(self._p[0] / self.unit)

    @property
    def offsets(self) -> np.ndarray:
        return np.append(0.0, self._p[1:])

    @property
    def logits(self) -> np.ndarray:
        return self._logits(self._p)

    def _logits(self, p: np.ndarray) -> np.ndarray:
        return p[0] * self._z + np.append(0.0, p[1:])

    def _loss(self, p: np.ndarray) -> float:
        fit = -float((self._cost * self._truth * log_softmax(self._logits(p), axis=1)).sum())
        return fit + 0.5 * self.ridge * float(p @ p)

    def _derivatives(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z, cost, P = self._z, self._cost, softmax(self._logits(p), axis=1)
        excess, mean = cost * (P - self._truth), (P * z).sum(axis=1, keepdims=True)
        gradient = np.append((excess * z).sum(), excess.sum(axis=0)[1:]) + self.ridge * p
        hessian = self.ridge * np.eye(len(p))
        hessian[0, 0] += (cost * P * (z - mean) ** 2).sum()
        hessian[0, 1:] = hessian[1:, 0] = (cost * P * (z - mean)).sum(axis=0)[1:]
        hessian[1:, 1:] += (np.diag((cost * P).sum(axis=0)) - (cost * P).T @ P)[1:, 1:]
        return gradient, hessian

    def _fit(self) -> np.ndarray:
        p = np.zeros(self._z.shape[1])
        value = self._loss(p)
        for _ in range(100):
            gradient, hessian = self._derivatives(p)
            step = np.linalg.solve(hessian, gradient)
            size = 1.0
            # rounding must not keep the last steps from being taken: they make the gradient exact
            while (new := self._loss(p - size * step)) > value * (1.0 + 1e-14) and size > 1e-10:
                size /= 2.0
            p = p - size * step
            if np.abs(gradient).max() < 1e-13 or (value - new <= 0.0 and size < 1.0):
                break
            value = new
        return p

    def pull(self, d_logits: np.ndarray) -> np.ndarray:
        """Turn a gradient on the logits into one on the outputs, through the fit.

        At the fitted p the derivative g(p, z) of the loss vanishes, so dp = -H^-1 dg, eq. (17).
        """
        z, cost = self._z, self._cost
        P = softmax(self.logits, axis=1)
        _, hessian = self._derivatives(self._p)
        on_p = np.append((d_logits * z).sum(), d_logits.sum(axis=0)[1:])
        lag = np.linalg.solve(hessian, -on_p)
        # the derivative of lag . g by z at fixed p
        direction = lag[0] * z + np.append(0.0, lag[1:])
        spread = P * (direction - (P * direction).sum(axis=1, keepdims=True))
        on_z = d_logits * self._p[0]
        on_z += cost * (lag[0] * (P - self._truth) + self._p[0] * spread)
        return on_z / self.unit @ self.tally.T


def agreeing(P: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return probabilities whose largest is that of the chosen class.

    Votes, and a threshold at zero, may choose another class than the sigmoid where some are close;
    there those are given the same probability, but for a trace.
    """
    other = np.flatnonzero(P.argmax(axis=1) != chosen)
    ours, few = P[other], np.arange(len(other))
    close = ours >= ours[few, chosen[other], None]
    mean = (ours * close).sum(axis=1) / close.sum(axis=1)
    levelled = np.where(close, mean[:, None] * (1 - 1e-9), ours)
    levelled[few, chosen[other]] = mean * (1 + 1e-9 * (close.sum(axis=1) - 1))
    P = P.copy()
    P[other] = levelled
    return P


class _Given:
    """The sigmoid of models whose outputs are differences of logits: nothing is fitted."""

    def __init__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray):
        self.tally = tally_matrix(outputs.shape[1])
        self.slope = 1.0 / self.tally.shape[1]  # the sum of a logit's differences from all others
        self.logits = self.slope * (outputs @ self.tally)

    def pull(self, d_logits: np.ndarray) -> np.ndarray:
        return self.slope * d_logits @ self.tally.T


@dataclass(frozen=True, kw_only=True)
class _OfSigmoid(Criterion):
    """What needs a sigmoid, which cannot be fitted where a class has no rows."""

    sigmoid: ClassVar[Any] = Sigmoid

    def of_logits(self) -> Criterion:
        """Return the same criterion for models whose outputs are logits."""
        own = copy(self)
        object.__setattr__(own, "sigmoid", _Given)
        object.__setattr__(own, "mean_of_rows", True)  # nothing is fitted to all of them
        return own

    def missing(self, present: np.ndarray) -> int | None:
        return first_missing(present)


class LogLoss(_OfSigmoid):
    """Negative log-likelihood per row under Platt's sigmoid, fitted to the same outputs.

    This is the minimisation method of Keerthi et al. with N = N_nll.  At the fitted sigmoid the
    derivative with respect to its parameters vanishes, so the terms of eq. (17) that go through
    them drop out.  Undefined where a class has no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import LogLoss
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = LogLoss()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.59
    """

    score_func = staticmethod(metrics.log_loss)
    sign = -1
    label = "the log loss"

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        sigmoid = self.sigmoid(outputs, y, weight)
        cost, logits = weight / weight.sum(), sigmoid.logits
        value = -float(cost @ log_softmax(logits, axis=1)[np.arange(len(y)), y])
        excess = softmax(logits, axis=1)
        excess[np.arange(len(y)), y] -= 1.0
        return value, sigmoid.slope * (cost[:, None] * excess) @ sigmoid.tally.T


class _OfProbabilities(_OfSigmoid):
    """A mean over rows of a function of the probabilities of the classes."""

    def of_rows(self, P: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of each row, and its derivative by the probabilities."""
        raise NotImplementedError

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        sigmoid = self.sigmoid(outputs, y, weight)
        P = softmax(sigmoid.logits, axis=1)
        cost = weight / weight.sum()
        value, d_P = self.of_rows(P, np.eye(P.shape[1])[y])
        d_P = cost[:, None] * d_P
        d_logits = P * (d_P - (P * d_P).sum(axis=1, keepdims=True))
        return float(cost @ value), sigmoid.pull(d_logits)


class BrierScore(_OfProbabilities):
    """Mean squared error of the probabilities; halved for two classes, as in scikit-learn.

    Probabilities are those of Platt's sigmoid, fitted to the same outputs, and the fit is part of
    the gradient.  Undefined where a class has no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import BrierScore
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = BrierScore()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.21
    """

    score_func = staticmethod(metrics.brier_score_loss)
    sign = -1
    label = "the Brier score"

    def of_rows(self, P: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factor = 0.5 if P.shape[1] == 2 else 1.0
        return factor * ((P - truth) ** 2).sum(axis=1), 2.0 * factor * (P - truth)


class ProbabilisticError(_OfProbabilities):
    """Probability of the wrong classes: `per` of Keerthi et al., section 4.

    Probabilities are those of Platt's sigmoid, fitted to the same outputs, and the fit is part of
    the gradient.  Undefined where a class has no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import ProbabilisticError
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = ProbabilisticError()(outputs, y, np.ones(4))
    >>> round(value, 2)
    0.41
    """

    label = "the probabilistic error"

    def of_rows(self, P: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 1.0 - (P * truth).sum(axis=1), -truth
