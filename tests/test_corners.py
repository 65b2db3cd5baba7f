"""Losses with corners where they are hard to train: heavy tails, separable rows at large costs."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from sklearn.datasets import make_classification
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

from hypermargin import GradientSearchCV, LinearRegressor
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.problems.linear import newton
from hypermargin.problems.linear import train as training


def heavy(seed, kind):
    """Return X, and y whose largest values are far from the others."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(200, 5)), rng.normal(size=5)
    f = X @ w / np.sqrt(5)
    return X, {"exponential": np.exp(2 * f), "cauchy": f + rng.standard_cauchy(200)}[kind]


@pytest.mark.parametrize("kind", ["exponential", "cauchy"])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_targets_with_heavy_tails(C, kind):
    for seed in (6, 9, 13, 16):
        X, y = heavy(seed, kind)
        model = LinearRegressor(C=C, tol=1e-6).fit(X, y)
        # nothing is gained on any line through the solution
        w = np.append(model.coef_, model.intercept_)
        rows = np.column_stack([X, np.ones(len(y))])

        def objective(v, rows=rows, y=y):
            return 0.5 * v @ v + C * np.maximum(np.abs(y - rows @ v) - 0.1, 0.0).sum()

        best, rng = objective(w), np.random.default_rng(seed)
        for size in (1e-4, 1e-2, 1.0):
            moved = [objective(w + size * rng.normal(size=6)) for _ in range(50)]
            assert min(moved) >= best * (1 - 1e-9)


def test_at_large_costs_it_is_the_least_sum_of_losses():
    """As a linear programme without the penalty has it."""
    X, y = heavy(6, "exponential")
    rows, n = np.column_stack([X, np.ones(len(y))]), len(y)
    eye = np.eye(n)
    found = linprog(
        np.append(np.zeros(6), np.ones(n)),
        A_ub=np.block([[rows, -eye], [-rows, -eye]]),
        b_ub=np.concatenate([y + 0.1, 0.1 - y]),
        bounds=[(None, None)] * 6 + [(0, None)] * n,
    )
    model = LinearRegressor(C=1e6).fit(X, y)
    loss = np.maximum(np.abs(y - model.predict(X)) - 0.1, 0.0).sum()
    assert loss == pytest.approx(found.fun, rel=1e-4)


def test_separable_rows_at_large_costs_are_not_trained_for_ever(monkeypatch):
    """A few steps for each width of the corners, cold or from a far smaller cost."""
    rng = np.random.default_rng(0)
    X = sparse.random(
        8000, 100, density=0.1, format="csr", random_state=0, data_rvs=rng.standard_normal
    )
    y = (X @ rng.normal(size=100) > 0).astype(int)
    splits = list(KFold(5).split(X))
    model = read_model(LinearSVC(loss="hinge")).tuning(["C"])
    problem = prepare(model, X, y, splits, {}, 1e9, Workers(1)).problem
    steps = []
    sharpen = training.sharpen

    def counted(bundle, *arguments):
        sharpen(bundle, *arguments)
        steps.append(bundle.iterations)

    monkeypatch.setattr(training, "sharpen", counted)
    warm = None
    for C in (1.0, 16.0, 256.0, 1024.0):
        for start in (None, warm):
            found = problem.evaluate({"C": C}, Effort(1e-2), warm=start)
            assert found.converged
        warm = found.state
        right = np.concatenate(found.outputs)[:, 0] > 0
        assert (right == y).mean() > 0.98
    assert max(steps) < 150


def steps_of_a_search(monkeypatch, loss):
    """Return how many steps of Newton's method a search takes."""
    X, y = make_classification(6000, 30, n_informative=8, flip_y=0.1, random_state=0)
    taken, step = [], newton._go
    monkeypatch.setattr(newton, "_go", lambda *args: taken.append(1) or step(*args))
    GradientSearchCV(LinearSVC(loss=loss), cv=3, refit=False, random_state=0).fit(X, y)
    monkeypatch.undo()
    return len(taken)


def test_a_search_goes_on_from_corners_as_sharp_as_they_were(monkeypatch):
    squared, sharp = (steps_of_a_search(monkeypatch, loss) for loss in ("squared_hinge", "hinge"))
    assert 0 < sharp <= 5 * squared
