"""Folds: drawn once, with the weights of their training rows and the classes that they know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from ..problems.base import Fold
from .base import Targets
from .input import row_weights
from .model import Model

Split = tuple[np.ndarray, np.ndarray]


class FitFailed(ValueError):
    """A fold cannot be trained here."""

    @property
    def cause(self) -> Exception:
        """What users are to be told of."""
        return self


class TransformerFailed(FitFailed):
    """A transformer could not be fitted inside a fold; the error is chained to it."""

    @property
    def cause(self) -> Exception:
        return self.__cause__ if isinstance(self.__cause__, Exception) else self


def draw_folds(cv: Any, X: Any, y: Any, split_params: Mapping[str, Any]) -> list[Split]:
    """Draw the folds, once, as row numbers (given as numbers from either end, or as masks)."""
    rows = np.arange(_num_samples(X))
    splits = []
    for number, parts in enumerate(cv.split(X, y, **split_params)):
        try:
            train, test = (rows[np.asarray(part)] for part in parts)
        except IndexError as error:
            raise ValueError(
                f"fold {number} of cv names rows that X, with {len(rows)} rows, does not have: "
                f"{error}."
            ) from None
        splits.append((train, test))
    if not splits:
        raise ValueError(f"cv={cv!r} gives no folds; give at least one pair (train, test).")
    promised = cv.get_n_splits(X, y, **split_params)
    if len(splits) != promised:
        raise ValueError(
            f"cv.split and cv.get_n_splits return inconsistent results. Expected {promised} "
            f"splits, got {len(splits)}"
        )
    for number, (train, test) in enumerate(splits):
        if not len(train) or not len(test):
            part = "test" if len(train) else "training"
            raise ValueError(f"the {part} part of fold {number} of cv is empty.")
    return splits


def trainable(
    model: Model, targets: Targets, splits: Sequence[Split], own: Mapping[str, Any]
) -> list[Split]:
    """Return the folds that can be trained here, if no transformer fails."""
    sample_weight = row_weights(own.get("sample_weight"), len(targets.y))
    return [splits[number] for number in make_folds(model, targets, splits, sample_weight)[0]]


def make_folds(
    model: Model, targets: Targets, splits: Sequence[Split], sample_weight: np.ndarray
) -> tuple[dict[int, Fold], dict[int, tuple[Split, FitFailed]]]:
    """Return the folds that can be trained, and those that cannot, by number."""
    folds, foreign = {}, {}
    for number, split in enumerate(splits):
        try:
            folds[number] = _fold(model, targets, split, sample_weight, f"fold {number}")
        except FitFailed as error:
            foreign[number] = split, error
    return folds, foreign


def whole_fold(model: Model, targets: Targets, sample_weight: np.ndarray) -> Fold | None:
    """Return all rows in training, for machines that are trained on them beside the folds."""
    everyone = np.arange(len(targets.y)), np.empty(0, dtype=int)
    try:
        return _fold(model, targets, everyone, sample_weight, "all rows")
    except FitFailed as error:
        raise ValueError(str(error)) from None


def _fold(
    model: Model, targets: Targets, split: Split, sample_weight: np.ndarray, name: str
) -> Fold:
    """Return a fold with the weight of every row in its training part, 0 outside of it.

    A row that is listed twice has twice its weight.  Weights of classes that are tuned come in
    place of the estimator's own.
    """
    train, test = split
    adapter = model.adapter
    y, known = targets.y[train], None
    if targets.classes is not None:
        known = _known_classes(targets, train, sample_weight, name)
    elif not sample_weight[train].any():
        raise FitFailed(f"the sample_weight of the training part of {name} is zero.")
    factors: Any = 1.0
    if "class_weight" not in adapter.tuned:
        try:
            factors = adapter.class_weight(y, targets, sample_weight[train])
        except ValueError as error:
            raise FitFailed(f"in the training part of {name}: {error}") from error
    weight, plain = np.zeros(len(targets.y)), np.zeros(len(targets.y))
    np.add.at(weight, train, sample_weight[train] * factors)
    two = known is not None and known.sum() == 2
    if two and not adapter.weighs_others and "class_weight" in adapter.tuned:
        raise FitFailed(
            f"the training part of {name} has two classes only, whose weights mean something else "
            "than those of more; use fewer or stratified folds, or do not tune class_weight."
        )
    if adapter.weighs_others or two or len(targets.columns) == 1:
        return Fold(test, weight, known=known)
    np.add.at(plain, train, sample_weight[train])
    return Fold(test, weight, plain, known)


def _known_classes(
    targets: Targets, train: np.ndarray, sample_weight: np.ndarray, name: str
) -> np.ndarray | None:
    """Return which classes a training part has, None if it has all.

    What estimators make of a single one, or of classes whose weights are zero, is for them to say.
    """
    classes, y = np.asarray(targets.classes), targets.y[train]
    known = np.zeros(len(classes), dtype=bool)
    known[y] = True
    weighs = np.zeros(len(classes), dtype=bool)
    weighs[y[sample_weight[train] > 0]] = True
    for missing in np.flatnonzero(known & ~weighs):
        raise FitFailed(
            f"the training part of {name} has no sample of class {classes.tolist()[missing]!r} "
            "with a positive sample_weight; use fewer or stratified folds, or drop the class."
        )
    if known.sum() == 1:
        raise FitFailed(
            f"the training part of {name} has one class only; use fewer or stratified folds."
        )
    return None if known.all() else known
