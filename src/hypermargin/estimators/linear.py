"""Linear estimators for what scikit-learn's cannot hold: losses, costs and margins by class."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core.budget import Effort, Workers
from ..adapters.base import Targets
from ..adapters.linear import LinearClassifierAdapter, LinearRegressorAdapter
from ..adapters.model import register
from ..problems.base import Design, Fold
from ..problems.linear.problem import LinearCrossValidation
from .base import KnobClassifier, KnobRegressor, Machine


class _LinearMachine(Machine):
    """What the two estimators have in common."""

    _types = [np.float64, np.float32]
    _parameter_constraints: ClassVar[dict] = {
        **Machine._parameter_constraints,
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _train(self, X: Any, targets: Targets, sample_weight: Any, cost_groups: Any) -> None:
        """Train one machine per column on all rows."""
        weight = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
        self._check_weight(weight, targets)
        adapter, rows = self._adapter(self), np.arange(X.shape[0])
        targets = targets.in_groups(cost_groups)
        intercept, bias_penalty = adapter.intercept()
        problem = LinearCrossValidation(
            [Design(X, rows, ())],
            [],
            targets.columns,
            adapter.loss(),
            adapter.values() | adapter.values_by_part(targets),
            Workers(1),
            intercept=intercept,
            bias_penalty=bias_penalty,
            whole=Fold(rows[:0], weight),
            solver=adapter.solver(),
        )
        found = problem.refit({}, Effort(self.tol))
        weights, made = np.array([s.weights for s in found]), max(s.iterations for s in found)
        if not np.isfinite(weights).all():
            raise FloatingPointError(f"weights are not finite; scale the data or lower C={self.C}.")
        self._check_converged(found)
        adapter.install(weights, made, targets, X.dtype)

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=self._types, accept_sparse="csr")
        coef = np.atleast_2d(self.coef_)
        return safe_sparse_dot(X, coef.T, dense_output=True) + self.intercept_


class LinearClassifier(KnobClassifier, _LinearMachine):
    """Linear classifier with a choice of losses, costs and margins by class, and a threshold.

    Minimises ``(|w|^2 + b^2) / 2 + sum_i C w_i class_cost[y_i] loss(margin[y_i], o_i)`` with the
    outputs ``o_i = x_i w + intercept_scaling b``; with many classes there is one machine for each
    against the rest, as in :class:`~sklearn.svm.LinearSVC`.  Groups of rows and machines may have
    factors on C, `group_cost` and `machine_cost`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the loss.
    loss : {"hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic"}, \
default="squared_hinge"
        As in :class:`KernelSVC`.
    mu : float, default=12.0
        Steepness of the smooth hinge loss.
    class_cost : array-like or dict, default=None
        Factor on C for each class, in the order of `classes_`, or by label; None is 1 for all.
    margin : float, array-like or dict, default=1.0
        The margin that rows of a class are to have.
    machine_cost : array-like or dict, default=None
        With many classes, factor on C for the machine of each class against the rest: a C of its
        own.
    group_cost : dict, default=None
        Factors on C by the labels of groups of rows, 1 for those that it does not name; `fit` is
        told the groups as `cost_groups`.
    threshold : float, default=0.0
        For two classes, the output above which `predict` says the second one.
    fit_intercept : bool, default=True
        Whether there is an intercept; it is penalised like a weight.
    intercept_scaling : float, default=1.0
        The constant that stands for the intercept among the features: the larger, the less the
        intercept is penalised.
    solver : {"auto", "fista"}, default="auto"
        How to train: by Newton's method or, with many features, coordinate descent; or by FISTA, as
        Klatzer and Pock do, which is slower and not for ``loss="hinge"``.
    tol : float, default=1e-4
        Gradient to train to, relative to that of a machine that is zero; where there are many
        features, or the loss has corners, the duality gap.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,), or 0.0 without an intercept
    n_iter_ : int
    calibration_ : object or None
        The sigmoid of `predict_proba`, if a search has fitted one.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import LinearClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LinearClassifier(loss="logistic").fit(scale(X), y)
    >>> model.coef_.shape, model.score(scale(X), y) > 0.98
    ((3, 13), True)
    """

    _adapter = LinearClassifierAdapter
    _parameter_constraints: ClassVar[dict] = {
        **_LinearMachine._parameter_constraints,
        **KnobClassifier.constraints,
        "machine_cost": ["array-like", dict, None],
        "solver": [StrOptions({"auto", "fista"})],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_hinge",
        mu: float = 12.0,
        class_cost: Any = None,
        margin: Any = 1.0,
        machine_cost: Any = None,
        group_cost: Any = None,
        threshold: float = 0.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        solver: str = "auto",
        tol: float = 1e-4,
    ):
        self.C = C
        self.loss = loss
        self.mu = mu
        self.class_cost = class_cost
        self.margin = margin
        self.machine_cost = machine_cost
        self.group_cost = group_cost
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.solver = solver
        self.tol = tol


class LinearRegressor(KnobRegressor, _LinearMachine):
    """Linear regression with a choice of losses.

    Minimises ``(|w|^2 + b^2) / 2 + sum_i C w_i loss(y_i - o_i)`` with the outputs
    ``o_i = x_i w + intercept_scaling b``; groups of rows may have factors on C and on epsilon.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the loss.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball"}, \
default="epsilon_insensitive"
        As in :class:`KernelSVR`.
    epsilon : float, default=0.1
        Residuals up to it cost nothing, with the first two losses.
    quantile : float, default=0.5
        Which quantile of the target the pinball loss fits.
    group_cost, group_epsilon : dict, default=None
        Factors on C and, where the loss has it, on epsilon by the labels of groups of rows, 1 for
        those that they do not name; `fit` is told the groups as `cost_groups`.
    fit_intercept, intercept_scaling, tol
        As in :class:`LinearClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    n_iter_ : int
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from hypermargin import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> upper = LinearRegressor(loss="pinball", quantile=0.9, intercept_scaling=100)
    >>> bool(0.85 < (y < upper.fit(scale(X), y).predict(scale(X))).mean() < 0.95)
    True
    """

    _adapter = LinearRegressorAdapter
    _parameter_constraints: ClassVar[dict] = {
        **_LinearMachine._parameter_constraints,
        **KnobRegressor.constraints,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.1,
        quantile: float = 0.5,
        group_cost: Any = None,
        group_epsilon: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
    ):
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.group_cost = group_cost
        self.group_epsilon = group_epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol


register(LinearClassifierAdapter, LinearClassifier)
register(LinearRegressorAdapter, LinearRegressor)
