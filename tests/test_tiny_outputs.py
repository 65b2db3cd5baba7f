"""Criteria read outputs in units of their spread; where that has a floor, gradients know of it."""

import numpy as np
import pytest
from sklearn.metrics import get_scorer

from hypermargin.criteria import criterion_for

SCORES = ("accuracy", "balanced_accuracy", "f1", "roc_auc", "average_precision")


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("size, offset", [(1e-12, 0.0), (1e-11, 0.0), (1e-9, 3.0), (1.0, 0.0)])
def test_gradients_of_outputs_that_hardly_differ(score, size, offset):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=40)
    # the largest output stands out, so that it stays the largest
    differences = size * (rng.normal(size=(40, 1)) + y[:, None])
    differences[7] = 9 * size
    outputs, weight = offset + differences, np.ones(40)
    criterion, _ = criterion_for(get_scorer(score), True, np.array([0, 1]))
    _, gradient = criterion(outputs, y, weight)
    direction = rng.normal(size=outputs.shape)
    step = 1e-3 * size
    up, down = (criterion(outputs + sign * step * direction, y, weight)[0] for sign in (1, -1))
    expected = (up - down) / (2 * step)
    assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-3)
