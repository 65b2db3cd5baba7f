"""Categories make rows alike, and many of them sit at the corner of a hinge loss at once."""

import numpy as np
import pytest
from helpers import central_difference, quick
from sklearn.svm import SVC, LinearSVC

from hypermargin import value_and_grad


@pytest.mark.parametrize("seed", range(10))
def test_gradients_where_coefficients_are_not_unique(seed):
    """Outputs at the corner stay there, whichever of their rows has its coefficient at a bound."""
    rng = np.random.default_rng(seed)
    X = (rng.uniform(size=(47, 5)) < 0.25).astype(float)
    y = rng.choice(3, size=47, p=[0.15, 0.6, 0.25])
    weight = rng.integers(1, 4, size=47)
    model = LinearSVC(loss="hinge", class_weight={0: 4.0, 1: 0.3, 2: 1.0})

    def value(C):
        return value_and_grad(model, X, y, {"C": C}, cv=2, sample_weight=weight)

    expected = central_difference(lambda C: value(C)[0], 1.17)
    assert value(1.17)[1]["C"] == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "linear", "rbf"])
def test_rows_of_zeros(kernel):
    X, y = np.zeros((40, 2)), np.arange(40) % 2
    found = quick(SVC(kernel=kernel)).fit(X, y)
    assert found.best_score_ == pytest.approx(0.5, abs=0.05)
    assert np.isfinite(found.cv_results_["objective"]).all()
