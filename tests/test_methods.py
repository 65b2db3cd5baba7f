"""What every method must do, listed or from outside, and what is recorded on the way."""

import json

import numpy as np
import pytest
from helpers import make_data
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV
from hypermargin.methods import METHODS, Method
from hypermargin.search.records import Record, Selection, comparable

RANGES = {"C": (1e-2, 1e2)}
LOSSES = {"sgd-dcd": "hinge", "bilevel-sgd": "hinge"}  # of methods that are for no other


@pytest.fixture(params=[*METHODS, type(METHODS["dice"])()], ids=[*METHODS, "not listed"])
def method(request):
    return request.param


def searched(method, estimator=None, **options):
    X, y = make_data(0 if method == "mpec" else 2, n=80)
    options = {"max_evals": 6, "random_state": 0, "cv": 3, **options}
    if estimator is None:
        classifier = LinearSVC(loss=LOSSES.get(method, "squared_hinge"))
        estimator = LinearSVR() if method == "mpec" else classifier
    search = GradientSearchCV(estimator, RANGES, method=method, **options)
    return search.fit(X, y)


def test_methods_evaluate_inside_the_space_and_no_more_than_they_may(method):
    search = searched(method)
    on_all = [r for r in search.history_ if r["n_samples"] == 80 and not np.isnan(r["score"])]
    assert 1 <= len(on_all) <= 6
    costs = [record["params"]["C"] for record in search.history_]
    assert min(costs) >= 1e-2 and max(costs) <= 1e2
    assert search.best_score_ == max(record["score"] for record in on_all)
    assert search.best_params_ in [record["params"] for record in on_all]


def test_methods_end_with_the_time(method):
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        search = searched(method, time_budget=1e-6)
    assert np.isfinite(search.best_score_)


def test_methods_find_the_same_twice(method):
    assert searched(method).best_params_ == searched(method).best_params_


def test_a_search_with_a_method_can_be_cloned(method):
    search = clone(GradientSearchCV(SVC(), method=method))
    found = search.get_params()["method"]
    assert found == method if isinstance(method, str) else type(found) is type(method)


def test_a_method_says_in_one_sentence_what_it_is_not_for():
    class OnlyLinear(Method):
        def obstacle(self, model, ranges, targets):
            return None if model.adapter.linear else "is for linear models; use SVC's friends"

        search = type(METHODS["dice"]).search

    assert searched(OnlyLinear()).best_score_ > 0.5
    with pytest.raises(ValueError, match=r"^method=.* is for linear models; use SVC's friends\.$"):
        searched(OnlyLinear(), SVC())
    for name in ("curve", "path"):
        with pytest.raises(ValueError, match=f"^method='{name}' is for linear models"):
            searched(name, SVC())


def test_what_is_no_method_is_refused():
    with pytest.raises(ValueError, match="The 'method' parameter"):
        searched(print)


@pytest.mark.parametrize("point", [np.zeros(3), 0.0, [[0.0]]])
def test_a_method_that_asks_for_no_point_of_the_space_is_told_so(point):
    class Wrong(Method):
        def search(self, objective):
            objective(point)

    with pytest.raises(ValueError, match="the space has 1 coordinates"):
        searched(Wrong())


def test_a_method_that_evaluates_nothing_is_told_so():
    class Idle(Method):
        def search(self, objective):
            return None

    with pytest.raises(ValueError, match="has evaluated no point"):
        searched(Idle())


# --- records


def record(**changes):
    values = {
        "combination": 1, "theta": np.array([0.25, -3.0]), "objective": 0.125,
        "gradient": np.array([0.1, np.inf]), "gradient_norm": np.nan, "n_samples": 80,
        "seconds": 0.5, "tol": 1e-3, "look": False, "final": True, "score": np.float64(0.75),
        "folds": [{"test_scores": {"f1": np.nan, "r2": 0.1 + 0.2}, "fit_error": None}],
    }  # fmt: skip
    return Record(**{**values, **changes})


def test_records_are_lines_of_strict_json():
    line = record(fault="failed", error="two\nlines").to_json()
    assert "\n" not in line and "NaN" not in line and "Infinity" not in line
    json.loads(line, parse_constant=pytest.fail)
    again = Record.from_json(line)
    assert again.to_json() == line
    np.testing.assert_array_equal(again.theta, [0.25, -3.0])
    np.testing.assert_array_equal(again.gradient, [0.1, np.inf])
    assert np.isnan(again.gradient_norm)
    assert again.folds[0]["test_scores"]["r2"] == 0.1 + 0.2
    assert (again.fault, again.error, again.score) == ("failed", "two\nlines", 0.75)
    assert Record.from_json(record(gradient=None).to_json()).gradient is None


def test_only_evaluations_on_the_most_rows_are_compared():
    few, many, look = record(n_samples=40), record(), record(look=True)
    failed = record(objective=np.nan)
    assert comparable([few, look, many, failed]) == [many, failed]
    assert comparable([few, look]) == [few]
    assert comparable([look, record(look=True, n_samples=40)]) == [look]


def test_the_best_has_the_best_score_then_the_least_loss():
    scores, losses = [0.5, 0.7, 0.7, np.nan], [0.1, 0.3, 0.2, 0.0]
    assert Selection().best(scores, losses) == 2
    assert Selection(first=True).best(scores, losses) == 1
    assert Selection(by_loss=True).best(scores, losses) == 3
