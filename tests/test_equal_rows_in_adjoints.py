"""Gradients where rows are there several times: one equation for all that are equal."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.svm import SVC, SVR

from hypermargin import CrossValidationLoss, KernelSVC
from hypermargin.problems.exact import saddle

CASES = {
    "hinge": (SVC(), {"C": 3.0, "gamma": 0.4}),
    "squared hinge": (KernelSVC(loss="squared_hinge"), {"C": 3.0, "gamma": 0.4}),
    "logistic": (KernelSVC(loss="logistic"), {"C": 3.0, "gamma": 0.4}),  # a ridge of each row
    "tube": (SVR(), {"C": 3.0, "gamma": 0.4, "epsilon": 0.15}),
}


def bits(n=160, seed=0):
    """Rows of few bits: most of them are there several times, with other targets."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(n, 6)).astype(float)
    return X, X @ rng.normal(size=6) + 0.7 * rng.normal(size=n)


def loss_of(model, tol=1e-9):
    X, y = bits()
    folds = KFold(4, shuffle=True, random_state=1)
    if not isinstance(model, SVR):
        y, folds = y > np.median(y), StratifiedKFold(4, shuffle=True, random_state=1)
    scoring = "neg_mean_squared_error" if isinstance(model, SVR) else "accuracy"
    weight = np.random.default_rng(2).uniform(0.5, 2.0, size=len(y))
    return CrossValidationLoss(
        model, X, y, scoring=scoring, cv=folds, tol=tol, sample_weight=weight
    )


@pytest.mark.parametrize("name", CASES)
def test_gradients_with_equal_rows(name):
    model, at = CASES[name]
    loss = loss_of(model)
    _, gradient = loss.value_and_grad(at)
    for key, value in at.items():
        h = 1e-4 * value
        up, down = (loss({**at, key: value + sign * h}) for sign in (1, -1))
        assert gradient[key] == pytest.approx((up - down) / (2 * h), rel=2e-3, abs=1e-6)


def test_rounding_that_makes_a_block_indefinite_costs_no_eigenvalues(monkeypatch):
    """With thousands of rows an eigenvalue problem took a minute; noise has no such directions."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=400))
    exact = np.exp(-((x[:, None] - x) ** 2))
    noise = rng.uniform(-1e-6, 1e-6, exact.shape)
    K = (exact + noise + noise.T).astype(np.float32)
    assert np.linalg.eigvalsh(K.astype(float)).min() < -1e-5

    def refused(*args, **how):
        raise AssertionError("eigenvalues were asked for")

    monkeypatch.setattr(saddle, "eigh", refused)
    rhs = exact @ rng.normal(size=400)
    v, shift = saddle.SaddleSystem(K, np.zeros(400), True).solve(rhs, 0.0)
    np.testing.assert_allclose(exact @ v + shift, rhs, atol=1e-3 * np.abs(rhs).max())
    assert abs(v.sum()) < 1e-6 * np.abs(v).sum()
