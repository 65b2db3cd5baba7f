"""Linear constraints on hyperparameters: every method honours them or says that it does not."""

from functools import partial

import numpy as np
import pytest
from helpers import make_data
from scipy.optimize import LinearConstraint, minimize
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, KernelSVC, LinearRegressor
from hypermargin._core.constraints import constrained
from hypermargin._core.space import Dimension, Hyperparameter, Space
from hypermargin.methods import METHODS, Penalty

SPACE = {"C": (1e-2, 1e2), "epsilon": (1e-2, 1.0)}
SQUARED = LinearSVR(loss="squared_epsilon_insensitive")
TIGHT = {("C", "epsilon"): LinearConstraint([1.0, 10.0], ub=2.0)}


def searched(method, constraints, estimator=SQUARED, space=SPACE, n=80, fit=None, **options):
    X, y = make_data(0, n=n)
    options = {"cv": 3, "random_state": 0, "scoring": "neg_mean_squared_error", **options}
    search = GradientSearchCV(estimator, space, method=method, constraints=constraints, **options)
    return search.fit(X, y, **(fit or {}))


def visited(search):
    return [record["params"] for record in search.history_]


def least(search):
    return float(np.nanmin(search.cv_results_["objective"]))


LINEAR_PENALTY = pytest.param(Penalty(logarithms=False), id="penalty without logarithms")


@pytest.mark.filterwarnings("ignore:The best")
@pytest.mark.parametrize(
    "method",
    ["gradient", "auto", "grid", "random", "penalty", LINEAR_PENALTY, "mpec"],
)
def test_every_point_meets_the_constraints(method):
    estimator = LinearSVR() if method == "mpec" else SQUARED
    search = searched(method, TIGHT, estimator)
    values = [at["C"] + 10.0 * at["epsilon"] for at in visited(search)]
    assert len(values) >= 3 and max(values) <= 2.0 + 1e-9


@pytest.mark.filterwarnings("ignore:The best")
@pytest.mark.parametrize("method", ["gradient", "penalty", LINEAR_PENALTY])
@pytest.mark.parametrize(
    "constraints",
    [
        {("C", "epsilon"): LinearConstraint([1.0, 5.0], lb=6.0)},
        {("C", "epsilon"): LinearConstraint([[1.0, -1.0]], ub=-0.9)},
        {("log C", "log epsilon"): LinearConstraint([1.0, 2.0], lb=np.log(2.0))},
    ],
    ids=["above", "differences", "logarithms"],
)
def test_the_end_is_as_good_as_the_best_of_a_grid_that_meets_them(method, constraints):
    ours = searched(method, constraints)
    grid = searched("grid", constraints, max_evals=400)
    free = searched("gradient", None)
    assert least(ours) <= 1.005 * least(grid)
    assert least(free) < 0.99 * least(ours)  # the constraints hold it back


def test_constraints_that_do_not_bind_change_nothing_but_the_way():
    wide = {"C": LinearConstraint([1.0], 0.0, 1e6)}
    free, held = searched("gradient", None), searched("gradient", wide)
    assert least(held) == pytest.approx(least(free), rel=1e-2)


def test_constraints_without_names_are_of_all_columns_in_the_order_of_the_space():
    given = [LinearConstraint([1.0, 10.0], ub=2.0), LinearConstraint([0.0, 1.0], lb=0.05)]
    at = searched("gradient", given).best_params_
    assert at["C"] + 10.0 * at["epsilon"] <= 2.0 and at["epsilon"] >= 0.05


@pytest.mark.filterwarnings("ignore:The best")
def test_equalities_and_a_linear_scale():
    space = {"C": (1e-2, 1e2), "epsilon": (0.0, 1.0, "linear")}
    given = {("C", "epsilon"): LinearConstraint([1.0, -2.0], 0.5, 0.5)}
    for method in ("gradient", "random", "penalty"):
        search = searched(method, given, space=space, max_evals=12)
        assert [at["C"] - 2 * at["epsilon"] for at in visited(search)] == pytest.approx(
            [0.5] * len(search.history_), abs=1e-5
        )


