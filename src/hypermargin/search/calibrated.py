"""Probabilities of a search: the model's own, or those of the sigmoid that it has fitted."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.model_selection._search import BaseSearchCV, _check_refit
from sklearn.utils.metadata_routing import _raise_for_params, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..adapters.blocks import is_dask
from ..adapters.model import read_model
from ..criteria.probability import agreeing
from .blockwise import Blockwise, on_blocks, score_of_blocks


def _has_probabilities(name: str) -> Callable[[Any], bool]:
    """Return whether a search has the method `name`: the model has probabilities, or we do."""

    def check(search: Any) -> bool:
        _check_refit(search, name)
        best = getattr(search, "best_estimator_", None)
        if best is None:  # before fit, scikit-learn asks the estimator
            return hasattr(search.estimator, "predict_proba") or is_classifier(search.estimator)
        return hasattr(best, "predict_proba") or search.calibration_ is not None

    return check


def probabilities(best: Any, calibration: Any, X: Any) -> np.ndarray:
    """Return the probabilities of a fitted model: its own, or those of a sigmoid of its outputs."""
    if hasattr(best, "predict_proba"):
        return best.predict_proba(X)
    model = read_model(getattr(best, "estimator_", best))
    if model.transformers is not None:
        X = model.transformers.transform(X)
    outputs = model.adapter.outputs(X)
    P = calibration.probabilities(model.adapter.contrasted(outputs)[0])
    if isinstance(best, FixedThresholdClassifier):
        return P
    return agreeing(P, np.searchsorted(model.machine.classes_, model.machine.predict(X)))


def log_probabilities(best: Any, calibration: Any, X: Any) -> np.ndarray:
    """Return the logarithms of the probabilities of a fitted model."""
    if hasattr(best, "predict_log_proba"):
        return best.predict_log_proba(X)
    with np.errstate(divide="ignore"):  # zero has the logarithm -inf
        return np.log(probabilities(best, calibration, X))


class Calibrated(Blockwise):
    """A search whose best point may have a sigmoid of its own, `calibration_`."""

    @available_if(_has_probabilities("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._probable(log_probabilities, X)

    @available_if(_has_probabilities("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        The sigmoid behind it was fitted to the out-of-fold outputs of the best point, so it took no
        further fit.  The class that `predict` chooses has the largest probability, unless there is
        a threshold: probabilities stay calibrated then, as those of
        :class:`~sklearn.model_selection.FixedThresholdClassifier` do, and `predict` says the second
        class where its probability is `probability_cut_` or more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._probable(probabilities, X)

    def _probable(self, function: Callable, X: Any) -> Any:
        """Ask for probabilities, those of each block on their own if there are some."""
        check_is_fitted(self)
        answer = partial(function, self.best_estimator_, self.calibration_)
        return on_blocks(answer, self.best_estimator_, X) if is_dask(X) else answer(X)

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """Return the score of the best model on new data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels or targets.
        **params : dict
            Parameters for the scorer.

        Returns
        -------
        score : float
            By `scoring`, or by the estimator's own score.  Of Dask collections it is an array of
            theirs without dimensions, of which nothing is computed yet; `float` does it.
        """
        best, scorer = getattr(self, "best_estimator_", None), getattr(self, "scorer_", None)
        if isinstance(scorer, dict):
            scorer = scorer.get(self.refit)
        calibrated = getattr(self, "calibration_", None) is not None
        if is_dask(X) or is_dask(y):
            return self._score_of_blocks(best, scorer, X, y, params)
        asks = "predict_proba" in str(getattr(scorer, "_response_method", ""))
        if not asks or not calibrated or hasattr(best, "predict_proba"):
            return super().score(X, y, **params)
        probable = copy(self)  # scorers ask the search, which has probabilities
        probable.best_estimator_ = self
        return BaseSearchCV.score(probable, X, y, **params)

    def _score_of_blocks(
        self, best: Any, scorer: Any, X: Any, y: Any, params: dict[str, Any]
    ) -> Any:
        _check_refit(self, "score")
        check_is_fitted(self)
        _raise_for_params(params, self, "score")
        given = process_routing(self, "score", **params).scorer["score"] if params else {}
        probable = None
        if hasattr(best, "predict_proba") or self.calibration_ is not None:
            probable = partial(probabilities, best, self.calibration_)
        return score_of_blocks(best, scorer, probable, X, y, given)
