"""Targets of validation rows have no part in training, whether or not it converges."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_data
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC, LinearSVR

from hypermargin import LinearClassifier, LinearRegressor
from hypermargin._core.budget import Budget, Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare

CORNERS = {
    "tube": (LinearSVR(C=10.0, epsilon=0.1), 0),
    "pinball": (LinearRegressor(C=10.0, loss="pinball", quantile=0.8), 0),
    "hinge": (LinearSVC(C=10.0, loss="hinge"), 2),
    "hinge, three classes": (LinearSVC(C=10.0, loss="hinge"), 3),
}
SMOOTH = {
    "squared tube": (LinearSVR(C=10.0, loss="squared_epsilon_insensitive"), 0),
    "ridge": (Ridge(0.1), 0),
    "ridge classifier": (RidgeClassifier(0.1), 3),
    "squared hinge": (LinearSVC(C=10.0), 2),
    "modified Huber": (LinearClassifier(C=10.0, loss="modified_huber"), 3),
    "logistic": (LogisticRegression(C=10.0), 2),
    "multinomial": (LogisticRegression(C=10.0), 3),
}
ENDS = {"trained": Effort(1e-3), "stopped early": Effort(0.05, rough=True)}


def awkward(n_classes, seed, kind):
    X, y = make_data(n_classes, n=70, seed=seed)
    if kind == "scales":
        X = (X + 1.0) * 10.0 ** np.arange(4)
    elif kind == "offset":  # rounding is all that is left of the features
        X = X + 1e7
    if kind != "plain" and n_classes == 0:
        y[3] += 1e6
    return X, y


def moved(y, rows, n_classes, seed):
    """Return other targets on some rows."""
    rng, y = np.random.default_rng(seed), y.copy()
    if n_classes:
        y[rows] = rng.integers(0, n_classes, size=len(rows))
    else:
        y[rows] = 1000.0 * rng.permutation(y[rows]) + 7.0
    return y


def outputs(estimator, X, y, splits, effort):
    problem = prepare(read_model(estimator), X, y, splits, {}, 1e9, Workers(1)).problem
    return problem.evaluate({}, effort).outputs[0]


def both(estimator, n_classes, kind, seed, n_folds, effort):
    """Return the outputs of the first fold with two sets of targets on its validation rows.

    A machine on all rows, and those of other folds, are trained beside it.
    """
    X, y = awkward(n_classes, seed, kind)
    splits = list(KFold(3, shuffle=True, random_state=seed).split(X))[:n_folds]
    other = moved(y, splits[0][1], n_classes, seed)
    return [outputs(estimator, X, labels, splits, effort) for labels in (y, other)]


@pytest.mark.parametrize("kind", ["plain", "scales", "offset"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", CORNERS)
def test_losses_with_corners_are_trained_fold_by_fold(name, end, kind):
    for seed, n_folds in ((0, 1), (1, 3)):
        first, second = both(*CORNERS[name], kind, seed, n_folds, ENDS[end])
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", ["plain", "scales"])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_are_trained_so_far_that_nothing_shows(name, kind):
    """Folds share a preconditioner, of which a trained machine knows nothing."""
    for seed, n_folds in ((0, 1), (1, 3)):
        first, second = both(*SMOOTH[name], kind, seed, n_folds, ENDS["trained"])
        np.testing.assert_allclose(first, second, rtol=1e-8, atol=1e-8 * np.abs(first).max())


def test_tolerances_depend_on_the_classes_in_training():
    """Rows of a rare class that are all in validation do not make training more exact."""
    X, y = make_data(3, n=90)
    rare = np.arange(60, 90)
    splits = [(np.arange(60), rare)]
    tolerances = []
    for labels in (y, np.where(np.arange(90) >= 60, 0, y)):
        problem = prepare(
            read_model(LogisticRegression()), X, labels, splits, {}, 1e9, Workers(1)
        ).problem
        jobs = problem.part.groups(problem, [0])[0]
        part = problem.part(problem, 0, jobs, {}, np.float64, None, Budget(), "primal")
        tolerances.append(part.balance[:3])
    np.testing.assert_array_equal(*tolerances)
