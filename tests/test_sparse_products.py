"""Products and distances of sparse rows are those of the same rows held densely."""

import numpy as np
import pytest
from scipy import sparse

import hypermargin.kernels.points as module
from hypermargin.kernels.points import Points


@pytest.mark.parametrize("dense", [True, False], ids=["dense columns", "sparse columns"])
@pytest.mark.parametrize("shape", [(40, 7), (6, 50)], ids=["tall", "wide"])
def test_sparse_products(monkeypatch, shape, dense):
    monkeypatch.setattr(module, "DENSE", 2**20 if dense else 0)
    X = sparse.random(*shape, density=0.3, format="csr", random_state=0)
    points, same = Points.of(X), Points.of(X.toarray())
    few, few_of_same = points.take(np.arange(3)), same.take(np.arange(3))
    assert (points.upright is None) == (not dense or shape[1] > shape[0])
    np.testing.assert_allclose(few.inner(points), few_of_same.inner(same), atol=1e-14)
    for factor in (1.0, -0.3):
        np.testing.assert_allclose(
            few.square_distances(points, factor=factor),
            few_of_same.square_distances(same, factor=factor),
            atol=1e-13,
        )
    out = np.empty((3, shape[0]))
    assert few.square_distances(points, out) is out
