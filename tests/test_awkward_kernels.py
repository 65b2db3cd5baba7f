"""Kernels that are not positive definite, and kernel matrices that are none."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Differentiated, assert_gradient, make_data, quick
from sklearn.exceptions import FitFailedWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR

from hypermargin import KernelSVC, KernelSVR

SQUARED = {
    "classes": (KernelSVC(kernel="sigmoid", loss="squared_hinge"), 2),
    "targets": (KernelSVR(kernel="sigmoid", loss="squared_epsilon_insensitive"), 0),
}


@pytest.mark.parametrize(("estimator", "n_classes"), SQUARED.values(), ids=list(SQUARED))
def test_a_squared_loss_without_a_minimum_is_an_error(estimator, n_classes):
    X, y = make_data(n_classes, n=100)
    with pytest.raises(FloatingPointError, match=r"positive definite at .*'C': 10.0.*lower C"):
        estimator.set_params(C=10.0, gamma=1.0).fit(X, y)
    assert estimator.set_params(C=0.01).fit(X, y).score(X, y) > 0.15


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("estimator", "n_classes"), SQUARED.values(), ids=list(SQUARED))
def test_a_search_passes_such_points_by(estimator, n_classes):
    X, y = make_data(n_classes, n=100)
    estimator.set_params(gamma=1.0)
    with pytest.warns(FitFailedWarning, match="positive definite"):
        search = quick(estimator, {"C": [10.0, 0.01]}).fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    assert search.best_params_ == {"C": 0.01}


@pytest.mark.parametrize(("estimator", "n_classes"), SQUARED.values(), ids=list(SQUARED))
def test_gradients_where_there_is_one(estimator, n_classes):
    X, y = make_data(n_classes, n=60)
    params = {"C": 0.02, "gamma": 0.1, "coef0": -0.1}
    assert_gradient(Differentiated(estimator, X, y, tuned=list(params)), params, rtol=1e-4)


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(kernel="precomputed"),
        SVR(kernel="precomputed"),
        KernelRidge(kernel="precomputed"),
        KernelSVC(kernel="precomputed"),
        KernelSVR(kernel="precomputed"),
    ],
    ids=["svc", "svr", "ridge", "ours", "our regressor"],
)
def test_a_kernel_matrix_that_is_not_symmetric_is_refused(estimator):
    X, y = make_data(2, n=60)
    K = rbf_kernel(X, gamma=0.3)
    quick(estimator, refit=False).fit(K.astype(np.float32), y)  # rounded, it is well
    K[40, 7] += 0.1
    message = r"symmetric, but K\[7, 40\] is 0\.\d+ and K\[40, 7\] is 0\.\d+; use"
    with pytest.raises(ValueError, match=message):
        quick(estimator).fit(K, y)
    if isinstance(estimator, (KernelSVC, KernelSVR)):
        with pytest.raises(ValueError, match=message):
            estimator.fit(K, y)
