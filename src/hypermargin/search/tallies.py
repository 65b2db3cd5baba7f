"""Scores of folds whose rows are in many places: from counts and sums, never from the rows.

Scores of predicted labels follow from how often each class is put into each: scikit-learn's own
functions are given one row for each pair of classes, with that count as its weight.  Scores of
numbers and of probabilities are sums.  The area under the ROC curve comes from a sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Protocol

import numpy as np
from sklearn import metrics
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer

from ..criteria.sums import Moments, Scatter, shared
from ..problems.chunked.places import Sums

EXACT_CELLS = 8192  # of the sketch of outputs; two rows in one cell count as equal

# from sums of weights, residuals, their squares and sizes, the largest of these, and the squares of
# the targets around their mean
OF_NUMBERS: dict[Any, Callable[..., float]] = {
    metrics.mean_squared_error: lambda w, r, rr, a, m, yy: rr / w,
    metrics.root_mean_squared_error: lambda w, r, rr, a, m, yy: np.sqrt(rr / w),
    metrics.mean_absolute_error: lambda w, r, rr, a, m, yy: a / w,
    metrics.r2_score: lambda w, r, rr, a, m, yy: _share(rr, yy),
    metrics.explained_variance_score: lambda w, r, rr, a, m, yy: _share(rr - r * r / w, yy),
    metrics.max_error: lambda w, r, rr, a, m, yy: m,
}


def _share(left: float, of: float) -> float:
    """Return one minus a ratio; a constant target leaves nothing to explain, as in scikit-learn."""
    if of <= 0.0:
        return 1.0 if left <= 0.0 else 0.0
    return 1.0 - left / of


class Answers(Protocol):
    """What a model says of rows: numbers of classes or values, and how sure it is."""

    def predicted(self, rows: Any) -> np.ndarray:
        """Return the numbers of the predicted classes, or predicted values."""

    def probabilities(self, rows: Any) -> np.ndarray:
        """Return the probability of every class."""

    def ordered(self, rows: Any) -> np.ndarray:
        """Return numbers that are larger for the second of two classes."""


@dataclass(frozen=True)
class OfOutputs:
    """What machines say of rows that are given by their outputs there."""

    adapter: Any
    n_classes: int

    def predicted(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of the predicted classes, or predicted values."""
        if not self.n_classes:
            return rows[:, 0]
        return self.adapter.predict(rows, np.arange(self.n_classes))

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Return the probability of every class."""
        return self.adapter.probabilities(rows)

    def ordered(self, rows: np.ndarray) -> np.ndarray:
        """Return numbers that are larger for the second of two classes."""
        return rows[:, 0]


@dataclass(frozen=True)
class Tally:
    """What is counted of the rows of a chunk, by fold.

    `kinds` are some of "labels", "logarithms", "squares", "order" and "numbers".
    """

    answers: Answers
    n_folds: int
    n_classes: int
    kinds: frozenset[str]

    def __call__(
        self,
        rows: Any,
        y: np.ndarray,
        counts: np.ndarray,
        fold: np.ndarray,
        moments: Moments | None,
    ) -> Sums:
        """Return the counts of some rows; `moments` are those of what orders all of them."""
        found: Sums = {"rows": np.bincount(fold, minlength=self.n_folds)}
        if "labels" in self.kinds:
            put = self.answers.predicted(rows)
            found["labels"] = np.zeros((self.n_folds, self.n_classes, self.n_classes))
            np.add.at(found["labels"], (fold, y, put), counts)
        if "numbers" in self.kinds:
            found |= self._of_numbers(self.answers.predicted(rows), y, counts, fold)
        if self.kinds & {"logarithms", "squares"}:
            P = self.answers.probabilities(rows)
            own, eps = P[np.arange(len(y)), y], np.finfo(P.dtype).eps
            # scikit-learn believes no probability that is as good as zero or one
            each = np.column_stack([np.ones(len(y)), -np.log(np.clip(own, eps, 1.0 - eps)),
                                    (1.0 - own) ** 2])  # fmt: skip
            found["probable"] = np.zeros((self.n_folds, 3))
            np.add.at(found["probable"], fold, counts[:, None] * each)
        if "order" in self.kinds:
            assert moments is not None
            points, ordered = cells(moments), self.answers.ordered(rows)
            found["order"] = np.zeros((self.n_folds, 2, EXACT_CELLS))
            for f in np.unique(fold):
                for k in (0, 1):
                    own_rows = (fold == f) & (y == k)
                    found["order"][f, k] = _nearest(ordered[own_rows], counts[own_rows], points)
        return found

    def _of_numbers(
        self, outputs: np.ndarray, y: np.ndarray, counts: np.ndarray, fold: np.ndarray
    ) -> Sums:
        r = y - outputs
        each = np.column_stack([np.ones(len(y)), r, r**2, np.abs(r)])
        sums = np.zeros((self.n_folds, each.shape[1]))
        np.add.at(sums, fold, counts[:, None] * each)
        largest = np.zeros(self.n_folds)
        np.maximum.at(largest, fold, np.abs(r))
        targets = Scatter.of(y, counts, fold, self.n_folds)
        return {"numbers": sums, "largest": Largest(largest), "targets": targets}


@dataclass(frozen=True)
class Largest:
    """Numbers whose sum with others are the larger ones."""

    values: np.ndarray

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.values, other.values))


def cells(moments: Moments) -> np.ndarray:
    """Return the points that outputs are put to."""
    room = max(moments.high - moments.low, moments.spread[0])
    return np.linspace(moments.low, moments.low + room, EXACT_CELLS)


def _nearest(values: np.ndarray, weight: np.ndarray, points: np.ndarray) -> np.ndarray:
    return shared(np.round((values - points[0]) / (points[1] - points[0])), weight,
                  np.arange(float(len(points))))  # fmt: skip


Measure = Callable[[Sums, int], float]  # of tallies and the number of a fold


def measures_of(
    scorer: Any, classes: np.ndarray | None, probable: bool
) -> tuple[dict, frozenset[str]]:
    """Return what makes scores of tallies, by name (None for a single one), and what they need.

    `probable` says whether there are probabilities.
    """
    each = scorer._scorers if isinstance(scorer, _MultimetricScorer) else {None: scorer}
    found: dict[Any, Measure] = {}
    kinds: set[str] = set()
    for name, one in each.items():
        found[name], kind = _measure(one, classes, probable)
        kinds.add(kind)
    return found, frozenset(kinds)


def _measure(scorer: Any, classes: np.ndarray | None, probable: bool) -> tuple[Measure, str]:
    if isinstance(scorer, _PassthroughScorer):  # the model's own score
        own = metrics.r2_score if classes is None else metrics.accuracy_score
        scorer = metrics.make_scorer(own)
    if isinstance(scorer, _BaseScorer):
        function, sign, given = scorer._score_func, scorer._sign, scorer._kwargs
        if classes is None and function in OF_NUMBERS and not given:
            return _of_numbers(function, sign), "numbers"
        if classes is not None:
            found = _of_classes(scorer, function, sign, given, classes, probable)
            if found is not None:
                return found
    name = getattr(getattr(scorer, "_score_func", scorer), "__name__", repr(scorer))
    raise ValueError(
        f"scoring={name} cannot be made of sums over rows, which Dask collections give; use a "
        "score of predicted labels, 'roc_auc', 'neg_log_loss' of LogisticRegression, 'r2' or a "
        "mean squared or absolute error."
    )


def _of_numbers(function: Any, sign: int) -> Measure:
    def measure(tallies: Sums, f: int) -> float:
        largest, squares = tallies["largest"].values[f], tallies["targets"].squares[f]
        return sign * float(OF_NUMBERS[function](*tallies["numbers"][f], largest, squares))

    return measure


def _of_classes(
    scorer: Any,
    function: Any,
    sign: int,
    given: Mapping[str, Any],
    classes: np.ndarray,
    probable: bool,
) -> tuple[Measure, str] | None:
    if scorer._response_method == "predict" and "sample_weight" in signature(function).parameters:

        def of_labels(tallies: Sums, f: int) -> float:
            true, put = np.nonzero(tallies["labels"][f])
            weight = tallies["labels"][f][true, put]
            return sign * float(
                function(classes[true], classes[put], sample_weight=weight, **given)
            )

        return of_labels, "labels"
    if function is metrics.log_loss and probable and not given:
        return lambda t, f: sign * float(t["probable"][f, 1] / t["probable"][f, 0]), "logarithms"
    if function is metrics.brier_score_loss and probable and len(classes) == 2 and not given:
        return lambda t, f: sign * float(t["probable"][f, 2] / t["probable"][f, 0]), "squares"
    if function is metrics.roc_auc_score and len(classes) == 2 and not given:

        def of_order(tallies: Sums, f: int) -> float:
            down, up = tallies["order"][f]
            below = np.cumsum(down) - 0.5 * down
            return sign * float(up @ below / (up.sum() * down.sum()))

        return of_order, "order"
    return None
