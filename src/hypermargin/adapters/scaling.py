"""Estimators with the parameters of a point; those with one width get scaled features instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from .model import read_model

STEP = "widths"  # the step of a pipeline that has the widths of an estimator with one gamma


class FeatureScaling(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Multiplies every feature by its factor.

    Parameters
    ----------
    factors : array-like of shape (n_features,)

    Examples
    --------
    >>> from hypermargin.adapters.scaling import FeatureScaling
    >>> FeatureScaling([1.0, 10.0]).fit_transform([[1.0, 2.0], [3.0, 4.0]])
    array([[ 1., 20.],
           [ 3., 40.]])
    """

    def __init__(self, factors: Any):
        self.factors = factors

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that there is a factor for each feature.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : object
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=float)
        self.factors_ = np.array(self.factors, dtype=float)
        if self.factors_.shape != (X.shape[1],):
            raise ValueError(
                f"factors has the shape {self.factors_.shape}; give one for each of the "
                f"{X.shape[1]} features."
            )
        return self

    def transform(self, X: Any) -> Any:
        """Return the features times their factors.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=float, reset=False)
        return (
            sparse.csr_matrix(X.multiply(self.factors_))
            if sparse.issparse(X)
            else X * self.factors_
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def with_params(estimator: Any, params: Mapping[str, Any]) -> tuple[Any, str]:
    """Return an estimator with parameters, and what its parameters of `fit` now begin with.

    Where a machine with one gamma has one for each feature, a pipeline scales the features by their
    roots, and the machine has gamma = 1, which is the same.
    """
    values = clone(dict(params), safe=False)
    widths = {n: v for n, v in values.items() if n.endswith("gamma") and np.ndim(v) == 1}
    others = {n: v for n, v in values.items() if n not in widths}
    found = clone(estimator).set_params(**others)
    if not widths:
        return found, ""
    model = read_model(found)
    if model.adapter.holds_widths:
        return found.set_params(**widths), ""
    (gamma,) = widths.values()
    scaling = (STEP, FeatureScaling(np.sqrt(gamma)))
    model.machine.set_params(gamma=1.0)
    if model.prefix:
        around = found
        while isinstance(around.steps[-1][1], Pipeline):
            around = around.steps[-1][1]
        around.steps.insert(len(around.steps) - 1, scaling)
        return found, ""
    name = type(found).__name__.lower()
    return Pipeline([scaling, (name, found)]), f"{name}__"