@pytest.mark.filterwarnings("ignore:The best")
def test_entries_of_groups_by_name():
    space = {"C": (1e-2, 1e2), "group_cost": {"a": (0.1, 10.0), "b": (0.1, 10.0)}}
    given = {
        ("group_cost['a']", "group_cost['b']"): LinearConstraint([1.0, -1.0], lb=0.5),
        "group_cost": LinearConstraint([1.0, 1.0], ub=4.0),
    }
    model = LinearRegressor(loss="squared_epsilon_insensitive")
    groups = {"cost_groups": np.array(["a", "b", "c", "d"])[np.arange(80) % 4]}
    at = searched("gradient", given, model, space, fit=groups).best_params_["group_cost"]
    assert at["a"] >= at["b"] + 0.5 and at["a"] + at["b"] <= 4.0
    assert at["c"] == at["d"] == 1.0


def test_kernels_in_a_pipeline_and_rows_in_several_levels():
    X, y = make_data(2, n=900)
    model = make_pipeline(StandardScaler(), SVC())
    given = {("log svc__C", "log svc__gamma"): LinearConstraint([1.0, 1.0], ub=np.log(0.05))}
    search = GradientSearchCV(model, constraints=given, cv=3, random_state=0).fit(X, y)
    assert len({record["n_samples"] for record in search.history_}) > 1
    assert max(at["svc__C"] * at["svc__gamma"] for at in visited(search)) <= 0.05 * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore:The best")
@pytest.mark.parametrize("name", ["SLSQP", "trust-constr"])
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")
def test_optimisers_from_outside_are_given_the_constraints(name):
    optimiser = partial(minimize, method=name, options={"maxiter": 30})
    search = searched("gradient", TIGHT, optimiser=optimiser)
    assert max(at["C"] + 10.0 * at["epsilon"] for at in visited(search)) <= 2.0
    assert least(search) <= 1.01 * least(searched("gradient", TIGHT))


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if not m.constrained])
def test_other_methods_refuse_them_in_one_sentence(name):
    X, y = make_data(2)
    hinge = LinearSVC(loss="hinge")
    given = {"C": LinearConstraint([1.0], ub=1.0)}
    search = GradientSearchCV(hinge, {"C": (0.1, 10.0)}, method=name, constraints=given, cv=3)
    with pytest.raises(ValueError, match=rf"^method='{name}' takes no constraints; use [^.]*\.$"):
        search.fit(X, y)


@pytest.mark.parametrize("name", ["lbfgs", "bfgs"])
def test_optimisers_that_know_none_are_refused(name):
    with pytest.raises(ValueError, match=f"^optimiser='{name}' knows no constraints"):
        searched("gradient", TIGHT, optimiser=name)


def test_hyperparameters_that_are_too_many_for_them_are_refused():
    model, groups = LinearRegressor(loss="squared_epsilon_insensitive"), np.arange(80) % 31
    given = {"group_cost": LinearConstraint(np.ones(31), ub=31.0)}
    with pytest.raises(ValueError, match="are for at most 30 hyperparameters, the space has 31"):
        searched("gradient", given, model, {"group_cost": None}, fit={"cost_groups": groups})


@pytest.mark.parametrize(
    "given",
    [
        {("C", "epsilon"): LinearConstraint([1.0, 1.0], lb=200.0)},
        {("C", "epsilon"): [LinearConstraint([1, 0], ub=1.0), LinearConstraint([1, 0], lb=2.0)]},
        {("log C", "log epsilon"): LinearConstraint([1.0, 1.0], ub=-50.0)},
        {("log C", "epsilon"): LinearConstraint([1.0, 1.0], ub=-50.0)},
    ],
)
def test_constraints_that_cannot_be_met_are_refused_before_the_search(given):
    with pytest.raises(ValueError, match=r"^constraints cannot be met: .*C in \(0.01, 100\)"):
        searched("gradient", given, verbose=1)


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"gama": LinearConstraint([1.0])}, ValueError, "names 'gama', which has no range"),
        ({"C": 3}, TypeError, "has 3; it must be a scipy.optimize.LinearConstraint"),
        ([(1, 2)], TypeError, r"has \(1, 2\)"),
        ({("C", 1): LinearConstraint([1.0])}, TypeError, r"has the key \('C', 1\)"),
        ({"C": LinearConstraint([1.0, 2.0])}, ValueError, "2 columns, which stand for 1"),
        (LinearConstraint([1.0]), ValueError, "1 columns, which stand for 2 hyperparameters"),
        ({"C": LinearConstraint([np.nan])}, ValueError, "not finite"),
        ({"C": LinearConstraint([1.0], 2.0, 1.0)}, ValueError, "lb is above its ub"),
    ],
)
def test_wrong_constraints_are_named(given, kind, told):
    with pytest.raises(kind, match=f"^constraints {told}|^constraints has .*{told}"):
        searched("gradient", given)


