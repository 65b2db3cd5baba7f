"""Kernels of distances: one width, or one for each feature."""

import numpy as np
import pytest
from helpers import central_difference, make_data
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.gaussian_process.kernels import Matern
from sklearn.model_selection import KFold, cross_val_score

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR
from hypermargin.kernels import RBF, GeneralisedGaussian, Laplacian, Matern12, Matern32, Matern52
from hypermargin.kernels.points import Points

RNG = np.random.default_rng(0)
KINDS = [RBF, Laplacian, Matern12, Matern32, Matern52]
THEIRS = {
    RBF: lambda gamma: GaussianRBF(1.0 / np.sqrt(2.0 * gamma)),
    Matern12: lambda gamma: Matern(1.0 / np.sqrt(gamma), nu=0.5),
    Matern32: lambda gamma: Matern(1.0 / np.sqrt(gamma), nu=1.5),
    Matern52: lambda gamma: Matern(1.0 / np.sqrt(gamma), nu=2.5),
}
WIDTHS = np.array([0.3, 0.05, 1.2, 0.7])


def blocks(kernel, A, B, gamma, form=np.asarray, single=False):
    params = {"gamma": gamma}
    # (`Points.of` would make sparse rows with few zeros dense)
    make = Points.of if form is np.asarray else lambda X: Points(X, np.arange(X.shape[0]))
    points = [make(form(np.asarray(X))) for X in (A, B)]
    rows, cols = (kernel.at(p, params) for p in points)
    if single:
        rows, cols = rows.single, cols.single
    return rows, cols, kernel.block(rows, cols, params)


@pytest.mark.parametrize("gamma", [0.4, WIDTHS], ids=["one", "each"])
@pytest.mark.parametrize("kind", THEIRS, ids=lambda kind: kind.__name__)
def test_blocks_are_those_of_gaussian_processes(kind, gamma):
    A, B = RNG.normal(size=(7, 4)), RNG.normal(size=(9, 4))
    *_, found = blocks(kind(), A, B, gamma)
    np.testing.assert_allclose(found, THEIRS[kind](gamma)(A, B), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_width_has_its_derivative(kind, form):
    A = np.where(RNG.uniform(size=(8, 4)) < 0.3, 0.0, RNG.normal(size=(8, 4)))
    B = np.vstack([A[:3], RNG.normal(size=(6, 4))])  # some rows are equal
    M = RNG.normal(size=(8, 9))
    rows, cols, block = blocks(kind(), A, B, WIDTHS, form)
    found = kind().pullback(rows, cols, block, M, {"gamma": WIDTHS})["gamma"]
    for k in range(4):

        def f(z, k=k):
            moved = np.where(np.arange(4) == k, z, WIDTHS)
            return float((M * blocks(kind(), A, B, moved, form)[-1]).sum())

        assert found[k] == pytest.approx(central_difference(f, WIDTHS[k]), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_equal_widths_are_one_width(kind):
    A, B, M = RNG.normal(size=(6, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(6, 5))
    rows, cols, one = blocks(kind(), A, B, 0.4)
    by_one = kind().pullback(rows, cols, one, M, {"gamma": 0.4})["gamma"]
    gamma = np.full(4, 0.4)
    rows, cols, each = blocks(kind(), A, B, gamma)
    np.testing.assert_allclose(each, one, rtol=1e-12)
    by_each = kind().pullback(rows, cols, each, M, {"gamma": gamma})["gamma"]
    assert by_each.sum() == pytest.approx(by_one)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_width_of_zero_removes_the_feature(kind):
    A, B, M = RNG.normal(size=(6, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(6, 5))
    gamma = np.array([0.3, 0.0, 1.2, 0.7])
    rows, cols, found = blocks(kind(), A, B, gamma)
    keep = gamma > 0
    *_, without = blocks(kind(), A[:, keep], B[:, keep], gamma[keep])
    np.testing.assert_allclose(found, without, rtol=1e-12)
    slopes = kind().pullback(rows, cols, found, M, {"gamma": gamma})["gamma"]
    assert np.isfinite(slopes).all()


def test_single_precision_is_close():
    A, B, M = RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4)), RNG.normal(size=(30, 20))
    for kind in (RBF, Matern32, Matern52):
        exact = blocks(kind(), A, B, WIDTHS)
        rough = blocks(kind(), A, B, WIDTHS, single=True)
        assert rough[-1].dtype == np.float32
        np.testing.assert_allclose(rough[-1], exact[-1], atol=1e-5)
        slopes = [
            kind().pullback(*found, m, {"gamma": WIDTHS})["gamma"]
            for found, m in ((exact, M), (rough, M.astype(np.float32)))
        ]
        np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("single", [True, False], ids=["single", "double"])
@pytest.mark.parametrize("kind", [*KINDS, GeneralisedGaussian], ids=lambda kind: kind.__name__)
def test_products_of_values_of_rows_far_apart_are_normal_numbers(kind, single):
    """Others take some processors far longer, in factors of narrow kernels above all."""
    A = RNG.normal(size=(6, 4)) * np.logspace(-1, 4, 6)[:, None]
    kernel = kind()
    params = {"gamma": 30.0} | {n: 1.0 for n in ("power", "q", "p") if n in kernel.hyperparameters}
    points = Points.of(A).single if single else Points.of(A)
    K = kernel.block(points, points, params)
    assert K.dtype == (np.float32 if single else np.float64)
    assert K.min() ** 2 >= np.finfo(K.dtype).tiny
    assert K.min() < 1e-15  # and still next to nothing


@pytest.mark.parametrize("kernel", ["laplacian", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("model", [KernelSVC, KernelSVR])
def test_searches_score_what_models_score(model, kernel):
    X, y = make_data(2 if model is KernelSVC else 0, n=70)
    cv = KFold(3, shuffle=True, random_state=0)
    search = GradientSearchCV(model(kernel=kernel), cv=cv).fit(X, y)
    assert set(search.best_params_) >= {"C", "gamma"}
    again = cross_val_score(search.best_estimator_, X, y, cv=cv)
    assert search.best_score_ == pytest.approx(again.mean(), abs=0.02)
