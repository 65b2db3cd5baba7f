"""Kernels of many shapes: their matrices, gradients with every loss, and the data they refuse."""

import numpy as np
import pytest
from helpers import Differentiated, assert_gradient, make_data, suited
from scipy import sparse
from sklearn.gaussian_process.kernels import RationalQuadratic as TheirRationalQuadratic
from sklearn.metrics.pairwise import chi2_kernel

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR
from hypermargin.kernels import (
    RBF,
    Categories,
    ExponentialChi2,
    GeneralisedGaussian,
    Laplacian,
    Matern12,
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
    "generalised": (GeneralisedGaussian(), {"gamma": 0.4, "q": 1.2}),
    "generalised, p given": (GeneralisedGaussian(p=1.6), {"gamma": 0.4, "q": 0.8}),
    "generalised, p = 1": (GeneralisedGaussian(p=1), {"gamma": 0.4, "q": 0.7}),
    "generalised, p tuned": (
        GeneralisedGaussian(p=None),
        {"gamma": 0.4, "q": 1.2, "roundness": 0.3},
    ),
    "rational": (RationalQuadratic(), {"gamma": 0.4, "alpha": 1.3}),
}
WIDTHS = np.array([0.3, 0.05, 1.2, 0.7])


def matrix(kernel, A, B, params, form=np.asarray, single=False):
    rows, cols = placed(kernel, A, B, params, form, single)
    return kernel.block(rows, cols, params)


def placed(kernel, A, B, params, form=np.asarray, single=False):
    """Return points as a kernel wants them; those of one matrix have a centre in common."""
    both = kernel.at(Points.of(form(np.vstack([A, B]).astype(float))), params)
    both = both.single if single else both
    return both.take(np.arange(len(A))), both.take(len(A) + np.arange(len(B)))


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
    for X in (codes.X - 2.0**24, 0.1 * np.array([[1.0], [2.0]])):
        assert Categories().single_error(Points.of(X), {"gamma": 1.0}) < 1e-6


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


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("gamma", [0.4, WIDTHS], ids=["one", "each"])
@pytest.mark.parametrize(
    ("q", "p", "known", "power"),
    [
        (2.0, 2.0, RBF(), 1.0),
        (1.0, 2.0, Matern12(), 1.0),
        (1.0, 1.0, Laplacian(), 0.5),
        (2.0, None, RBF(), 1.0),
        (1.0, None, Laplacian(), 0.5),
    ],
)
def test_known_kernels_are_generalised_gaussian(q, p, known, power, gamma, form, single):
    if single and form is not np.asarray:
        pytest.skip("sparse rows are in double precision")
    A, B = RNG.normal(size=(7, 4)), RNG.normal(size=(9, 4))
    B[:3] = A[:3]
    params = {"gamma": gamma, "q": q, "roundness": 0.0}
    found = matrix(GeneralisedGaussian(p=p), A, B, params, form, single)
    expected = matrix(known, A, B, {"gamma": np.power(gamma, power)}, form)
    np.testing.assert_allclose(found, expected, rtol=1e-5 if single else 1e-11)
    assert (np.diagonal(found)[:3] == 1.0).all()


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("kernel", [GeneralisedGaussian(), GeneralisedGaussian(p=None), Matern12()])
@pytest.mark.parametrize("gamma", [0.4, WIDTHS], ids=["one", "each"])
def test_rows_that_are_nearly_equal_have_exact_values_and_finite_slopes(kernel, gamma, single):
    A = 1.0 + RNG.normal(size=(6, 4))
    B = A + np.array([0.0, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2])[:, None]
    params = {"gamma": gamma, "q": 1.0, "roundness": 1.0}
    K = matrix(kernel, A, B, params, np.asarray, single)
    d = np.sqrt(
        (gamma * (A - B) ** 2).sum(axis=1) if np.ndim(gamma) else gamma * ((A - B) ** 2).sum(axis=1)
    )
    np.testing.assert_allclose(np.diagonal(K), np.exp(-d), atol=1e-6 if single else 1e-14)
    rows, cols = placed(kernel, A, B, params, single=single)
    slopes = kernel.pullback(rows, cols, K, np.ones_like(K), params)
    assert all(np.isfinite(slope).all() for slope in slopes.values())


# --- gradients


def assert_exact(kind, model, n_classes, own, widths):
    kernel, params = KINDS[kind]
    X, y = make_data(n_classes, n=30)
    X = suited(kind, X)
    params = {**own, **params} | ({"gamma": WIDTHS} if widths else {})
    tuned = [*own, *(f"kernel__{name}" for name in params if name not in own)]
    problem = Differentiated(model.set_params(kernel=kernel), X, y, tuned=tuned)
    assert_gradient(problem, params, h=3e-5)


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
    search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, max_evals=8, random_state=0)
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e60, 1e-60])
@pytest.mark.parametrize(
    "kernel",
    [RBF(), Laplacian(), Matern12(), RationalQuadratic(), ExponentialChi2(), Categories(),
     GeneralisedGaussian(), GeneralisedGaussian(p=None)],
)  # fmt: skip
def test_values_that_single_precision_does_not_have(kernel, unit):
    X, y = make_data(2)
    X = np.abs(np.round(X))
    scores = [
        GradientSearchCV(KernelSVC(kernel=kernel), cv=3, max_evals=2, random_state=0).fit(Z, y)
        for Z in (X, unit * X)
    ]
    assert scores[1].best_score_ == pytest.approx(scores[0].best_score_, abs=0.1)


def test_alpha_has_to_be_positive():
    X, y = make_data(2)
    with pytest.raises(ValueError, match="alpha=-1"):
        KernelSVC(kernel=RationalQuadratic(alpha=-1.0)).fit(X, y)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (GeneralisedGaussian(p=2.5), "p=2.5 must be above 0 and at most 2"),
        (GeneralisedGaussian(p=0.0), "p=0.0 must be above 0 and at most 2"),
        (GeneralisedGaussian(p="two"), "p='two' must be above 0 and at most 2"),
        (GeneralisedGaussian(q=2.5), "q=2.5 must be above 0 and at most p=2"),
        (GeneralisedGaussian(q=1.5, p=1.0), "q=1.5 must be above 0 and at most p=1"),
        (GeneralisedGaussian(q=0.0), "q=0.0 must be above 0"),
        (GeneralisedGaussian(p=None, roundness=1.2), "roundness=1.2 must be between 0 and 1"),
    ],
)
def test_powers_out_of_range_are_refused(kernel, words):
    X, y = make_data(2)
    with pytest.raises(ValueError, match=words):
        KernelSVC(kernel=kernel).fit(X, y)


@pytest.mark.parametrize("kind", [*KINDS, "tanimoto", "minmax"])
def test_constant_and_repeated_columns_and_rows_of_zeros_do_no_harm(kind):
    X, y = make_data(2)
    X = suited(kind, X)
    X = np.column_stack([X, X[:, 0], np.ones(len(X)), np.zeros(len(X))])
    X[:4] = 0.0
    kernel = KINDS[kind][0] if kind in KINDS else kind
    search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, max_evals=4).fit(X, y)
    assert np.isfinite(search.best_estimator_.decision_function(X)).all()
