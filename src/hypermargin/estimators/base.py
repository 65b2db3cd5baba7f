"""What estimators of our own have in common: how they are fitted, and what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    _fit_context,
    is_regressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._core.warn import warn
from ..adapters.base import Targets
from ..criteria.probability import agreeing
from ..losses import CLASSIFICATION, REGRESSION
from ..problems.base import Solution


class Machine(BaseEstimator):
    """An estimator that is trained by the machinery of the search, on all rows at once."""

    _adapter: ClassVar[type[Any]]
    _types: ClassVar[Any] = np.float64  # of X
    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, cost_groups: Any = None) -> Self:
        """Train on all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data; a square kernel matrix with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels, or the targets of a regressor.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors on C for each row.
        cost_groups : array-like of shape (n_samples,), default=None
            Labels of the groups that `group_cost` and, for regressors, `group_epsilon` are for.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._begin(X)
        X, y = validate_data(
            self, X, y, dtype=self._types, order="C", accept_sparse="csr",
            y_numeric=is_regressor(self),
        )  # fmt: skip
        obstacle = self._adapter(self).refuse()
        if obstacle is not None:
            raise ValueError(f"{type(self).__name__} cannot be trained with {obstacle}.")
        self._train(X, self._read(y), sample_weight, cost_groups)
        return self

    def _begin(self, X: Any) -> None:
        """Look at the data as they were given."""

    def _check_weight(self, weight: np.ndarray, targets: Targets) -> None:
        if not weight.any():
            raise ValueError("sample_weight is zero for all rows; give some of them weight.")

    def _check_converged(self, found: Sequence[Solution]) -> None:
        if not all(solution.converged for solution in found):
            warn(
                f"Training did not converge; scale the data, lower C={self.C} or raise "
                f"tol={self.tol}.",
                ConvergenceWarning,
            )


class KnobClassifier(ClassifierMixin):
    """What classifiers of our own have in common: checks, a threshold, a sigmoid."""

    constraints: ClassVar[dict] = {
        "loss": [StrOptions(CLASSIFICATION.keys())],
        "mu": [Interval(Real, 0, None, closed="neither")],
        "class_cost": ["array-like", dict, None],
        "margin": [Real, "array-like", dict],
        "group_cost": [dict, None],
        "threshold": [Interval(Real, None, None, closed="neither")],
    }

    def _read(self, y: Any) -> Targets:
        """Read the labels, and begin anew."""
        targets = self._adapter(self).targets(y)
        self.classes_ = np.asarray(targets.classes)
        if self.threshold != 0.0 and len(self.classes_) > 2:
            raise ValueError(
                f"threshold={self.threshold!r} is for two classes, y has {len(self.classes_)}."
            )
        self.calibration_: Any = None
        return targets

    def _check_weight(self, weight: np.ndarray, targets: Targets) -> None:
        totals = np.bincount(targets.y, weights=weight, minlength=len(self.classes_))
        if (totals == 0).any():
            label = self.classes_.tolist()[int(totals.argmin())]
            raise ValueError(
                f"class {label!r} has no row with a positive sample_weight; the number of classes "
                "after that has to be that of y."
            )

    def decision_function(self, X: Any) -> np.ndarray:
        """Return outputs: of the machine for two classes, else one for each class.

        Machines for pairs of classes vote for them, with a little of their outputs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        outputs : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._adapter(self).decision_function(self._outputs(X), self.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row; for two classes, by `threshold`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._labels(self._outputs(X))

    def _labels(self, outputs: np.ndarray) -> np.ndarray:
        if outputs.shape[1] == 1:
            outputs = outputs - self.threshold
        return self._adapter(self).predict(outputs, self.classes_)

    @available_if(lambda self: getattr(self, "calibration_", None) is not None)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, by the sigmoid that a search has fitted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        outputs = self._outputs(X)
        P = self.calibration_.probabilities(self._adapter(self).contrasted(outputs)[0])
        if self.threshold != 0.0:
            return P
        chosen = self._adapter(self).predict(outputs, np.arange(len(self.classes_)))
        return agreeing(P, chosen)


class KnobRegressor(RegressorMixin):
    """What regressors of our own have in common."""

    constraints: ClassVar[dict] = {
        "loss": [StrOptions(REGRESSION.keys())],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
        "group_cost": [dict, None],
        "group_epsilon": [dict, None],
    }

    def _read(self, y: Any) -> Targets:
        return self._adapter(self).targets(y)

    def predict(self, X: Any) -> np.ndarray:
        """Return the output for each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        outputs : ndarray of shape (n_samples,)
        """
        return self._outputs(X)[:, 0]
