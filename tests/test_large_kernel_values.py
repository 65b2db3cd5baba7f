"""Systems of kernel values that are large and alike: the bias is not lost beside them."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from hypermargin import value_and_grad
from hypermargin.problems.exact.saddle import SaddleSystem


@pytest.mark.parametrize("size", [1.0, 1e8, 1e16])
def test_a_singular_system_has_a_bias(size):
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])  # two rows are equal
    A = size * X @ X.T
    v, c = SaddleSystem(A, np.zeros(3), True).solve(np.array([3.0, 3.0, 5.0]), 0.0)
    np.testing.assert_allclose(A @ v + c, [3.0, 3.0, 5.0], rtol=1e-9)
    assert abs(v.sum()) <= 1e-9 * np.abs(v).sum()


def test_outputs_that_are_all_rounding_are_told():
    X = np.full((24, 1), 1e6)
    y = 500.0 * np.random.default_rng(0).normal(size=24)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        value_and_grad(SVR(kernel="poly"), X, y, {"C": 90.0, "gamma": 0.2, "coef0": 0.8}, cv=2)
