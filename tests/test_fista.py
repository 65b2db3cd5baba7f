"""FISTA as the inner solver of linear machines: klatzer-pock, section 4."""

import numpy as np
import pytest
from helpers import central_difference, make_data
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from hypermargin import GradientSearchCV, LinearClassifier, value_and_grad
from hypermargin._core.budget import Budget

SMOOTH = ["smooth_hinge", "logistic", "squared_hinge", "squared", "modified_huber"]


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_the_minimiser_is_that_of_the_default_solver(loss, C, form):
    X, y = make_data(3, n=80)
    usual = LinearClassifier(C, loss=loss).fit(form(X), y)
    found = LinearClassifier(C, loss=loss, solver="fista", tol=1e-8).fit(form(X), y)
    np.testing.assert_allclose(found.coef_, usual.coef_, rtol=0, atol=1e-5 * usual.coef_.max())
    np.testing.assert_allclose(found.intercept_, usual.intercept_, rtol=0, atol=1e-5)
    assert found.n_iter_ > usual.n_iter_


@pytest.mark.parametrize("mu", [1.0, 12.0, 200.0])
def test_the_minimiser_is_that_of_equations_4_and_6(mu):
    X, y = make_data(2, n=60)
    c, sign, ones = 0.5, np.where(y == 1, 1.0, -1.0), np.ones((60, 1))
    X1 = np.hstack([X, ones])  # the bias is a weight of a column of ones: section 3.2

    def energy(w):
        short = mu * (1.0 - sign * (X1 @ w))
        value = 0.5 * c * w @ w + np.logaddexp(0.0, short).sum() / mu
        return value, c * w - X1.T @ (sign * expit(short))

    theirs = minimize(energy, np.zeros(X1.shape[1]), jac=True, tol=1e-12).x
    ours = LinearClassifier(1 / c, loss="smooth_hinge", mu=mu, solver="fista", tol=1e-9).fit(X, y)
    found = np.append(ours.coef_[0], ours.intercept_)
    np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("criterion", ["zero_one", "smooth_hinge", "squared_labels"])
@pytest.mark.parametrize("mu", [12.0, 200.0])
def test_hypergradients_are_derivatives(criterion, mu):
    X, y = make_data(2, n=60)
    model = LinearClassifier(loss="smooth_hinge", mu=mu, solver="fista")
    how = {"criterion": criterion, "cv": 3, "tol": 1e-11}

    def f(C):
        return value_and_grad(model, X, y, {"C": C}, **how)[0]

    gradient = value_and_grad(model, X, y, {"C": 0.7}, **how)[1]["C"]
    assert gradient == pytest.approx(central_difference(f, 0.7), rel=1e-5)


@pytest.mark.parametrize("method", ["gradient", "curve", "path"])
def test_searches_end_where_those_of_the_default_solver_do(method):
    X, y = make_data(2, n=90)
    usual, found = (
        GradientSearchCV(LinearClassifier(loss="smooth_hinge", solver=solver), method=method, cv=3)
        .fit(X, y)
        .best_score_
        for solver in ("auto", "fista")
    )
    assert found == pytest.approx(usual, abs=0.02)


def test_losses_with_corners_are_refused():
    model = LinearClassifier(loss="hinge", solver="fista")
    for estimator in (model, GradientSearchCV(model)):
        with pytest.raises(ValueError, match=r"solver='fista' and loss='hinge', whose slope jumps"):
            estimator.fit(*make_data(2))


def test_features_of_any_size_are_trained_or_the_user_is_told(monkeypatch):
    X, y = make_data(2, n=60)
    for scale in (1e-6, 1e6):
        model = LinearClassifier(1.0 / scale**2, loss="smooth_hinge", solver="fista")
        assert np.isfinite(model.fit(scale * X, y).coef_).all()
    monkeypatch.setattr("hypermargin.problems.linear.train.MOST_FISTA", 3)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        LinearClassifier(loss="smooth_hinge", solver="fista").fit(X, y)


def test_training_ends_with_the_time(monkeypatch):
    monkeypatch.setattr(Budget, "expired", lambda self: True)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        LinearClassifier(loss="smooth_hinge", solver="fista").fit(*make_data(2))
