"""Training parts without one of the classes: the fold's model does not know it, and that is all."""

import warnings

import numpy as np
import pytest
from helpers import central_difference, make_data
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV, KernelSVC, LinearClassifier, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MODELS = [
    SVC(tol=1e-6),
    SVC(gamma=0.3, decision_function_shape="ovo", tol=1e-6, class_weight={0: 1, 1: 2, 2: 1, 3: 1}),
    KernelSVC(loss="squared_hinge", tol=1e-6),
    KernelSVC(loss="squared", gamma=0.3, tol=1e-6),
    KernelSVC(loss="logistic", tol=1e-6),
    LinearSVC(tol=1e-8, max_iter=100_000, class_weight="balanced"),
    LogisticRegression(tol=1e-10, max_iter=1000),
    LogisticRegression(tol=1e-10, max_iter=1000, class_weight="balanced"),
    RidgeClassifier(class_weight="balanced"),
    LinearClassifier(loss="logistic", tol=1e-9),
    make_pipeline(StandardScaler(), SVC(tol=1e-6)),
    make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000)),
]


def strength(model):
    """Return the name of the cost in the whole."""
    return next(n for n in model.get_params() if n.rpartition("__")[2] in ("C", "alpha"))


def lacking():
    """Return rows of four classes, and folds whose training parts have two, three and all."""
    X, y = make_data(4, n=80, seed=1)
    rows = np.arange(80)
    two = np.flatnonzero((y == 0) | (y == 2)), rows[::2]
    return X, y, [two, (np.flatnonzero(y != 1), rows[1::2]), (rows[::2], rows[1::2])]


def of_folds(results, part="test"):
    names = sorted(name for name in results if name.startswith("split") and part in name)
    return np.array([results[name] for name in names])


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_scores_are_those_of_grid_search(model):
    X, y, folds = lacking()
    options = {"cv": folds, "scoring": "f1_macro", "return_train_score": True}
    space = {strength(model): [0.3, 3.0]}
    found = GradientSearchCV(model, space, method="gradient", **options).fit(X, y)
    expected = GridSearchCV(model, space, **options).fit(X, y)
    for part in ("test", "train"):
        assert_allclose(
            of_folds(found.cv_results_, part), of_folds(expected.cv_results_, part), atol=1e-12
        )
    assert np.isfinite(found.cv_results_["objective"]).all()
    assert found.best_params_ == expected.best_params_


@pytest.mark.parametrize("model", [MODELS[6], MODELS[11], SVC(probability=True)], ids=str)
def test_probabilities_of_a_fold_are_those_of_the_classes_that_it_knows(model):
    X, y = make_data(3, n=90)
    train = np.flatnonzero(y != 1)
    fold = [(train, train[::2]), (np.arange(90), np.arange(90))]
    options = {"cv": fold, "scoring": "neg_log_loss"}
    found = GradientSearchCV(model, {strength(model): [1.0]}, **options).fit(X, y)
    assert np.isfinite(of_folds(found.cv_results_)).all()
    if isinstance(model, SVC):  # whose probabilities in the folds are ours
        return
    expected = GridSearchCV(model, {strength(model): [1.0]}, **options).fit(X, y)
    assert_allclose(of_folds(found.cv_results_), of_folds(expected.cv_results_), rtol=1e-4)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(
    "criterion, pooled",
    [("accuracy", True), ("f1_macro", False), ("neg_log_loss", True)],
    ids=["error", "f1", "log loss"],
)
def test_gradients(model, criterion, pooled):
    X, y, folds = lacking()
    name = strength(model)

    def at(C):
        return value_and_grad(
            model, X, y, {name: C}, criterion=criterion, cv=folds, pooled=pooled, tol=1e-11
        )

    expected = central_difference(lambda C: at(C)[0], 1.3)
    assert_allclose(at(1.3)[1][name], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["class_weight", "class_cost", "machine_cost"])
