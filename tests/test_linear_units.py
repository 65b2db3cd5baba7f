"""Features in different units hide nothing from training: short gradients are not its end."""

import numpy as np
import pytest
from helpers import central_difference
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score

from hypermargin import GradientSearchCV, value_and_grad


@pytest.fixture
def outliers():
    """Categories as columns of zeros and ones, of which three rows have 1e4 in place of one."""
    rng = np.random.default_rng(0)
    X = np.eye(20)[rng.integers(0, 20, size=60)]
    X[:3] *= 1e4
    return X, X @ rng.normal(size=20) / 100 + rng.normal(size=60)


def test_scores_of_a_ridge_are_those_of_the_exact_solution(outliers):
    X, y = outliers
    found = GradientSearchCV(Ridge(), {"alpha": [0.3]}, cv=4).fit(X, y)
    expected = cross_val_score(Ridge(0.3), X, y, cv=4)
    scores = [found.cv_results_[f"split{fold}_test_score"][0] for fold in range(4)]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_gradients_of_a_ridge(outliers):
    X, y = outliers

    def value(alpha):
        return value_and_grad(Ridge(), X, y, {"alpha": alpha}, cv=4)

    expected = central_difference(lambda alpha: value(alpha)[0], 0.3)
    assert value(0.3)[1]["alpha"] == pytest.approx(expected, rel=1e-4)
