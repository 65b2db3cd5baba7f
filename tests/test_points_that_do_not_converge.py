"""Data on which machines are hard to train do not end a search."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import make_data, quick
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC

LOSSES = ("modified_huber", "smooth_hinge", "logistic", "squared_hinge")


def awkward(kind: str):
    X, y = make_data(2, n=90)
    if kind == "constant":
        return np.ones((90, 2)), y
    if kind == "offset":
        return X + 1e6, y
    return X * np.array([1.0, 1e6, 1e-6, 1.0]), y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["constant", "offset", "scales"])
def test_a_search_ends_with_a_model(kind, loss, kernel):
    X, y = awkward(kind)
    search = quick(KernelSVC(loss=loss, kernel=kernel), max_evals=4).fit(X, y)
    assert search.best_score_ >= 0.45
    assert np.isfinite(search.decision_function(X)).all()


def test_a_point_that_does_not_converge_keeps_its_score():
    """As libsvm's does at `max_iter`; the search goes on, and warns if such a point is the best."""
    X, y = make_data(2, n=60)
    y = np.random.default_rng(0).permutation(y)  # rows at a bound that takes all digits
    search = GradientSearchCV(SVC(kernel="linear"), {"C": [1e15, 1.0]}, cv=3, refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # chance may make it the best
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    alone = GradientSearchCV(SVC(kernel="linear"), {"C": [1e15]}, cv=3, refit=False)
    with pytest.warns(ConvergenceWarning, match="best point did not converge"):
        alone.fit(X, y)
    assert alone.best_score_ == search.cv_results_["mean_test_score"][0]
