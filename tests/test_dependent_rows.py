"""Rows that depend on each other: those that are too many go to bounds, and outputs stay."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from hypermargin import KernelSVC
from hypermargin.problems.exact.dependent import without_dependent

RNG = np.random.default_rng(0)
POINTS = {
    "on a line": RNG.normal(size=(60, 1)),
    "equal": np.repeat(RNG.normal(size=(20, 5)), 3, axis=0),
    "all equal": np.ones((60, 2)),
}


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("points", POINTS)
def test_fewer_rows_have_the_same_outputs_and_no_worse_a_dual(points, kernel):
    X, rng = POINTS[points], np.random.default_rng(1)
    K = rbf_kernel(X, gamma=0.05) if kernel == "rbf" else X @ X.T
    beta, slope = rng.uniform(-1.0, 1.0, (2, len(X)))
    low, high = np.full(len(X), -1.5), np.full(len(X), 1.2)
    found = without_dependent(K, beta, slope, low, high)
    assert ((low <= found) & (found <= high)).all()
    assert found.sum() == pytest.approx(beta.sum(), abs=1e-9)
    np.testing.assert_allclose(K @ found, K @ beta, atol=1e-4)
    assert slope @ found >= slope @ beta
    free = np.count_nonzero((low < found) & (found < high))
    assert free <= np.linalg.matrix_rank(K, tol=1e-13) + 1 < len(X)


def test_independent_rows_stay():
    X = RNG.normal(size=(30, 5))
    beta = RNG.uniform(size=30)
    bounds = np.zeros(30), np.ones(30)
    assert without_dependent(rbf_kernel(X), beta, beta, *bounds) is None


@pytest.mark.parametrize("C", [1.0, 1e3])
def test_many_points_on_a_line_are_trained_exactly(C):
    x = np.sort(RNG.uniform(-3.0, 3.0, 300))
    y = np.where(RNG.random(300) < 0.5 + 0.4 * np.sin(x), 1, -1)
    ours = KernelSVC(C=C, gamma=0.01, tol=1e-9).fit(x[:, None], y)
    theirs = SVC(C=C, gamma=0.01, tol=1e-9).fit(x[:, None], y)
    np.testing.assert_allclose(
        ours.decision_function(x[:, None]),  # libsvm's kernel is in single precision
        theirs.decision_function(x[:, None]),
        atol=1e-6 * C,
    )
