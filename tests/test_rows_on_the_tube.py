"""Rows exactly on the tube, where the loss has no gradient: the one that is chosen descends."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVR

from hypermargin import CrossValidationLoss, LinearRegressor

SPACE = {"C": (1e-3, 1e2), "epsilon": (1e-2, 1.0)}


def loss_of(estimator):
    """Return a loss of which every row is on the tube at epsilon = 1: targets are -1 and 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=60))
    return CrossValidationLoss(estimator, X, y, SPACE, scoring="neg_mean_squared_error", cv=5)


@pytest.mark.parametrize("kind", [LinearRegressor, LinearSVR])
def test_a_smaller_tube_is_seen_to_be_better_where_nothing_is_learnt(kind):
    loss = loss_of(kind(loss="squared_epsilon_insensitive", fit_intercept=False))
    value, gradient = loss.value_and_grad({"C": 1.0, "epsilon": 1.0})
    assert loss({"C": 1.0, "epsilon": 0.999}) < value
    assert gradient["epsilon"] > 0.1


def test_an_optimiser_that_begins_on_the_tube_leaves_it():
    loss = loss_of(LinearRegressor(loss="squared_epsilon_insensitive", fit_intercept=False))
    start = loss.vector({"C": 1.0, "epsilon": 1.0})
    assert loss.params(start)["epsilon"] == 1.0
    end = minimize(loss.value_and_grad, start, jac=True, bounds=loss.bounds, method="L-BFGS-B")
    assert end.nit > 1 and end.fun < 0.5 * loss(start)
