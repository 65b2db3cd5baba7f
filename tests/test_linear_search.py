"""Searches of linear models: the curve, the path, the gradient, and agreement with a grid."""

import ctypes
import sys
import time
import warnings
from itertools import count

import numpy as np
import pytest
from helpers import make_data
from liblinear.liblinearutil import train
from scipy import sparse
from scipy.stats import uniform
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, LinearClassifier, value_and_grad
from hypermargin.problems.linear.problem import LinearCrossValidation

CV = StratifiedKFold(4, shuffle=True, random_state=0)
FOLDS = KFold(4, shuffle=True, random_state=0)
METHODS = ["curve", "path", "gradient"]
# tight models, which a grid trains as exactly as anybody
CLASSIFIERS = {
    "LinearSVC": LinearSVC(dual=False),
    "LinearSVC, hinge": LinearSVC(loss="hinge", max_iter=100_000, random_state=0),
    "LogisticRegression": LogisticRegression(),
    "RidgeClassifier": RidgeClassifier(),
}
REGRESSORS = {
    "LinearSVR": LinearSVR(max_iter=100_000, random_state=0),
    "LinearSVR, squared": LinearSVR(loss="squared_epsilon_insensitive", dual=False),
    "Ridge": Ridge(),
}


def noisy(n=200, d=8, seed=0, flips=0.1):
    """Two classes that no plane separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + rng.normal(size=n) > 0
    return X, (y ^ (rng.random(n) < flips)).astype(int)


def strength(estimator):
    return "alpha" if "Ridge" in type(estimator).__name__ else "C"


def quiet(search, *args, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(search, GradientSearchCV):
            search.set_params(random_state=0)
        return search.fit(*args, **params)


# --- agreement with a grid


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scores_are_those_of_a_grid(name, method, grid_over_same_points):
    X, y = noisy()
    search = GradientSearchCV(CLASSIFIERS[name], cv=CV, method=method, max_evals=5)
    quiet(search, X, y)
    rows = search.cv_results_
    assert len(rows["params"]) <= 5
    # machines on the way are trained coarsely, as LIBLINEAR's are: two rows of a fold may differ
    theirs = grid_over_same_points(search, X, y).cv_results_
    for k in range(4):
        key = f"split{k}_test_score"
        assert np.abs(rows[key] - theirs[key]).max() <= 2 / 50 + 1e-9
    assert search.best_score_ >= theirs["mean_test_score"].max() - 0.01


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", REGRESSORS)
def test_scores_of_regressors_are_those_of_a_grid(name, method, grid_over_same_points):
    estimator = REGRESSORS[name]
    X, y = make_data(0, n=120)
    space = {strength(estimator): None}
    search = GradientSearchCV(estimator, space, cv=FOLDS, method=method, max_evals=5)
    quiet(search, X, y)
    theirs = grid_over_same_points(search, X, y).cv_results_
    found = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, theirs["mean_test_score"], atol=0.02)
    assert search.best_score_ >= theirs["mean_test_score"].max() - 0.01


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_the_search_finds_what_a_grid_finds(name):
    estimator = {**CLASSIFIERS, **REGRESSORS}[name]
    classifies = name in CLASSIFIERS
    X, y = noisy(seed=3) if classifies else make_data(0, n=150, d=6)
    cv = CV if classifies else FOLDS
    values = np.logspace(-4, 3, 8)
    grid = quiet(GridSearchCV(estimator, {strength(estimator): values}, cv=cv), X, y)
    space = {strength(estimator): (1e-4, 1e3)}
    search = quiet(GradientSearchCV(estimator, space, cv=cv), X, y)
    assert search.best_score_ >= grid.best_score_ - 0.01
    own = clone(estimator).set_params(**search.best_params_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact = cross_val_score(own, X, y, cv=cv).mean()
    assert search.best_score_ == pytest.approx(exact, abs=0.01)


def test_three_classes(three_classes, grid_over_same_points):
    X, y = three_classes
    for estimator in (LinearSVC(dual=False), RidgeClassifier()):
        search = quiet(GradientSearchCV(estimator, cv=3), X, y)
        theirs = grid_over_same_points(search, X, y).cv_results_["mean_test_score"]
        assert np.abs(search.cv_results_["mean_test_score"] - theirs).max() <= 2 / len(y) + 1e-9


# --- the curve


@pytest.mark.parametrize("method", ["curve", "path"])
@pytest.mark.parametrize("name", ["LinearSVC", "LogisticRegression", "RidgeClassifier"])
def test_the_curve_tells_the_score_at_every_value(name, method):
    estimator = CLASSIFIERS[name]
    X, y = noisy(seed=1)
    search = quiet(GradientSearchCV(estimator, cv=CV, method=method), X, y)
    values, scores = search.curve_[strength(estimator)], search.curve_["score"]
    assert (np.diff(values) > 0).all()
    assert len(values) == len(scores) == len(search.curve_["std_error"])
    for k in range(0, len(values), 6):
        model = clone(estimator).set_params(**{strength(estimator): values[k]})
        folds = cross_val_score(model, X, y, cv=CV)
        assert abs(folds.mean() - scores[k]) <= 2 / len(y) + 1e-9
        error = folds.std() / np.sqrt(len(folds) - 1)
        assert search.curve_["std_error"][k] == pytest.approx(error, abs=0.01)
    assert search.best_score_ >= np.nanmax(scores) - 2 / len(y)


def test_the_curve_is_of_the_leading_score():
    X, y = noisy()
    search = GradientSearchCV(
        LinearSVC(dual=False), cv=CV, scoring=["accuracy", "roc_auc"], refit="roc_auc"
    )
    quiet(search, X, y)
    k = len(search.curve_["C"]) // 2
    model = LinearSVC(dual=False, C=search.curve_["C"][k])
    expected = cross_val_score(model, X, y, cv=CV, scoring="roc_auc").mean()
    assert search.curve_["score"][k] == pytest.approx(expected, abs=2e-3)


def test_few_evaluations_make_the_curve():
    X, y = noisy()
    search = quiet(GradientSearchCV(LinearSVC(), cv=CV), X, y)
    assert len(search.history_) <= 16
    assert len(search.curve_["C"]) > 2 * len(search.history_)
    assert set(search.curve_["C"]) & {params["C"] for params in search.cv_results_["params"]}


@pytest.mark.parametrize("method", ["curve", "gradient"])
@pytest.mark.parametrize("name", ["LinearSVC", "LogisticRegression", "Ridge"])
def test_the_history_has_values_and_gradients(name, method):
    estimator = {**CLASSIFIERS, **REGRESSORS}[name]
    X, y = make_data(0, n=100) if name == "Ridge" else noisy()
    cv = FOLDS if name == "Ridge" else CV
    search = quiet(GradientSearchCV(estimator, cv=cv, method=method), X, y)
    known = [record for record in search.history_ if record["gradient"] is not None]
    assert known
    for record in known[:3]:
        value, gradient = value_and_grad(estimator, X, y, record["params"], cv=cv, tol=1e-9)
        assert record["objective"] == pytest.approx(value, rel=1e-2)
        ((parameter, found),) = record["gradient"].items()
        x, exact = record["params"][parameter], gradient[parameter]
        assert found * x == pytest.approx(exact * x, rel=0.1, abs=2e-3 * value)


# --- the path


@pytest.mark.parametrize(
    ("estimator", "squares"),
    [(LinearSVC(), 2), (LinearSVC(loss="hinge"), 1), (LogisticRegression(solver="liblinear"), 1)],
    ids=["squared hinge", "hinge", "logistic"],
)
def test_the_path_starts_where_all_rows_are_inside_their_margins(estimator, squares):
    """Equations (21) and (22) of Chu et al.: the largest such power of two."""
    X, y = noisy()
    search = quiet(GradientSearchCV(estimator, cv=CV, method="path"), X, y)
    longest = (X**2).sum(axis=1).max() + 1.0
    bound = 1 / (squares * len(y) * longest)
    first = search.curve_["C"][0]
    assert first <= bound < 2 * first
    assert np.log2(first) == pytest.approx(round(np.log2(first)), abs=1e-9)
    assert search.history_[0]["params"]["C"] == pytest.approx(first)


def test_the_path_doubles_the_cost_until_solutions_no_longer_change():
    X, y = noisy()
    search = quiet(GradientSearchCV(LinearSVC(), cv=CV, method="path"), X, y)
    C = search.curve_["C"]
    np.testing.assert_allclose(C[1:] / C[:-1], 2.0)
    assert C[-1] < 2.0**10  # rule (24) has stopped it
    # the last solutions have the gradient that the rule asks for, on each fold
    rows = np.column_stack([X, np.ones(len(y))])
    labels = 2.0 * y - 1.0
    for train_rows, _ in CV.split(X, y):
        A, t = rows[train_rows], labels[train_rows]

        def gradient(w, C, A=A, t=t):
            return w - 2 * C * A.T @ (t * np.maximum(0, 1 - t * (A @ w)))

        for last in C[-3:]:
            model = LinearSVC(C=last / 2, dual=False, tol=1e-8).fit(X[train_rows], y[train_rows])
            w = np.append(model.coef_, model.intercept_)
            size = np.linalg.norm(gradient(w, last)) / np.linalg.norm(gradient(0 * w, last))
            assert size <= 2e-2  # twice the rule's, whose solutions are coarse


def liblinears_folds(n, k, seed):
    """Seed `rand()`, and return the folds that `-C -v k` draws after the same seed."""
    libc, order = ctypes.CDLL(None), np.arange(n)
    libc.srand(seed)
    for i in range(n):
        j = i + libc.rand() % (n - i)
        order[i], order[j] = order[j], order[i]
    tests = np.split(order, [i * n // k for i in range(1, k)])
    return [(np.setdiff1d(order, test), np.sort(test)) for test in tests]


def of_many_units(X, rng):
    return X * 10.0 ** rng.uniform(-1, 2, X.shape[1])


def of_many_lengths(X, rng):
    return X * np.exp(2 * rng.normal(size=(len(X), 1)))


def with_many_columns(X, rng):
    """So many entries that single precision would be enough for others."""
    return np.column_stack([X, rng.normal(size=(len(X), 220))])


@pytest.mark.skipif(sys.platform == "win32", reason="folds are drawn again by the C library")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("change", [None, of_many_units, of_many_lengths, with_many_columns])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("estimator", "number"),
    [(LinearSVC(), 2), (LogisticRegression(solver="liblinear"), 0)],
    ids=["squared hinge", "logistic"],
)
def test_the_path_is_liblinears_own(estimator, number, form, change, seed):
    """On the same folds it chooses the same C, and as many rows are right there."""
    X, y = noisy(n=300, seed=seed)
    X[np.abs(X) < 0.5] = 0.0
    if change is not None:
        X = change(X, np.random.default_rng(seed))
    folds = liblinears_folds(len(y), 5, seed)
    search = quiet(GradientSearchCV(estimator, cv=folds, method="path"), form(X), y)
    ctypes.CDLL(None).srand(seed)
    C, _, accuracy = train(2.0 * y - 1.0, X, f"-C -s {number} -B 1 -v 5 -q")
    assert search.best_params_["C"] == pytest.approx(C)
    assert search.best_score_ == pytest.approx(accuracy)


@pytest.mark.skipif(sys.platform == "win32", reason="folds are drawn again by the C library")
def test_the_path_of_many_features_has_both_ways():
    """dual=False takes LIBLINEAR's steps; otherwise it ends near the same place."""
    rng = np.random.default_rng(0)
    X = sparse.random(120, 17_000, density=2e-3, format="csr", random_state=0)
    y = (X @ rng.normal(size=17_000) > 0).astype(int)
    folds = liblinears_folds(len(y), 5, 0)
    ctypes.CDLL(None).srand(0)
    C, _, accuracy = train(2.0 * y - 1.0, X, "-C -s 2 -B 1 -v 5 -q")
    same = quiet(GradientSearchCV(LinearSVC(dual=False), cv=folds, method="path"), X, y)
    assert same.best_params_["C"] == pytest.approx(C)
    assert same.best_score_ == pytest.approx(accuracy)
    near = quiet(GradientSearchCV(LinearSVC(), cv=folds, method="path"), X, y)
    assert near.best_score_ == pytest.approx(accuracy, abs=0.05)


