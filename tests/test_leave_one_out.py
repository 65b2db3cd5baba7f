"""Leave-one-out of the squared loss in closed form, against machines that are trained without."""

import numpy as np
import pytest
from helpers import central_difference

from hypermargin.kernels import KERNELS
from hypermargin.kernels.points import Points
from hypermargin.problems.leave_one_out import LeaveOneOut

WIDTHS = np.array([0.3, 0.5, 0.2])


def machine(kernel, keep=slice(None), columns=2):
    rng = np.random.default_rng(0)
    X, Y, weight = rng.normal(size=(40, 3)), rng.normal(size=(40, columns)), rng.uniform(1, 3, 40)
    scale = weight[keep].mean() / weight.mean()  # weights count relative to their mean
    points = Points.of(X)
    loo = LeaveOneOut(KERNELS[kernel](), points.take(keep), Y[keep] + 5, weight[keep])
    return loo, points, scale


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32"])
def test_left_out_outputs_are_those_of_machines_trained_without_the_row(kernel):
    params = {"gamma": WIDTHS}
    whole, points, _ = machine(kernel)
    outputs = whole.evaluate(params, 0.1).outputs
    for i in (0, 7, 39):
        without, _, scale = machine(kernel, np.arange(40) != i)
        expected = without.train(params, 0.1 / scale).predict(points.take([i]))[0]
        np.testing.assert_allclose(outputs[i], expected, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32"])
@pytest.mark.parametrize("columns", [1, 3])
def test_pullback_against_differences(kernel, columns):
    loo, _, _ = machine(kernel, columns=columns)
    delta = np.random.default_rng(1).normal(size=(40, columns))
    gradient, by_ridge = loo.evaluate({"gamma": WIDTHS}, 0.1).pullback(delta)

    def f(factors, ridge):
        return float((loo.evaluate({"gamma": factors}, ridge).outputs * delta).sum())

    for j in range(3):
        unit = np.eye(3)[j]
        expected = central_difference(lambda z, u=unit: f(WIDTHS + z * u, 0.1), 0.0, 1e-2)
        assert gradient["gamma"][j] == pytest.approx(expected, rel=1e-6)
    expected = central_difference(lambda z: f(WIDTHS, 0.1 * np.exp(z)), 0.0, 1e-2)
    assert by_ridge == pytest.approx(expected, rel=1e-6)


def test_what_is_not_positive_definite_is_said():
    loo, _, _ = machine("rbf")
    with pytest.raises(FloatingPointError, match="not positive definite"):
        loo.evaluate({"gamma": WIDTHS}, -1.0)
