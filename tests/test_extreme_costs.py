"""Costs that are far from one: products of them are zero or infinite, machines are not."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from hypermargin import KernelSVC, KernelSVR

CLASSIFIERS = ["hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic"]
REGRESSORS = ["epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball"]


def imbalanced(n=60):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), (np.arange(n) < n // 4).astype(int)


@pytest.mark.parametrize("C", [1e-300, 1e-200, 1e-100, 1e-45])
@pytest.mark.parametrize("loss", CLASSIFIERS)
def test_small_ones_leave_the_best_constant(loss, C):
    X, y = imbalanced()
    with np.errstate(all="ignore"):
        tiny, small = (KernelSVC(loss=loss, C=c).fit(X, y).decision_function(X) for c in (C, 1e-12))
    assert_allclose(tiny, small, atol=1e-4)
    assert small.max() < -0.1


@pytest.mark.parametrize("C", [1e-300, 1e-200, 1e-45])
@pytest.mark.parametrize("loss", REGRESSORS)
def test_small_ones_of_regressions(loss, C):
    X, _ = imbalanced()
    y = np.exp(X[:, 0])
    tiny, small = (KernelSVR(loss=loss, C=c).fit(X, y).predict(X) for c in (C, 1e-12))
    assert_allclose(tiny, small, atol=1e-3)


@pytest.mark.parametrize("C", [1e160, 1e300])
@pytest.mark.parametrize(
    "model",
    [KernelSVC(loss="squared_hinge"), KernelSVR(loss="squared_epsilon_insensitive")],
    ids=str,
)
def test_large_ones_end(model, C):
    X, y = imbalanced()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(C=C).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("C", [1e-310, 1.5e308])
@pytest.mark.parametrize("model", [KernelSVC(loss="squared_hinge"), KernelSVR()], ids=str)
def test_what_cannot_be_computed_with_is_refused(model, C):
    X, y = imbalanced()
    with pytest.raises(ValueError, match=r"must be between 1e-300 and 1e\+300"):
        model.set_params(C=C).fit(X, y)


@pytest.mark.parametrize("C", [1e10, 1e12, 1e16])
def test_separable_rows_have_one_machine_whatever_the_cost(C):
    """No coefficient comes near its bound: rounding errors are not those of the bound."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0).astype(int)
    outputs = [KernelSVC(C=c, gamma=0.5).fit(X, y).decision_function(X) for c in (C, 1e4)]
    assert_allclose(*outputs, atol=1e-3)
