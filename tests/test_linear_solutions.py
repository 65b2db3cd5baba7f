"""Linear machines are LIBLINEAR's and scikit-learn's own, from the weights to the attributes."""

import pickle
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from helpers import make_data
from liblinear.liblinearutil import train
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.validation import check_is_fitted

from hypermargin import GradientSearchCV, LinearClassifier, LinearRegressor
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.problems.linear import bundle
from hypermargin.problems.linear.part import WHOLE
from hypermargin.problems.linear.problem import Weights

FORMS = {"dense": np.asarray, "sparse": sparse.csr_matrix}
NAMES = np.array(["pear", "apple", "fig"], dtype=object)


def problem_of(estimator, X, y):
    """Return the problem of an estimator with two folds, which has a machine on all rows."""
    rows = np.arange(len(y))
    splits = [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in (0, 1)]
    model = read_model(estimator).tuning(["C"])
    return prepare(model, X, y, splits, {}, 1e9, Workers(1)).problem


# --- LIBLINEAR

# by the number of LIBLINEAR's solver; losses of the outputs z
LOSSES = {
    0: (LogisticRegression(solver="liblinear"), lambda y, z: np.logaddexp(0, -y * z)),
    7: (LogisticRegression(solver="liblinear"), lambda y, z: np.logaddexp(0, -y * z)),
    1: (LinearSVC(), lambda y, z: np.maximum(0, 1 - y * z) ** 2),
    2: (LinearSVC(), lambda y, z: np.maximum(0, 1 - y * z) ** 2),
    3: (LinearSVC(loss="hinge"), lambda y, z: np.maximum(0, 1 - y * z)),
    11: (
        LinearSVR(loss="squared_epsilon_insensitive"),
        lambda y, z: np.maximum(0, np.abs(y - z) - 0.1) ** 2,
    ),
    12: (
        LinearSVR(loss="squared_epsilon_insensitive"),
        lambda y, z: np.maximum(0, np.abs(y - z) - 0.1) ** 2,
    ),
    13: (LinearSVR(), lambda y, z: np.maximum(0, np.abs(y - z) - 0.1)),
}


def with_epsilon(estimator):
    return estimator.set_params(epsilon=0.1) if isinstance(estimator, LinearSVR) else estimator


def make_sparse(estimator, d=6):
    """Return X with zeros in it, and y, labels being -1 and 1."""
    X, y = make_data(2 if is_classifier(estimator) else 0, n=80, d=d)
    y = np.where(y > 0, 1.0, -1.0) if is_classifier(estimator) else y
    return np.where(np.abs(X) > 0.3, X, 0.0), y


def objectives(number, X, y, C, tol):
    """Return the objective as a function of the weights, and LIBLINEAR's."""
    _, loss = LOSSES[number]
    rows = np.column_stack([X, np.ones(len(y))])

    def objective(w):
        return 0.5 * w @ w + C * loss(y, rows @ w).sum()

    weights, bias = train(y, X, f"-s {number} -c {C} -p 0.1 -B 1 -e {tol} -q").get_decfun()
    return objective, objective(np.append(weights, bias))


@pytest.mark.parametrize("C", [2.0**-8, 0.1, 10.0])
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", LOSSES)
def test_the_objective_is_liblinears(number, form, tol, C):
    estimator = with_epsilon(clone(LOSSES[number][0]))
    X, y = make_sparse(estimator)
    objective, expected = objectives(number, X, y, C, tol)
    problem = problem_of(estimator, FORMS[form](X), y)
    best = objective(problem.refit({"C": C}, Effort(1e-12))[0].weights)
    assert best <= expected * (1 + 1e-12)
    found = objective(problem.refit({"C": C}, Effort(tol))[0].weights)
    # LIBLINEAR's dual solvers may have stopped early
    assert found <= expected * (1 + 1e-4)
    assert found <= best * (1 + 1e-4)


@pytest.mark.parametrize("number", LOSSES)
def test_the_objective_can_be_asked_for_at_any_weights(number):
    """Methods that move weights and hyperparameters together need it."""
    estimator = with_epsilon(clone(LOSSES[number][0]))
    X, y = make_sparse(estimator)
    problem, rng = problem_of(estimator, X, y), np.random.default_rng(0)
    weights = {(f, 0): rng.normal(size=X.shape[1] + 1) for f in (0, 1)}
    found = problem.inner({"C": 0.7}, weights)
    for f, fold in enumerate(problem.folds):
        value, gradient = found[f, 0]
        train = fold.weight > 0
        rows = np.column_stack([X, np.ones(len(y))])[train]

        def objective(w, rows=rows, train=train):
            return 0.5 * w @ w + 0.7 * LOSSES[number][1](y[train], rows @ w).sum()

        w = weights[f, 0]
        assert value == pytest.approx(objective(w))
        for k in (0, len(w) - 1):
            step = 1e-6 * np.eye(len(w))[k]
            slope = (objective(w + step) - objective(w - step)) / 2e-6
            assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("number", [0, 2, 11])
