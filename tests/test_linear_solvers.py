"""Newton's method and coordinate descent are two ways to the same machine."""

import numpy as np
import pytest
from helpers import make_data
from scipy import sparse

from hypermargin._core.budget import Budget, Workers
from hypermargin.losses.base import Rows, unbounded_dual
from hypermargin.losses.classification import Hinge, Logistic, SquaredHinge
from hypermargin.losses.lanes import LaneLoss
from hypermargin.problems.linear.bundle import Bundle
from hypermargin.problems.linear.lanes import as_matrix
from hypermargin.problems.linear.loops import LANES
from hypermargin.problems.linear.train import train


def bundle(loss, solver, d=4, form=np.asarray):
    X, y = make_data(2, n=60, d=d)
    rows = Rows(2.0 * y - 1.0, np.ones(len(y)), {"class": y})
    weight = np.ones((len(y), LANES))
    lanes = LaneLoss.of(unbounded_dual(loss, rows, {"C": 0.5}), weight, np.dtype(float))
    matrix = as_matrix(form(X), float, Workers(1), 1.0)
    return Bundle(matrix, lanes, 1.0, Budget(), solver=solver)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
@pytest.mark.parametrize("d", [4, 700])
def test_the_solver_that_is_asked_for_finds_the_same_machine(loss, d):
    found = [bundle(loss, solver, d) for solver in ("primal", "dual")]
    for one in found:
        train(one, 1e-9)
        assert one.converged
    assert [one.dual for one in found] == [False, True]
    np.testing.assert_allclose(found[0].W, found[1].W, atol=1e-4)


def test_newtons_method_refuses_corners_in_many_features():
    with pytest.raises(ValueError, match="loss with corners"):
        bundle(Hinge(), "primal", d=700)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("columns", [1, 3, 8, 11])
def test_sums_of_squares(form, columns):
    X, _ = make_data(0, n=50, d=6)
    X[np.abs(X) < 0.3] = 0.0
    weights = np.random.default_rng(0).random((50, columns))
    matrix = as_matrix(form(X), float, Workers(1), 2.0)
    expected = np.vstack([(X**2).T @ weights, 4.0 * weights.sum(axis=0)])
    np.testing.assert_allclose(matrix.sums_of_squares(weights), expected)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_truncated_steps_lead_to_the_same_machine(loss, form):
    exact, truncated = (bundle(loss, solver, form=form) for solver in ("primal", "truncated"))
    train(exact, 1e-9)
    train(truncated, 1e-9, path=True)
    assert truncated.converged
    np.testing.assert_allclose(truncated.W, exact.W, atol=1e-6)
    B = np.random.default_rng(0).normal(size=exact.W.shape)
    np.testing.assert_allclose(truncated.solve(B, 1e-10), exact.solve(B, 1e-10), atol=1e-6)
