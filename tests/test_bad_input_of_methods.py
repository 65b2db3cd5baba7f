"""What methods are asked for and cannot do: a sentence, or the best point and a warning."""

import re
import warnings

import numpy as np
import pytest
from helpers import make_data
from scipy.optimize import LinearConstraint
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR, LinearClassifier, LinearRegressor
from hypermargin.methods import BilevelSgd, Grid, Mpec, Penalty, SgdDcd

SQUARED = LinearRegressor(loss="squared_epsilon_insensitive")
HINGE = LinearSVC(loss="hinge")
METHODS = ("gradient", "penalty", "grid", "random")


def searched(estimator, space, n_classes=0, fit=None, **options):
    options = {"cv": 3, "max_evals": 8, "random_state": 0, "refit": False, **options}
    X, y = make_data(n_classes, n=60, d=4)
    return GradientSearchCV(estimator, space, **options).fit(X, y, **(fit or {}))


def told(*arguments, **options):
    """Return the warnings of a search."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        searched(*arguments, **options)
    said = [str(one.message) for one in found]
    return [one for one in said if not one.startswith("The best ")]


@pytest.mark.parametrize("method", METHODS)
def test_a_group_without_training_rows_in_a_fold_is_named(method):
    groups = np.repeat(["a", "b", "c"], 20)
    options = {"space": {"C": None, "group_cost": None}, "method": method}
    options["fit"] = {"cost_groups": groups}
    (said,) = told(SQUARED, cv=PredefinedSplit(np.repeat([0, 1, 1], 20)), **options)
    assert said.startswith("Group 'a' of cost_groups has no training row in fold 0, and 2 more")
    assert not told(SQUARED, cv=KFold(3, shuffle=True, random_state=0), **options)


@pytest.mark.parametrize(
    "estimator, method", [*((SQUARED, method) for method in METHODS), (SVR(), "gradient")]
)
def test_tubes_that_hold_all_rows_are_named(estimator, method):
    above = float(np.ptp(make_data(0, n=60, d=4)[1]))
    (said,) = told(estimator, {"C": None, "epsilon": (above, 10.0 * above)}, method=method)
    assert re.match(r"space\['epsilon'\]=\([^)]*\) is too wide a tube for y, .* all rows", said)
    (said,) = told(LinearSVR(epsilon=2.0 * above), {"C": None})
    assert said.startswith("epsilon=")
    assert not told(estimator, {"C": None, "epsilon": (0.1, 10.0 * above)}, method=method)


def test_half_the_range_is_enough_with_a_free_bias_only():
    X, y = make_data(0, n=60, d=4)
    middle = {"epsilon": 0.51 * float(np.ptp(y)), "loss": "squared_epsilon_insensitive"}
    far = y + 100.0 - y.min()
    for estimator, warns in ((SVR(epsilon=middle["epsilon"]), True), (LinearSVR(**middle), False)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            GradientSearchCV(estimator, {"C": (0.1, 1.0)}, cv=3, max_evals=3).fit(X, far)
        assert any("too wide a tube" in str(one.message) for one in found) == warns


@pytest.mark.parametrize(
    "method",
    [
        SgdDcd(step=1e300), SgdDcd(as_printed=True, step=1e9), BilevelSgd(step=1e12),
        BilevelSgd(inner_step=1e6), BilevelSgd(inner_step=1e300),
    ],
)  # fmt: skip
def test_steps_that_are_too_long_end_with_a_point_and_one_warning(method):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message="The best")
        with pytest.warns(ConvergenceWarning, match=r"^The steps of .* shorter steps may") as said:
            search = searched(HINGE, {"C": (1e-4, 1e4)}, 2, method=method)
    assert len([one for one in said if one.category is ConvergenceWarning]) == 1
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("method", ["sgd-dcd", "bilevel-sgd"])
def test_usual_steps_are_not_called_too_long(method):
    assert not told(HINGE, {"C": (1e-4, 1e4)}, 2, method=method)


def test_a_programme_without_a_solution_loses_nothing():
    X, y = make_data(0, n=60, d=4)
    with pytest.warns(ConvergenceWarning, match=r"^A linear programme of method='mpec' could not"):
        search = GradientSearchCV(LinearSVR(), method="mpec", cv=3).fit(X, 1e12 * y)
    assert np.isfinite(search.best_score_)


def test_constraints_say_beside_which_listed_values_a_name_has_no_range():
    constraints = {("C", "gamma"): LinearConstraint([1.0, 1.0], ub=1.0)}
    space = {"kernel": ["rbf", "linear"], "C": None, "gamma": None}
    with pytest.raises(ValueError, match=r"'gamma', which has no range in space with kernel='lin"):
        searched(SVC(), space, 2, constraints=constraints)
    with pytest.raises(ValueError, match=r"^constraints names 'C', which has listed values in sp"):
        searched(SVC(), {"C": [1.0, 2.0], "gamma": None}, 2, constraints=constraints)


@pytest.mark.parametrize(
    "made, name",
    [
        (lambda: SgdDcd(watch=3), "watch=3"),
        (lambda: SgdDcd(step=True), "step=True"),
        (lambda: SgdDcd(iterations=True), "iterations=True"),
        (lambda: SgdDcd(as_printed="no"), "as_printed='no'"),
        (lambda: SgdDcd(rows=0), "rows=0"),
        (lambda: BilevelSgd(inner_step=None), "inner_step=None"),
        (lambda: Grid(points=True), "points=True"),
        (lambda: Penalty(logarithms="no"), "logarithms='no'"),
        (lambda: Mpec(box=np.nan), "box=nan"),
    ],
)
def test_wrong_arguments_of_methods_are_named(made, name):
    with pytest.raises(ValueError, match=f"^{re.escape(name)} must be [^.]*\\.$"):
        made()


@pytest.mark.parametrize("method", ["auto", "penalty", "grid", "sgd-dcd", "mpec"])
@pytest.mark.parametrize(
    "estimator", [LinearRegressor, LinearClassifier, KernelSVC, KernelSVR], ids=lambda e: e.__name__
)
def test_losses_that_do_not_exist_are_named(estimator, method):
    n_classes = 2 if hasattr(estimator, "decision_function") else 0
    for name in ("squered", ["hinge"]):
        with pytest.raises(ValueError, match=r"^loss=.* must be one of \['"):
            searched(estimator(loss=name), None, n_classes, method=method)


def test_ipopt_prints_nothing_where_nothing_is_learnt(capfd):
    pytest.importorskip("casadi")
    above = 10.0 * float(np.ptp(make_data(0, n=60, d=4)[1]))
    space = {"C": None, "epsilon": (above, 10.0 * above)}
    (said,) = told(LinearSVR(), space, method=Mpec("ipopt"))
    assert "too wide a tube" in said
    assert capfd.readouterr() == ("", "")
