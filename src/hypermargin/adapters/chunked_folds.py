"""Folds of rows in chunks: those of scikit-learn, each chunk knowing its own part of them.

Without a shuffle they are functions of the number of a row, or of its number within its class, so
that a chunk needs to know how many rows, or rows of each class, come before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedKFold, check_cv

from .._core.warn import warn
from .blocks import is_dask
from .survey import Survey


@dataclass(frozen=True)
class Before:
    """What comes before a chunk: rows, and rows by class; `given` are folds of its own rows."""

    rows: int
    of_class: np.ndarray
    given: np.ndarray | None = None


@dataclass(frozen=True)
class Folds:
    """Which fold validates on a row: `ends` are ordinals at which folds end, by class.

    Rows are numbered within their class, or all together where there is one column of ends.  None
    are folds that are given by number.
    """

    n_splits: int
    ends: np.ndarray | None
    names: tuple[int, ...] = ()  # numbers of given folds

    def of(self, y: np.ndarray, before: Before, given: np.ndarray | None) -> np.ndarray:
        """Return the folds of the rows of a chunk, whose classes are y."""
        if self.ends is None:
            found = np.full(len(y), -1)
            values = before.given if before.given is not None else given
            assert values is not None
            for number, name in enumerate(self.names):
                found[values == name] = number
            return found
        if self.ends.shape[1] == 1:
            rows = before.rows + np.arange(len(y))
            return np.searchsorted(self.ends[:, 0], rows, side="right")
        found = np.empty(len(y), dtype=int)
        for k in range(self.ends.shape[1]):
            own = np.flatnonzero(y == k)
            ordinals = before.of_class[k] + np.arange(len(own))
            found[own] = np.searchsorted(self.ends[:, k], ordinals, side="right")
        return found


def read_folds(cv: Any, surveys: Sequence[Survey], classes: np.ndarray | None) -> Folds:
    """Return the folds that `cv` asks for, or say which it may ask for."""
    n_rows = sum(one.n_rows for one in surveys)
    if is_dask(cv):
        found = sorted({fold for one in surveys for fold in one.folds if fold >= 0})
        return _given(found)
    labels = np.array([0.5, 1.5]) if classes is None else np.arange(2)
    splitter = check_cv(cv, labels, classifier=classes is not None)
    if type(splitter) is PredefinedSplit:
        if len(splitter.test_fold) != n_rows:
            raise ValueError(f"cv has folds of {len(splitter.test_fold)} rows; X has {n_rows}.")
        return _given(np.unique(splitter.test_fold[splitter.test_fold >= 0]).tolist())
    if type(splitter) not in (KFold, StratifiedKFold) or splitter.shuffle:
        given = repr(cv) if hasattr(cv, "split") else f"a {type(cv).__name__} of rows"
        raise ValueError(
            f"cv={given} needs all rows in one place, which data in chunks are not; use a number, "
            "KFold or StratifiedKFold without shuffle, or the number of each row's fold as a Dask "
            "array."
        )
    k = splitter.n_splits
    if k > n_rows:
        raise ValueError(f"cv={k} folds are more than the {n_rows} rows of X.")
    if type(splitter) is KFold or classes is None:
        sizes = np.full(k, n_rows // k)
        sizes[: n_rows % k] += 1
        return Folds(k, np.cumsum(sizes)[:, None])
    return Folds(k, np.cumsum(_stratified(k, surveys, classes), axis=0))


def _given(names: list) -> Folds:
    if len(names) < 2:
        raise ValueError(
            f"cv names the folds {names}; there must be at least two, numbered from zero on (rows "
            "of -1 are never left out)."
        )
    return Folds(len(names), None, tuple(names))


def _stratified(k: int, surveys: Sequence[Survey], classes: np.ndarray) -> np.ndarray:
    """Return how many rows of each class every fold has, as scikit-learn deals them out.

    It sorts the rows by class, in the order in which classes first appear, and deals them out in
    turn.
    """
    counts = class_counts(surveys, classes).sum(axis=0)
    if (counts < k).all():
        raise ValueError(
            f"n_splits={k} cannot be greater than the number of members in each class."
        )
    if counts.min() < k:
        warn(
            f"The least populated class in y has only {counts.min()} members, which is less than "
            f"n_splits={k}."
        )
    appear = list(dict.fromkeys(label for one in surveys for label in one.labels))
    found, start = np.zeros((k, len(classes)), dtype=int), 0
    for label in appear:
        number = classes.tolist().index(label)
        end = start + counts[number]
        for f in range(k):  # places start <= p < end with p % k == f
            found[f, number] = (end - f + k - 1) // k - (start - f + k - 1) // k
        start = end
    return found


def class_counts(surveys: Sequence[Survey], classes: np.ndarray | None) -> np.ndarray:
    """Return the rows of each class in every chunk."""
    if classes is None:
        return np.array([[one.n_rows] for one in surveys])
    place = {label: k for k, label in enumerate(classes.tolist())}
    found = np.zeros((len(surveys), len(classes)), dtype=int)
    for row, one in zip(found, surveys, strict=True):
        for label, count in zip(one.labels, one.counts, strict=True):
            row[place[label]] += count
    return found


def before_each(cv: Any, surveys: Sequence[Survey], counts: np.ndarray) -> list[Before]:
    """Return what comes before every chunk."""
    rows = np.concatenate([[0], np.cumsum([one.n_rows for one in surveys])])
    of_class = np.vstack([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0)])
    given = cv.test_fold if type(cv) is PredefinedSplit else None
    return [
        Before(int(start), of, None if given is None else given[start:end])
        for start, end, of in zip(rows, rows[1:], of_class)
    ]
