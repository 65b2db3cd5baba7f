"""LinearSVC(dual=True) with few features: machines and searches are those of dual=False."""

import warnings

import numpy as np
import pytest
from helpers import central_difference, make_data
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from hypermargin import GradientSearchCV, value_and_grad

# Coordinate descent does not get far in thousands of sweeps here: a large cost, a far bias.
HARD = {"C": 30.0, "intercept_scaling": 10.0}


@pytest.fixture(autouse=True)
def converges():
    """Let training that does not converge fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        yield


def test_gradients_are_exact():
    X, y = make_data(2, n=31)

    def value(C):
        return value_and_grad(LinearSVC(dual=True, **HARD), X, y, {"C": C}, tol=1e-9)

    assert value(30.0)[1]["C"] == pytest.approx(
        central_difference(lambda C: value(C)[0], 30.0), rel=1e-4
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_and_models_do_not_depend_on_the_solver(n_classes):
    X, y = make_data(n_classes, n=40)
    found = [
        GradientSearchCV(LinearSVC(dual=dual, tol=1e-8, **HARD), {"C": [30.0]}, cv=4).fit(X, y)
        for dual in (True, False)
    ]
    np.testing.assert_array_equal(*(search.cv_results_["mean_test_score"] for search in found))
    np.testing.assert_allclose(*(search.decision_function(X) for search in found), rtol=1e-5)


def test_a_search_is_trained_alike_whatever_the_refit_uses():
    X, y = make_data(2, n=40)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 3000))])  # many features
    found = [
        GradientSearchCV(LinearSVC(dual=dual), cv=3, refit=False).fit(X, y).history_
        for dual in ("auto", False)
    ]
    assert [row["objective"] for row in found[0]] == [row["objective"] for row in found[1]]
