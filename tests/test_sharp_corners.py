"""The smooth hinge loss as sharp as one likes: mu of Klatzer and Pock, eq. (6)."""

import warnings

import numpy as np
import pytest
from helpers import central_difference, make_data
from scipy import sparse
from sklearn.base import clone

from hypermargin import KernelSVC, LinearClassifier, value_and_grad
from hypermargin.losses.base import softer

MODELS = {
    "kernel": KernelSVC(C=2.0, gamma=0.1),
    "linear": LinearClassifier(C=0.2),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    return clone(request.param).set_params(loss="smooth_hinge")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("mu", [1e3, 1e4, 1e5])
def test_gradients_are_derivatives_however_sharp(model, mu):
    X, y = make_data(2, n=80)
    model.set_params(mu=mu)
    how = {"criterion": "smooth_hinge", "cv": 3, "tol": 1e-11}

    def f(C):
        return value_and_grad(model, X, y, {"C": C}, **how)[0]

    gradient = value_and_grad(model, X, y, {"C": model.C}, **how)[1]["C"]
    assert gradient == pytest.approx(central_difference(f, model.C, 1e-7), rel=1e-5)


def test_sharp_machines_are_those_of_the_hinge_loss(model):
    X, y = make_data(3, n=90)
    smooth = model.set_params(mu=1e5).fit(X, y).decision_function(X)
    hinge = clone(model).set_params(loss="hinge", tol=1e-7)
    np.testing.assert_allclose(smooth, hinge.fit(X, y).decision_function(X), rtol=0, atol=2e-3)


def test_many_features_are_trained_as_well():
    rng = np.random.default_rng(0)
    X, y = sparse.random(60, 700, 0.05, format="csr", rng=rng), np.arange(60) % 2
    smooth = LinearClassifier(loss="smooth_hinge", mu=1e4).fit(X, y)
    hinge = LinearClassifier(loss="hinge").fit(X, y)
    np.testing.assert_allclose(smooth.coef_, hinge.coef_, rtol=0, atol=1e-2)


def test_corners_are_made_sharper_step_by_step():
    assert softer(0.0) == [0.0] and softer(1.0 / 12.0) == [1.0 / 12.0]
    assert softer(3e-5) == pytest.approx([1e-2, 1e-3, 1e-4, 3e-5])
