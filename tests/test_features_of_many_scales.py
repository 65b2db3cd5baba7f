"""Hinge and absolute losses where features, or targets, are in units far apart.

Rows at a corner of the loss hold the machine.  Features in large units must not hide them, and
coefficients have too few digits to tell the outputs there.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.model_selection import ShuffleSplit

from hypermargin import LinearClassifier, LinearRegressor, value_and_grad


def far_apart(seed, largest):
    """Return features in units from one to the largest, one of them constant, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(38, 4))
    f = X @ rng.normal(size=4) + 0.5 * rng.normal(size=38)
    X[:, 1] = 1.0
    return X * largest ** np.array([0.0, 1.0, 0.7, 0.4]), f


def least_losses(X, y, epsilon):
    """Return the least sum of losses, by a linear programme with features in their own units."""
    rows = np.column_stack([X, np.ones(len(y))])
    rows, eye = rows / np.abs(rows).max(axis=0), np.eye(len(y))
    found = linprog(
        np.append(np.zeros(rows.shape[1]), np.ones(len(y))),
        A_ub=np.block([[rows, -eye], [-rows, -eye]]),
        b_ub=np.concatenate([y + epsilon, epsilon - y]),
        bounds=[(None, None)] * rows.shape[1] + [(0, None)] * len(y),
    )
    return found.fun


@pytest.mark.parametrize("largest", [1e3, 1e6, 1e8])
def test_at_large_costs_losses_are_the_least(largest):
    for seed in range(3):
        X, y = far_apart(seed, largest)
        model = LinearRegressor(C=1e6, epsilon=0.05).fit(X, y)
        losses = np.maximum(np.abs(y - model.predict(X)) - 0.05, 0.0).sum()
        assert losses == pytest.approx(least_losses(X, y, 0.05), rel=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e5])
@pytest.mark.parametrize("largest", [1.0, 1e4, 1e6])
def test_gradients(largest, unit):
    """They are between the slopes to both sides, which differ where a row meets a corner."""
    for seed in range(3):
        X, y = far_apart(seed, largest)
        at = {"C": 8.0 * unit, "epsilon": 0.04 * unit}
        _between_slopes(LinearRegressor(), X, unit * y, at, "neg_mean_squared_error")


@pytest.mark.parametrize("largest", [1.0, 1e4, 1e6])
def test_gradients_of_the_hinge_loss(largest):
    for seed in range(3):
        X, y = far_apart(seed, largest)
        machine = LinearClassifier(loss="hinge")
        _between_slopes(machine, X, (y > np.median(y)).astype(int), {"C": 0.5}, "accuracy")


def _between_slopes(machine, X, y, at, scoring):
    splits = list(ShuffleSplit(3, test_size=0.3, random_state=0).split(X))

    def evaluate(**moved):
        return value_and_grad(machine, X, y, at | moved, scoring=scoring, cv=splits, tol=1e-9)

    value, gradient = evaluate()
    for name, x in at.items():
        h = 1e-5 * x
        slopes = [
            (evaluate(**{name: x + h})[0] - value) / h,
            (value - evaluate(**{name: x - h})[0]) / h,
        ]
        slack = 1e-3 * max(map(abs, slopes)) + 1e-9 * abs(value) / h
        assert min(slopes) - slack <= gradient[name] <= max(slopes) + slack