@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression(), RidgeClassifier()])
def test_the_path_of_a_free_bias_does_not_mind_features_far_from_zero(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = X[:, 0] + 0.5 * rng.normal(size=150)
    scores = []
    for offset in (0.0, 1000.0):
        target = y + offset if isinstance(estimator, Ridge) else (y > 0).astype(int)
        search = GradientSearchCV(estimator, cv=FOLDS, method="path")
        scores.append(quiet(search, X + offset, target).best_score_)
    assert scores[1] == pytest.approx(scores[0], abs=0.02)


def test_the_path_respects_a_range():
    X, y = noisy()
    search = GradientSearchCV(LinearSVC(), {"C": (0.01, 0.1)}, cv=CV, method="path")
    quiet(search, X, y)
    C = search.curve_["C"]
    assert C[0] == pytest.approx(0.01)
    assert C[-1] <= 0.1 * (1 + 1e-9)


def test_the_path_of_ridge_goes_from_large_alpha_to_small():
    X, y = make_data(0, n=100)
    search = quiet(GradientSearchCV(Ridge(), cv=FOLDS, method="path"), X, y)
    assert (np.diff(search.curve_["alpha"]) > 0).all()
    visited = [record["params"]["alpha"] for record in search.history_]
    assert visited == sorted(visited, reverse=True)


# --- the method


def test_auto_is_the_curve_for_one_knob_and_the_gradient_for_more():
    X, y = noisy()
    assert hasattr(quiet(GradientSearchCV(LinearSVC(), cv=3), X, y), "curve_")
    space = {"C": None, "threshold": None}
    assert not hasattr(quiet(GradientSearchCV(LinearSVC(), space, cv=3), X, y), "curve_")
    assert not hasattr(quiet(GradientSearchCV(SVC(), {"C": None}, cv=3), X, y), "curve_")


@pytest.mark.parametrize("method", ["curve", "path"])
@pytest.mark.parametrize(
    ("estimator", "space"),
    [
        (SVC(), None),
        (SVC(kernel="linear"), {"C": None}),
        (LinearSVC(), {"C": None, "threshold": None}),
        (LinearSVC(), {"threshold": None}),
    ],
    ids=["kernel", "linear kernel", "two knobs", "another knob"],
)
def test_methods_that_do_not_fit_are_refused(estimator, space, method):
    X, y = noisy(n=60)
    with pytest.raises(ValueError, match=f"method='{method}' is for linear models of which C"):
        GradientSearchCV(estimator, space, cv=3, method=method).fit(X, y)


def test_an_unknown_method_is_refused():
    X, y = noisy(n=60)
    with pytest.raises(ValueError, match="method"):
        GradientSearchCV(LinearSVC(), method="guess").fit(X, y)


# --- several knobs


def test_cost_and_epsilon_by_gradient():
    X, y = make_data(0, n=120)
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        search = quiet(GradientSearchCV(LinearSVR(loss=loss), cv=FOLDS), X, y)
        assert set(search.best_params_) == {"C", "epsilon"}
        assert set(search.history_[-1]["gradient"] or {"C": 0, "epsilon": 0}) == {"C", "epsilon"}
        best = cross_val_score(LinearSVR(loss=loss, max_iter=100_000), X, y, cv=FOLDS).mean()
        assert search.best_score_ >= best - 0.02


def test_weights_of_classes_and_a_threshold():
    X, y = noisy(seed=7)
    y = np.where((y == 1) & (np.arange(len(y)) % 3 > 0), 0, y)  # few of class one
    names = np.array(["no", "yes"])[y]
    space = {"C": (1e-3, 1e2), "class_weight": {"yes": (0.5, 20)}}
    search = quiet(
        GradientSearchCV(LinearSVC(), space, cv=CV, scoring="balanced_accuracy"), X, names
    )
    assert set(search.best_params_["class_weight"]) == {"no", "yes"}
    plain = quiet(GradientSearchCV(LinearSVC(), cv=CV, scoring="balanced_accuracy"), X, names)
    assert search.best_score_ > plain.best_score_
    moved = GradientSearchCV(
        LogisticRegression(), {"C": None, "threshold": (-3, 3)}, cv=CV, scoring="balanced_accuracy"
    )
    quiet(moved, X, names)
    assert isinstance(moved.best_estimator_, FixedThresholdClassifier)
    assert moved.best_score_ > plain.best_score_
    assert moved.predict(X).shape == y.shape


def test_listed_values_of_other_parameters():
    X, y = noisy()
    space = {"C": None, "loss": ["hinge", "squared_hinge"], "fit_intercept": [True, False]}
    search = quiet(GradientSearchCV(LinearSVC(), space, cv=3), X, y)
    losses = {row["loss"] for row in search.cv_results_["params"]}
    assert losses == {"hinge", "squared_hinge"}
    assert search.best_estimator_.loss == search.best_params_["loss"]
    assert search.best_estimator_.fit_intercept == search.best_params_["fit_intercept"]


# --- scores


@pytest.mark.parametrize("scoring", ["accuracy", "f1", "roc_auc", "balanced_accuracy"])
@pytest.mark.parametrize("method", METHODS)
def test_scores_of_classifiers(scoring, method):
    X, y = noisy()
    search = GradientSearchCV(
        LinearSVC(dual=False), cv=CV, scoring=scoring, method=method, max_evals=5
    )
    quiet(search, X, y)
    model = LinearSVC(dual=False, **search.best_params_)
    exact = cross_val_score(model, X, y, cv=CV, scoring=scoring).mean()
    assert search.best_score_ == pytest.approx(exact, abs=0.012)


@pytest.mark.parametrize("method", METHODS)
def test_logistic_regression_is_scored_by_its_own_probabilities(method):
    X, y = noisy()
    search = GradientSearchCV(LogisticRegression(), cv=CV, scoring="neg_log_loss", method=method)
    quiet(search, X, y)
    model = LogisticRegression(**search.best_params_)
    exact = cross_val_score(model, X, y, cv=CV, scoring="neg_log_loss").mean()
    assert search.best_score_ == pytest.approx(exact, rel=5e-3)
    fitted = search.best_estimator_.predict_proba(X)
    np.testing.assert_array_equal(search.predict_proba(X), fitted)


def test_several_scores_at_once(grid_over_same_points):
    X, y = noisy(n=80)
    scoring = ["accuracy", "f1", "roc_auc"]
    search = GradientSearchCV(LinearSVC(dual=False), cv=CV, scoring=scoring, refit="f1")
    quiet(search, X, y)
    theirs = grid_over_same_points(search, X, y).cv_results_
    for name in scoring:
        key = f"mean_test_{name}"
        np.testing.assert_allclose(search.cv_results_[key], theirs[key], atol=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_a_plain_function_gets_fitted_models(method):
    X, y = noisy(n=80)
    seen = []

    def score(model, X, y):
        seen.append(type(model))
        return model.score(X, y)

    search = GradientSearchCV(
        LinearSVC(dual=False), cv=3, scoring=score, method=method, max_evals=5
    )
    quiet(search, X, y)
    assert set(seen) == {LinearSVC}
    model = LinearSVC(dual=False, **search.best_params_)
    assert search.best_score_ == pytest.approx(cross_val_score(model, X, y, cv=3).mean())


@pytest.mark.parametrize("method", METHODS)
def test_a_criterion_leads_if_it_is_given(method):
    X, y = noisy()
    search = GradientSearchCV(LinearSVC(), cv=CV, criterion="roc_auc", method=method)
    quiet(search, X, y)
    losses = search.cv_results_["objective"]
    assert search.best_index_ == int(np.argmin(losses))


def test_own_scorers_and_weights_of_rows():
    X, y = make_data(0, n=100)
    scorer = make_scorer(lambda a, b: -float(np.abs(np.asarray(a) - b).max()))
    search = GradientSearchCV(Ridge(), cv=FOLDS, scoring=scorer)
    with pytest.warns(UserWarning, match="no smooth form"):
        search.fit(X, y, sample_weight=np.linspace(0.1, 2, len(y)))
    assert np.isfinite(search.best_score_)


# --- pipelines


def test_text():
    rng = np.random.default_rng(0)
    words = {0: ["ship", "sea", "sail", "port"], 1: ["wing", "air", "fly", "port"]}
    y = np.arange(80) % 2
    texts = [" ".join(rng.choice(words[k] + ["the", "a", "of"], 6)) for k in y]
    model = make_pipeline(TfidfVectorizer(), LinearSVC())
    search = quiet(GradientSearchCV(model, cv=CV), texts, y)
    assert list(search.best_params_) == ["linearsvc__C"]
    assert search.best_score_ > 0.85
    assert sparse.issparse(search.best_estimator_[:-1].transform(texts))
    model = clone(model).set_params(**search.best_params_)
    exact = cross_val_score(model, texts, y, cv=CV).mean()
    assert search.best_score_ == pytest.approx(exact, abs=2 / 80)


@pytest.mark.parametrize("method", METHODS)
def test_scalers_are_fitted_inside_the_folds(method, grid_over_same_points):
    X, y = noisy()
    X = X * np.logspace(0, 3, X.shape[1]) + 10.0
    model = make_pipeline(StandardScaler(), LinearSVC(dual=False))
    search = GradientSearchCV(model, cv=CV, method=method, max_evals=6)
    quiet(search, X, y)
    theirs = grid_over_same_points(search, X, y).cv_results_["mean_test_score"]
    assert np.abs(search.cv_results_["mean_test_score"] - theirs).max() <= 3 / len(y)
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))


