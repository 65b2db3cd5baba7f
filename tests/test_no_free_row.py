"""Machines that have all coefficients at a bound: any bias in an interval would do."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Differentiated, quick
from sklearn.svm import SVC

from hypermargin._core.budget import Effort


def balanced_problem(n: int, seed: int, share: float = 0.3):
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=n) < share).astype(int)
    return rng.normal(size=(n, 3)) + 0.8 * y[:, None], y


@pytest.mark.parametrize("n", [883, 1147, 1165, 1205])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.7, 0.9])
def test_no_row_is_free_by_a_rounding_error(n, share):
    X, y = balanced_problem(n, n, share)
    problem = Differentiated(SVC(class_weight="balanced"), X, y, tuned=["C", "gamma"])
    for C in (1e-5, 1e-3):
        for start in problem.evaluate({"C": C, "gamma": 0.3}, Effort(1e-3)).state.values():
            width = start.upper - start.lower
            room = np.minimum(start.beta - start.lower, start.upper - start.beta)
            assert ((room == 0.0) | (room > 1e-9 * width)).all()


@pytest.mark.parametrize("n", [300, 1099])
def test_the_refitted_model_has_the_bias_of_the_search(n):
    X, y = balanced_problem(n, 0)
    estimator = SVC(class_weight="balanced", gamma=0.3)
    for C in (1e-4, 1e-3, 1e-2):
        search = quick(estimator, {"C": (C, 1.001 * C)}, max_evals=1).fit(X, y)
        assert search.score(X, y) == pytest.approx(search.best_score_, abs=0.03)
