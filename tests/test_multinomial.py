"""LogisticRegression with more than two classes is scikit-learn's, and its gradients are exact."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import central_difference, make_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from hypermargin import GradientSearchCV, value_and_grad
from hypermargin._core.budget import Budget, Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.problems.linear import multinomial
from hypermargin.problems.linear import problem as linear
from hypermargin.problems.linear.part import WHOLE

CV = KFold(3, shuffle=True, random_state=0)
FORMS = {"dense": np.asarray, "sparse": sparse.csr_matrix}
EXACT = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000)
# features up to which the Hessian of each class is factored
PRECONDITIONERS = {"factored": 600, "diagonal": 0}


@pytest.fixture(autouse=True)
def one_thread_of_blas():
    with threadpool_limits(1):
        yield


def data_of(n_classes=3, n=90, d=4, seed=0):
    X, y = make_data(n_classes, n=n, d=d, seed=seed)
    return np.where(np.abs(X) > 0.2, X, 0.0), y


def weights_of(y):
    weight = np.random.default_rng(0).uniform(0.3, 2.0, len(y))
    weight[::11] = 0.0
    return weight


def quiet(search, *args, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return search.fit(*args, **params)


def problem_of(estimator, X, y, tuned=("C",), n_jobs=1, **fit_params):
    splits = list(CV.split(X, y))
    model = read_model(estimator).tuning(tuned)
    return prepare(model, X, y, splits, fit_params, 1e9, Workers(n_jobs)).problem


@pytest.fixture(params=PRECONDITIONERS)
def preconditioner(request, monkeypatch):
    monkeypatch.setattr(multinomial, "FEW_FEATURES", PRECONDITIONERS[request.param])
    return request.param


# --- solutions


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, {0: 0.5, 2: 3.0}, "balanced"])
def test_machines_on_all_rows_are_scikit_learns(form, fit_intercept, class_weight, preconditioner):
    X, y = data_of()
    estimator = clone(EXACT).set_params(fit_intercept=fit_intercept, class_weight=class_weight)
    X, weight = FORMS[form](X), weights_of(y)
    problem = problem_of(estimator, X, y, sample_weight=weight)
    for C in (1e-3, 0.7, 300.0):
        found = np.array([s.weights for s in problem.refit({"C": C}, Effort(1e-9))])
        theirs = clone(estimator).set_params(C=C).fit(X, y, sample_weight=weight)
        assert_allclose(found[:, :-1], theirs.coef_, atol=1e-5)
        assert_allclose(found[:, -1], theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("n_classes", [3, 8, 13])
@pytest.mark.parametrize("form", FORMS)
def test_outputs_on_validation_rows_are_scikit_learns(n_classes, form):
    X, y = data_of(n_classes, n=30 * n_classes)
    X = FORMS[form](X)
    evaluation = problem_of(EXACT, X, y).evaluate({"C": 2.0}, Effort(1e-10))
    estimator = clone(EXACT).set_params(C=2.0)
    theirs = cross_val_predict(estimator, X, y, cv=CV, method="decision_function")
    assert evaluation.converged
    for test, outputs in zip(evaluation.test, evaluation.outputs, strict=True):
        assert_allclose(outputs, theirs[test], atol=1e-5)
        assert_allclose(evaluation.outputs_at(0, test[:3]).shape, (3, n_classes))


def test_single_precision_is_good_enough(monkeypatch, preconditioner):
    monkeypatch.setattr(linear, "MANY", 0)
    X, y = data_of(5, n=200)
    problem = problem_of(EXACT, X, y)
    coarse, exact = (problem.evaluate({"C": 1.0}, Effort(tol)) for tol in (1e-4, 1e-10))
    assert coarse.converged
    for a, b in zip(coarse.outputs, exact.outputs, strict=True):
        assert_allclose(a, b, atol=5e-3)
    for a, b in zip(coarse.rates()[0], exact.rates()[0], strict=True):
        assert_allclose(a, b, atol=0.05)


def test_more_features_than_rows(preconditioner):
    X, y = data_of(4, n=60, d=90)
    found = np.array([s.weights for s in problem_of(EXACT, X, y).refit({"C": 0.5}, Effort(1e-9))])
    theirs = clone(EXACT).set_params(C=0.5).fit(X, y)
    assert_allclose(found[:, :-1], theirs.coef_, atol=1e-5)


def test_threads_give_the_same_outputs(monkeypatch):
    monkeypatch.setattr("hypermargin.problems.linear.lanes.LEAST", 0)
    X, y = data_of(5, n=400)
    for form in FORMS.values():
        one, two = (
            problem_of(EXACT, form(X), y, n_jobs=n).evaluate({"C": 1.0}, Effort(1e-9))
            for n in (1, 2)
        )
        for a, b in zip(one.outputs, two.outputs, strict=True):
            assert_allclose(a, b, atol=1e-6)


def test_more_folds_than_fit_side_by_side():
    X, y = data_of(3, n=90)
    search = quiet(GradientSearchCV(EXACT, {"C": (0.1, 1.0)}, cv=StratifiedKFold(11)), X, y)
    theirs = quiet(
        GridSearchCV(EXACT, {"C": [search.best_params_["C"]]}, cv=StratifiedKFold(11)), X, y
    )
    assert search.best_score_ == pytest.approx(theirs.best_score_, abs=1e-9)


# --- gradients


def assert_exact(estimator, X, y, params, **options):
    options = {"cv": CV, "tol": 1e-13, **options}
    _, gradient = value_and_grad(estimator, X, y, params, **options)

    def at(name, label, x):
        moved = {**params[name], label: x} if label is not None else x
        return value_and_grad(estimator, X, y, {**params, name: moved}, **options)[0]

    for name, given in params.items():
        for label in given if isinstance(given, dict) else [None]:
            x, found = (d if label is None else d[label] for d in (given, gradient[name]))
            expected = central_difference(lambda z: at(name, label, z), x, 2e-4)  # noqa: B023
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-9), (name, label)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "f1_macro", "neg_brier_score"])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_by_cost_and_by_weights_of_classes(scoring, form, preconditioner):
    X, y = data_of(4)
    params = {"C": 0.4, "class_weight": {0: 0.6, 1: 1.0, 2: 2.0, 3: 0.8}}
    options = {"scoring": scoring, "sample_weight": weights_of(y) + 0.1}
    assert_exact(LogisticRegression(), FORMS[form](X), y, params, **options)


@pytest.mark.parametrize("C", [1e-3, 100.0])
def test_gradients_at_the_edges_of_the_cost(C):
    X, y = data_of(3)
    for scoring in ("accuracy", "neg_log_loss"):
        assert_exact(LogisticRegression(), X, y, {"C": C}, scoring=scoring)


@pytest.mark.parametrize("class_weight", [{0: 0.5, 2: 3.0}, "balanced"])
def test_gradients_with_fixed_weights_of_classes(class_weight):
    X, y = data_of(3)
    estimator = LogisticRegression(class_weight=class_weight, fit_intercept=False)
    assert_exact(estimator, X, y, {"C": 0.4}, scoring="neg_log_loss", pooled=False)


def test_gradients_of_some_weights_of_classes():
    X, y = data_of(3)
    assert_exact(LogisticRegression(), X, y, {"class_weight": {1: 2.0}}, scoring="f1_macro")


def test_gradients_through_transformers_inside_the_folds():
    X, y = data_of(3)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    assert_exact(model, 3.0 * X + 5.0, y, {"logisticregression__C": 0.3})


def test_rates_are_the_derivatives_of_outputs(preconditioner):
    X, y = data_of(4)
    problem = problem_of(EXACT, X, y)
    here = problem.evaluate({"C": 0.5}, Effort(1e-13))
    rates, state = here.rates()
    h = 1e-4
    low, high = (
        problem.evaluate({"C": 0.5 * np.exp(s)}, Effort(1e-13), warm=here.state) for s in (-h, h)
    )
    for rate, a, b in zip(rates, low.outputs, high.outputs, strict=True):
        assert_allclose(rate, (b - a) / (2 * h), rtol=1e-4, atol=1e-6)
    assert_allclose(
        np.array([state[WHOLE, c].rate for c in range(4)]),
        (high.whole - low.whole) / (2 * h),
        rtol=1e-4,
        atol=1e-6,
    )


def test_the_log_loss_is_that_of_the_models_own_probabilities():
    X, y = data_of(4)
    estimator = clone(EXACT).set_params(C=0.4)
    value, _ = value_and_grad(EXACT, X, y, {"C": 0.4}, scoring="neg_log_loss", cv=CV, tol=1e-12)
    P = cross_val_predict(estimator, X, y, cv=CV, method="predict_proba")
    assert value == pytest.approx(log_loss(y, P), rel=1e-8)


# --- searches


@pytest.mark.parametrize("method", ["auto", "path", "gradient"])
@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_a_grid(method, scoring, form, grid_over_same_points):
    X, y = data_of(4, n=120)
    X = FORMS[form](X)
    search = GradientSearchCV(EXACT, cv=CV, method=method, scoring=scoring, max_evals=8)
    quiet(search, X, y)
    assert hasattr(search, "curve_") == (method != "gradient")
    grid = grid_over_same_points(search, X, y)
    slack = 1e-3 if scoring else 1.5 / 40
    for key in ("split0_test_score", "mean_test_score"):
        assert_allclose(search.cv_results_[key], grid.cv_results_[key], atol=slack)
    assert_allclose(search.best_score_, grid.cv_results_["mean_test_score"].max(), atol=slack)


def test_the_search_is_as_good_as_a_grid():
    X, y = make_classification(600, 12, n_informative=6, n_classes=5, random_state=0)
    search = quiet(GradientSearchCV(EXACT, cv=CV, scoring="neg_log_loss"), X, y)
    grid = quiet(
        GridSearchCV(EXACT, {"C": np.logspace(-4, 3, 15)}, cv=CV, scoring="neg_log_loss"), X, y
    )
    assert search.best_score_ >= grid.best_score_ - 1e-3


def test_weights_of_classes_are_tuned():
    X, y = make_classification(
        300, 6, n_informative=4, n_classes=3, weights=[0.8, 0.1], class_sep=0.6, random_state=0
    )
    space = {"C": (0.01, 10), "class_weight": None}
    search = GradientSearchCV(EXACT, space, cv=CV, scoring="balanced_accuracy", random_state=0)
    plain = GradientSearchCV(EXACT, cv=CV, scoring="balanced_accuracy")
    quiet(search, X, y)
    assert set(search.best_params_["class_weight"]) == {0, 1, 2}
    assert search.best_score_ > quiet(plain, X, y).best_score_
    again = clone(EXACT).set_params(**search.best_params_).fit(X, y)
    assert_allclose(search.best_estimator_.coef_, again.coef_, atol=1e-5)


def test_pipelines_are_searched():
    X, y = data_of(4, n=120)
    model = make_pipeline(StandardScaler(), EXACT)
    search = quiet(GradientSearchCV(model, cv=CV), 3.0 * X + 5.0, y)
    grid = GridSearchCV(model, {k: [v] for k, v in search.best_params_.items()}, cv=CV)
    assert search.best_score_ == pytest.approx(quiet(grid, 3.0 * X + 5.0, y).best_score_, abs=0.02)


def test_the_search_keeps_to_its_time():
    X, y = data_of(4, n=120)
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        search = GradientSearchCV(EXACT, cv=CV, time_budget=1e-9, refit=False).fit(X, y)
    assert len(search.cv_results_["params"]) == 1
    ended = Budget()
    ended.stop()
    assert not problem_of(EXACT, X, y).evaluate({"C": 1.0}, Effort(1e-9, ended)).converged


def test_training_that_starts_at_the_solution_is_told():
    X, y = data_of(4, n=120)
    problem = problem_of(EXACT, X, y)
    there = problem.evaluate({"C": 1.0}, Effort(1e-6))
    assert problem.evaluate({"C": 1.0}, Effort(1e-2), warm=there.state, path=True).still
    assert not problem.evaluate({"C": 9.0}, Effort(1e-2), warm=there.state, path=True).still


def test_separable_classes_end_with_a_warning_at_the_bound():
    X = np.repeat(np.eye(3), 20, axis=0) + 0.01 * np.random.default_rng(0).normal(size=(60, 3))
    y = np.repeat(np.arange(3), 20)
    for method in ("curve", "path", "gradient"):
        search = GradientSearchCV(
            LogisticRegression(), {"C": (1e-2, 1e2)}, cv=CV, method=method, scoring="neg_log_loss"
        )
        with pytest.warns(UserWarning, match="on the bound"):
            search.fit(X, y)
        assert search.score(X, y) > -0.02
        search = quiet(GradientSearchCV(LogisticRegression(), cv=CV, method=method), X, y)
        assert search.best_score_ == 1.0
        assert np.isfinite(search.best_estimator_.coef_).all()


@pytest.mark.parametrize("scale", [1e-8, 1e4])
def test_features_of_any_size(scale):
    X, y = data_of(4, n=120)
    search = quiet(GradientSearchCV(EXACT, cv=CV), scale * X, y)
    plain = quiet(GradientSearchCV(EXACT, cv=CV), X, y)
    assert search.best_score_ >= plain.best_score_ - 0.03


@pytest.mark.parametrize("form", [np.zeros, sparse.csr_matrix])
def test_nothing_but_zeros(form):
    _, y = data_of(3)
    search = quiet(GradientSearchCV(EXACT, cv=CV), form((len(y), 3)), y)
    assert_allclose(search.best_estimator_.coef_, 0.0, atol=1e-12)


# --- the refitted model


def refitted(estimator, X, y, **fit_params):
    search = quiet(GradientSearchCV(estimator, {"C": (0.1, 2.0)}, cv=3), X, y, **fit_params)
    theirs = clone(estimator).set_params(**search.best_params_).fit(X, y, **fit_params)
    return search, search.best_estimator_, theirs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_refitted_model_cannot_be_told_from_a_fitted_one(form, fit_intercept, dtype):
    X, y = data_of(4, n=120)
    X, y = FORMS[form](X.astype(dtype)), np.array(["fig", "apple", "pear", "date"], dtype=object)[y]
    estimator = clone(EXACT).set_params(fit_intercept=fit_intercept)
    search, mine, theirs = refitted(estimator, X, y)
    assert vars(mine).keys() == vars(theirs).keys()
    for key, expected in vars(theirs).items():
        value = vars(mine)[key]
        assert type(value) is type(expected), key
        if isinstance(expected, np.ndarray):
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape), key
    atol = 1e-5 if dtype == np.float64 else 2e-3
    assert_allclose(mine.coef_, theirs.coef_, atol=atol)
    assert_allclose(mine.intercept_, theirs.intercept_, atol=atol)
    assert_array_equal(search.predict(X), theirs.predict(X))
    assert_allclose(search.predict_proba(X), theirs.predict_proba(X), atol=atol)
    restored = pickle.loads(pickle.dumps(mine))
    assert_array_equal(restored.predict(X), mine.predict(X))


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg"])
def test_every_solver_of_scikit_learn_agrees(solver):
    X, y = data_of(3, n=120)
    estimator = LogisticRegression(solver=solver, tol=1e-10, max_iter=10_000)
    _, mine, theirs = refitted(estimator, X, y, sample_weight=weights_of(y))
    assert_allclose(mine.coef_, theirs.coef_, atol=1e-5)
    assert_allclose(mine.intercept_, theirs.intercept_, atol=1e-5)


def test_names_of_features_are_kept():
    X, y = data_of(3)
    _, mine, theirs = refitted(EXACT, pd.DataFrame(X, columns=list("abcd")), y)
    assert_array_equal(mine.feature_names_in_, theirs.feature_names_in_)


# --- what cannot be


def test_liblinear_has_two_classes_only():
    X, y = data_of(3)
    estimator = LogisticRegression(solver="liblinear")
    with pytest.raises(ValueError, match=r"3 classes.* solver='liblinear'.* LinearClassifier"):
        GradientSearchCV(estimator, cv=3).fit(X, y)
    with pytest.raises(ValueError, match="liblinear"):
        value_and_grad(estimator, X, y, {"C": 1.0}, cv=3)


def test_a_threshold_is_for_two_classes():
    X, y = data_of(3)
    with pytest.raises(ValueError, match="two classes; y has 3"):
        GradientSearchCV(LogisticRegression(), {"threshold": None}, cv=3).fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(value):
    X, y = data_of(3)
    X[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        GradientSearchCV(LogisticRegression(), cv=3).fit(X, y)
