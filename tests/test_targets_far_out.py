"""A few targets far out, or far from zero all of them, leave the training of the others alone."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_data, quick
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.svm import SVR

from hypermargin import KernelSVR
from hypermargin._core.budget import Effort, Workers
from hypermargin._core.spread import deviation, typical_deviation
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.criteria import SmoothAbsoluteError

REGRESSORS = {
    "svr": (SVR(C=3.0), None),
    "landmarks": (SVR(C=3.0), 40),
    "pinball": (KernelSVR(C=3.0, loss="pinball"), None),
    "squared tube": (KernelSVR(C=3.0, loss="squared_epsilon_insensitive"), None),
}


def outputs(estimator, X, y, splits, rank=None, tol=1e-3):
    """Return the outputs of all folds."""
    prepared = prepare(read_model(estimator), X, y, splits, {}, 1e9, Workers(1), rank)
    evaluation = prepared.problem.evaluate({}, Effort(tol))
    assert evaluation.converged
    return [part[:, 0] for part in evaluation.outputs]


@pytest.mark.parametrize("far", [1e4, 1e9])
def test_one_wrong_target_leaves_the_machine_trained(far):
    X, y = make_data(0, n=300)
    y[7] += far
    splits = list(KFold(5).split(X))
    found = np.concatenate(outputs(SVR(gamma=0.3, C=3.0), X, y, splits))
    expected = cross_val_predict(SVR(gamma=0.3, C=3.0, tol=1e-6), X, y, cv=splits)
    np.testing.assert_allclose(found, expected, atol=2e-2)


def test_nor_does_it_move_the_ranges():
    X, y = make_data(0, n=150)
    options = {"scoring": "neg_mean_absolute_error", "refit": False, "cv": KFold(3)}
    errors = []
    for far in (0.0, 1e6):
        moved = y.copy()
        moved[7] += far
        search = quick(SVR(), **options).fit(X, moved)
        best = SVR(**search.best_params_)
        residuals = cross_val_predict(best, X, moved, cv=KFold(3)) - moved
        errors.append(np.median(np.abs(residuals)))
    assert errors[1] < 1.3 * errors[0]


@pytest.mark.parametrize(("estimator", "rank"), REGRESSORS.values(), ids=list(REGRESSORS))
def test_validation_targets_do_not_move_training(estimator, rank):
    X, y = make_data(0, n=700)
    splits = [(np.arange(500), np.arange(500, 700))]
    there = y.copy()
    there[500:] *= 1000.0
    (before,), (after,) = (outputs(estimator, X, target, splits, rank) for target in (y, there))
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("estimator", "rank"), REGRESSORS.values(), ids=list(REGRESSORS))
def test_what_all_targets_have_in_common_is_left_to_the_bias(estimator, rank):
    X, y = make_data(0, n=700)
    splits = list(KFold(3).split(X))
    near = np.concatenate(outputs(estimator, X, y, splits, rank))
    far = np.concatenate(outputs(estimator, X, y + 1e7, splits, rank))
    np.testing.assert_allclose(far - 1e7, near, atol=1e-2)


def test_the_fitted_model_has_it_back():
    X, y = make_data(0, n=200)
    near, far = KernelSVR().fit(X, y), KernelSVR().fit(X, y + 1e7)
    np.testing.assert_allclose(far.predict(X) - 1e7, near.predict(X), atol=1e-2)


def test_the_typical_deviation_is_the_standard_one_without_what_is_far_out():
    rng = np.random.default_rng(0)
    y = rng.normal(size=1000)
    assert typical_deviation(y) == pytest.approx(np.std(y))
    assert typical_deviation(np.append(y, 1e300)) == pytest.approx(5 * 0.6745, rel=0.1)
    mostly_zero = np.where(rng.uniform(size=1000) < 0.9, 0.0, y)
    assert 0.1 < typical_deviation(np.append(mostly_zero, 1e9)) < 5.0
    assert typical_deviation(np.full(9, 0.1)) == deviation(np.full(9, 0.1)) == 0.0
    weight = rng.integers(0, 3, 1000)
    assert typical_deviation(y, weight) == pytest.approx(typical_deviation(np.repeat(y, weight)))


def test_the_smooth_absolute_error_stays_absolute():
    y = np.append(np.linspace(-1.0, 1.0, 99), 1e9)[:, None]
    outputs = y + 0.5
    value, _ = SmoothAbsoluteError()(outputs, y, np.ones(100))
    assert value == pytest.approx(0.5, rel=0.1)
