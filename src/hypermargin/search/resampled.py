"""Scores of many weightings of the same rows at once, as a bootstrap needs them.

A score of scikit-learn is a function of targets and responses.  Those that people use are means
over rows, functions of a confusion matrix, or areas under a curve of ranks, and each of these is a
few products of matrices for all weightings together.  Any other function is called once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn import metrics

Responses = Sequence[np.ndarray]
# (weights of weightings and rows, targets, responses of every point) to scores by both
Scorer = Callable[[np.ndarray, np.ndarray, Responses], np.ndarray]


def fast_scorer(
    function: Any, arguments: Mapping[str, Any], classes: np.ndarray | None, as_table: bool
) -> Scorer | None:
    """Return what scores all weightings at once; None for functions that are not known.

    Targets and predictions of classifiers are numbers of `classes`, which is None for regressors.
    `as_table` tells that responses have a column for each class or target.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if as_table:
        return _of_table(function, given, classes)
    if classes is None:
        if function is metrics.mean_pinball_loss:
            return _mean_of(_pinball(given.pop("alpha", 0.5))) if not given else None
        return REGRESSION.get(function) if not given else None
    positive = _positive(function, given, classes)
    if function in RANKINGS or function in PROBABILITIES:
        if positive is None or given:
            return None
        if function in RANKINGS:
            return _each(RANKINGS[function], positive)
        loss = PROBABILITIES[function]
        return _mean_of(lambda y, p: loss(y == positive, p))
    if function is metrics.accuracy_score and not given:
        return _mean_of(lambda y, response: y == response)
    measure = _measure(function, given, positive)
    return None if measure is None else _of_confusion(measure, len(classes))


def _positive(function: Any, given: dict[str, Any], classes: np.ndarray) -> int | None:
    """Return the number of the class that a score of two classes is about; None if none is."""
    label = given.pop("pos_label", signature(function).parameters.get("pos_label"))
    label = getattr(label, "default", label)
    if len(classes) != 2:
        return None
    return 1 if label is None else next((k for k in (0, 1) if classes[k] == label), None)


def called(function: Any, arguments: Mapping[str, Any], repeats: bool) -> Scorer:
    """Return what calls a function of (targets, response) for each weighting.

    Weights are handed over where it takes them; with `repeats` rows come as often as they count.
    """

    def score(weights: np.ndarray, y: np.ndarray, responses: Responses) -> np.ndarray:
        found = np.full((len(weights), len(responses)), np.nan)
        for draw, weight in enumerate(weights):
            rows = np.repeat(np.arange(len(y)), weight.astype(int)) if repeats else weight > 0
            given = dict(arguments) if repeats else {**arguments, "sample_weight": weight[rows]}
            for point, response in enumerate(responses):
                found[draw, point] = _defined(function, y[rows], response[rows], given)
        return found

    return score


def _defined(function: Any, y: np.ndarray, response: np.ndarray, given: Mapping) -> float:
    """Return a score, NaN where the rows that were drawn leave it undefined."""
    try:
        return float(function(y, response, **given))
    except ValueError:
        return np.nan


# --- means over rows


def _mean_of(losses: Callable[[np.ndarray, np.ndarray], np.ndarray], power: float = 1.0) -> Scorer:
    def score(weights: np.ndarray, y: np.ndarray, responses: Responses) -> np.ndarray:
        each = np.stack([losses(y, response) for response in responses], axis=1).astype(float)
        return _ratio(weights @ each, weights.sum(axis=1)[:, None]) ** power

    return score


def _r2(weights: np.ndarray, y: np.ndarray, responses: Responses) -> np.ndarray:
    total = weights.sum(axis=1)
    far = y - y.mean()  # sums of squares cancel less
    spread = weights @ far**2 - _ratio((weights @ far) ** 2, total)
    missed = weights @ np.stack([(y - response) ** 2 for response in responses], axis=1)
    return 1.0 - _ratio(missed, np.where(spread > 1e-12 * total, spread, np.nan)[:, None])


