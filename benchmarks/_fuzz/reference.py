"""What scikit-learn's own cross-validation gives at a point, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from benchmarks._fuzz.cases import Case, listening

# What makes scikit-learn's solvers precise; more iterations than these are a hang.
PRECISE = {"tol": 1e-9, "max_iter": 1_000_000, "cache_size": 500}
VISIBLE = 1e-5  # gaps below it change nothing that anybody sees
FEWER = {"LinearSVC": 50_000, "LinearSVR": 50_000, "LogisticRegression": 20_000, "Ridge": 20_000}


class Unsettled(Exception):
    """There is no answer: a solver has not converged, and says so, or refuses a training part."""


def splits_of(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    X, y = indexable(case.X, case.y)
    cv = check_cv(case.options["cv"], y, classifier=case.classes is not None)
    return list(cv.split(X, y, case.fit_params.get("groups")))


def at_point(case: Case, params: dict[str, Any]) -> tuple[Any, float]:
    """Return the estimator with the parameters of a point, and the threshold that wraps it."""
    params, own = dict(params), case.prefix + "threshold"
    if own in case.estimator.get_params():  # an estimator of ours, which has it in `predict`
        threshold = params.get(own, case.machine.threshold)
    else:
        threshold = params.pop("threshold", 0.0)
    return clone(case.estimator).set_params(**clone(params, safe=False)), threshold


def twin(machine: Any) -> Any:
    """Return scikit-learn's estimator of the same machine as one of ours, if there is one."""
    kind, given = type(machine).__name__, machine.get_params()
    twins = {
        ("KernelSVC", "hinge"): SVC,
        ("KernelSVR", "epsilon_insensitive"): SVR,
        ("LinearClassifier", "hinge"): LinearSVC,
        ("LinearClassifier", "squared_hinge"): LinearSVC,
        ("LinearRegressor", "epsilon_insensitive"): LinearSVR,
        ("LinearRegressor", "squared_epsilon_insensitive"): LinearSVR,
    }
    other = twins.get((kind, given.get("loss", "")))
    costs = ("margin", "class_cost", "machine_cost", "threshold")
    plain = all(given.get(name) in (None, 1.0, 0.0) for name in costs)
    if other is None or not plain:
        return machine
    return other(**{name: value for name, value in given.items() if name in other().get_params()})


def of_scikit_learn(estimator: Any, precise: bool, seed: int = 0) -> Any:
    """Return the estimator as scikit-learn has it, with a solver that goes on, or ends early."""
    estimator = clone(estimator)
    if hasattr(estimator, "steps"):
        estimator.steps[-1] = (estimator.steps[-1][0], twin(estimator.steps[-1][1]))
        machine = estimator.steps[-1][1]
    else:
        machine = estimator = twin(estimator)
    known, kind = machine.get_params(), type(machine).__name__
    values = {name: value for name, value in PRECISE.items() if name in known}
    if kind in FEWER:
        values["max_iter"] = FEWER[kind]
    if "random_state" in known:
        machine.set_params(random_state=seed)
    if precise:
        machine.set_params(**values)
    elif "tol" in known:
        machine.set_params(tol=max(10.0 * machine.tol, VISIBLE))
    if precise and kind == "LogisticRegression" and machine.solver != "liblinear":
        machine.set_params(solver="newton-cholesky")
    return estimator


@dataclass
class Fitted:
    """A model that scikit-learn has fitted on some rows."""

    model: Any
    threshold: float
    converged: bool

    @property
    def machine(self) -> Any:
        return self.model.steps[-1][1] if hasattr(self.model, "steps") else self.model

    def outputs(self, X: Any) -> np.ndarray:
        """Return the outputs of its machines, one column for each."""
        if not hasattr(self.machine, "classes_"):
            return np.asarray(self.model.predict(X), dtype=float).reshape(_length(X), -1)
        model = self.model
        if _has_pairs(self.machine):
            model = copy(self.model)
            pairs = copy(self.machine)
            pairs.decision_function_shape = "ovo"
            if hasattr(model, "steps"):
                model.steps = [*model.steps[:-1], (model.steps[-1][0], pairs)]
            else:
                model = pairs
        return np.asarray(model.decision_function(X)).reshape(_length(X), -1) - self.threshold


