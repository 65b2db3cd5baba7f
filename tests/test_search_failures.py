"""A scorer or a fit that fails costs its rows of the table, or is raised when asked for."""

import numpy as np
import pytest
from helpers import C_GAMMA, quick, svc
from numpy.testing import assert_array_equal
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import make_pipeline

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def failing_scorer(estimator, X, y):
    """Fail for every other point of the space, so to say."""
    if estimator.get_params()["C"] > 1:
        raise ValueError("no score beyond one")
    return estimator.score(X, y)


@pytest.mark.parametrize("error_score", [np.nan, -1.0])
def test_a_failing_scorer_costs_only_its_rows(binary, error_score):
    space = {"C": [0.5, 1.0, 5.0, 50.0], "gamma": [0.1]}
    search = quick(svc(), space, scoring=failing_scorer, error_score=error_score, max_evals=20)
    with pytest.warns(UserWarning, match="Scoring failed"):
        search.fit(*binary)
    table = search.cv_results_
    failed = table["param_C"].data > 1
    assert failed.any()
    assert_array_equal(table["mean_test_score"][failed], [error_score] * failed.sum())
    assert np.all(table["mean_test_score"][~failed] > 0)
    assert np.all(table["rank_test_score"][failed] == table["rank_test_score"].max())
    assert search.best_params_["C"] <= 1


def test_a_failing_scorer_does_not_stop_the_descent(binary):
    space = {"C": [10.0, 0.5], "gamma": (1e-2, 10.0)}
    search = quick(svc(), space, scoring=failing_scorer).fit(*binary)
    assert search.best_params_["C"] == 0.5
    assert search.best_score_ > 0.5


def test_a_scorer_that_always_fails_leaves_nan_and_a_warning(binary):
    def never(estimator, X, y):
        raise RuntimeError("never")

    search = quick(svc(), C_GAMMA, scoring=never, max_evals=3)
    with pytest.warns(UserWarning, match="never|non-finite"):
        search.fit(*binary)
    assert np.all(np.isnan(search.cv_results_["mean_test_score"]))
    assert set(search.best_params_) == set(C_GAMMA)


def test_a_failing_scorer_raises_when_asked_to(binary):
    def never(estimator, X, y):
        raise RuntimeError("never mind")

    with pytest.raises(RuntimeError, match="never mind"):
        quick(svc(), C_GAMMA, scoring=never, error_score="raise").fit(*binary)


def test_one_failing_metric_of_two_leaves_the_other(binary):
    search = quick(
        svc(),
        {"C": (1e-2, 1e2)},
        scoring={"good": "accuracy", "bad": failing_scorer},
        refit="good",
    ).fit(*binary)
    table = search.cv_results_
    assert np.all(np.isfinite(table["mean_test_good"]))
    assert_array_equal(np.isnan(table["mean_test_bad"]), table["param_C"].data > 1)


def test_a_value_that_cannot_be_fitted_costs_only_its_rows(binary):
    estimator = make_pipeline(PCA(), svc())
    space = {"pca__n_components": [2, 1000], "svc__C": (0.1, 10.0)}
    search = quick(estimator, space, max_evals=10)
    with pytest.warns(FitFailedWarning):
        search.fit(*binary)
    assert search.best_params_["pca__n_components"] == 2
    failed = search.cv_results_["param_pca__n_components"] == 1000
    assert np.all(np.isnan(search.cv_results_["mean_test_score"][failed]))
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"][~failed]))


def test_a_value_that_cannot_be_fitted_raises_when_asked_to(binary):
    estimator = make_pipeline(PCA(), svc())
    space = {"pca__n_components": [2, 1000], "svc__C": (0.1, 10.0)}
    with pytest.raises(ValueError, match="n_components"):
        quick(estimator, space, max_evals=10, error_score="raise").fit(*binary)


def test_nothing_that_can_be_fitted_is_an_error(binary):
    estimator = make_pipeline(PCA(n_components=1000), svc())
    with pytest.raises(ValueError, match="n_components"):
        quick(estimator, {"svc__C": (0.1, 10.0)}).fit(*binary)
