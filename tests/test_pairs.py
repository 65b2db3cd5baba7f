"""Sums over features of functions of two values: dense, sparse, in both precisions."""

import numpy as np
import pytest
from scipy import sparse

from hypermargin.kernels import pairs
from hypermargin.kernels.points import Points

EXPONENT = 1.3
W = np.linspace(0.3, 1.4, 11)  # widths
FORMULAS = {
    pairs.ABSOLUTE: lambda x, z: np.abs(x - z),
    pairs.DIFFERENT: lambda x, z: (x != z).astype(float),
    pairs.CHI2: lambda x, z: (x - z) ** 2 / np.where(x + z > 0, x + z, 1.0),
    pairs.POWER: lambda x, z: np.abs(x - z) ** EXPONENT,
    pairs.POWER_LOG: lambda x, z: np.abs(x - z) ** EXPONENT * np.log(np.abs(x - z) + (x == z)),
}


@pytest.fixture(params=["double", "single", "sparse"])
def form(request):
    """Return what makes points of an array, and how exact their sums are."""
    if request.param == "sparse":
        return lambda X: Points.of(sparse.csr_matrix(X)), 1e-12
    if request.param == "single":
        return lambda X: Points.of(X).single, 3e-6
    return Points.of, 1e-12


def values(n_features):
    """Return rows and more columns than one strip has, with zeros and equal values."""
    rng = np.random.default_rng(n_features)
    X = rng.integers(0, 7, (1100, n_features)) / 4.0
    return X[:9], X


@pytest.mark.parametrize("kind", [kind for kind in FORMULAS if kind != pairs.POWER_LOG])
@pytest.mark.parametrize("n_features", [1, 4, 11])
def test_sums_are_those_of_the_formulas(kind, n_features, form):
    (X, Z), (points, rtol), widths = values(n_features), form, W[:n_features]
    S = pairs.pair_sums(kind, points(X), points(Z), widths, p=EXPONENT)
    expected = FORMULAS[kind](X[:, None], Z[None]) @ widths
    np.testing.assert_allclose(S, expected, rtol=rtol, atol=1e-12)
    out = np.full(S.shape, np.nan, S.dtype)
    assert pairs.pair_sums(kind, points(X), points(Z), widths, out, EXPONENT) is out
    np.testing.assert_array_equal(out, S)


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("n_features", [1, 4, 11])
def test_every_feature_has_its_sum(kind, n_features, form):
    (X, Z), (points, rtol) = values(n_features), form
    G = np.random.default_rng(1).normal(size=(len(X), len(Z))).astype(points(X).dtype)
    found = pairs.feature_sums(kind, points(X), points(Z), G, EXPONENT)
    exact = np.einsum("ik,ikj->j", G.astype(float), FORMULAS[kind](X[:, None], Z[None]))
    np.testing.assert_allclose(found, exact, atol=rtol * np.abs(G).sum())


@pytest.mark.parametrize("kind", [kind for kind in FORMULAS if kind != pairs.POWER_LOG])
def test_equal_rows_have_sums_of_zero(kind, form):
    X, _ = values(5)
    points = form[0](X + 0.1 * (X > 0))
    sums = pairs.pair_sums(kind, points, points, 0.7, p=EXPONENT)
    assert np.abs(np.diagonal(sums)).max() < 1e-14
