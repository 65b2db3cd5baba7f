"""Spaces: ranges, lists, branches, and what is searched when none is given."""

import numpy as np
import pytest
from helpers import quick, ridge, svc, svr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import loguniform, uniform
from sklearn.base import is_classifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin import GradientSearchCV

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


# Lists
# -----


@pytest.mark.parametrize(
    "values",
    [[0.1, 1.0, 10.0], np.array([0.1, 1.0, 10.0]), [0.1], [1, 10]],
    ids=["list", "array", "one value", "integers"],
)
def test_lists_of_values_give_the_table_of_grid_search(binary, values):
    X, y = binary
    space = {"C": values, "kernel": ["rbf", "linear"], "gamma": [0.1]}
    search = quick(SVC(), space, max_evals=100).fit(X, y)
    grid = GridSearchCV(SVC(), space, cv=3).fit(X, y)

    def key(row):
        return (row["C"], row["kernel"])

    mine = dict(zip(map(key, search.cv_results_["params"]), search.cv_results_["mean_test_score"]))
    theirs = dict(zip(map(key, grid.cv_results_["params"]), grid.cv_results_["mean_test_score"]))
    assert set(mine) == set(theirs)
    assert len(search.cv_results_["params"]) == len(theirs)
    assert_allclose([mine[k] for k in theirs], list(theirs.values()), atol=1 / 80 + 1e-9)
    assert search.best_score_ == pytest.approx(grid.best_score_, abs=1 / 80 + 1e-9)


def test_every_listed_value_is_tried(binary):
    space = {"kernel": ["rbf", "linear", "poly"], "C": (1e-1, 1e1)}
    search = quick(svc(), space, max_evals=4).fit(*binary)
    tried = list(search.cv_results_["param_kernel"])
    assert set(tried) == {"rbf", "linear", "poly"}
    assert max(tried.count(kernel) for kernel in set(tried)) <= 4


def test_kernels_of_the_ridge_may_be_listed(regression):
    space = {"kernel": ["rbf", "polynomial", "linear"], "alpha": (1e-2, 1e1)}
    search = quick(KernelRidge(), space, max_evals=4).fit(*regression)
    assert set(search.cv_results_["param_kernel"]) == {"rbf", "polynomial", "linear"}
    assert search.best_params_["kernel"] != "linear"


def test_an_empty_space_scores_the_estimator_as_it_is(binary):
    X, y = binary
    search = quick(svc(), {}).fit(X, y)
    assert search.best_params_ == {}
    assert search.best_score_ == pytest.approx(cross_val_score(svc(), X, y, cv=3).mean(), abs=0.02)


def test_a_space_of_one_point_refits_that_point(binary):
    X, y = binary
    space = {"C": [2.0], "kernel": ["rbf"], "gamma": [0.1]}
    search = quick(SVC(gamma="auto"), space).fit(X, y)
    assert search.best_params_ == {"C": 2.0, "kernel": "rbf", "gamma": 0.1}
    assert_array_equal(
        search.best_estimator_.dual_coef_, SVC(C=2.0, gamma=0.1).fit(X, y).dual_coef_
    )


# Ranges
# ------


@pytest.mark.parametrize(
    "ranges, low, high",
    [
        ((1e-1, 1e1), 1e-1, 1e1),
        ((1e-1, 1e1, "log"), 1e-1, 1e1),
        ((0.5, 4.0, "linear"), 0.5, 4.0),
        (loguniform(1e-1, 1e1), 1e-1, 1e1),
        (uniform(0.5, 3.5), 0.5, 4.0),
        ((1, 10), 1, 10),
    ],
    ids=["pair", "log", "linear", "loguniform", "uniform", "integers"],
)
def test_a_range_may_be_written_in_every_documented_way(binary, ranges, low, high):
    search = quick(svc(), {"C": ranges, "gamma": [0.1]}).fit(*binary)
    visited = np.asarray(search.cv_results_["param_C"], dtype=float)
    assert np.all((visited >= low * (1 - 1e-9)) & (visited <= high * (1 + 1e-9)))


def test_bounds_hold_for_every_visited_point(case):
    estimator, _, X, y = case
    name = {"KernelRidge": "alpha", "Pipeline": "svc__C"}.get(type(estimator).__name__, "C")
    search = quick(estimator, {name: (0.9, 1.1)}, max_evals=10).fit(X, y)
    visited = [look["params"][name] for look in search.history_]
    assert min(visited) >= 0.9 * (1 - 1e-9)
    assert max(visited) <= 1.1 * (1 + 1e-9)


def test_offset_of_the_polynomial_kernel_may_be_negative(regression):
    space = {"alpha": (1e-2, 1e1), "coef0": (-1.0, 1.0, "linear"), "gamma": [0.5]}
    search = quick(ridge(kernel="poly", degree=2), space).fit(*regression)
    assert np.isfinite(search.best_score_)


def test_width_of_the_tube_may_be_zero(regression):
    search = quick(svr(), {"C": (0.1, 10.0), "epsilon": (0.0, 1.0, "linear")}).fit(*regression)
    assert np.isfinite(search.best_score_)


def test_scores_do_not_depend_on_the_order_of_the_names(binary):
    X, y = binary
    one = quick(svc(), {"C": (1e-2, 1e2), "gamma": (1e-2, 1e1)}).fit(X, y)
    two = quick(svc(), {"gamma": (1e-2, 1e1), "C": (1e-2, 1e2)}).fit(X, y)
    assert one.best_score_ == pytest.approx(two.best_score_, abs=0.03)


# No space
# --------


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e-2])
@pytest.mark.parametrize(
    "estimator, data",
    [
        (SVC(), "binary"),
        (SVC(), "three_classes"),
        (SVC(kernel="linear"), "binary"),
        (SVC(kernel="poly"), "binary"),
        (SVR(), "regression"),
        (KernelRidge(kernel="rbf"), "regression"),
        (make_pipeline(StandardScaler(), SVC()), "binary"),
    ],
    ids=["svc", "svc-three", "svc-linear", "svc-poly", "svr", "ridge", "pipeline"],
)
def test_without_a_space_the_result_is_no_worse_than_the_defaults(request, estimator, data, scale):
    X, y = request.getfixturevalue(data)
    X = X * scale
    search = GradientSearchCV(estimator, cv=3, random_state=0, max_evals=15).fit(X, y)
    slack = 3.01 / len(X) if is_classifier(estimator) else 0.01  # three rows of noise
    assert search.best_score_ >= cross_val_score(estimator, X, y, cv=3).mean() - slack


@pytest.mark.parametrize("scale, shift", [(1e4, 0.0), (1e-4, 0.0), (1.0, 1e2)])
@pytest.mark.parametrize("estimator", [SVR(), KernelRidge(kernel="rbf")], ids=["svr", "ridge"])
def test_without_a_space_the_unit_of_the_target_does_not_matter(
    regression, estimator, scale, shift
):
    X, y = regression
    search = quick(estimator, max_evals=20).fit(X, y * scale + shift)
    assert search.best_score_ > 0.8


def test_without_a_space_every_continuous_hyperparameter_is_tuned(case):
    estimator, space, X, y = case
    assert set(quick(estimator).fit(X, y).best_params_) == set(space)
