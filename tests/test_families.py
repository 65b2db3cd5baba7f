"""Kernels of many shapes: their matrices, gradients with every loss, and the data they refuse."""

import numpy as np
import pytest
from helpers import Differentiated, assert_gradient, make_data, suited
from scipy import sparse
from sklearn.gaussian_process.kernels import RationalQuadratic as TheirRationalQuadratic
from sklearn.metrics.pairwise import chi2_kernel

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR
from hypermargin.kernels import (
    Categories,
    ExponentialChi2,
    MinMax,
    RationalQuadratic,
    Tanimoto,
)
from hypermargin.kernels.points import Points
from hypermargin.losses import CLASSIFICATION, REGRESSION

RNG = np.random.default_rng(0)
KINDS = {
    "chi2": (ExponentialChi2(), {"gamma": 0.4}),
    "categories": (Categories(), {"gamma": 0.4}),
    "rational": (RationalQuadratic(), {"gamma": 0.4, "alpha": 1.3}),
}
WIDTHS = np.array([0.3, 0.05, 1.2, 0.7])


def matrix(kernel, A, B, params, form=np.asarray):
    rows, cols = (kernel.at(Points.of(form(np.asarray(X, float))), params) for X in (A, B))
    return kernel.block(rows, cols, params)


# --- matrices


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_chi2_is_that_of_scikit_learn(form):
    A, B = RNG.integers(0, 4, (7, 5)), RNG.integers(0, 4, (9, 5))
    A[0], B[0] = 0, 0
    found = matrix(ExponentialChi2(), A, B, {"gamma": 0.3}, form)
    np.testing.assert_allclose(found, chi2_kernel(A, B, gamma=0.3), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_rational_quadratic_is_that_of_gaussian_processes(form):
    A, B = RNG.normal(size=(7, 4)), RNG.normal(size=(9, 4))
    theirs = TheirRationalQuadratic(length_scale=1.7, alpha=0.6)(A, B)
    params = {"gamma": 1.0 / (2 * 1.7**2), "alpha": 0.6}
    np.testing.assert_allclose(matrix(RationalQuadratic(), A, B, params, form), theirs, rtol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("gamma", [0.4, WIDTHS], ids=["one", "each"])
def test_categories_are_equal_or_not(form, gamma):
    A, B = RNG.integers(0, 3, (7, 4)), RNG.integers(0, 3, (9, 4))
    expected = np.exp(-(gamma * (A[:, None] != B[None])).sum(axis=2))
    np.testing.assert_allclose(matrix(Categories(), A, B, {"gamma": gamma}, form), expected)


def test_codes_that_single_precision_cannot_tell_apart_are_in_double_precision():
    codes = Points.of(np.array([[2.0**24], [2.0**24 + 1]]))
    assert Categories().single_error(codes, {"gamma": 1.0}) == np.inf
    assert Categories().single_error(Points.of(codes.X - 2.0**24), {"gamma": 1.0}) < 1e-6


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_fingerprints_have_a_part_in_common(form):
    bits = RNG.uniform(size=(8, 30)) < 0.3
    bits[:2] = False
    either = (bits[:, None] | bits[None]).sum(axis=2)
    common = (bits[:, None] & bits[None]).sum(axis=2)
    expected = np.divide(common, either, out=np.ones((8, 8)), where=either > 0)
    for kernel in (Tanimoto(), MinMax()):
        np.testing.assert_allclose(matrix(kernel, bits, bits, {}, form), expected)
    counts = RNG.integers(0, 4, (8, 6))
    low, high = (f(counts[:, None], counts[None]).sum(axis=2) for f in (np.minimum, np.maximum))
    np.testing.assert_allclose(matrix(MinMax(), counts, counts, {}, form), low / high)
    inner, squares = counts @ counts.T, (counts**2).sum(axis=1)
    expected = inner / (squares[:, None] + squares - inner)
    np.testing.assert_allclose(matrix(Tanimoto(), counts, counts, {}, form), expected)


# --- gradients


def assert_exact(kind, model, n_classes, own, widths):
    kernel, params = KINDS[kind]
    X, y = make_data(n_classes, n=40)
    X = suited(kind, X)
    params = {**own, **params} | ({"gamma": WIDTHS} if widths else {})
    tuned = [*own, *(f"kernel__{name}" for name in params if name not in own)]
    problem = Differentiated(model.set_params(kernel=kernel), X, y, tuned=tuned)
    assert_gradient(problem, params)


@pytest.mark.parametrize("widths", [False, True], ids=["one", "each"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_gradients_with_every_loss_of_classifiers(kind, loss, widths):
    assert_exact(kind, KernelSVC(loss=loss), 2, {"C": 1.7}, widths)


@pytest.mark.parametrize("widths", [False, True], ids=["one", "each"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", REGRESSION)
def test_gradients_with_every_loss_of_regression(kind, loss, widths):
    assert_exact(kind, KernelSVR(loss=loss, epsilon=0.2), 0, {"C": 1.3}, widths)


# --- searches and refusals


@pytest.mark.filterwarnings("error:The best kernel__alpha")
@pytest.mark.parametrize("kind", [*KINDS, "tanimoto", "minmax"])
def test_kernels_can_be_searched(kind):
    X, y = make_data(2, n=80)
    kernel = KINDS[kind][0] if kind in KINDS else kind
    search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, random_state=0)
    search.fit(suited(kind, X), y)
    assert search.best_score_ > 0.55


@pytest.mark.parametrize(
    ("kernel", "value", "words"),
    [
        (ExponentialChi2(), -0.5, "below zero, as -0.5.*histograms"),
        (Tanimoto(), 0.5, "value 0.5.*Tanimoto is for bits or counts"),
        (Tanimoto(), -1.0, "value -1.*Tanimoto is for bits or counts"),
        (MinMax(), 0.5, "value 0.5.*MinMax is for bits or counts"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_data_that_a_kernel_is_not_for(kernel, value, words, form):
    X, y = make_data(2)
    X = np.abs(np.round(X))
    model = KernelSVC(kernel=kernel).fit(form(X), y)
    X[3, 1] = value
    for refused in (
        lambda: KernelSVC(kernel=kernel).fit(form(X), y),
        lambda: GradientSearchCV(KernelSVC(kernel=kernel)).fit(form(X), y),
        lambda: model.predict(form(X)),
    ):
        with pytest.raises(ValueError, match=words):
            refused()


def test_alpha_has_to_be_positive():
    X, y = make_data(2)
    with pytest.raises(ValueError, match="alpha=-1"):
        KernelSVC(kernel=RationalQuadratic(alpha=-1.0)).fit(X, y)


@pytest.mark.parametrize("kind", [*KINDS, "tanimoto", "minmax"])
def test_constant_and_repeated_columns_and_rows_of_zeros_do_no_harm(kind):
    X, y = make_data(2)
    X = suited(kind, X)
    X = np.column_stack([X, X[:, 0], np.ones(len(X)), np.zeros(len(X))])
    X[:4] = 0.0
    kernel = KINDS[kind][0] if kind in KINDS else kind
    search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, max_evals=4).fit(X, y)
    assert np.isfinite(search.best_estimator_.decision_function(X)).all()