# --- the run of a search


@pytest.mark.parametrize("method", METHODS)
def test_threads_change_nothing_but_rounding(method):
    X, y = noisy(n=300)
    one, two = (
        quiet(GradientSearchCV(LinearSVC(), cv=CV, method=method, n_jobs=n), X, y) for n in (1, 2)
    )
    assert one.best_params_["C"] == pytest.approx(two.best_params_["C"], rel=1e-3)
    assert one.best_score_ == pytest.approx(two.best_score_, abs=2 / len(y))


@pytest.mark.parametrize("method", METHODS)
def test_the_tables_of_a_search(method):
    X, y = noisy()
    search = GradientSearchCV(LinearSVC(), cv=CV, method=method, return_train_score=True)
    quiet(search, X, y)
    rows = search.cv_results_
    n = len(rows["params"])
    for key in ("mean_test_score", "mean_train_score", "objective", "gradient_norm", "tol"):
        assert len(rows[key]) == n
    assert (rows["n_samples"] == len(y)).all() if method != "gradient" else True
    assert len(search.history_) >= n
    for record in search.history_:
        keys = {"params", "objective", "gradient", "score", "seconds", "n_samples", "tol"}
        assert set(record) == keys | {"look"}
    assert search.best_score_ == rows["mean_test_score"][search.best_index_]
    assert search.seconds_["train"] > 0
    assert ("adjoint" in search.seconds_) == (method != "path")
    model = LinearSVC(dual=False, **search.best_params_)
    assert search.score(X, y) == pytest.approx(model.fit(X, y).score(X, y), abs=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_evaluations_are_limited(method):
    X, y = noisy()
    search = quiet(GradientSearchCV(LinearSVC(), cv=CV, method=method, max_evals=1), X, y)
    assert len(search.cv_results_["params"]) == 1
    assert hasattr(search.best_estimator_, "coef_")


def before_evaluations(monkeypatch, action):
    """Call a function with the number of the evaluation before each."""
    evaluate, number = LinearCrossValidation.evaluate, count(1)

    def acted(*args, **params):
        action(next(number))
        return evaluate(*args, **params)

    monkeypatch.setattr(LinearCrossValidation, "evaluate", acted)


@pytest.mark.parametrize("method", ["curve", "path"])
def test_the_time_is_limited(method, monkeypatch):
    before_evaluations(monkeypatch, lambda number: time.sleep(0.1))
    X, y = noisy()
    search = GradientSearchCV(LinearSVC(), cv=CV, method=method, time_budget=0.25)
    clock = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        search.fit(X, y)
    assert time.perf_counter() - clock < 3.0
    assert 1 <= len(search.history_) <= 4
    assert hasattr(search.best_estimator_, "coef_")


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_gives_the_best_so_far(method, monkeypatch):
    X, y = noisy()
    search = GradientSearchCV(LinearSVC(), cv=CV, method=method, random_state=0)
    numbers = []
    with monkeypatch.context() as patch:
        before_evaluations(patch, numbers.append)
        quiet(search, X, y)

    def interrupt(number):
        if number == len(numbers):  # the last one: points have been recorded by then
            raise KeyboardInterrupt

    before_evaluations(monkeypatch, interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        search.fit(X, y)
    assert 1 <= len(search.history_) < len(numbers)
    assert hasattr(search.best_estimator_, "coef_")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(max_iter=1000), LinearSVC(), LinearSVC(loss="hinge")],
    ids=["logistic", "squared hinge", "hinge"],
)
def test_separable_data_end(estimator, method):
    """Without noise a logistic regression has no finite limit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[:, 0] += 4 * np.sign(X[:, 0])
    y = (X[:, 0] > 0).astype(int)
    search = GradientSearchCV(estimator, cv=4, method=method, scoring="accuracy")
    quiet(search, X, y)
    assert search.best_score_ == 1.0
    assert np.isfinite(search.best_estimator_.coef_).all()


@pytest.mark.parametrize("method", ["curve", "gradient"])  # the path ends earlier, by rule (24)
def test_a_best_point_on_the_bound_is_told(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[:, 0] += 4 * np.sign(X[:, 0])
    y = (X[:, 0] > 0).astype(int)
    search = GradientSearchCV(
        LogisticRegression(max_iter=1000), {"C": (1e-3, 1e2)}, cv=4, scoring="neg_log_loss",
        method=method,
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"C=.* is on the bound"):
        search.fit(X, y)


def test_the_curve_is_that_of_the_best_listed_values():
    X, y = noisy()
    X = X + 3.0  # a bias is needed
    search = GradientSearchCV(LinearSVC(), {"C": None, "fit_intercept": [True, False]}, cv=CV)
    quiet(search, X, y)
    assert search.best_params_["fit_intercept"]
    assert search.curve_["score"].max() >= search.best_score_ - 0.02
    alone = quiet(GradientSearchCV(LinearSVC(), cv=CV), X, y)
    np.testing.assert_allclose(search.curve_["score"], alone.curve_["score"])
    quiet(search.set_params(method="gradient"), X, y)
    assert not hasattr(search, "curve_")


def test_iterations_are_counted():
    X, y = noisy()
    easy, hard = (LinearClassifier(loss="logistic", C=C).fit(X, y).n_iter_ for C in (1e-6, 1e3))
    assert 1 <= easy < hard


def test_equal_searches_give_equal_results():
    X, y = noisy()
    first, second = (quiet(GradientSearchCV(LinearSVC(), cv=CV), X, y) for _ in range(2))
    assert first.best_params_ == second.best_params_
    np.testing.assert_array_equal(first.best_estimator_.coef_, second.best_estimator_.coef_)


# --- ranges


@pytest.mark.parametrize("n", [200, 1500])
@pytest.mark.parametrize("method", ["curve", "path"])
def test_a_linear_scale_is_walked_by_factors_all_the_same(n, method):
    X, y = make_classification(n, 20, n_informative=5, random_state=0)
    found = [
        GradientSearchCV(LinearSVC(), {"C": spec}, cv=CV, method=method).fit(X, y)
        for spec in ((1e-4, 10.0), (1e-4, 10.0, "linear"), uniform(1e-4, 10.0 - 1e-4))
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.curve_["C"], found[0].curve_["C"], rtol=1e-9)
        assert other.best_score_ == found[0].best_score_


@pytest.mark.parametrize("bounds", [(0.5, 1e6), (1e-9, 1e-6), (1.0, 1.5)])
def test_unusual_ranges_have_a_curve(bounds):
    X, y = make_classification(1200, 8, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the bound
        search = GradientSearchCV(LinearSVC(), {"C": bounds}, cv=CV).fit(X, y)
    assert len(search.curve_["C"]) > 2
    assert bounds[0] <= search.curve_["C"][0] < search.curve_["C"][-1] <= bounds[1]


def test_a_search_that_is_cut_short_begins_in_the_middle():
    X, y = make_classification(300, 8, random_state=0)
    whole = GradientSearchCV(LinearSVC(), cv=CV).fit(X, y)
    first = GradientSearchCV(LinearSVC(), cv=CV, max_evals=1).fit(X, y)
    assert first.best_params_["C"] > 30 * whole.curve_["C"][0]
    assert first.best_params_["C"] < whole.curve_["C"][-1] / 30


def test_an_unsuitable_method_is_refused_before_any_search():
    X, y = make_classification(100, 5, random_state=0)
    seen = []

    def score(fitted, X, y):
        seen.append(fitted)
        return fitted.score(X, y)

    space = [{"C": None}, {"C": None, "threshold": None}]
    with pytest.raises(ValueError, match="method='curve' is for linear models"):
        GradientSearchCV(LinearSVC(), space, cv=CV, method="curve", scoring=score).fit(X, y)
    assert not seen


def test_the_path_gives_the_chosen_point_at_its_final_tolerance():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 5)), rng.integers(0, 2, 1200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GradientSearchCV(LinearSVC(loss="hinge"), cv=CV, method="path").fit(X, y)
    assert search.cv_results_["tol"][search.best_index_] == min(search.cv_results_["tol"])
    scores = search.cv_results_["mean_test_score"]
    assert search.best_index_ == int(np.argmax(scores))


def test_a_search_gives_the_fitted_classifier_its_probabilities():
    X, y = make_classification(200, 5, random_state=0)
    search = GradientSearchCV(LinearClassifier(), cv=CV).fit(X, y)
    np.testing.assert_allclose(
        search.best_estimator_.predict_proba(X), search.predict_proba(X), atol=1e-12
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearSVC(loss="hinge", dual=False), "dual=False; use dual='auto'"),
        (LinearSVR(dual=False), "dual=False; use dual='auto'"),
        (Ridge(positive=True), "positive=True; use False"),
    ],
)
def test_what_scikit_learn_cannot_fit_is_refused(model, message):
    X, y = make_classification(100, 5, random_state=0)
    with pytest.raises(ValueError, match=message):
        GradientSearchCV(model, cv=CV).fit(X, y)


def test_an_infinite_cost_is_refused():
    X, y = make_classification(100, 5, random_state=0)
    search = GradientSearchCV(LogisticRegression(C=np.inf), {"threshold": None}, cv=CV)
    with pytest.raises(ValueError, match="C=inf must be finite here"):
        search.fit(X, y)


def test_a_score_that_is_undefined_in_a_fold_leaves_the_loss_to_choose():
    X, y = make_classification(120, 5, random_state=0)
    rows = np.arange(120)
    negative = np.flatnonzero(y == 0)[:20]
    folds = [(np.setdiff1d(rows, negative), negative), (rows[60:], rows[:60])]  # one class only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says that the score is undefined
        search = GradientSearchCV(LinearSVC(), cv=folds, scoring="roc_auc").fit(X, y)
    assert np.isfinite(search.curve_["score"]).all()
    chosen = search.cv_results_["objective"][search.best_index_]
    assert chosen == np.nanmin(search.cv_results_["objective"])
