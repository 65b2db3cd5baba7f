"""Grids and random points: which are evaluated, in which order, and what is chosen."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.datasets import load_diabetes, load_iris, load_wine, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.methods import Grid

SPACE = {"C": (1e-2, 1e2), "gamma": (1e-2, 1.0)}


def searched(method, space=None, estimator=None, **options):
    X, y = make_data(2, n=80)
    options = {"max_evals": 16, "random_state": 0, "cv": 3, **options}
    return GradientSearchCV(estimator or SVC(), space or SPACE, method=method, **options).fit(X, y)


def visited(search, *names):
    return np.log([[r["params"][name] for name in names] for r in search.history_])


@pytest.mark.parametrize(("most", "counts"), [(225, (15, 15)), (16, (4, 4)), (50, (7, 7))])
def test_a_grid_has_as_many_points_as_it_may(most, counts):
    found = visited(searched("grid", max_evals=most), "C", "gamma")
    assert len(found) == np.prod(counts)
    for column, n, name in zip(found.T, counts, SPACE, strict=True):
        np.testing.assert_allclose(
            np.unique(column.round(9)), np.linspace(*np.log(SPACE[name]), n), atol=1e-8
        )


@pytest.mark.parametrize("names", [("C", "gamma"), ("gamma", "C")])
def test_costs_grow_while_the_kernel_stays(names):
    found = visited(searched("grid", {name: SPACE[name] for name in names}), "C", "gamma")
    lines = found.reshape(4, 4, 2)
    assert (np.diff(lines[:, :, 0]) > 0).all()
    np.testing.assert_allclose(np.ptp(lines[:, :, 1], axis=1), 0.0, atol=1e-12)


def test_the_lines_of_three_ranges_follow_each_other():
    space = {**SPACE, "coef0": (0.0, 2.0)}
    search = searched("grid", space, SVC(kernel="poly", degree=2), max_evals=27)
    others = np.column_stack(
        [visited(search, "gamma"), [r["params"]["coef0"] for r in search.history_]]
    )[::3]
    assert ((np.abs(np.diff(others, axis=0)) > 1e-9).sum(axis=1) == 1).all()


def test_a_grid_finds_what_scikit_learn_finds():
    search = searched("grid", max_evals=25)
    X, y = make_data(2, n=80)
    axes = {name: np.unique(np.exp(visited(search, name)).round(12)) for name in SPACE}
    theirs = GridSearchCV(SVC(), axes, cv=3).fit(X, y)
    assert search.best_score_ == pytest.approx(theirs.best_score_)
    assert all(record["gradient"] is None for record in search.history_)
    assert len(search.cv_results_["params"]) == 25


def test_a_grid_with_as_many_points_as_are_asked_for():
    found = visited(searched(Grid(points=3)), "C", "gamma")
    assert len(found) == 9
    with pytest.raises(ValueError, match="has 49 points in 2 coordinates, but max_evals=16; give"):
        searched(Grid(points=7))
    with pytest.raises(ValueError, match="points=0 must be a whole number"):
        Grid(points=0)


@pytest.mark.parametrize("method", ["grid", "random"])
def test_widths_of_features_move_together(method):
    search = searched(method, {"C": (0.1, 10.0), "gamma": "per_feature"}, KernelSVC())
    widths = np.array([record["params"]["gamma"] for record in search.history_])
    assert len(widths) == 16 and widths.shape[1] == 4
    np.testing.assert_allclose(
        widths / widths[:, :1], np.broadcast_to(widths[0] / widths[0, 0], widths.shape)
    )
    assert len(np.unique(widths[:, 0])) >= 4


def test_random_points_are_decided_by_the_random_state():
    one, two, other = (searched("random", random_state=seed) for seed in (0, 0, 1))
    points = [visited(search, *SPACE) for search in (one, two, other)]
    np.testing.assert_array_equal(points[0], points[1])
    assert not np.isclose(points[0], points[2]).any()
    assert len(points[0]) == 16


def test_random_points_are_everywhere_before_the_search_ends():
    """Every batch goes over the whole range and is ordered by neighbours."""
    found = visited(searched("random", {"C": SPACE["C"]}, LinearSVC(), max_evals=64), "C").ravel()
    low, high = np.log(SPACE["C"])
    for batch in (found[:8], found[8:16], found[16:32], found[32:]):
        assert 0.2 < np.mean(batch > 0.5 * (low + high)) < 0.8
    jumps = np.abs(np.diff(found[32:]))
    shuffled = np.abs(np.diff(np.random.RandomState(0).permutation(found[32:])))
    assert jumps.sum() < 0.3 * shuffled.sum()


@pytest.mark.parametrize("method", ["grid", "random"])
def test_listed_values_alone_are_evaluated_once_each(method):
    search = searched(method, {"C": [0.1, 1.0, 10.0]})
    assert [p["C"] for p in search.cv_results_["params"]] == [0.1, 1.0, 10.0]


SETS = {
    "iris": (SVC(), load_iris(return_X_y=True)),
    "wine": (SVC(), load_wine(return_X_y=True)),
    "diabetes": (SVR(), [part[::3] for part in load_diabetes(return_X_y=True)]),
    "friedman": (KernelRidge(kernel="rbf"), make_friedman1(120, noise=1.0, random_state=0)),
}


@pytest.mark.parametrize("name", SETS)
def test_as_many_random_points_as_a_dense_grid_has_are_as_good(name):
    """The gradient needs a fifth of them; luck misses the narrow minimum of iris by 2.6 %."""
    estimator, (X, y) = SETS[name]
    least = {}
    for method, most in (("grid", 225), ("random", 225), ("gradient", 45)):
        search = GradientSearchCV(
            estimator, method=method, max_evals=most, cv=3, random_state=0, refit=False
        ).fit(scale(X), y)
        kept = [r for r in search.history_ if np.isfinite(r["score"])]
        least[method] = min(record["objective"] for record in kept)
    assert least["random"] <= (1.03 if name == "iris" else 1.02) * least["grid"]
    assert least["gradient"] <= 1.02 * least["grid"]
