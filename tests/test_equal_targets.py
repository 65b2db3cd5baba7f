"""Targets that are all equal: there is nothing to learn, and nothing fails."""

import numpy as np
import pytest
from helpers import make_data, quick
from sklearn.svm import SVR

from hypermargin import KernelSVR


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n", [60, 1600])
@pytest.mark.parametrize("model", [SVR(), KernelSVR(), KernelSVR(loss="pinball")], ids=str)
def test_all_targets_are_equal(model, n):
    X, _ = make_data(0, n=n)
    found = quick(model, {"C": (0.1, 10.0)}, max_evals=2).fit(X, np.full(n, 3.0))
    np.testing.assert_allclose(found.predict(X), 3.0, atol=0.11)
    assert np.isfinite(found.cv_results_["objective"]).all()
