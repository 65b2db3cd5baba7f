"""Systems of kernel values that are large and alike: the bias is not lost beside them."""

import numpy as np
import pytest

from hypermargin.problems.exact.saddle import SaddleSystem


@pytest.mark.parametrize("size", [1.0, 1e8, 1e16])
def test_a_singular_system_has_a_bias(size):
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])  # two rows are equal
    A = size * X @ X.T
    v, c = SaddleSystem(A, np.zeros(3), True).solve(np.array([3.0, 3.0, 5.0]), 0.0)
    np.testing.assert_allclose(A @ v + c, [3.0, 3.0, 5.0], rtol=1e-9)
    assert abs(v.sum()) <= 1e-9 * np.abs(v).sum()
