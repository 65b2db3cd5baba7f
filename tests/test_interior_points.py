"""Machines that pairs need very long for: badly conditioned kernels at large costs."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR
from hypermargin._core.budget import Budget
from hypermargin.losses.base import Dual
from hypermargin.problems.exact.block import Block
from hypermargin.problems.exact.interior import solve_inside


def dual_of(n, C, epsilon, regression, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] ** 2 + X[:, 1] if regression else np.sign(X[:, 0] * X[:, 1] + 0.3)
    lower = np.full(n, -C) if regression else np.where(y < 0, -C, 0.0)
    upper = np.full(n, C) if regression else np.where(y > 0, C, 0.0)
    left_out = np.arange(n) % 5 == 0
    lower[left_out] = upper[left_out] = 0.0
    return X, Dual(y, lower, upper, np.full(n, epsilon), np.zeros(n))


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("single", [False, True])
def test_all_rows_at_once(C, gamma, regression, single):
    X, dual = dual_of(60, C, 0.01 * regression, regression)
    K = rbf_kernel(X, gamma=gamma).astype(np.float32 if single else np.float64)
    beta = solve_inside(K, dual, 1e-3, Budget())
    assert (dual.lower <= beta).all() and (beta <= dual.upper).all()
    size = np.abs(beta).sum()
    assert abs(beta.sum()) <= 1e-10 * size
    block = Block(
        K.astype(float), dual, beta.copy(), dual.target - K.astype(float) @ beta, whole=True
    )
    block.newton(rounds=4)
    # (at a large cost, coefficients times the rounding of K are no small numbers)
    assert block.gap() <= 1e-3 + (1e-6 if single else 1e-12) * size


def objective(model, K, y):
    """Return the dual objective of a fitted regression with an epsilon of 0.001."""
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    return 0.5 * beta @ K @ beta - y @ beta + 0.001 * np.abs(beta).sum()


def test_a_smooth_function_without_noise_is_fitted_to_the_end():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = X[:, 0] ** 2
    model = KernelSVR(C=3e4, gamma=1e-3, epsilon=1e-3).fit(X, y)
    K = rbf_kernel(X, gamma=1e-3)
    best = objective(KernelSVR(C=3e4, gamma=1e-3, epsilon=1e-3, tol=1e-8).fit(X, y), K, y)
    assert objective(model, K, y) == pytest.approx(best, rel=1e-3)
    assert np.abs(model.predict(X) - y).max() < 0.1


def test_costs_without_end_give_the_machine_with_the_hard_margin():
    X, y = make_data(2, n=60)
    models = [KernelSVC(C=C, gamma=1.0).fit(X, y) for C in (1e6, 1e13)]
    outputs = [model.decision_function(X) for model in models]
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-2)


def test_a_search_in_a_flat_valley_ends():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    search = GradientSearchCV(SVC(), {"C": (1e3, 1e8), "gamma": (1e-6, 1e-2)}, cv=3, max_evals=8)
    search.fit(X, X[:, 0] > 0.5 * X[:, 1])
    assert search.best_score_ > 0.9
