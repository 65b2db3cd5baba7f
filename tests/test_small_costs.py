"""Gradients at costs whose squares are no longer numbers."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from hypermargin import LinearClassifier, value_and_grad


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("estimator", [LinearSVC(), LinearClassifier(loss="modified_huber")])
def test_gradients_at_tiny_costs_are_numbers(estimator, pooled):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    value, gradient = value_and_grad(estimator, X, y, {"C": 1e-200}, pooled=pooled, cv=3)
    assert np.isfinite(value)
    assert np.isfinite(gradient["C"])