def fit(
    case: Case, estimator: Any, threshold: float, rows: Any, precise: bool, seed: int = 0
) -> Fitted:
    """Fit scikit-learn's form of an estimator on some rows of a case, in double precision."""
    X, y = indexable(case.X, case.y)
    X_train, y_train = _safe_split(estimator, X, y, rows)
    if precise and not case.is_pipeline:  # transformers compute in the precision of the data
        X_train = in_double(X_train)
    given = {k: v for k, v in case.fit_params.items() if k != "groups"}
    params = _check_method_params(case.X, params=given, indices=rows)
    model = of_scikit_learn(estimator, precise, seed)
    if precise and _may_be_moved(case.machine):
        model = _centred(model, X_train, y_train)
        if not case.is_pipeline:
            params = {f"machine__{name}": value for name, value in params.items()}
    try:
        _, late = listening(model.fit, X_train, y_train, **params)
    except (ValueError, FloatingPointError) as error:  # a class that is not there, a loss too large
        raise Unsettled from error
    fitted = Fitted(model, threshold, not late)
    if _lacks_a_machine(fitted.machine):
        raise Unsettled
    return fitted


def _lacks_a_machine(machine: Any) -> bool:
    """Whether libsvm has lost a class whose rows have no weight, unseen by scikit-learn."""
    if not isinstance(machine, SVC):
        return False
    n_classes = len(machine.classes_)
    return len(machine.intercept_) != n_classes * (n_classes - 1) // 2


def _may_be_moved(machine: Any) -> bool:
    """Whether columns may be moved by a constant, which changes nothing but rounding."""
    if isinstance(machine, LogisticRegression):
        return bool(machine.fit_intercept) and machine.solver != "liblinear"
    return getattr(machine, "kernel", "") in ("rbf", "linear") and not isinstance(
        machine, KernelRidge
    )


def _centred(model: Any, X: Any, y: Any) -> Pipeline:
    """Return the model with columns moved to zero before the machine, for solvers that need it."""
    steps = list(model.steps) if hasattr(model, "steps") else [("machine", model)]
    name, machine = steps[-1]
    if len(steps) > 1:
        X = clone(Pipeline(steps[:-1])).fit(X, y).transform(X)
    if getattr(machine, "gamma", "") in ("scale", "auto") and machine.kernel == "rbf":
        machine.set_params(gamma=_gamma(machine.gamma, _dense(X)))
    return Pipeline([*steps[:-1], ("centre", _Centre()), (name, machine)])


def _gamma(asked: Any, X: np.ndarray) -> float:
    scale = X.shape[1] * X.var() if asked == "scale" else X.shape[1]
    return 1.0 / scale if scale else 1.0


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)


