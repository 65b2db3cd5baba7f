"""Hinge and epsilon-insensitive linear machines at large costs: they end, and at the solution."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from hypermargin import GradientSearchCV, LinearClassifier, LinearRegressor

KINDS = ["separable", "overlapping", "many scales", "rows alike", "numbers", "exact numbers"]


def rows(kind, n=240, d=24):
    """Return X and labels -1 and 1, or targets."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    if kind == "rows alike":
        X[n // 2 :] = X[: n // 2]
    f = X @ w / np.sqrt(d)
    if kind == "many scales":
        X = X * np.logspace(-2, 2, d)
    if kind in ("numbers", "exact numbers"):
        return X, f + (kind == "numbers") * 0.1 * rng.normal(size=n)
    return X, np.where(f + (kind == "overlapping") * 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def fitted(X, y, C):
    """Return weights with the bias last; warnings are errors."""
    if set(y) == {-1.0, 1.0}:
        model = LinearClassifier(C=C, loss="hinge", tol=1e-6)
    else:
        model = LinearRegressor(C=C, epsilon=0.01, tol=1e-6)
    model.fit(X, y)
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_gained_on_any_line_through_the_solution(kind, C):
    X, y = rows(kind)
    w, ones = fitted(X, y, C), np.column_stack([X, np.ones(len(y))])

    def objective(v):
        if set(y) == {-1.0, 1.0}:
            return 0.5 * v @ v + C * np.maximum(1.0 - y * (ones @ v), 0.0).sum()
        return 0.5 * v @ v + C * np.maximum(np.abs(y - ones @ v) - 0.01, 0.0).sum()

    best, rng = objective(w), np.random.default_rng(1)
    # outputs are rounded, and costs multiply what that makes
    least = best * (1 - 1e-8) - C * len(y) * 1e-14 * np.abs(ones @ w).max()
    for size in (1e-6, 1e-4, 1e-2, 1.0):
        for _ in range(20):
            step = rng.normal(size=len(w)) / np.abs(ones).max(axis=0)
            assert objective(w + size * step) >= least
    assert objective(0.999 * w) >= least and objective(1.001 * w) >= least


@pytest.mark.parametrize("kind", ["separable", "many scales", "rows alike"])
@pytest.mark.parametrize("C", [1e5, 1e8, 1e11])
def test_separable_rows_have_the_widest_margin_whatever_the_cost(kind, C):
    """As non-negative least squares have it: the point of the rows' hull that is nearest to 0."""
    X, y = rows(kind)
    signed = y[:, None] * np.column_stack([X, np.ones(len(y))])
    # min |signed' p|^2 over p >= 0 with sum one, the sum by a weight on it
    heavy = 1e6 * np.abs(signed).max()
    p, _ = nnls(np.vstack([signed.T, heavy * np.ones(len(y))]), np.append(0 * signed[0], heavy))
    nearest = signed.T @ p / p.sum()
    widest = nearest / (nearest @ nearest)
    np.testing.assert_allclose(fitted(X, y, C), widest, atol=1e-5 * np.abs(widest).max())


@pytest.mark.parametrize("n, d, noise", [(6000, 150, 0.0), (6000, 150, 0.02), (1500, 620, 0.0)])
def test_a_search_has_no_point_that_does_not_converge(n, d, noise):
    """With few features, and with so many that coordinate descent begins."""
    rng = np.random.default_rng(0)
    X = sparse.random(n, d, density=0.1, format="csr", random_state=0, data_rvs=rng.standard_normal)
    f = X @ rng.normal(size=d)
    y = (f + noise * f.std() * rng.normal(size=n) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the best may be on the bound
        warnings.simplefilter("error", ConvergenceWarning)
        space = {"C": [64.0, 1024.0]}
        search = GradientSearchCV(LinearSVC(loss="hinge"), space, cv=3, refit=False).fit(X, y)
    assert search.best_score_ > 0.7
