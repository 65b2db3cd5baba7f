"""What is kept of out-of-fold outputs when a search is over: what its scorer was given.

For every point that could have been chosen these are the predictions, decisions or probabilities
on rows that no machine of the fold was trained on.  They are plain arrays, without the problem that
they came from, and from them follow scores on any choice of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, make_scorer, r2_score
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer

from .records import Selection
from .resampled import called, fast_scorer

Given = tuple[Any, Any, dict[str, Any]]  # targets, response and arguments of a score


@dataclass(frozen=True)
class OutOfFold:
    """Targets and responses of some points on the validation rows of every fold.

    function, sign, arguments : what makes a score of them
    classes : labels whose numbers targets and predictions are, if they are
    rows : row numbers of every fold
    y, weights : targets, and weights in the score, of these rows
    responses : by point and fold
    losses, found : of the points; what was found are their scores on all rows
    chosen : the number of the point that the search has chosen
    selection : how it was chosen
    groups : a number for every row of the data: rows of one are drawn together
    """

    function: Any
    sign: int
    arguments: Mapping[str, Any]
    classes: np.ndarray | None
    rows: list[np.ndarray]
    y: list[np.ndarray]
    weights: list[np.ndarray] | None
    responses: list[list[np.ndarray]]
    losses: np.ndarray
    found: np.ndarray
    chosen: int
    selection: Selection
    groups: np.ndarray | None

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.responses)

    @property
    def n_units(self) -> int:
        """The number of rows, or of groups, that were scored."""
        rows = np.unique(np.concatenate(self.rows))
        return len(rows if self.groups is None else np.unique(self.groups[rows]))

    @property
    def rarest(self) -> int:
        """The number of rows of the class that has the fewest, where a score goes by class."""
        if self.classes is None or self.function is accuracy_score:
            return self.n_units
        counts = np.unique(np.concatenate(self.y), return_counts=True)[1]
        return min(int(counts.min()), self.n_units)

    @property
    def is_fast(self) -> bool:
        """Whether all draws of a bootstrap are scored at once."""
        return self._fast() is not None

    def units(self, most: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return for every row of the data what it is drawn with, and how many of these there are.

        That is its group, or itself; where rows are more than `most`, so many parts of them.
        """
        rows = np.unique(np.concatenate(self.rows))
        unit = np.zeros(rows[-1] + 1, dtype=np.int64)
        if self.groups is not None:
            labels, unit[rows] = np.unique(self.groups[rows], return_inverse=True)
            return unit, len(labels)
        n_units = min(most, len(rows))
        unit[rows] = rng.permutation(len(rows)) % n_units
        return unit, n_units

    def only(self, points: np.ndarray) -> Self:
        """Return some of the points, the chosen one among them."""
        return replace(
            self,
            responses=[self.responses[point] for point in points],
            losses=self.losses[points],
            found=self.found[points],
            chosen=int(np.flatnonzero(points == self.chosen)[0]),
        )

    def among_best(self, most: int) -> Self:
        """Return the points with the best scores."""
        others = np.argsort(np.where(np.isnan(self.found), -np.inf, self.found))[::-1]
        others = others[others != self.chosen][: most - 1]
        return self.only(np.sort(np.append(others, self.chosen)))

    def beside(self, other: OutOfFold) -> OutOfFold:
        """Return the chosen points of two searches of the same folds."""
        if len(self.rows) != len(other.rows) or any(
            not np.array_equal(a, b) for a, b in zip(self.rows, other.rows)
        ):
            raise ValueError("cv gives other folds than it gave to fit; give it a random_state.")
        alone, with_it = (one.only(np.array([one.chosen])) for one in (self, other))
        return replace(
            alone,
            responses=alone.responses + with_it.responses,
            losses=np.append(alone.losses, with_it.losses),
            found=np.append(alone.found, with_it.found),
        )

    def scores(self, counts: np.ndarray) -> np.ndarray:
        """Return the score of every point (columns) where rows count as often as is said.

        `counts` has a row for each case and a column for each row of the data.  As in
        `best_score_` scores of folds are averaged; a fold counts as much as rows of it were drawn.
        """
        total, shares = np.zeros((len(counts), self.n_points)), np.zeros((len(counts), 1))
        scorer, weighs = self._fast(), self._weighs
        for f, (rows, y) in enumerate(zip(self.rows, self.y)):
            weight = np.ones(len(rows)) if self.weights is None else self.weights[f]
            times = counts[:, rows]
            responses = [each[f] for each in self.responses]
            # not every score takes a weight of two for two rows: without weights these are repeated
            if scorer is not None or (weighs and self.weights is not None):
                used = scorer or called(self._labelled, self.arguments, repeats=False)
                found = used(times * weight, y, responses)
            else:
                found = called(self._labelled, self.arguments, True)(times, y, responses)
            share = (times @ weight / weight.sum())[:, None]
            share = np.where(np.isfinite(found).all(axis=1, keepdims=True), share, 0.0)
            total += share * np.where(share > 0, found, 0.0)
            shares += share
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.sign * total / shares

    @property
    def _weighs(self) -> bool:
        return "sample_weight" in signature(self.function).parameters

    def _fast(self) -> Any:
        as_table = any(np.ndim(one) > 1 for one in (*self.responses[0], *self.y))
        classes, first = self.classes, self.responses[0]
        if as_table and classes is not None and any(len(r.T) != len(classes) for r in first):
            return None  # a fold does not know them all
        return fast_scorer(self.function, self.arguments, classes, as_table)

    def _labelled(self, y: np.ndarray, response: np.ndarray, **given: Any) -> Any:
        """Call the score's own function, which knows labels and not their numbers."""
        if self.classes is not None:
            y = self.classes[y]
            if response.dtype.kind in "iu":
                response = self.classes[response]
        return self.function(y, response, **given)