class _Centre(TransformerMixin, BaseEstimator):
    """Moves the mean of every column to zero; sparse rows become dense."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self.means_ = _dense(X).mean(axis=0)
        return self

    def transform(self, X: Any) -> np.ndarray:
        return _dense(X) - self.means_


def in_double(X: Any) -> Any:
    """Return rows in double precision: some linear models compute in that of the data."""
    if getattr(X, "dtype", None) == np.float32:
        return X.astype(np.float64)
    return X


def _length(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _has_pairs(machine: Any) -> bool:
    """Whether there is one machine for each pair of more than two classes."""
    return hasattr(machine, "decision_function_shape") and len(machine.classes_) > 2


class _Stub(BaseEstimator):
    """Answers scorers with given predictions, outputs and probabilities."""

    def __init__(self, labels: Any, outputs: Any, probabilities: Any, classes_: Any):
        self.labels, self.outputs = labels, outputs
        self.probabilities, self.classes_ = probabilities, classes_

    def predict(self, X: Any) -> Any:
        return self.labels

    def decision_function(self, X: Any) -> Any:
        return self.outputs

    def predict_proba(self, X: Any) -> Any:
        return self.probabilities


class _Classifies(ClassifierMixin, _Stub):
    pass


class _Regresses(RegressorMixin, _Stub):
    pass


def nearby_models(
    fitted: Fitted, outputs: np.ndarray, X: Any, y: Any, delta: float
) -> Iterator[Any]:
    """Yield the best and the worst model whose outputs are within `delta` of the given ones."""
    truth = np.asarray(y)
    if not hasattr(fitted.machine, "classes_"):
        gap = truth.reshape(outputs.shape) - outputs
        for moved in (np.clip(gap, -delta, delta), -delta * np.where(gap < 0, -1.0, 1.0)):
            predicted = (outputs + moved).reshape(truth.shape)
            yield _Regresses(predicted, predicted, None, None)
        return
    truth, classes = truth.ravel(), fitted.machine.classes_
    right = truth[:, None] == classes
    for towards in (1.0, -1.0):
        if outputs.shape[1] == 1:
            sign = np.where(right[:, -1], 1.0, -1.0)
            # ties may be better or worse than rows in any order; rounding makes and breaks them
            tied = np.round(outputs[:, 0] / delta) * delta if delta > 0.0 else outputs[:, 0]
            for values, spread in ((outputs[:, 0], 0.0), (outputs[:, 0], 1e-3), (tied, 0.0)):
                apart = spread * np.linspace(0.0, 1.0, len(sign))
                moved = values + delta * (towards * sign + apart)
                labels = classes[(moved > 0).astype(int)]
                P = np.column_stack([expit(-moved), expit(moved)])
                yield _Classifies(labels, moved + fitted.threshold, P, classes)
            continue
        labels = fitted.model.predict(X).copy()
        open_rows = _undecided(fitted, outputs, delta)
        other = np.where(
            labels != truth, labels, classes[(right.argmax(axis=1) + 1) % len(classes)]
        )
        labels[open_rows] = (truth if towards > 0 else other)[open_rows]
        moved = (
            outputs + towards * delta * (2.0 * right - 1.0)
            if outputs.shape == right.shape
            else outputs
        )
        yield _Classifies(labels, moved, softmax(moved, axis=1), classes)


def _undecided(fitted: Fitted, outputs: np.ndarray, delta: float) -> np.ndarray:
    """Return the rows whose class may change if outputs change by delta."""
    if _has_pairs(fitted.machine):
        return (np.abs(outputs) <= delta).any(axis=1)
    top = np.sort(outputs, axis=1)
    return top[:, -1] - top[:, -2] <= 2 * delta


@dataclass
class Fold:
    """One fold at the point that a search has chosen, as scikit-learn sees it."""

    case: Case
    params: dict[str, Any]
    train: Any
    test: Any

    def __post_init__(self) -> None:
        """Leave rows without weight out where they mislead libsvm: it then reads other rows."""
        weight = self.case.fit_params.get("sample_weight")
        if getattr(self.case.machine, "kernel", "") == "precomputed" and weight is not None:
            self.train = self.train[np.asarray(weight)[self.train] > 0]

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        return at_point(self.case, self.params)

    @cached_property
    def loose(self) -> Fitted:
        """The estimator as the user has it, but for a tolerance ten times as large."""
        return fit(self.case, *self._parts, self.train, precise=False)

    @cached_property
    def precise(self) -> Fitted:
        return fit(self.case, *self._parts, self.train, precise=True)

    @cached_property
    def given(self) -> tuple[Any, Any]:
        """X and y of the validation part, in the precision of the data."""
        X, y = indexable(self.case.X, self.case.y)
        return _safe_split(self._parts[0], X, y, self.test, self.train)

    @cached_property
    def rows(self) -> tuple[Any, Any]:
        """The same, in double precision where that is possible."""
        X, y = self.given
        return X if self.case.is_pipeline else in_double(X), y

    @cached_property
    def score(self) -> Callable[[Any], float]:
        """Return a function that scores a model, with weights where GridSearchCV gives them."""
        scoring = self.case.options["scoring"]
        scorer = check_scoring(
            self.case.estimator, scoring[0] if isinstance(scoring, list) else scoring
        )
        weight, given = self.case.fit_params.get("sample_weight"), {}
        accepts = getattr(scorer, "_accept_sample_weight", lambda: False)
        if weight is not None and accepts():
            given = {"sample_weight": np.asarray(weight)[self.test]}
        return lambda model: float(scorer(model, *self.rows, **given))

    @cached_property
    def error_of_loose(self) -> float:
        """How far the outputs at ten times the tolerance are from precise ones."""
        loose, precise = self.loose.outputs(self.given[0]), self.precise.outputs(self.rows[0])
        return float(np.abs(loose - precise).max(initial=0.0))

    @cached_property
    def rounding(self) -> float:
        """How far outputs are off by the rounding of kernel values, in libsvm to single precision.

        It is that times the coefficients, which are large where costs are.
        """
        machine = self.precise.machine
        if not hasattr(machine, "kernel"):
            return 0.0
        return self._kernel_rounding * float(np.abs(machine.dual_coef_).sum())

    @property
    def trusted(self) -> bool:
        """Whether scikit-learn's solution is one: it has converged, and rounding is no obstacle.

        It is one where kernel values are off by more than what the cost adds to their diagonal.
        Where no coefficient is between its bounds, the bias may be anywhere in an interval.
        """
        machine = self.precise.machine
        if not hasattr(machine, "kernel"):
            return self.precise.converged and self._comes_out_again()
        if isinstance(machine, (SVC, SVR)) and not self._bias_is_determined():
            return False
        cost = 1.0 / machine.alpha if hasattr(machine, "alpha") else machine.C
        return self.precise.converged and bool(self._kernel_rounding * cost < 1.0)

    def _comes_out_again(self) -> bool:
        """Whether other draws of the solver end alike; LIBLINEAR may stop where nothing is solved.

        (On two rows with the hinge loss and intercept_scaling=10 it does, at any tolerance.)
        """
        X = self.rows[0]
        outputs = self.precise.outputs(X)
        again = [fit(self.case, *self._parts, self.train, True, seed) for seed in (2, 4)]
        return all(np.allclose(one.outputs(X), outputs, rtol=1e-3, atol=1e-6) for one in again)

    def _bias_is_determined(self) -> bool:
        """Whether every machine of libsvm's has a coefficient between its bounds."""
        machine = self.precise.machine
        weight = self.case.fit_params.get(self.case.prefix + "sample_weight")
        costs = np.full(self.case.n_rows, float(machine.C))
        costs = costs if weight is None else costs * np.asarray(weight)
        costs, coefficients = costs[self.train][machine.support_], np.abs(machine.dual_coef_)
        if sparse.issparse(coefficients):
            coefficients = coefficients.toarray()
        if isinstance(machine, SVR):
            return _any_between(coefficients[0], costs)
        n_classes, sizes = len(machine.classes_), machine.n_support_
        of = np.repeat(np.arange(n_classes), sizes)
        costs = costs * machine.class_weight_[of]
        for i, j in combinations(range(n_classes), 2):
            first, second = of == i, of == j
            pair = np.concatenate([coefficients[j - 1, first], coefficients[i, second]])
            if not _any_between(pair, np.concatenate([costs[first], costs[second]])):
                return False
        return True

    @cached_property
    def _kernel_rounding(self) -> float:
        """By how much the largest kernel value is rounded."""
        model, machine = self.precise.model, self.precise.machine
        eps = float(np.finfo(np.float32 if isinstance(machine, (SVC, SVR)) else float).eps)
        return eps * self._largest_kernel_value(model, machine)

    def _largest_kernel_value(self, model: Any, machine: Any) -> float:
        if machine.kernel == "rbf":
            return 1.0
        X = _safe_split(self._parts[0], *indexable(self.case.X, self.case.y), self.train)[0]
        X = X if model is machine else model[:-1].transform(X)
        if machine.kernel == "precomputed":
            return float(np.abs(X).max())
        kernel = "poly" if machine.kernel == "polynomial" else machine.kernel
        gamma = machine.gamma
        if gamma is not None and not isinstance(gamma, float):
            gamma = _gamma(gamma, _dense(X))
        values = {"gamma": gamma, "degree": machine.degree, "coef0": machine.coef0}
        return float(np.abs(pairwise_kernels(X, metric=kernel, filter_params=True, **values)).max())

    def bounds(self, delta: float) -> tuple[float, float]:
        """Return the least and the largest score of outputs within delta of precise ones."""
        X, y = self.rows
        outputs = self.precise.outputs(X)
        models = nearby_models(self.precise, outputs, X, y, delta)
        scores = [self.score(model) for model in models]
        return min(scores), max(scores)


