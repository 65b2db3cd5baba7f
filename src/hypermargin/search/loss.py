"""The objective of a search, for people with an optimiser of their own."""

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
from sklearn.utils import check_random_state, indexable
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import _check_sample_weight

from .._core.budget import Effort, Workers, cached
from .._core.space import Hyperparameter, Params, Space, same
from ..adapters.blocks import check_here
from ..adapters.folds import draw_folds
from ..adapters.input import canonical, check_threshold
from ..adapters.model import Model, read_model
from ..adapters.prepare import prepare
from ..criteria import criterion_for, read_criterion
from ..criteria.base import Criterion
from ..methods.validation import check_defined, check_finite, validation_loss
from ..problems.base import Evaluation
from .combinations import Combination, Refused, check_landmarks, read_combinations


class CrossValidationLoss:
    """The smooth cross-validation loss as a function of the hyperparameters.

    Folds are drawn and data prepared once; then the loss, its exact gradient and the out-of-fold
    outputs can be had at any point.  A point is a dict of hyperparameters, or a vector of the
    coordinates in which :class:`GradientSearchCV` searches: logarithms, or for linear ranges
    eighths of the range.

    Parameters
    ----------
    estimator : any that :class:`GradientSearchCV` takes
        Everything that the space does not name is taken from it.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data; a square kernel matrix with ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Labels or targets.
    space : dict or None, default=None
        The hyperparameters and their ranges, as in :class:`GradientSearchCV`, without lists.  None
        as a range is one that is read off the data; None for all is C and what else there is.
    scoring : str, scorer or None, default=None
        The score whose smooth form is evaluated, such as accuracy, f1, roc_auc, neg_log_loss, r2;
        None is the estimator's own score.
    criterion : str, Criterion or callable, default=None
        What is evaluated in place of a score's smooth form, as in :class:`GradientSearchCV`.
    pooled : bool, default=True
        Whether it is applied to the outputs of all folds at once, or to each fold and averaged.
    cv : int, splitter or iterable, default=None
        Folds as in :class:`~sklearn.model_selection.GridSearchCV`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, in training and in the loss.
    cost_groups : array-like of shape (n_samples,), default=None
        Labels of the groups that `group_cost` and `group_epsilon` are for.
    rank : int, default=None
        Number of landmarks, as in :class:`GradientSearchCV`.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.
    n_jobs : int, default=None
        Threads over folds, classes and blocks of the kernel matrix.
    memory_limit : float, default=4000
        Megabytes for a kernel matrix.
    tol : float, default=1e-6
        How exactly every machine is trained, in units of the target's spread for regressors.
        Training begins where that of the last point ended, so that the value at a point
        depends on what came before it, to about this tolerance.

    Attributes
    ----------
    names : list of str
        What the coordinates of a vector are.
    bounds : ndarray of shape (n_coordinates, 2)
        Their ranges.
    start : ndarray of shape (n_coordinates,)
        A usual point to begin at.

    Examples
    --------
    >>> from scipy.optimize import minimize
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import CrossValidationLoss
    >>> X, y = load_iris(return_X_y=True)
    >>> loss = CrossValidationLoss(SVC(), X, y, cv=5)
    >>> round(loss({"C": 1.0, "gamma": 0.1}), 3)
    0.035
    >>> found = minimize(loss.value_and_grad, loss.start, jac=True, bounds=loss.bounds)
    >>> sorted(loss.params(found.x)), bool(found.fun < 0.035)
    (['C', 'gamma'], True)
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        space: Any = None,
        *,
        scoring: Any = None,
        criterion: Any = None,
        pooled: bool = True,
        cv: Any = None,
        sample_weight: Any = None,
        cost_groups: Any = None,
        rank: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: float = 4000,
        tol: float = 1e-6,
    ):
        self.estimator, self.pooled, self.tol = estimator, pooled, tol
        self._combination = one = _only_combination(estimator, space)
        model = one.model
        if rank is not None:
            check_landmarks(model, rank, True)
        check_here({"X": X, "y": y, "sample_weight": sample_weight})
        X, y = indexable(X, y)
        X = canonical(X)
        splits = draw_folds(check_cv(cv, y, classifier=is_classifier(estimator)), X, y, {})
        # where scikit-learn routes metadata, steps of a pipeline are not named
        prefix = "" if _routing_enabled() else model.prefix
        fit_params = {prefix + "sample_weight": sample_weight, prefix + "cost_groups": cost_groups}
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        self._prepared = prepared = prepare(
            model, X, y, splits, fit_params, memory_limit * 2**20, Workers(n_jobs), rank,
            seed,
        )  # fmt: skip
        for number, (_, failure) in prepared.foreign.items():
            warnings.warn(f"Fold {number} is left out: {failure}", FitFailedWarning, stacklevel=2)
        if "threshold" in model.adapter.tuned:
            check_threshold(prepared.targets)
        self.criterion = _criterion(estimator, scoring, criterion, prepared.targets.classes)
        self._weight = _check_sample_weight(sample_weight, np.empty((prepared.n_rows, 1)))
        tests = [test for _, test in prepared.splits]
        check_defined(self.criterion, prepared.targets, tests, self._weight, pooled)
        self._latest: tuple[Params, Evaluation] | None = None

    @cached
    def _space(self) -> Space:
        return self._combination.space(self._prepared)

    @property
    def names(self) -> list[str]:
        """What the coordinates of a vector are."""
        return [name for h in self._space.hyperparameters for name in h.spelled]

    @property
    def bounds(self) -> np.ndarray:
        """The ranges of the coordinates, one row (low, high) for each."""
        return self._space.bounds.copy()

    @property
    def start(self) -> np.ndarray:
        """A usual point to begin at."""
        return self._space.first_look.mean(axis=1)

    def params(self, vector: Any) -> dict[str, Any]:
        """Return the hyperparameters at a vector, as parameters of the estimator.

        Parameters
        ----------
        vector : array-like of shape (n_coordinates,)

        Returns
        -------
        params : dict
        """
        return self._space.settings(self._space.params(self._checked(vector), clip=False))

    def vector(self, params: Mapping[str, Any]) -> np.ndarray:
        """Return where hyperparameters are; undoes `params`.

        Parameters
        ----------
        params : dict

        Returns
        -------
        vector : ndarray of shape (n_coordinates,)
        """
        return self._space.theta(self._point(params))

    def __call__(self, point: Any) -> float:
        """Return the loss at a point.

        Parameters
        ----------
        point : dict or array-like of shape (n_coordinates,)

        Returns
        -------
        value : float
        """
        return self._loss(self._evaluation(point))[0]

    def value_and_grad(self, point: Any) -> tuple[float, Any]:
        """Return the loss at a point, and its gradient.

        Parameters
        ----------
        point : dict or array-like of shape (n_coordinates,)

        Returns
        -------
        value : float
            The smooth validation loss; less is better.
        gradient : dict or ndarray of shape (n_coordinates,)
            Of a dict, derivatives with respect to its numbers, in the same form: an array where a
            sequence was given, a dict by label where that was.  Of a vector, those with respect to
            its coordinates.
        """
        evaluation = self._evaluation(point)
        value, delta = self._loss(evaluation)
        check_finite(self.criterion, value, delta, self._settings(point))
        gradient = evaluation.pullback(delta)
        if not isinstance(point, Mapping):
            assert self._latest is not None
            return value, self._space.pull(self._latest[0], gradient)
        named = [self._named(name, given)[0] for name, given in point.items()]
        return value, {h.name: _in_form(point[h.name], h, gradient[h.own]) for h in named}

    def outputs(self, point: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the out-of-fold outputs at a point.

        Parameters
        ----------
        point : dict or array-like of shape (n_coordinates,)

        Returns
        -------
        outputs : list of (rows, outputs)
            For every fold the numbers of its validation rows, and an array of shape (rows,
            machines): one machine for each pair of classes of a kernel machine, above zero
            speaking for the second; one for each class of a linear one, or each target.
        """
        found = self._evaluation(point)
        return list(zip(found.test, found.outputs, strict=True))

    def _loss(self, evaluation: Evaluation) -> tuple[float, list[np.ndarray]]:
        return validation_loss(
            evaluation, self.criterion, self._prepared, self._weight, self.pooled
        )

    def _evaluation(self, point: Any) -> Evaluation:
        """Train all folds at a point, beginning where the last one ended."""
        params = self._point(point)
        if self._latest is not None and same(self._latest[0], params):
            return self._latest[1]
        warm = None if self._latest is None else self._latest[1].state
        self._latest = None
        found = self._prepared.problem.evaluate(params, Effort(self.tol), warm=warm)
        if not found.converged:
            warnings.warn(
                f"Training did not converge at {self._settings(point)}; scale the data.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self._latest = params, found
        return found

    def _settings(self, point: Any) -> dict[str, Any]:
        """Return a point as users write it."""
        return dict(point) if isinstance(point, Mapping) else self.params(point)

    def _point(self, point: Any) -> Params:
        """Return the hyperparameters of a point by the problem's names."""
        if not isinstance(point, Mapping):
            return self._space.params(self._checked(point), clip=False)
        ranges = self._combination.ranges
        if set(point) != set(ranges):
            raise ValueError(f"the point names {list(point)}; it must name {list(ranges)}.")
        _model_at(self.estimator, point)
        named = [self._named(name, given) for name, given in point.items()]
        return {h.own: h.value(np.array(each, dtype=float)) for h, each in named}

    def _named(self, name: str, given: Any) -> tuple[Hyperparameter, list]:
        """Return a hyperparameter and its values, or those of its entries that are given."""
        model, prepared = self._combination.model, self._prepared
        place, by_part = f"params[{name!r}]", model.is_by_part(name)
        if by_part and isinstance(given, Sequence | np.ndarray):
            labels = model.labels(name, prepared.targets)
            labels.check_number_of(place, given)
            given = dict(zip(labels.names, given, strict=True))
        found, each = model.chosen(
            name, given, prepared.targets, prepared.problem.values, prepared.features
        )
        for value in each if by_part or model.is_by_feature(name, given) else ():
            _check_number(place, value, positive=True)
        return found, each

    def _checked(self, vector: Any) -> np.ndarray:
        theta = np.asarray(vector, dtype=float)
        if theta.shape != (len(self._space),) or not np.isfinite(theta).all():
            raise ValueError(
                f"the point {vector!r} must be a dict, or a vector of the {len(self._space)} "
                f"finite numbers {self.names}."
            )
        return theta


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

    A shorthand for one call of a :class:`CrossValidationLoss`, which prepares the data once for any
    number of calls.

    Parameters
    ----------
    estimator, X, y
        As in :class:`CrossValidationLoss`; what `params` does not name is the estimator's own.
    params : dict
        Hyperparameters by their names in `estimator`, such as ``{"C": 1.0, "gamma": 0.1}``
        or ``{"svc__C": 1.0}``.  `class_cost`, `margin` and others that have a value for each class
        or group may be a number for all of them, a sequence in the order of the sorted labels, or a
        dict by label for some of them.
        `threshold` is for two classes.
    cv : int, splitter or iterable, default=None
        Folds as in :class:`~sklearn.model_selection.GridSearchCV`.  With an optimiser, use a
        splitter that gives the same folds at every call.
    scoring, criterion, pooled, sample_weight, cost_groups, tol
        As in :class:`CrossValidationLoss`.

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
    _model_at(estimator, params)
    space = {n: dict.fromkeys(v) if isinstance(v, Mapping) else None for n, v in params.items()}
    loss = CrossValidationLoss(
        estimator, X, y, space, scoring=scoring, criterion=criterion, pooled=pooled, cv=cv,
        sample_weight=sample_weight, cost_groups=cost_groups, memory_limit=np.inf, tol=tol,
    )  # fmt: skip
    return loss.value_and_grad(params)


def _only_combination(estimator: Any, space: Any) -> Combination:
    """Return what is searched, or say why it cannot be differentiated."""
    if space is not None and not isinstance(space, Mapping):
        raise TypeError(f"space={space!r} must be a dict of ranges, or None.")
    one, *more = read_combinations(estimator, space)
    if isinstance(one, Refused):
        raise one.error
    if more or one.listed:
        raise ValueError(f"space lists values of {list(one.listed)}; give ranges, or set them.")
    for name in {"fit", "decision_function"}.intersection(one.model.own_methods):
        base = one.model.adapter.estimator.__name__
        raise ValueError(
            f"{type(one.model.machine).__name__} has its own {name}, which cannot be "
            f"differentiated; give {base}."
        )
    return one


def _model_at(estimator: Any, params: Mapping[str, Any]) -> Model:
    """Return the model with those of its parameters that are single numbers."""
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a dict of numbers; got {params!r}.")
    model = read_model(estimator)
    known = set(estimator.get_params())
    arrays = {n for n, v in params.items() if model.is_by_part(n) or model.is_by_feature(n, v)}
    own = {n: v for n, v in params.items() if n in known and n not in arrays}
    for name, value in params.items():
        if name not in known or name in own:
            _check_number(f"params[{name!r}]", value)
    model = read_model(clone(estimator).set_params(**own))
    model.check_params()
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
