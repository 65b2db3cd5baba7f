"""Linear regression of targets whose mean is far from zero."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.svm import LinearSVR

from hypermargin import GradientSearchCV, value_and_grad


@pytest.mark.parametrize("method", ["curve", "gradient"])
@pytest.mark.parametrize("n", [300, 20_000], ids=["double", "single"])
@pytest.mark.parametrize("mean", [1e5, -1e7, 1e9])
def test_scores_are_those_of_the_model(mean, n, method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=n)
    folds = KFold(5)
    near = GradientSearchCV(Ridge(), cv=folds, method=method, max_evals=3).fit(X, y)
    far = GradientSearchCV(Ridge(), cv=folds, method=method, max_evals=3).fit(X, y + mean)
    assert far.best_score_ == pytest.approx(near.best_score_, abs=1e-3)
    expected = cross_val_score(Ridge(**far.best_params_), X, y + mean, cv=folds).mean()
    assert far.best_score_ == pytest.approx(expected, abs=1e-3)


def test_several_targets_are_centred_one_by_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    Y = X @ rng.normal(size=(4, 2)) + rng.normal(size=(80, 2))
    near = value_and_grad(Ridge(), X, Y, {"alpha": 1.0}, scoring="r2")
    far = value_and_grad(Ridge(), X, Y + np.array([1e7, -1e3]), {"alpha": 1.0}, scoring="r2")
    assert far[0] == pytest.approx(near[0], rel=1e-6)
    assert far[1]["alpha"] == pytest.approx(near[1]["alpha"], rel=1e-5)


@pytest.mark.parametrize("n", [200, 6000], ids=["double", "single"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("space", [{"C": None}, {"C": None, "epsilon": None}])
def test_linear_machines_far_from_zero_are_as_good_as_near_it(space, loss, n):
    """Their bias is penalised: costs must be large, and outputs need all their digits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=n)
    near, far = (
        GradientSearchCV(LinearSVR(loss=loss), space, cv=3, random_state=0, refit=False)
        .fit(X, y + offset)
        .best_score_
        for offset in (0.0, 1e5)
    )
    assert far > near - 0.03
