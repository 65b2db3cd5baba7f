"""The optimiser of a search: those there are, one from outside, and what it may do."""

from functools import partial

import numpy as np
import pytest
from helpers import make_data
from scipy.optimize import OptimizeResult, minimize
from sklearn.base import clone
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.methods.gradient import Descent, Schedule
from hypermargin.methods.optimisers import OPTIMISERS

SPACE = {"C": (1e-2, 1e3), "gamma": (1e-3, 10.0)}


def searched(optimiser, n=90, estimator=None, space=SPACE, **options):
    estimator = estimator or SVC()
    X, y = make_data(0 if isinstance(estimator, SVR) else 2, n=n)
    search = GradientSearchCV(estimator, space, cv=3, optimiser=optimiser, **options)
    return search.fit(X, y)


def least(search):
    return float(np.nanmin(search.cv_results_["objective"]))


def by_hand(fun, x0, jac, bounds):
    """Steps down the gradient, as anyone would write them first; knows of no bounds."""
    assert jac is True and bounds.shape == (len(x0), 2)
    x, (value, gradient), length = x0, fun(x0), 1.0
    while length > 0.01:
        new = x - length * gradient / max(np.linalg.norm(gradient), 1e-12)
        below, slope = fun(new)
        if below < value:
            x, value, gradient = new, below, slope
        else:
            length *= 0.5
    return OptimizeResult(x=x, fun=value)


OWN = {"minimize": partial(minimize, method="TNC"), "by hand": by_hand}


@pytest.fixture(scope="module")
def usual():
    return least(searched("auto"))


@pytest.mark.parametrize("optimiser", [*OPTIMISERS, *OWN.values()], ids=[*OPTIMISERS, *OWN])
def test_all_optimisers_end_at_about_the_same_loss(optimiser, usual):
    assert least(searched(optimiser, max_evals=200)) == pytest.approx(usual, rel=0.02)


def test_they_do_for_a_regression():
    ends = [least(searched(each, estimator=SVR(), max_evals=200)) for each in ("auto", "lbfgs")]
    assert ends[1] == pytest.approx(ends[0], rel=0.02)


def test_automatic_is_the_model_for_few_hyperparameters():
    assert searched("auto").best_params_ == searched("model").best_params_


def test_the_model_is_not_for_many_widths():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 31)), np.arange(40) % 2
    search = GradientSearchCV(KernelSVC(), {"gamma": "per_feature"}, optimiser="model")
    with pytest.raises(ValueError, match=r"^optimiser='model' is for at most 30 .* use 'lbfgs'\.$"):
        search.fit(X, y)


def test_widths_take_the_optimiser_too():
    asked = []

    def noted(fun, x0, jac, bounds):
        asked.append(len(x0))
        return minimize(fun, x0, jac=jac, bounds=bounds)

    space = {"C": None, "gamma": "always_per_feature"}
    searched(noted, n=60, estimator=KernelSVC(), space=space)
    assert set(asked) == {2, 1 + make_data(2)[0].shape[1]}


def endless(fun, x0, jac, bounds):
    while True:
        fun(x0 + np.random.default_rng(0).normal(size=len(x0)))


def restless(fun, x0, jac, bounds):
    rng = np.random.default_rng(0)
    while True:
        fun(rng.uniform(*bounds.T))


@pytest.mark.parametrize("optimiser", [endless, restless])
@pytest.mark.parametrize("n", [90, 900], ids=["one level", "two levels"])
def test_what_never_stops_is_stopped(optimiser, n):
    search = searched(optimiser, n=n, max_evals=7)
    assert 1 <= len(search.cv_results_["params"]) <= 7
    assert np.isfinite(search.best_score_)


def test_points_outside_of_the_bounds_count_as_the_nearest_inside():
    def far(fun, x0, jac, bounds):
        value, gradient = fun(bounds[:, 1] + 5.0)
        assert value == fun(bounds[:, 1])[0] and not gradient.any()
        gradient += 1.0  # what it does with its gradient is its own affair
        return OptimizeResult(x=x0)

    for record in searched(far).history_:
        assert 1e-2 <= record["params"]["C"] <= 1e3 * (1 + 1e-12)


def test_what_an_optimiser_raises_is_raised():
    def broken(fun, x0, jac, bounds):
        fun(x0)
        raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError, match="of its own"):
        searched(broken)


@pytest.mark.parametrize(
    ("optimiser", "error", "message"),
    [
        ("newton", ValueError, r"^optimiser='newton' must be 'auto', one of \['model', 'lbfgs', "),
        (3, ValueError, "The 'optimiser' parameter"),
        (lambda fun, x0, jac, bounds: x0, TypeError, "returned ndarray; it must return what scipy"),
        (lambda fun, x0, jac, bounds: fun(x0[:1]), ValueError, r"finite and of shape \(2,\)"),
        (lambda fun, x0, jac, bounds: fun(np.nan * x0), ValueError, "has come to the point"),
    ],
)
def test_what_is_no_optimiser_is_told_so(optimiser, error, message):
    with pytest.raises(error, match=message):
        searched(optimiser)


def test_methods_without_an_optimiser_refuse_one():
    X, y = make_data(2)
    for method in ("curve", "path"):
        search = GradientSearchCV(LinearSVC(), method=method, optimiser="lbfgs")
        with pytest.raises(ValueError, match=r"^optimiser='lbfgs' is for method='gradient'; "):
            search.fit(X, y)


def test_an_optimiser_asks_for_a_descent():
    X, y = make_data(2)
    search = GradientSearchCV(LinearSVC(), optimiser="lbfgs", cv=3).fit(X, y)
    assert not hasattr(search, "curve_")
    own = GradientSearchCV(SVC(), method=Descent(Schedule(starts=1)), optimiser=minimize, cv=3)
    assert clone(own).fit(X, y).optimiser is minimize


class Bowl:
    """A function whose gradient is dear, and may be left out."""

    def __init__(self):
        self.values, self.slopes = 0, 0

    def __call__(self, theta):
        return self.unless(theta, lambda value: False)

    def unless(self, theta, enough):
        self.values += 1
        value, gradient = 1.0 + 0.1 * float(theta @ theta), 0.2 * theta
        if enough(value):
            return value, None
        self.slopes += 1
        return value, gradient


@pytest.mark.parametrize("most", [1, 2, None])
def test_the_model_does_not_ask_for_a_gradient_that_it_will_not_use(most):
    bowl, start, box = Bowl(), np.array([1.5, -1.0]), np.array([[-3.0, 3.0]] * 2)
    found = OPTIMISERS["model"](bowl, start, box, 1e-3, None, most)
    plain = OPTIMISERS["model"](lambda theta: Bowl()(theta), start, box, 1e-3, None, most)
    np.testing.assert_allclose(found.theta, plain.theta, atol=1e-12)
    assert found.value == pytest.approx(plain.value)
    assert bowl.slopes == bowl.values - (most == 2)


def test_with_many_rows_the_last_point_has_a_score_but_no_gradient(tmp_path):
    X, y = make_data(2, n=300)
    many = Descent(Schedule(look_rows=30, few_rows=60, dear=200))
    search = GradientSearchCV(
        SVC(), SPACE, cv=3, method=many, checkpoint=tmp_path / "kept", random_state=0
    )
    first = clone(search).fit(X, y)
    on_all = [row for row in first.history_ if row["n_samples"] == 300]
    assert [row["gradient"] is None for row in on_all].count(True) == 1
    assert all(np.isfinite(row["score"]) and not row["look"] for row in on_all)
    again = clone(search).fit(X, y)  # from the checkpoint
    assert again.best_params_ == first.best_params_
