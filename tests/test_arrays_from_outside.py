"""Kernels and losses of a user may have arrays of hyperparameters; no other file knows of them."""

from collections.abc import Mapping

import numpy as np
import pytest
from helpers import central_difference, entries, entry, make_data

from hypermargin._core.budget import Effort
from hypermargin._core.space import Dimension
from hypermargin.kernels.base import Kernel
from hypermargin.kernels.points import Points
from hypermargin.losses.base import inverse
from hypermargin.losses.classification import Hinge, SquaredHinge
from hypermargin.problems.base import Column, Design, Fold
from hypermargin.problems.exact.problem import CrossValidation
from hypermargin.problems.landmarks.problem import LowRankCrossValidation
from hypermargin.problems.linear.problem import LinearCrossValidation


class WidthOfEachFeature(Kernel):
    """K = exp(-sum_k width_k (x_k - z_k)^2)."""

    hyperparameters = ("widths",)

    def at(self, points, params):
        root = np.sqrt(params["widths"])
        return Points(np.asarray(points.X) * root, points.index)

    def block(self, rows, cols, params, out=None):
        exponent = rows.square_distances(cols, out, -1.0)
        return np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)

    def diagonal(self, points, params):
        return np.ones(len(points))

    def pullback(self, rows, cols, block, M, params):
        X, Z, weight = np.asarray(rows.X, float), np.asarray(cols.X, float), M * block
        crossed = np.einsum("ik,ik->k", X, weight @ Z)
        squares = weight.sum(axis=1) @ X**2 + weight.sum(axis=0) @ Z**2
        return {"widths": (2.0 * crossed - squares) / params["widths"]}

    def dimension(self, name, points):
        return Dimension(1e-3, 1e3)


class ByShift(SquaredHinge):
    """Rows of every shift cost what that shift costs."""

    by_part: Mapping[str, str] = {"shift_cost": "shift"}

    def costs(self, rows, params):
        return super().costs(rows, params) * self.gather(rows, params, "shift_cost")

    def pullback(self, rows, params, cotangent):
        on_logarithms = -0.5 * cotangent.ridge * inverse(self.costs(rows, params), 0.0)
        factors = self.gather(rows, params, "shift_cost")
        gradient = self.pull_ridge(rows, params, cotangent.ridge)
        return gradient | self.sums(rows, params, "shift_cost", on_logarithms / factors)


def data(loss, n=60):
    X, y = make_data(2, n=n)
    number = np.arange(n) % 3
    folds = [Fold(np.flatnonzero(number == f), 1.0 * (number != f)) for f in range(3)]
    column = Column(np.ones(n, dtype=bool), np.where(y == 1, 1.0, -1.0), {"shift": number // 2})
    return X, folds, [column], loss, {"C": 1.3}


def kernel_problem(kind, loss, **more):
    X, *rest, values = data(loss)
    design = Design(Points.of(X), np.arange(len(X)), (0, 1, 2))
    folds, columns, loss = rest
    return kind([design], folds, columns, WidthOfEachFeature(), loss, values, 1e9, **more)


def linear_problem(loss):
    X, folds, columns, loss, values = data(loss)
    design = Design(X, np.arange(len(X)), (0, 1, 2))
    return LinearCrossValidation([design], folds, columns, loss, values)


WIDTHS, SHIFTS = np.array([0.3, 0.05, 0.2, 0.1]), np.array([0.6, 1.7])
PROBLEMS = {
    "exact": (lambda: kernel_problem(CrossValidation, Hinge()), {"widths": WIDTHS}),
    "exact, two arrays": (
        lambda: kernel_problem(CrossValidation, ByShift()),
        {"C": 0.9, "widths": WIDTHS, "shift_cost": SHIFTS},
    ),
    "landmarks": (
        lambda: kernel_problem(LowRankCrossValidation, Hinge(), rank=20),
        {"widths": WIDTHS},
    ),
    "linear": (lambda: linear_problem(ByShift()), {"C": 0.9, "shift_cost": SHIFTS}),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_entry_has_an_exact_derivative(name):
    make, params = PROBLEMS[name]
    problem = make()
    assert set(params) <= set(problem.hyperparameters)
    effort = Effort(1e-12)
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(len(fold.test), 1)) for fold in problem.folds]

    def value(params, warm=None):
        outputs = problem.evaluate(params, effort, warm=warm).outputs
        return sum(float((a * np.tanh(z)).sum()) for a, z in zip(factors, outputs))

    found = problem.evaluate(params, effort)
    delta = [a / np.cosh(z) ** 2 for a, z in zip(factors, found.outputs)]
    gradient, state = found.pullback(delta), found.state
    for place, at in entries(params):
        expected = central_difference(lambda z, at=at: value(at(z), state), entry(params, place))
        assert entry(gradient, place) == pytest.approx(expected, rel=1e-4, abs=1e-7), place


def test_a_kernel_matrix_is_used_again_only_where_all_entries_are_the_same():
    problem = PROBLEMS["exact"][0]()
    first = problem.evaluate({"widths": WIDTHS}, Effort(1e-6)).outputs
    moved = problem.evaluate({"widths": WIDTHS * [1, 1, 1, 3]}, Effort(1e-6)).outputs
    again = problem.evaluate({"widths": WIDTHS.copy()}, Effort(1e-6)).outputs
    for a, b, c in zip(first, moved, again, strict=True):
        assert np.abs(a - b).max() > 1e-3
        np.testing.assert_allclose(a, c, atol=1e-5)
