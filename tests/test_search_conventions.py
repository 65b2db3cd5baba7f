"""A search is an estimator among estimators: clones, pickles, tags, methods, nesting."""

import pickle

import pytest
from helpers import C_GAMMA, CASES, SVR_SPACE, quick, svc, svr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import loguniform
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import get_tags

from hypermargin import GradientSearchCV

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_is_a_search_of_scikit_learn():
    assert issubclass(GradientSearchCV, BaseSearchCV)


def test_a_fitted_search_survives_pickling(fitted, binary):
    X, y = binary
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(copy.decision_function(X), fitted.decision_function(X))
    assert copy.best_params_ == fitted.best_params_
    assert copy.score(X, y) == fitted.score(X, y)
    assert len(copy.history_) == len(fitted.history_)
    assert [h["params"] for h in copy.history_] == [h["params"] for h in fitted.history_]
    assert_array_equal(copy.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


def test_an_unfitted_search_survives_pickling(binary):
    search = quick(svc(), {"C": loguniform(1e-2, 1e2), "gamma": [0.1]}, max_evals=2)
    copy = pickle.loads(pickle.dumps(search)).fit(*binary)
    assert copy.best_params_ == search.fit(*binary).best_params_


def test_clone_and_parameters_round_trip():
    space = {"C": (1e-2, 1e2), "kernel": ["rbf", "linear"]}
    search = GradientSearchCV(
        svc(C=3), space, scoring="f1", cv=4, max_evals=7, tol=0.1, random_state=1
    )
    params = search.get_params()
    assert params["estimator__C"] == 3
    assert params["space"] is space
    copy = clone(search)
    assert copy is not search
    assert copy.estimator is not search.estimator
    for name, value in copy.get_params(deep=False).items():
        if name not in ("estimator", "error_score"):
            assert value == params[name], name
    copy.set_params(estimator__kernel="poly", max_evals=3, scoring=None)
    assert (copy.estimator.kernel, copy.max_evals, copy.scoring) == ("poly", 3, None)
    assert search.estimator.kernel == "rbf"


def test_fitting_changes_nothing_the_user_passed(case):
    estimator, space, X, y = case
    space = dict(space)
    before, params, X0, y0 = dict(space), estimator.get_params(), X.copy(), y.copy()
    search = quick(estimator, space).fit(X, y)
    assert search.estimator is estimator
    assert search.space is space
    assert space == before
    after = estimator.get_params()
    assert {k: v for k, v in after.items() if not hasattr(v, "get_params") and k != "steps"} == {
        k: v for k, v in params.items() if not hasattr(v, "get_params") and k != "steps"
    }
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    assert not [name for name in vars(last) if name.endswith("_")]
    assert_array_equal(X, X0)
    assert_array_equal(y, y0)


def test_html_shows_the_estimator_then_the_best_one(binary):
    estimator, space, _ = CASES["pipeline"]
    search = quick(estimator, space, max_evals=2)
    unfitted = search._repr_html_()
    assert "GradientSearchCV" in unfitted
    assert "StandardScaler" in unfitted
    assert "best_estimator_" not in unfitted
    assert "best_estimator_" in search.fit(*binary)._repr_html_()
    assert "GradientSearchCV" in repr(search)


@pytest.mark.parametrize(
    "estimator, classifier, pairwise",
    [
        (SVC(), True, False),
        (SVR(), False, False),
        (KernelRidge(), False, False),
        (SVC(kernel="precomputed"), True, True),
        (SVR(kernel="precomputed"), False, True),
        (KernelRidge(kernel="precomputed"), False, True),
        (make_pipeline(StandardScaler(), SVC()), True, False),
    ],
)
def test_tags_are_those_of_the_estimator(estimator, classifier, pairwise):
    search = GradientSearchCV(estimator)
    assert is_classifier(search) is classifier
    assert is_regressor(search) is not classifier
    assert get_tags(search).input_tags.pairwise is pairwise
    assert get_tags(search).input_tags.sparse is get_tags(estimator).input_tags.sparse


def test_methods_are_those_of_the_best_estimator(fitted, binary):
    X, _ = binary
    assert_array_equal(fitted.decision_function(X), fitted.best_estimator_.decision_function(X))
    assert_array_equal(fitted.classes_, [0, 1])
    for absent in ("transform", "inverse_transform", "score_samples"):
        assert not hasattr(fitted, absent), absent


@pytest.mark.parametrize("method", ["predict", "decision_function", "score"])
def test_unfitted_says_so(binary, method):
    X, y = binary
    search = quick(svc())
    assert hasattr(search, method)
    for absent in ("classes_", "n_features_in_", "cv_results_", "history_"):
        assert not hasattr(search, absent)
    with pytest.raises(NotFittedError):
        getattr(search, method)(X, *([y] if method == "score" else []))


def test_a_second_fit_forgets_the_first(binary, regression):
    search = quick(svc(), C_GAMMA, max_evals=3).fit(*binary)
    rows = len(search.history_)
    search.set_params(estimator=svr(), space=SVR_SPACE).fit(*regression)
    assert search.n_features_in_ == 2
    assert not hasattr(search, "classes_")
    assert set(search.best_params_) == set(SVR_SPACE)
    assert len(search.history_) < rows + len(search.cv_results_["params"])


def test_nested_cross_validation_in_processes(binary):
    X, y = binary
    search = quick(svc(), C_GAMMA, max_evals=3)
    scores = cross_val_score(search, X, y, cv=3, n_jobs=2, error_score="raise")
    by_hand = [
        clone(search).fit(X[train], y[train]).score(X[test], y[test])
        for train, test in StratifiedKFold(3).split(X, y)
    ]
    assert_allclose(scores, by_hand)


def test_a_search_may_be_the_last_step_of_a_pipeline(binary):
    X, y = binary
    model = make_pipeline(StandardScaler(), quick(svc(), C_GAMMA, max_evals=3)).fit(X, y)
    assert model.score(X, y) > 0.6
