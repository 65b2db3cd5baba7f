"""The hypergradient itself, for people with an optimiser of their own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import indexable
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import _check_sample_weight

from .._core.budget import Effort, Workers
from .._core.space import Hyperparameter, Params
from ..adapters.base import Targets
from ..adapters.folds import draw_folds
from ..adapters.input import check_threshold
from ..adapters.model import Model, read_model
from ..adapters.prepare import prepare
from ..criteria import criterion_for, read_criterion
from ..criteria.base import Criterion
from ..methods.objective import check_defined, validation_loss


def value_and_grad(
    estimator: Any,
    X: Any,
    y: Any,
    params: Mapping[str, Any],
    *,
    scoring: Any = None,
    criterion: Any = None,
    pooled: bool = True,
    cv: Any = None,
    sample_weight: Any = None,
    cost_groups: Any = None,
    tol: float = 1e-6,
) -> tuple[float, dict[str, Any]]:
    """Smooth cross-validation loss at a point, and its exact gradient.

    Parameters
    ----------
    estimator : any that :class:`GradientSearchCV` takes
        Everything that `params` does not name is taken from it.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data; a square kernel matrix with ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Labels or targets.
    params : dict
        Hyperparameters by their names in `estimator`, such as ``{"C": 1.0, "gamma": 0.1}``
        or ``{"svc__C": 1.0}``.  `class_cost`, `margin` and others that have a value for each class
        or group may be a number for all of them, a sequence in the order of the sorted labels, or a
        dict by label for some of them.
        `threshold` is for two classes.
    scoring : str, scorer or None, default=None
        The score whose smooth form is evaluated, such as accuracy, f1, roc_auc, neg_log_loss, r2;
        None is the estimator's own score.
    criterion : str, Criterion or callable, default=None
        What is evaluated in place of a score's smooth form, as in :class:`GradientSearchCV`.
    pooled : bool, default=True
        Whether it is applied to the outputs of all folds at once, or to each fold and averaged.
    cv : int, splitter or iterable, default=None
        Folds as in :class:`~sklearn.model_selection.GridSearchCV`.  With an optimiser, use a
        splitter that gives the same folds at every call.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, in training and in the loss.
    cost_groups : array-like of shape (n_samples,), default=None
        Labels of the groups that `group_cost` and `group_epsilon` are for.
    tol : float, default=1e-6
        Optimality gap to which every machine is trained, in units of the standard deviation of
        the target for regressors.

    Returns
    -------
    value : float
        The smooth validation loss; less is better.
    gradient : dict
        Its derivatives with respect to the numbers in `params` (not to their logarithms), in the
        same form: an array where a sequence was given, a dict by label where that was.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import value_and_grad
    >>> X, y = load_iris(return_X_y=True)
    >>> value, gradient = value_and_grad(SVC(), X, y, {"C": 1.0, "gamma": 0.1})
    >>> round(value, 3), sorted(gradient)
    (0.035, ['C', 'gamma'])
    >>> _, gradient = value_and_grad(SVC(), X, y, {"class_weight": {0: 1.0, 2: 3.0}})
    >>> sorted(gradient["class_weight"])
    [0, 2]
    """
    model = _model_at(estimator, params)
    for name in {"fit", "decision_function"}.intersection(model.own_methods):
        base = model.adapter.estimator.__name__
        raise ValueError(
            f"{type(model.machine).__name__} has its own {name}, which cannot be differentiated; "
            f"give {base}."
        )
    X, y = indexable(X, y)
    splits = draw_folds(check_cv(cv, y, classifier=is_classifier(estimator)), X, y, {})
    # where scikit-learn routes metadata, steps of a pipeline are not named
    prefix = "" if _routing_enabled() else model.prefix
    fit_params = {prefix + "sample_weight": sample_weight, prefix + "cost_groups": cost_groups}
    prepared = prepare(
        model, X, y, splits, fit_params, list(model.bare(params)), np.inf, Workers(1)
    )
    for number, (_, failure) in prepared.foreign.items():
        warnings.warn(f"Fold {number} is left out: {failure}", FitFailedWarning, stacklevel=2)
    classes = prepared.targets.classes
    values = prepared.problem.values
    named = [_named(model, n, v, prepared.targets, values) for n, v in params.items()]
    if "threshold" in model.bare(params):
        check_threshold("params", prepared.targets)
    chosen = _criterion(estimator, scoring, criterion, classes)
    weight = _check_sample_weight(sample_weight, np.empty((prepared.n_rows, 1)))
    check_defined(chosen, prepared.targets, [test for _, test in prepared.splits], weight, pooled)
    point = {h.own: h.value(np.array(each, dtype=float)) for h, each in named}
    evaluation = prepared.problem.evaluate(point, Effort(tol))
    if not evaluation.converged:
        warnings.warn(
            f"Training did not converge at {dict(params)}; scale the data.",
            ConvergenceWarning,
            stacklevel=2,
        )
    value, delta = validation_loss(evaluation, chosen, prepared, weight, pooled)
    found = evaluation.pullback(delta)
    return value, {h.name: _in_form(params[h.name], h, found[h.own]) for h, _ in named}


def _model_at(estimator: Any, params: Mapping[str, Any]) -> Model:
    """Return the model with those of its parameters that are single numbers."""
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a dict of numbers; got {params!r}.")
    model = read_model(estimator)
    known = set(estimator.get_params())
    own = {n: v for n, v in params.items() if n in known and not model.is_by_part(n)}
    for name, value in params.items():
        if name not in known or name in own:
            _check_number(f"params[{name!r}]", value)
    model = read_model(clone(estimator).set_params(**own))
    model.machine._validate_params()
    for name in params:
        if name not in model.tunable:
            raise ValueError(
                f"params names {name!r}, which cannot be differentiated here; use some of "
                f"{list(model.tunable)}."
            )
    return model


def _check_number(place: str, value: Any, positive: bool = False) -> None:
    if not isinstance(value, Real) or not np.isfinite(float(value)) or (positive and value <= 0):
        kind = "positive" if positive else "finite"
        raise ValueError(f"{place}={value!r}; it must be a {kind} number.")


def _named(
    model: Model, name: str, given: Any, targets: Targets, values: Params
) -> tuple[Hyperparameter, list]:
    """Return a hyperparameter and its values, or those of its entries that are given."""
    place, by_part = f"params[{name!r}]", model.is_by_part(name)
    if by_part and isinstance(given, Sequence | np.ndarray):
        labels = model.labels(name, targets)
        labels.check_number_of(place, given)
        given = dict(zip(labels.names, given, strict=True))
    found, each = model.chosen(name, given, targets, values)
    for value in each if by_part else ():
        _check_number(place, value, positive=True)
    return found, each


def _in_form(given: Any, of: Hyperparameter, gradient: Any) -> Any:
    """Return derivatives in the form in which the values were given."""
    if isinstance(given, Mapping):
        by_label = of.derivatives(of.entries(gradient))
        return {label: by_label[label] for label in given}
    # a number for all classes moves them all
    return float(np.sum(gradient)) if isinstance(given, Real) else gradient


def _criterion(estimator: Any, scoring: Any, criterion: Any, classes: Any) -> Criterion:
    logits = hasattr(read_model(estimator).adapter, "probabilities")
    if criterion is not None:
        return read_criterion(criterion, classes, logits)
    scorer = check_scoring(estimator, scoring)
    found, is_own = criterion_for(scorer, classes is not None, classes, logits)
    if not is_own:
        raise ValueError(
            f"scoring={scoring!r} has no smooth form; see the documentation, or give a criterion."
        )
    return found
