"""The hypergradient itself, for people with an optimiser of their own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import indexable
from sklearn.utils.validation import _check_sample_weight

from ._adapters import read_model
from ._budget import Workers
from ._objective import validation_loss
from ._prepare import draw_folds, prepare
from .criteria import criterion_for


def value_and_grad(
    estimator: Any,
    X: Any,
    y: Any,
    params: Mapping[str, float],
    *,
    scoring: Any = None,
    cv: Any = None,
    sample_weight: Any = None,
    tol: float = 1e-6,
) -> tuple[float, dict[str, float]]:
    """Smooth cross-validation loss at a point, and its exact gradient.

    Parameters
    ----------
    estimator : SVC, SVR, KernelRidge, KernelSVC, KernelSVR, or a Pipeline that ends in one of them
        Everything that `params` does not name is taken from it.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data; a square kernel matrix with ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Labels or targets.
    params : dict of str to float
        Hyperparameters by their names in `estimator`, such as ``{"C": 1.0, "gamma": 0.1}``
        or ``{"svc__C": 1.0}``.
    scoring : str, scorer or None, default=None
        The score whose smooth form is evaluated, such as accuracy, f1, roc_auc, neg_log_loss, r2;
        None is the estimator's own score.
    cv : int, splitter or iterable, default=None
        Folds as in :class:`~sklearn.model_selection.GridSearchCV`.  With an optimiser, use a
        splitter that gives the same folds at every call.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, in training and in the loss.
    tol : float, default=1e-6
        Optimality gap to which every machine is trained, in units of the standard deviation of
        the target for regressors.

    Returns
    -------
    value : float
        The smooth validation loss; less is better.
    gradient : dict of str to float
        Its derivatives with respect to the numbers in `params` (not to their logarithms).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import value_and_grad
    >>> X, y = load_iris(return_X_y=True)
    >>> value, gradient = value_and_grad(SVC(), X, y, {"C": 1.0, "gamma": 0.1})
    >>> round(value, 3), sorted(gradient)
    (0.035, ['C', 'gamma'])
    """
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a dict of floats; got {params!r}.")
    for name, value in params.items():
        if not isinstance(value, Real) or not np.isfinite(value):
            raise ValueError(f"params[{name!r}]={value!r}; it must be a finite number.")
    read_model(estimator)
    model = read_model(clone(estimator).set_params(**params))
    model.machine._validate_params()
    known = [n for n in model.tunable if n.removeprefix(model.prefix) not in model.adapter.by_class]
    for name in params:
        if name not in known:
            raise ValueError(
                f"params names {name!r}, which cannot be differentiated here; use some of {known}."
            )
    X, y = indexable(X, y)
    splits = draw_folds(check_cv(cv, y, classifier=is_classifier(estimator)), X, y, {})
    fit_params = {model.prefix + "sample_weight": sample_weight}
    prepared = prepare(
        model, X, y, splits, fit_params, list(model.bare(params)), np.inf, Workers(1)
    )
    criterion, is_own = criterion_for(
        check_scoring(estimator, scoring), is_classifier(estimator), prepared.targets.classes
    )
    if not is_own:
        raise ValueError(f"scoring={scoring!r} has no smooth form; see the documentation.")
    evaluation = prepared.problem.evaluate(model.bare(params), tol=tol * prepared.targets.scale)
    if not evaluation.converged:
        warnings.warn(
            f"Training did not converge at {dict(params)}; scale the data.",
            ConvergenceWarning,
            stacklevel=2,
        )
    weight = _check_sample_weight(sample_weight, np.empty((prepared.n_rows, 1)))
    value, delta = validation_loss(evaluation, criterion, prepared, weight)
    gradient = evaluation.pullback(delta)
    return value, {name: float(gradient[bare]) for name, bare in zip(params, model.bare(params))}
