"""Data on which machines are hard to train do not end a search."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_data, quick

from hypermargin import KernelSVC

LOSSES = ("modified_huber", "smooth_hinge", "logistic", "squared_hinge")


def awkward(kind: str):
    X, y = make_data(2, n=90)
    if kind == "constant":
        return np.ones((90, 2)), y
    if kind == "offset":
        return X + 1e6, y
    return X * np.array([1.0, 1e6, 1e-6, 1.0]), y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["constant", "offset", "scales"])
def test_a_search_ends_with_a_model(kind, loss, kernel):
    X, y = awkward(kind)
    search = quick(KernelSVC(loss=loss, kernel=kernel), max_evals=4).fit(X, y)
    assert search.best_score_ >= 0.45
    assert np.isfinite(search.decision_function(X)).all()