def test_gradients_by_class(name):
    X, y, folds = lacking()
    model = {
        "class_weight": LogisticRegression(),
        "class_cost": KernelSVC(loss="squared_hinge", gamma=0.3),
        "machine_cost": LinearClassifier(),
    }[name]
    point = np.array([1.0, 2.0, 1.5, 0.7])

    def at(values):
        return value_and_grad(model, X, y, {name: values}, cv=folds, tol=1e-11)

    for k in range(4):
        expected = central_difference(
            lambda z, k=k: at(np.where(np.arange(4) == k, z, point))[0], point[k]
        )
        assert_allclose(at(point)[1][name][k], expected, rtol=1e-5, atol=1e-8)


def test_weights_of_classes_that_one_machine_has_in_its_own_way():
    X, y, folds = lacking()
    model = LinearSVC(tol=1e-8, max_iter=100_000)
    space = {"class_weight": {0: (0.5, 2.0), 2: (0.5, 4.0)}}
    search = GradientSearchCV(model, space, cv=folds, max_evals=3).fit(X, y)
    best = GridSearchCV(model.set_params(**search.best_params_), {"C": [1.0]}, cv=folds).fit(X, y)
    assert_allclose(search.best_score_, best.best_score_, atol=1e-12)
    with pytest.warns(FitFailedWarning, match=r"Fold 0 is left out: .* has two classes only"):
        value_and_grad(model, X, y, {"class_weight": 1.0}, cv=folds)


@pytest.mark.parametrize("name", ["class_cost", "margin"])
def test_costs_by_class_serve_rows_that_lack_a_class(name):
    X, y, folds = lacking()
    space = {name: {0: (0.5, 2.0), 2: (0.5, 4.0)}}
    model = KernelSVC(loss="squared_hinge", gamma=0.3, tol=1e-6)
    search = GradientSearchCV(model, space, cv=folds, max_evals=3).fit(X, y)
    assert list(search.best_params_[name]) == [0, 1, 2, 3]
    best = GridSearchCV(model.set_params(**search.best_params_), {"C": [1.0]}, cv=folds).fit(X, y)
    assert_allclose(search.best_score_, best.best_score_, atol=1e-12)
    with pytest.raises(ValueError, match=f"{name} names 7, which is none of the classes"):
        model.set_params(**{name: {0: 2.0, 7: 1.0}}).fit(X, y)


@pytest.mark.parametrize("rank", [60, 80])
def test_landmarks(rank):
    X, y, folds = lacking()
    search = GradientSearchCV(SVC(gamma=0.3), {"C": [1.0]}, cv=folds, rank=rank).fit(X, y)
    exact = GradientSearchCV(SVC(gamma=0.3), {"C": [1.0]}, cv=folds).fit(X, y)
    assert_allclose(of_folds(search.cv_results_), of_folds(exact.cv_results_), atol=0.1)
    assert_allclose(search.cv_results_["objective"], exact.cv_results_["objective"], atol=0.03)


@pytest.mark.parametrize("method", ["curve", "path"])
@pytest.mark.parametrize("model", MODELS[5:9], ids=str)
def test_curves(method, model):
    X, y, folds = lacking()
    name = strength(model)
    found = GradientSearchCV(model, {name: None}, cv=folds, method=method).fit(X, y)
    space = {name: found.cv_results_[f"param_{name}"].data.tolist()}
    expected = GridSearchCV(model, space, cv=folds).fit(X, y)
    # training along curves is coarse
    assert_allclose(of_folds(found.cv_results_), of_folds(expected.cv_results_), atol=2.01 / 40)
    assert np.isfinite(found.curve_["score"]).all()


