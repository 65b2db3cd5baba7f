"""Data far from the origin, or that hardly differ: kernels are not rounded to nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_data, quick
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, SVR

from hypermargin import KernelSVC, KernelSVR
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare


def problem_of(estimator, X, y, rank=None):
    folds = KFold(4) if y.dtype == float else StratifiedKFold(4)
    splits = list(folds.split(np.zeros(len(y)), y))
    return prepare(read_model(estimator), X, y, splits, {}, 1e9, Workers(1), rank).problem


def outputs(estimator, X, y, rank=None, tol=1e-2):
    """Return the outputs of all folds at a tolerance for which single precision may do."""
    evaluation = problem_of(estimator, X, y, rank).evaluate({}, Effort(tol))
    assert evaluation.converged
    return np.concatenate(evaluation.outputs)


@pytest.mark.parametrize("offset", [1e3, 1e7])
@pytest.mark.parametrize("rank", [None, 60], ids=["exact", "landmarks"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_an_offset_does_not_move_a_gaussian_machine(n_classes, rank, offset):
    X, y = make_data(n_classes, n=300)
    estimator = SVR(gamma=0.3) if n_classes == 0 else SVC(gamma=0.3)
    near, far = (outputs(estimator, data, y, rank) for data in (X, X + offset))
    np.testing.assert_allclose(far, near, atol=0.05)


@pytest.mark.parametrize("offset", [1e3, 1e7])
@pytest.mark.parametrize(
    "estimator",
    [
        SVC(kernel="linear"),
        KernelSVC(kernel="linear", loss="squared_hinge"),
        KernelSVC(kernel="linear", loss="logistic"),
        KernelSVC(kernel="linear", loss="squared"),
        make_pipeline(FunctionTransformer(), SVC(kernel="linear")),
    ],
    ids=["hinge", "squared hinge", "logistic", "squared", "pipeline"],
)
def test_nor_a_linear_one_that_has_a_bias(estimator, offset):
    X, y = make_data(2, n=300)
    near, far = (outputs(estimator, data, y) for data in (X, X + offset))
    np.testing.assert_allclose(far, near, atol=0.05)


def test_years_and_pressures():
    rng = np.random.default_rng(0)
    years, pressure = rng.integers(2010, 2021, 300), rng.normal(1013.0, 8.0, 300)
    X = np.column_stack([years, pressure])
    y = 0.3 * (years - 2015) + 0.1 * (pressure - 1013) + 0.4 * rng.normal(size=300)
    search = quick(SVR(kernel="linear"), refit=False).fit(X, y)
    assert search.best_score_ > 0.88


@pytest.mark.parametrize(
    "estimator",
    [
        SVR(kernel="poly", degree=2, C=1e-4, gamma=1.0),
        SVR(gamma=1e-5, C=1e4),
        SVR(kernel="linear", C=1.0),
    ],
    ids=["polynomial", "wide", "columns of different scales"],
)
def test_where_rows_hardly_differ_outputs_are_those_of_libsvm(estimator):
    X, y = make_data(0, n=200)
    X = X + 30.0
    same = X
    if estimator.kernel == "linear":
        X[:, 1] *= 30.0
        same = X - X.mean(axis=0)  # libsvm keeps kernel values in single precision
    found = outputs(estimator, X, y, tol=1e-3)
    expected = cross_val_predict(estimator.set_params(tol=1e-5), same, y, cv=KFold(4))
    np.testing.assert_allclose(found[:, 0], expected, atol=0.02)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("estimator", [KernelSVC, KernelSVR])
def test_the_fitted_model_of_our_own_is_the_same(estimator, kernel):
    X, y = make_data(2, n=250)
    near, far = (estimator(kernel=kernel, gamma=0.3).fit(data, y) for data in (X, X + 1e6))
    name = "decision_function" if estimator is KernelSVC else "predict"
    expected, found = getattr(near, name)(X), getattr(far, name)(X + 1e6)
    np.testing.assert_allclose(found, expected, atol=5e-3)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_the_refit_of_a_linear_machine_has_the_bias_of_the_data_as_they_are(container):
    X, y = make_data(2, n=1100)
    X = container(X + 50.0)
    search = quick(SVC(kernel="linear"), {"C": (0.1, 1.0)}).fit(X, y)
    cold = SVC(kernel="linear", **search.best_params_).fit(X, y)
    expected = cold.decision_function(X)
    np.testing.assert_allclose(search.decision_function(X), expected, atol=0.02)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sparse_rows_without_zeros_have_as_many_digits(kernel):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (80, 3)).astype(float)
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=80)
    near = KernelSVR(kernel=kernel, gamma=0.3).fit(X, y)
    far = KernelSVR(kernel=kernel, gamma=0.3).fit(sparse.csr_matrix(X + 1e7), y)
    for rows in (X + 1e7, sparse.csr_matrix(X + 1e7)):
        np.testing.assert_allclose(far.predict(rows), near.predict(X), atol=1e-5)


def test_a_narrow_kernel_of_points_that_lie_far_apart_is_exact_in_half_of_the_memory():
    """Their distances have no digits left in single precision; kernel values of them do."""
    X, y = make_data(0, n=800)
    X[:20] *= 1000
    estimator = SVR(gamma=0.5, epsilon=0.2, tol=1e-6)
    problem = problem_of(estimator, X, y)
    found = problem.evaluate({}, Effort(1e-2))
    expected = cross_val_predict(estimator, X, y, cv=KFold(4))
    np.testing.assert_allclose(np.concatenate(found.outputs).ravel(), expected, atol=0.05)
    assert problem._grams[0].dtype == np.float32
    assert problem._grams[0].points.dtype == np.float64
