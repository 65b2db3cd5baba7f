"""Models on few rows are exact: a gap within the tolerance may mean much in the outputs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import SVC, SVR

from hypermargin import KernelSVC, KernelSVR


def one_column(seed, n=60):
    """Return rows whose kernel matrix is nearly singular."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("seed", range(4))
def test_classifiers(seed):
    X, y = one_column(seed)
    params = {"C": 30.0, "gamma": 0.2}
    found = KernelSVC(**params, tol=1e-2).fit(X, y > 0).decision_function(X)
    exact = SVC(**params, tol=1e-10).fit(X, y > 0).decision_function(X)
    assert_allclose(found, exact, atol=1e-4)  # libsvm has kernel values in single precision


@pytest.mark.parametrize("seed", range(4))
def test_regressors(seed):
    X, y = one_column(seed)
    params = {"C": 30.0, "gamma": 0.2, "epsilon": 0.2}
    found = KernelSVR(**params, tol=1e-2).fit(X, y).predict(X)
    exact = SVR(**params, tol=1e-10).fit(X, y).predict(X)
    assert_allclose(found, exact, atol=1e-4)  # libsvm has kernel values in single precision