def _pinball(alpha: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda y, p: np.maximum(alpha * (y - p), (alpha - 1.0) * (y - p))


def _log_loss(y: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return minus the logarithm of the probability of the truth; zero counts as the next number.

    Probabilities are those of every class, or those of the second of two.
    """
    P = P if P.ndim == 2 else np.stack([1.0 - P, P], axis=1)
    eps = np.finfo(P.dtype).eps
    return -np.log(np.clip(P, eps, 1.0 - eps)[np.arange(len(y)), y.astype(int)])


def _squares(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    return (y - p) ** 2


REGRESSION: dict[Any, Scorer] = {
    metrics.mean_squared_error: _mean_of(_squares),
    metrics.root_mean_squared_error: _mean_of(_squares, 0.5),
    metrics.mean_absolute_error: _mean_of(lambda y, p: np.abs(y - p)),
    metrics.r2_score: _r2,
}


PROBABILITIES = {metrics.log_loss: _log_loss, metrics.brier_score_loss: _squares}


def _of_table(function: Any, given: dict[str, Any], classes: np.ndarray | None) -> Scorer | None:
    """Return what scores probabilities of many classes."""
    if classes is None:
        return None
    if function is metrics.log_loss and not given:
        return _mean_of(_log_loss)
    if function is metrics.roc_auc_score and given == {"multi_class": "ovr"}:
        return _one_against_rest(len(classes))
    return None


def _one_against_rest(n_classes: int) -> Scorer:
    def score(weights: np.ndarray, y: np.ndarray, responses: Responses) -> np.ndarray:
        areas = [
            _each(_roc_auc, k)(weights, y, [response[:, k] for response in responses])
            for k in range(n_classes)
        ]
        return np.mean(areas, axis=0)

    return score


# --- functions of a confusion matrix, of shape (weightings, classes, classes)

Measure = Callable[[np.ndarray], np.ndarray]


def _of_confusion(measure: Measure, n_classes: int) -> Scorer:
    """Return what scores by confusion matrices; rows of them are true classes."""

    def score(weights: np.ndarray, y: np.ndarray, responses: Responses) -> np.ndarray:
        cells = np.arange(n_classes**2)
        found = []
        for response in responses:
            cell = n_classes * y.astype(np.int64) + response
            counts = weights @ (cell[:, None] == cells).astype(float)
            found.append(measure(counts.reshape(-1, n_classes, n_classes)))
        return np.stack(found, axis=1)

    return score


def _accuracy(M: np.ndarray) -> np.ndarray:
    return _ratio(np.trace(M, axis1=1, axis2=2), M.sum(axis=(1, 2)))


def _balanced_accuracy(M: np.ndarray) -> np.ndarray:
    true = M.sum(axis=2)
    right = np.diagonal(M, axis1=1, axis2=2) / np.where(true > 0, true, np.nan)
    with np.errstate(all="ignore"):
        return _ratio(np.nansum(right, axis=1), (true > 0).sum(axis=1))


def _matthews(M: np.ndarray) -> np.ndarray:
    true, put, total = M.sum(axis=2), M.sum(axis=1), M.sum(axis=(1, 2))
    agreement = total * np.trace(M, axis1=1, axis2=2) - (true * put).sum(axis=1)
    spread = (total**2 - (true**2).sum(axis=1)) * (total**2 - (put**2).sum(axis=1))
    return np.where(spread > 0, agreement / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)


def _by_class(function: Any, given: dict[str, Any], positive: int | None) -> Measure | None:
    """Return F, precision, recall or Jaccard's of one class, or averaged over all."""
    average, beta = given.pop("average", "binary"), given.pop("beta", 1.0)
    if given or (average == "binary" and positive is None) or average not in AVERAGES:
        return None

    def of(hits: np.ndarray, true: np.ndarray, put: np.ndarray) -> np.ndarray:
        if function is metrics.precision_score:
            return _ratio(hits, put, 0.0)
        if function is metrics.recall_score:
            return _ratio(hits, true, 0.0)
        if function is metrics.jaccard_score:
            return _ratio(hits, true + put - hits, 0.0)
        return _ratio((1.0 + beta**2) * hits, beta**2 * true + put, 0.0)

    def measure(M: np.ndarray) -> np.ndarray:
        hits = np.diagonal(M, axis1=1, axis2=2)
        true, put = M.sum(axis=2), M.sum(axis=1)
        if average == "binary":
            return of(hits, true, put)[:, positive]
        if average == "micro":
            return of(hits.sum(axis=1), true.sum(axis=1), put.sum(axis=1))
        seen = (true + put > 0).astype(float)  # scikit-learn leaves the others out
        share = true if average == "weighted" else seen
        return _ratio((of(hits, true, put) * share).sum(axis=1), share.sum(axis=1))

    return measure


AVERAGES = ("binary", "micro", "macro", "weighted")
BY_CLASS = (
    metrics.f1_score, metrics.fbeta_score, metrics.precision_score, metrics.recall_score,
    metrics.jaccard_score,
)  # fmt: skip
WHOLE: dict[Any, Measure] = {
    metrics.zero_one_loss: lambda M: 1.0 - _accuracy(M),
    metrics.balanced_accuracy_score: _balanced_accuracy,
    metrics.matthews_corrcoef: _matthews,
}


def _measure(function: Any, given: dict[str, Any], positive: int | None) -> Measure | None:
    if function in BY_CLASS:
        return _by_class(function, given, positive)
    return WHOLE.get(function) if not given else None


# --- areas of ranks, for two classes


def _each(area: Callable[[np.ndarray, np.ndarray], np.ndarray], positive: int) -> Scorer:
    """Return what scores outputs by the weights of both classes at every height, ascending."""

    def score(weights: np.ndarray, y: np.ndarray, responses: Responses) -> np.ndarray:
        found = []
        for response in responses:
            order = np.argsort(response, kind="stable")
            heights = response[order]
            starts = np.flatnonzero(np.r_[True, heights[1:] > heights[:-1]])
            here, of_it = weights[:, order], y[order] == positive
            ones = np.add.reduceat(here * of_it, starts, axis=1)
            zeros = np.add.reduceat(here * ~of_it, starts, axis=1)
            found.append(area(ones, zeros))
        return np.stack(found, axis=1)

    return score


def _roc_auc(ones: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    below = np.cumsum(zeros, axis=1) - 0.5 * zeros
    return _ratio((ones * below).sum(axis=1), ones.sum(axis=1) * zeros.sum(axis=1))


def _average_precision(ones: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    hits = np.cumsum(ones[:, ::-1], axis=1)[:, ::-1]
    put = hits + np.cumsum(zeros[:, ::-1], axis=1)[:, ::-1]
    return _ratio((ones * _ratio(hits, put, 0.0)).sum(axis=1), ones.sum(axis=1))


RANKINGS = {
    metrics.roc_auc_score: _roc_auc,
    metrics.average_precision_score: _average_precision,
}


def _ratio(top: Any, bottom: Any, otherwise: float = np.nan) -> np.ndarray:
    """Return a ratio, and something else where the bottom is zero."""
    positive = np.asarray(bottom) > 0
    return np.where(positive, top / np.where(positive, bottom, 1.0), otherwise)