@dataclass(frozen=True)
class BestOutputs:
    """Out-of-fold decisions of a classifier's best point, without its threshold.

    Decisions have a column for each pair of classes; `y` are numbers of `classes`, `weight` that of
    training, `fold` the number of the fold of every row.
    """

    decisions: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray
    classes: np.ndarray
    threshold: float


def leading_scorer(scorer: Any, leading: str | None, model: Any) -> Any:
    """Return the scorer that counts, as one that has a function."""
    if isinstance(scorer, _MultimetricScorer):
        scorer = scorer._scorers[leading]
    if isinstance(scorer, _PassthroughScorer):  # the model's own score
        return make_scorer(accuracy_score if is_classifier(model) else r2_score)
    return scorer


def listen(scorer: _BaseScorer, ask: Callable[[_BaseScorer], Any]) -> Given:
    """Return what the function of a scorer is given when `ask` calls the scorer."""
    heard: list[Given] = []
    silent = copy(scorer)

    @wraps(scorer._score_func)
    def record(y: Any, response: Any, **arguments: Any) -> float:
        heard.append((y, response, arguments))
        return 0.0

    silent._score_func = record
    ask(silent)
    return heard[0]


def keep(
    points: list[list[Given]],
    scorer: _BaseScorer,
    classes: np.ndarray | None,
    rows: list[np.ndarray],
    losses: list[float],
    found: list[float],
    chosen: int,
    selection: Selection,
    groups: Any,
) -> OutOfFold:
    """Keep what a scorer was given at every point and in every fold.

    `found` are the scores, NaN where they were not asked for.
    """
    given = points[chosen]
    arguments = {n: v for n, v in given[0][2].items() if n != "sample_weight"}
    weighed = "sample_weight" in given[0][2]
    y, responses = [np.asarray(one[0]) for one in given], [[p[1] for p in each] for each in points]
    if classes is not None and any(one.ndim > 1 for one in y):
        classes = None
    if classes is not None:
        y = [_coded(one, classes) for one in y]
        if scorer._response_method == "predict":
            responses = [[_coded(r, classes) for r in each] for each in responses]
    weights = None
    if weighed:  # rows that do not count are not drawn
        weights = [np.asarray(one[2]["sample_weight"], dtype=float) for one in given]
        counts = [weight > 0 for weight in weights]
        rows, y, weights = ([one[c] for one, c in zip(each, counts)] for each in (rows, y, weights))
        responses = [[one[c] for one, c in zip(each, counts)] for each in responses]
    kept = OutOfFold(
        scorer._score_func, scorer._sign, arguments, classes, rows, y, weights, responses,
        np.asarray(losses, dtype=float), np.asarray(found, dtype=float), chosen, selection,
        None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1],
    )  # fmt: skip
    if not np.isnan(kept.found).any():
        return kept
    each = kept.scores(np.ones((1, max(int(part.max(initial=0)) for part in rows) + 1)))[0]
    return replace(kept, found=np.where(np.isnan(kept.found), each, kept.found))


def _coded(labels: Any, classes: np.ndarray) -> np.ndarray:
    dtype = np.min_scalar_type(len(classes))
    return np.searchsorted(classes, np.asarray(labels)).astype(dtype)