@pytest.mark.parametrize("model", [SVC(), KernelSVC(), LinearSVC(), LogisticRegression()], ids=str)
def test_groups_with_classes_of_their_own_and_a_class_of_one_row(model):
    X, y = make_data(3, n=90)
    groups = np.where(y == 2, 0, np.arange(90) % 3)
    by_group = GradientSearchCV(model, {"C": (0.1, 10.0)}, cv=LeaveOneGroupOut(), max_evals=3)
    by_group.fit(X, y, groups=groups)
    y = np.where(np.arange(90) == 7, 9, y)
    single = GradientSearchCV(model, {"C": (0.1, 10.0)}, cv=KFold(3), max_evals=3).fit(X, y)
    for search in (by_group, single):
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert len(search.classes_) == len(np.unique(y)) - (search is by_group)


def test_many_rows_and_rare_classes():
    rng = np.random.default_rng(0)
    X, y = make_data(3, n=2500)
    y[rng.permutation(2500)[:2]] = [7, 8]
    search = GradientSearchCV(SVC(), {"C": (0.1, 10.0)}, cv=KFold(3), max_evals=3).fit(X, y)
    expected = GridSearchCV(SVC(), {"C": [search.best_params_["C"]]}, cv=KFold(3)).fit(X, y)
    assert_allclose(search.best_score_, expected.best_score_, atol=2e-3)


SINGLE = [SVC(), LinearSVC(), LogisticRegression(), RidgeClassifier(), KernelSVC(), MODELS[10]]


def one_class():
    """Return rows of two classes, and folds of which the last is trained on one of them."""
    X, y = make_data(2, n=60)
    folds = list(KFold(2, shuffle=True, random_state=0).split(X))
    return X, y, [*folds, (np.flatnonzero(y == 0), np.flatnonzero(y == 1))]


@pytest.mark.parametrize("model", SINGLE, ids=str)
@pytest.mark.parametrize("error_score", [np.nan, -1.0])
def test_a_fold_of_one_class_is_what_the_estimator_makes_of_it(model, error_score):
    X, y, folds = one_class()
    options = {"cv": folds, "error_score": error_score}
    space = {strength(model): [0.3, 3.0]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = GradientSearchCV(model, space, method="gradient", **options).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = GridSearchCV(model, space, **options).fit(X, y)
    assert_allclose(of_folds(found.cv_results_), of_folds(expected.cv_results_))
    assert np.isfinite(found.cv_results_["objective"]).all()
    fails = not isinstance(model, RidgeClassifier)  # which predicts the one class
    assert any(w.category is FitFailedWarning for w in caught) == fails


def test_a_fold_of_one_class_raises_where_that_is_asked_for():
    X, y, folds = one_class()
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        GradientSearchCV(SVC(), {"C": [1.0]}, cv=folds, error_score="raise").fit(X, y)
    with pytest.warns(FitFailedWarning, match=r"Fold 2 is left out: .* has one class only"):
        found = value_and_grad(SVC(), X, y, {"C": 1.0}, cv=folds)
    assert found == value_and_grad(SVC(), X, y, {"C": 1.0}, cv=folds[:2])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_folds_of_one_class_only():
    X, y, folds = one_class()
    with pytest.raises(ValueError, match="All the 1 fits failed"):
        GradientSearchCV(SVC(), {"C": (0.1, 10.0)}, cv=folds[2:]).fit(X, y)
    with pytest.raises(ValueError, match="fold 0 has one class only"):
        value_and_grad(SVC(), X, y, {"C": 1.0}, cv=folds[2:])


@pytest.mark.parametrize("model", [RidgeClassifier(), LinearSVC(), LogisticRegression()], ids=str)
def test_linear_machines_of_a_class_that_a_fold_does_not_know_in_a_pipeline(model):
    X, y = make_data(2, n=40)
    y = np.where(np.arange(40) == 0, 2, y)  # a class of one row
    estimator = make_pipeline(StandardScaler(), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GradientSearchCV(estimator, cv=KFold(3), max_evals=4).fit(X, y)
    grid = cross_val_score(clone(estimator).set_params(**search.best_params_), X, y, cv=KFold(3))
    assert search.best_score_ == pytest.approx(grid.mean(), abs=0.03)
