"""Predictions and scores of Dask collections: made block by block, when somebody asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV, _search_estimator_has
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..adapters.blocks import DaskPlaces, aligned, is_dask, is_frame, lazily, of_blocks
from ..adapters.chunked import check_collections
from ..adapters.model import read_model
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
        return on_blocks(self.best_estimator_, name, X)


def on_blocks(best: Any, name: str, X: Any) -> Any:
    """Return what a fitted model says of every block of X, to be computed later."""
    n_features = best.n_features_in_
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(best).__name__} is expecting {n_features} "
            "features as input."
        )
    example = getattr(best, name)(_one_row(X, n_features))
    return of_blocks(X, _ask, (best, name, example[:0]), example)


def _one_row(X: Any, n_features: int) -> Any:
    row = np.zeros((1, n_features))
    return type(X._meta)(row, columns=list(X.columns)) if is_frame(X) else row


def _ask(rows: Any, best: Any, name: str, nothing: np.ndarray) -> np.ndarray:
    if not len(rows) if is_frame_here(rows) else not rows.shape[0]:
        return nothing
    return getattr(best, name)(rows)


def is_frame_here(rows: Any) -> bool:
    """Whether rows are a data frame in memory."""
    return hasattr(rows, "iloc")


def score_of_blocks(best: Any, scorer: Any, X: Any, y: Any) -> Any:
    """Return the score of a fitted model on collections, as a number to be computed later."""
    check_collections(X, y, {})
    model = read_model(best)
    classes = getattr(best, "classes_", None)
    measures, kinds = measures_of(scorer, model, classes)
    places = DaskPlaces.of(*aligned(X, {"y": y}), keep=False)
    tally = Tally(model.adapter, 1, 0 if classes is None else len(classes), kinds)
    moments = places.later(_moments, best, classes) if "order" in kinds else {}
    tallies = places.later(_tallied, best, classes, tally, moments)
    return lazily(_measured, tallies, measures[None])


def _read(chunk: dict[str, Any], best: Any, classes: np.ndarray | None) -> tuple:
    X, y = as_rows(chunk["X"]), as_vector(chunk["y"])
    if len(y) and classes is not None:
        unknown = y[~np.isin(y, classes)]
        if len(unknown):
            raise ValueError(f"y has the label {unknown[0]!r}, which the model does not know.")
        y = np.searchsorted(classes, y)
    return chunk["X"] if is_frame_here(chunk["X"]) else X, y


def _moments(chunk: dict[str, Any], best: Any, classes: np.ndarray | None) -> Sums:
    X, y = _read(chunk, best, classes)
    if not len(y):
        return {}
    return {"moments": Moments.of(read_model(best).adapter.outputs(X), y, np.ones(len(y)))}


def _tallied(
    chunk: dict[str, Any], best: Any, classes: np.ndarray | None, tally: Tally, moments: Sums
) -> Sums:
    X, y = _read(chunk, best, classes)
    if not len(y):
        return {}
    everyone, outputs = np.zeros(len(y), dtype=int), read_model(best).adapter.outputs(X)
    return tally(outputs, y, np.ones(len(y)), everyone, moments.get("moments"))  # type: ignore[arg-type]


def _measured(tallies: Sums, measure: Any) -> np.float64:
    return np.float64(measure(tallies, 0))
