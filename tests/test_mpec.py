"""Successive linear programmes of the bilevel problem: gaps, and where they end."""

import numpy as np
import pytest
from helpers import make_data
from scipy.optimize import LinearConstraint
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit
from sklearn.svm import SVR, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, LinearRegressor
from hypermargin.methods import Method, Mpec, interior
from hypermargin.methods.interior import relaxed
from hypermargin.methods.mpec import Programme

SPACE = {"C": (1e-3, 1e1), "epsilon": (1e-2, 1.0)}


def search_by(method, X, y, **options):
    options = {"cv": 3, "random_state": 0, "scoring": "neg_mean_absolute_error", **options}
    return GradientSearchCV(LinearSVR(), SPACE, method=method, **options).fit(X, y)


class Asked(Method):
    """Keeps a programme and the point of trained machines."""

    box = None

    def search(self, objective):
        self.programme = Programme(objective, self.box)
        theta = objective.space.theta({"C": 0.3, "epsilon": 0.2})
        visit = self.programme.level.visit(theta, 1e-8, {}, None)
        self.point = self.programme.start(visit.params, visit.evaluation.state)


def test_trained_machines_are_feasible_and_have_no_gap():
    asked = Asked()
    search = search_by(asked, *make_data(0))
    programme, v = asked.programme, asked.point
    assert np.abs(programme.equal @ v).max() < 1e-9
    assert (programme.less @ v - programme.right).max() < 1e-9
    assert 0.0 <= programme.gap(v) < 1e-4 * programme.worth(v)
    np.testing.assert_allclose(programme.errors @ v, -search.best_score_, rtol=1e-4)


def test_the_gradient_of_the_gap():
    asked = Asked()
    search_by(asked, *make_data(0, n=20))
    programme, rng = asked.programme, np.random.default_rng(0)
    v, d = rng.uniform(size=(2, programme.size))
    slope = (programme.gap(v + 1e-5 * d) - programme.gap(v - 1e-5 * d)) / 2e-5
    assert programme.slope(v) @ d == pytest.approx(slope, rel=1e-6)
    moved = programme.gap(v) + programme.slope(v) @ d + programme.bend(d)
    assert programme.gap(v + d) == pytest.approx(moved)


@pytest.mark.parametrize("solver", ["slams", "ez-slams", "ipopt"])
@pytest.mark.filterwarnings("ignore:The best")
def test_it_ends_near_the_best_point_of_a_dense_grid(solver):
    if solver == "ipopt":
        pytest.importorskip("casadi")
    for n, d, seed in [(60, 4, 0), (60, 10, 1), (50, 20, 2), (40, 3, 3)]:
        X, y = make_data(0, n=n, d=d, seed=seed)
        ours = search_by(Mpec(solver), X, y, max_evals=20)
        grid = search_by("grid", X, y, max_evals=64)
        assert -ours.best_score_ <= -1.02 * grid.best_score_, (n, d)


@pytest.mark.parametrize(
    ("estimator", "told", "n"),
    [
        (SVR(), "linear models", 60),
        (LinearSVC(), "linear models", 60),
        (LinearSVR(loss="squared_epsilon_insensitive"), "linear models", 60),
        (LinearRegressor(), "C and epsilon", 60),
        (LinearSVR(), "500 rows at most", 501),
    ],
)
def test_what_it_is_not_for(estimator, told, n):
    X, y = make_data(2 if isinstance(estimator, LinearSVC) else 0, n=n)
    groups = {"cost_groups": np.arange(n) % 2} if "C and" in told else {}
    space = {"C": None, "group_cost": None} if groups else None
    with pytest.raises(ValueError, match=f"^method='mpec' is for {told}"):
        GradientSearchCV(estimator, space, method="mpec").fit(X, y, **groups)


def test_a_method_is_named_with_its_arguments():
    X, y = make_data(0, n=201)
    with pytest.raises(ValueError, match=r"^method=Mpec\(solver='ipopt', box=2\) is for 200 rows"):
        search_by(Mpec("ipopt", box=2), X, y)


def test_folds_that_are_too_many_are_refused():
    X, y = make_data(0, n=80)
    with pytest.raises(ValueError, match=r"^method='mpec' is for 500 rows in 10 folds at most"):
        search_by("mpec", X, y, cv=80, scoring="neg_mean_absolute_error")


@pytest.mark.filterwarnings("ignore:The best")
def test_the_time_ends_a_programme():
    X, y = make_data(0, n=300, d=10)
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        search = search_by("mpec", X, y, time_budget=0.7)
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("given", [{"solver": "x"}, {"box": -1.0}, {"box": "1"}])
def test_wrong_arguments_are_named(given):
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=f"^{name}={value!r} must be"):
        Mpec(**given)


def test_without_casadi_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(interior.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs casadi.*pip install 'hypermargin\[mpec\]'\.$"):
        search_by(Mpec("ipopt"), *make_data(0))


@pytest.mark.parametrize("solver", ["slams", "ipopt"])
def test_weights_stay_in_their_box(solver):
    if solver == "ipopt":
        pytest.importorskip("casadi")
    asked = Asked()
    asked.box = 0.3
    search_by(asked, *make_data(0, n=40, d=3))
    programme, v = asked.programme, asked.point
    if solver == "ipopt":
        found = relaxed(programme)(v, 0.1 * programme.worths(v))
    else:
        found = programme.best_vertex(programme.errors)
    weights = np.concatenate([found[places[0][:-1]] for places in programme.places])
    started = np.concatenate([v[places[0][:-1]] for places in programme.places])
    assert np.abs(weights).max() <= 0.3 < np.abs(started).max()


def test_the_time_ends_an_interior_point_method():
    pytest.importorskip("casadi")
    X, y = make_data(0, n=200, d=10)
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        search = search_by(Mpec("ipopt"), X, y, time_budget=1.0)
    assert np.isfinite(search.best_score_)


def test_an_interior_point_method_meets_constraints():
    pytest.importorskip("casadi")
    given = {("C", "epsilon"): LinearConstraint([1.0, 1.0], ub=0.1)}
    search = search_by(Mpec("ipopt"), *make_data(0, n=40, d=3), constraints=given)
    at = [record["params"] for record in search.history_]
    assert max(one["C"] + one["epsilon"] for one in at) <= 0.1


def test_errors_of_rows_without_weight_do_not_count():
    X, y = make_data(0, n=30)
    X_more, y_more = np.vstack([X, 5.0 * X[:9]]), np.r_[y, -50.0 * y[:9]]
    weight, fold = np.r_[np.ones(30), np.zeros(9)], np.arange(39) % 3
    alone, beside = Asked(), Asked()
    search_by(alone, X, y, cv=PredefinedSplit(fold[:30]))
    search = GradientSearchCV(
        LinearSVR(), SPACE, method=beside, cv=PredefinedSplit(fold), random_state=0
    )
    search.fit(X_more, y_more, sample_weight=weight)
    np.testing.assert_allclose(
        beside.programme.errors @ beside.point, alone.programme.errors @ alone.point, rtol=1e-4
    )
