"""Predictions and scores of Dask collections: made block by block, when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV, _search_estimator_has
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..adapters.blocks import DaskPlaces, aligned, is_dask, is_frame, lazily, of_blocks
from ..adapters.chunked import check_collections
from ..adapters.survey import as_rows, as_vector
from ..criteria.sums import Moments
from ..problems.chunked.places import Sums
from .tallies import Tally, measures_of


class Blockwise(BaseSearchCV):
    """A search whose model answers for Dask collections with Dask collections."""

    best_estimator_: Any

    @available_if(_search_estimator_has("predict"))
    def predict(self, X: Any) -> Any:
        """Predict with the best model.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Labels or values.  Of a Dask collection they are one, too, which nothing is computed of
            yet.
        """
        return self._answer("predict", X)

    @available_if(_search_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the outputs of the best model.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        decisions : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of a Dask collection they are one, too, which nothing is computed of yet.
        """
        return self._answer("decision_function", X)

    def _answer(self, name: str, X: Any) -> Any:
        """Call a method of the best model, on each block of its own if there are some."""
        check_is_fitted(self)
        if not is_dask(X):
            return getattr(super(), name)(X)
        return on_blocks(getattr(self.best_estimator_, name), self.best_estimator_, X)


def on_blocks(answer: Callable, best: Any, X: Any) -> Any:
    """Return what a function says of every block of X, to be computed later; `best` is fitted."""
    n_features = best.n_features_in_
    if X.ndim != 2 or X.shape[1] != n_features:
        found = f"{X.shape[1]} features" if X.ndim == 2 else f"{X.ndim} dimensions"
        raise ValueError(
            f"X has {found}, but {type(best).__name__} is expecting {n_features} features as input."
        )
    example = answer(_one_row(X, n_features))
    return of_blocks(X, _ask, (answer, example[:0]), example)


def _one_row(X: Any, n_features: int) -> Any:
    row = np.zeros((1, n_features))
    return type(X._meta)(row, columns=list(X.columns)) if is_frame(X) else row


def _ask(rows: Any, answer: Callable, nothing: np.ndarray) -> np.ndarray:
    return answer(rows) if rows.shape[0] else nothing


def is_frame_here(rows: Any) -> bool:
    """Whether rows are a data frame in memory."""
    return hasattr(rows, "iloc")


@dataclass(frozen=True)
class OfModel:
    """What a fitted model says of rows; `probable` gives its probabilities, if there are any."""

    best: Any
    classes: np.ndarray | None
    probable: Callable | None

    def predicted(self, rows: Any) -> np.ndarray:
        """Return the numbers of the predicted classes, or predicted values."""
        found = self.best.predict(rows)
        return found if self.classes is None else np.searchsorted(self.classes, found)

    def probabilities(self, rows: Any) -> np.ndarray:
        """Return the probability of every class."""
        assert self.probable is not None
        return self.probable(rows)

    def ordered(self, rows: Any) -> np.ndarray:
        """Return numbers that are larger for the second of two classes."""
        return self.best.decision_function(rows)


def score_of_blocks(
    best: Any, scorer: Any, probable: Callable | None, X: Any, y: Any, params: Mapping[str, Any]
) -> Any:
    """Return the score of a fitted model on collections, as a number to be computed later."""
    check_collections(X, y, params)
    classes = getattr(best, "classes_", None)
    measures, kinds = measures_of(scorer, classes, probable is not None)
    places = DaskPlaces.of(*aligned(X, {"y": y, **params}), keep=False)
    answers = OfModel(best, classes, probable)
    tally = Tally(answers, 1, 0 if classes is None else len(classes), kinds)
    moments = places.later(_moments, answers) if "order" in kinds else {}
    tallies = places.later(_tallied, tally, classes, moments)
    return lazily(_measured, tallies, measures[None])


def _read(chunk: dict[str, Any], classes: np.ndarray | None) -> tuple:
    X = chunk["X"] if is_frame_here(chunk["X"]) else as_rows(chunk["X"])
    y = as_vector(chunk["y"])
    if y.ndim != 1 or len(y) != X.shape[0]:
        raise ValueError(f"y has the shape {y.shape} where X has {X.shape[0]} rows; give a column.")
    if len(y) and classes is not None:
        unknown = y[~np.isin(y, classes)].tolist()
        if unknown:
            raise ValueError(f"y has the label {unknown[0]!r}, which the model does not know.")
        y = np.searchsorted(classes, y)
    weight = as_vector(chunk["sample_weight"]) if "sample_weight" in chunk else np.ones(len(y))
    return X, y, weight


def _moments(chunk: dict[str, Any], answers: OfModel) -> Sums:
    X, y, weight = _read(chunk, answers.classes)
    if not len(y):
        return {}
    return {"moments": Moments.of(answers.ordered(X)[:, None], y, weight)}


def _tallied(
    chunk: dict[str, Any], tally: Tally, classes: np.ndarray | None, moments: Sums
) -> Sums:
    X, y, weight = _read(chunk, classes)
    if not len(y):
        return {}
    return tally(X, y, weight, np.zeros(len(y), dtype=int), moments.get("moments"))


def _measured(tallies: Sums, measure: Any) -> np.float64:
    return np.float64(measure(tallies, 0))
