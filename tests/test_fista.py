"""FISTA as the inner solver of linear and kernel machines: Klatzer and Pock, section 4."""

import numpy as np
import pytest
from helpers import central_difference, make_data
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from hypermargin import GradientSearchCV, KernelSVC, LinearClassifier, value_and_grad
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


@pytest.mark.parametrize("loss", ["smooth_hinge", "logistic"])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_kernel_machines_have_the_minimiser_of_the_default_solver(loss, C, kernel):
    X, y = make_data(2, n=60)
    usual, found = (
        KernelSVC(C, kernel=kernel, loss=loss, solver=solver, tol=1e-8).fit(X, y)
        for solver in ("auto", "fista")
    )
    expected = usual.decision_function(X)
    np.testing.assert_allclose(found.decision_function(X), expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.dual_coef_.sum(axis=1), 0.0, atol=1e-9 * C)
    assert found.n_iter_ > usual.n_iter_


@pytest.mark.parametrize("criterion", ["zero_one", "smooth_hinge", "squared_labels"])
def test_hypergradients_of_kernel_machines_are_derivatives(criterion):
    X, y = make_data(2, n=60)
    model, params = KernelSVC(loss="smooth_hinge", solver="fista"), {"C": 0.7, "gamma": 0.1}
    how = {"criterion": criterion, "cv": 3, "tol": 1e-10}
    gradient = value_and_grad(model, X, y, params, **how)[1]
    for name, at in params.items():

        def f(z, name=name):
            return value_and_grad(model, X, y, {**params, name: z}, **how)[0]

        assert gradient[name] == pytest.approx(central_difference(f, at), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (
            LinearClassifier(loss="hinge"),
            "solver='fista' and loss='hinge'; use loss='smooth_hinge'",
        ),
        (KernelSVC(), "solver='fista' and loss='hinge'; use loss='smooth_hinge'"),
        (KernelSVC(loss="logistic", kernel="sigmoid"), "kernel='sigmoid', which may not be"),
    ],
    ids=["linear", "kernel", "indefinite"],
)
def test_what_fista_is_not_for_is_refused(model, what):
    model = clone(model).set_params(solver="fista")
    for estimator in (model, GradientSearchCV(model)):
        with pytest.raises(ValueError, match=what):
            estimator.fit(*make_data(2))


def test_features_of_any_size_are_trained_or_the_user_is_told(monkeypatch):
    X, y = make_data(2, n=60)
    for scale in (1e-3, 1e3):
        model = LinearClassifier(1.0 / scale, loss="smooth_hinge", solver="fista")
        assert np.isfinite(model.fit(scale * X, y).coef_).all()
    monkeypatch.setattr("hypermargin.problems.linear.train.MOST_FISTA", 3)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        LinearClassifier(loss="smooth_hinge", solver="fista").fit(X, y)


def test_training_ends_with_the_time(monkeypatch):
    monkeypatch.setattr(Budget, "expired", lambda self: True)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        LinearClassifier(loss="smooth_hinge", solver="fista").fit(*make_data(2))