def test_a_grid_without_a_point_that_meets_them_says_so():
    given = {"C": LinearConstraint([1.0], 0.5, 0.5)}
    with pytest.raises(ValueError, match="no point of the grid, 7 x 7, meets the constraints"):
        searched("grid", given)


def test_logarithms_are_not_for_programmes_and_widths_for_no_constraints():
    with pytest.raises(ValueError, match=r"^method='mpec' takes constraints on C and epsilon"):
        searched("mpec", {"log C": LinearConstraint([1.0], ub=1.0)}, LinearSVR())
    X, y = make_data(2)
    search = GradientSearchCV(
        KernelSVC(), {"C": None, "gamma": "per_feature"},
        constraints={"C": LinearConstraint([1.0], ub=1.0)},
    )  # fmt: skip
    with pytest.raises(ValueError, match="constraints are not for searches in which each feature"):
        search.fit(X, y)


@pytest.mark.parametrize("more", [[], [{"alpha": (0.1, 10.0)}]], ids=["alone", "and a range"])
def test_listed_values_have_no_constraints(more):
    given = {"alpha": LinearConstraint([1.0], ub=1.0)}
    with pytest.raises(ValueError, match=r"^constraints are for ranges, and [^.]* listed values"):
        searched("auto", given, Ridge(), [{"alpha": [0.1, 100.0]}, *more])


def test_clones_keep_constraints():
    search = clone(GradientSearchCV(Ridge(), constraints=TIGHT))
    assert search.constraints is not TIGHT and list(search.constraints) == list(TIGHT)


def test_constraints_that_bound_nothing_are_none():
    free = searched("gradient", None).best_params_
    assert searched("gradient", {"C": LinearConstraint([1.0])}).best_params_ == free


@pytest.mark.parametrize("factor", [1e-12, 1e12, 1e300])
def test_units_of_constraints_do_not_matter(factor):
    same = {("C", "epsilon"): LinearConstraint([factor, 10.0 * factor], ub=2.0 * factor)}
    at, wanted = (searched("gradient", given).best_params_ for given in (same, TIGHT))
    assert at == pytest.approx(wanted, rel=1e-6)


def test_the_time_and_kernel_machines():
    given = {("C", "gamma"): LinearConstraint([1.0, 1.0], ub=0.5)}
    with pytest.warns(Warning, match="time_budget"):
        search = searched("gradient", given, SVR(), {"C": None, "gamma": None}, time_budget=1e-6)
    at = search.best_params_
    assert at["C"] + at["gamma"] <= 0.5


def test_slopes_of_constraints_are_those_of_differences():
    hyperparameters = (
        Hyperparameter("a", "a", (Dimension(1e-2, 1e2),)),
        Hyperparameter("b", "b", (Dimension(0.5, 3.0, "linear"),)),
    )
    given = {("a", "log a", "b", "log b"): LinearConstraint([[1, 2, 3, 4], [0, 1, 0, -1]], 0, 9)}
    region = constrained(Space(hyperparameters), given).region
    theta, step = np.array([0.3, 4.0]), 1e-6 * np.eye(2)
    slopes = [(region.rows(theta + h) - region.rows(theta - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(region.slopes(theta), np.transpose(slopes), rtol=1e-6)
    assert region.holds(region.nearest(np.array([4.0, 5.0])))