def _any_between(coefficients: np.ndarray, costs: np.ndarray) -> bool:
    share = coefficients / np.maximum(costs, 1e-300)
    return bool(((share > 1e-6) & (share < 1 - 1e-6)).any())


def unit_of_targets(case: Case, rows: Any) -> float:
    """Return the unit in which tolerances are given.

    It is 1 for classes, else the standard deviation, or five times the median deviation where a few
    rows far out have made that large and the loss is not a square, which follows them.  A row
    counts by its weight.
    """
    if case.classes is not None:
        return 1.0
    y = np.asarray(case.y, dtype=float).reshape(case.n_rows, -1)[rows]
    weight = np.asarray(case.fit_params.get(case.prefix + "sample_weight", np.ones(case.n_rows)))
    times = np.maximum(np.round(weight[rows] / weight.max() * 1000), weight[rows] > 0).astype(int)
    y = np.repeat(y, times, axis=0).ravel()
    off = np.abs(y - np.median(y))
    if hasattr(case.machine, "alpha") or "squared" in getattr(case.machine, "loss", ""):
        return float(np.std(y)) or 1.0
    return float(min(np.std(y), 5.0 * np.median(off[off > 0]))) if off.any() else 1.0


def positive_definite(case: Case, params: dict[str, Any], rows: Any) -> bool:
    """Whether training is convex: whether the sigmoid kernel has no negative eigenvalue here."""
    from sklearn.metrics.pairwise import sigmoid_kernel

    estimator, _ = at_point(case, params)
    machine = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if getattr(machine, "kernel", None) != "sigmoid":
        return True
    X, y = _safe_split(estimator, *indexable(case.X, case.y), rows)
    if hasattr(estimator, "steps"):
        X = clone(estimator[:-1]).fit(X, y).transform(X)
    X, gamma = _dense(X), machine.gamma
    if not isinstance(gamma, float):
        gamma = _gamma(gamma, X)
    values = np.linalg.eigvalsh(sigmoid_kernel(X, gamma=gamma, coef0=machine.coef0))
    return bool(values.min() >= -1e-10 * np.abs(values).max())
