"""The run of a search: evaluations, seeds, processes, output, looks at part of the rows."""

import numpy as np
import pytest
from helpers import C_GAMMA, CASES, TIMES, quick, svc
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupKFold

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


# Evaluations
# -----------


@pytest.mark.parametrize("max_evals", [1, 2, 5])
def test_evaluations_stay_within_the_budget(case, max_evals):
    estimator, space, X, y = case
    search = quick(estimator, space, max_evals=max_evals).fit(X, y)
    assert 1 <= len(search.cv_results_["params"]) <= max_evals
    assert np.isfinite(search.best_score_)


def test_more_evaluations_are_never_worse(case):
    estimator, space, X, y = case
    few = quick(estimator, space, max_evals=2).fit(X, y)
    many = quick(estimator, space, max_evals=12).fit(X, y)
    assert many.cv_results_["objective"].min() <= few.cv_results_["objective"].min() + 1e-9


# Seeds, processes, output
# ------------------------


@pytest.mark.parametrize("case_name", list(CASES))
def test_the_same_seed_gives_the_same_search(request, case_name):
    estimator, space, data = CASES[case_name]
    X, y = request.getfixturevalue(data)
    one, two = (quick(estimator, space, random_state=3).fit(X, y) for _ in range(2))
    assert one.best_params_ == two.best_params_
    assert one.cv_results_["params"] == two.cv_results_["params"]
    for key in one.cv_results_:
        if key not in TIMES | {"params"}:
            assert_array_equal(one.cv_results_[key], two.cv_results_[key], err_msg=key)


def test_a_random_state_object_is_taken(binary):
    for state in (np.random.RandomState(0), None):
        search = quick(svc(), C_GAMMA, random_state=state, max_evals=2).fit(*binary)
        assert search.best_score_ > 0.5


def test_two_processes_give_what_one_gives(binary):
    X, y = binary
    one = quick(svc(), C_GAMMA, n_jobs=1).fit(X, y)
    two = quick(svc(), C_GAMMA, n_jobs=2).fit(X, y)
    assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert_allclose(one.cv_results_["param_C"].data, two.cv_results_["param_C"].data, rtol=1e-6)


def test_verbose_tells_and_silence_is_the_default(binary, capsys):
    quick(svc(), C_GAMMA, max_evals=2).fit(*binary)
    assert capsys.readouterr().out == ""
    quick(svc(), C_GAMMA, max_evals=2, verbose=3).fit(*binary)
    told = capsys.readouterr()
    assert told.out + told.err


# Enough rows for cheap looks at some of them
# -------------------------------------------


@pytest.mark.parametrize("kind", ["svc", "pipeline"])
def test_looks_at_part_of_the_rows_are_told_but_not_tabled(
    many_rows, kind, grid_over_same_points, assert_same_scores
):
    X, y = many_rows
    estimator, space, _ = CASES[kind]
    search = quick(estimator, space, max_evals=2).fit(X, y)
    sizes = [look["n_samples"] for look in search.history_]
    assert min(sizes) < 1000
    assert sizes.count(1000) == len(search.cv_results_["params"]) <= 2
    assert_array_equal(search.cv_results_["n_samples"], 1000)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=2 / 333)


def test_looks_respect_weights_and_groups(many_rows, grid_over_same_points, assert_same_scores):
    X, y = many_rows
    fit_params = {"groups": np.arange(1000) // 10, "sample_weight": np.arange(1000) % 3}
    search = quick(svc(), C_GAMMA, cv=GroupKFold(3), max_evals=2).fit(X, y, **fit_params)
    grid = grid_over_same_points(search, X, y, **fit_params)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=0.02)


def test_looks_are_drawn_by_the_seed(many_rows):
    X, y = many_rows
    one, two = (quick(svc(), C_GAMMA, max_evals=2, random_state=4).fit(X, y) for _ in range(2))
    assert [h["params"] for h in one.history_] == [h["params"] for h in two.history_]
    assert [h["objective"] for h in one.history_] == [h["objective"] for h in two.history_]


def test_looks_meet_a_rare_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = (rng.permutation(4000) < 60).astype(int)
    X[y == 1] += 1.5
    search = quick(svc(), C_GAMMA, scoring="roc_auc", max_evals=2).fit(X, y)
    sizes = {record["n_samples"] for record in search.history_}
    assert min(sizes) * y.mean() > 20
    assert min(sizes) <= 2000