def test_stopping_as_liblinear_does_is_good_enough(number, C):
    """At LIBLINEAR's own tolerance, in single precision, with few features."""
    estimator = with_epsilon(clone(LOSSES[number][0]))
    X, y = make_sparse(estimator)
    objective, expected = objectives(number, X, y, C, 1e-2)
    evaluation = problem_of(estimator, X, y).evaluate({"C": C}, Effort(1e-2))
    assert evaluation.converged
    assert objective(evaluation.whole[0]) <= expected * (1 + 1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", LOSSES)
def test_many_features_are_trained_row_by_row(number, form, monkeypatch):
    monkeypatch.setattr(bundle, "FEW_FEATURES", 0)
    estimator = with_epsilon(clone(LOSSES[number][0]))
    X, y = make_sparse(estimator, d=120)
    objective, expected = objectives(number, X, y, 1.0, 1e-4)
    problem = problem_of(estimator, FORMS[form](X), y)
    found = objective(problem.refit({"C": 1.0}, Effort(1e-4))[0].weights)
    assert found <= expected * (1 + 1e-4)
    assert objective(problem.refit({"C": 1.0}, Effort(1e-10))[0].weights) <= expected


@pytest.mark.parametrize("number", [0, 2, 3, 11, 13])
def test_folds_are_liblinears(number):
    """Training on the rows of a fold, among lanes that have other rows."""
    estimator, _ = LOSSES[number]
    estimator = with_epsilon(clone(estimator))
    X, y = make_data(2 if is_classifier(estimator) else 0, n=60, d=5)
    y = np.where(y > 0, 1.0, -1.0) if is_classifier(estimator) else y
    problem = problem_of(estimator, X, y)
    evaluation = problem.evaluate({"C": 0.3}, Effort(1e-10))
    for fold, outputs in zip(problem.folds, evaluation.outputs, strict=True):
        rows = fold.weight > 0
        # the first label is positive in LIBLINEAR
        order = np.argsort(-y[rows], kind="stable") if is_classifier(estimator) else slice(None)
        options = f"-s {number} -c 0.3 -p 0.1 -B 1 -e 1e-9 -q"
        theirs = train(y[rows][order], X[rows][order], options)
        weights, bias = theirs.get_decfun()
        expected = X[fold.test] @ np.array(weights) + bias
        assert_allclose(outputs[:, 0], expected, atol=2e-5)


# --- scikit-learn

ESTIMATORS = {
    "LinearSVC": LinearSVC(tol=1e-9, max_iter=100_000, dual=False),
    "LinearSVC, scaled": LinearSVC(tol=1e-9, max_iter=100_000, intercept_scaling=5.0, dual=False),
    "LinearSVC, no bias": LinearSVC(tol=1e-9, max_iter=100_000, fit_intercept=False, dual=False),
    "LinearSVC, hinge": LinearSVC(tol=1e-9, max_iter=1_000_000, loss="hinge", random_state=0),
    "LogisticRegression": LogisticRegression(tol=1e-10, max_iter=10_000),
    "LogisticRegression, no bias": LogisticRegression(
        tol=1e-10, max_iter=10_000, fit_intercept=False
    ),
    "LogisticRegression, liblinear, no bias": LogisticRegression(
        tol=1e-10, max_iter=10_000, solver="liblinear", fit_intercept=False
    ),
    "LogisticRegression, liblinear": LogisticRegression(
        tol=1e-10, max_iter=10_000, solver="liblinear", intercept_scaling=3.0
    ),
    "LinearSVR": LinearSVR(tol=1e-9, max_iter=1_000_000, epsilon=0.1, random_state=0),
    "LinearSVR, no bias": LinearSVR(
        tol=1e-9, max_iter=1_000_000, epsilon=0.1, fit_intercept=False, random_state=0
    ),
    "LinearSVR, squared": LinearSVR(
        tol=1e-9, max_iter=100_000, loss="squared_epsilon_insensitive", dual=False
    ),
    "Ridge": Ridge(tol=1e-10),
    "Ridge, no bias": Ridge(fit_intercept=False),
    "RidgeClassifier": RidgeClassifier(),
}
MANY_CLASSES = [name for name in ESTIMATORS if name.startswith(("LinearSVC", "RidgeC"))]


def refitted(estimator, X, y, **fit_params):
    """Return the refitted model of a search, and scikit-learn's own at the same point."""
    name = "alpha" if "Ridge" in type(estimator).__name__ else "C"
    search = GradientSearchCV(estimator, {name: (0.1, 2.0)}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        search.fit(X, y, **fit_params)
        theirs = clone(estimator).set_params(**search.best_params_).fit(X, y, **fit_params)
    return search.best_estimator_, theirs


def data_for(estimator, n_classes=2, n=60):
    X, y = make_data(n_classes if is_classifier(estimator) else 0, n=n)
    X = np.where(np.abs(X) > 0.2, X, 0.0)
    return X, (NAMES[y] if is_classifier(estimator) else y)


def assert_same_weights(mine, theirs):
    assert_allclose(mine.coef_, theirs.coef_, atol=2e-5)
    assert_allclose(mine.intercept_, theirs.intercept_, atol=2e-5)


@pytest.mark.parametrize("name", MANY_CLASSES)
def test_one_class_against_the_rest(name):
    estimator = ESTIMATORS[name]
    X, y = data_for(estimator, 3)
    mine, theirs = refitted(estimator, X, y)
    assert_same_weights(mine, theirs)
    assert_array_equal(mine.predict(X), theirs.predict(X))


@pytest.mark.parametrize("class_weight", [{"pear": 3.0}, "balanced"])
@pytest.mark.parametrize(
    ("name", "n_classes"),
    [
        *product(["LinearSVC", "LinearSVC, hinge", "RidgeClassifier"], [2, 3]),
        ("LogisticRegression", 2),
    ],
)
def test_weights_of_classes(name, class_weight, n_classes):
    estimator = clone(ESTIMATORS[name]).set_params(class_weight=class_weight)
    X, y = data_for(estimator, n_classes)
    assert_same_weights(*refitted(estimator, X, y))


@pytest.mark.parametrize("name", ["LinearSVC", "LogisticRegression", "RidgeClassifier"])
def test_balanced_classes_are_counted_by_weights_of_rows_where_scikit_learn_does(name):
    estimator = clone(ESTIMATORS[name]).set_params(class_weight="balanced")
    X, y = data_for(estimator)
    weight = np.random.default_rng(0).uniform(0.2, 3.0, len(y)) * np.where(y == "pear", 3.0, 1.0)
    assert_same_weights(*refitted(estimator, X, y, sample_weight=weight))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_of_rows(name):
    estimator = ESTIMATORS[name]
    X, y = data_for(estimator)
    weight = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    weight[::9] = 0.0
    assert_same_weights(*refitted(estimator, X, y, sample_weight=weight))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_refitted_model_cannot_be_told_from_a_fitted_one(name, form):
    estimator = ESTIMATORS[name]
    X, y = data_for(estimator)
    mine, theirs = refitted(estimator, FORMS[form](X), y)
    assert_same_weights(mine, theirs)
    assert repr(mine) == repr(theirs)
    assert vars(mine).keys() == vars(theirs).keys()
    for key, expected in vars(theirs).items():
        value = vars(mine)[key]
        assert type(value) is type(expected), key
        if isinstance(expected, np.ndarray):
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape), key
            assert value.flags.c_contiguous, key
            assert value.flags.writeable, key
    check_is_fitted(mine)
    restored = pickle.loads(pickle.dumps(mine))
    assert_array_equal(restored.predict(X), mine.predict(X))
    assert not hasattr(clone(mine), "coef_")
    again = clone(mine).fit(X, y)
    assert_same_weights(again, theirs)
    if is_classifier(estimator):
        assert_array_equal(mine.predict(X), theirs.predict(X))
        assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=1e-4)
    else:
        assert_allclose(mine.predict(X), theirs.predict(X), atol=1e-4)
    if hasattr(theirs, "predict_proba"):
        assert_allclose(mine.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("name", ["LinearSVC", "LogisticRegression", "LinearSVR", "Ridge"])
def test_names_of_features_are_kept(name):
    estimator = ESTIMATORS[name]
    X, y = data_for(estimator)
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    mine, theirs = refitted(estimator, table, y)
    assert_array_equal(mine.feature_names_in_, theirs.feature_names_in_)
    assert mine.n_features_in_ == theirs.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names"):
        mine.predict(table[["b", "a", "c", "d"]])


@pytest.mark.parametrize(
    "name",
    [
        "LinearSVC",
        "LogisticRegression",
        "LogisticRegression, no bias",
        "LogisticRegression, liblinear",
        "LinearSVR",
        "Ridge",
    ],
)
def test_float32_data_give_what_scikit_learn_gives_for_them(name):
    estimator = clone(ESTIMATORS[name]).set_params(tol=1e-4)
    X, y = data_for(estimator)
    mine, theirs = refitted(estimator, X.astype(np.float32), y)
    assert mine.coef_.dtype == theirs.coef_.dtype
    assert mine.intercept_.dtype == theirs.intercept_.dtype
    assert_allclose(mine.coef_, theirs.coef_, atol=5e-3)


def test_the_machine_on_all_rows_is_trained_beside_the_folds():
    X, y = data_for(LinearSVC())
    problem = problem_of(LinearSVC(), X, y)
    evaluation = problem.evaluate({"C": 0.5}, Effort(1e-2))
    assert (WHOLE, 0) in evaluation.state
    assert_allclose(
        evaluation.whole, [s.weights for s in problem.refit({"C": 0.5}, Effort(1e-10))], atol=2e-2
    )


def test_a_refit_that_does_not_converge_is_left_to_scikit_learn(monkeypatch):
    X, y = data_for(LinearSVC())
    unfinished = [Weights(np.zeros(X.shape[1] + 1), converged=False)]
    monkeypatch.setattr(
        "hypermargin.problems.linear.problem.LinearCrossValidation.refit", lambda *_: unfinished
    )
    mine, theirs = refitted(LinearSVC(random_state=0), X, y)
    assert_array_equal(mine.coef_, theirs.coef_)


def test_training_stops_when_it_does_not_converge():
    X, y = make_data(2, n=60, d=4)
    X = X * np.array([1e-6, 1.0, 1e3, 1e6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GradientSearchCV(LinearSVC(loss="hinge", max_iter=50), cv=3).fit(X, y)
    assert np.isfinite(search.best_estimator_.coef_).all()


@pytest.mark.parametrize(
    "machine",
    [LinearClassifier(loss="logistic"), LinearRegressor(loss="squared_epsilon_insensitive")],
)
def test_a_fit_that_does_not_converge_says_so_and_has_a_model(machine, monkeypatch):
    """As in scikit-learn."""
    monkeypatch.setattr("hypermargin.problems.linear.train.MOST_SMOOTH", 1)
    X, y = make_data(2, n=60, d=4)
    with pytest.warns(ConvergenceWarning, match=r"did not converge; scale .* lower C=1.0 or raise"):
        machine.fit(X, y)
    assert np.corrcoef(machine.predict(X), y)[0, 1] > 0.5


@pytest.mark.parametrize("loss", ["smooth_hinge", "hinge", "modified_huber", "logistic"])
@pytest.mark.parametrize("intercept_scaling", [1.0, 5.0])
@pytest.mark.parametrize("C", [1.0, 30.0, 1e3])
def test_steep_losses_are_trained_at_any_cost(loss, intercept_scaling, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    X[:5] *= 30.0  # outliers
    model = LinearClassifier(C=C, loss=loss, intercept_scaling=intercept_scaling).fit(X, y)
    sign, mu = 2.0 * y - 1.0, 12.0
    losses = {
        "smooth_hinge": lambda s: np.logaddexp(0.0, mu * s) / mu,
        "hinge": lambda s: np.maximum(s, 0.0),
        "modified_huber": lambda s: np.where(s < 2.0, np.maximum(s, 0.0) ** 2, 4.0 * s - 4.0),
        "logistic": lambda s: np.logaddexp(0.0, s - 1.0),
    }

    def objective(w):
        outputs = X @ w[:-1] + intercept_scaling * w[-1]
        return 0.5 * w @ w + C * losses[loss](1.0 - sign * outputs).sum()

    w = np.append(model.coef_[0], model.intercept_[0] / intercept_scaling)
    best = minimize(objective, w, method="Powell", options={"maxiter": 20_000, "xtol": 1e-8}).fun
    assert objective(w) <= best * (1 + 1e-4)


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_few_separable_rows_are_trained_to_the_end_at_large_costs():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X[:120])[60:110], np.where(y[60:110], 1.0, -1.0)
    for C in np.geomspace(1.0, 1000.0, 12):
        ours, theirs = (
            model.fit(X, y)
            for model in (
                LinearClassifier(C=C, tol=1e-8),
                LinearSVC(C=C, dual=False, tol=1e-10, max_iter=100_000),
            )
        )
        assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
