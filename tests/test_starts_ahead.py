"""Starts that the workers of joblib descend from: the search itself trains none of that again."""

import threading

import joblib
import numpy as np
import pytest
from helpers import make_data
from sklearn.svm import SVC
from test_apart import told

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.search import ahead, checkpoint

SEARCHES = {
    "few rows": (SVC(), None, 150),
    "more rows": (SVC(), None, 900),
    "widths": (KernelSVC(), {"C": None, "gamma": "per_feature"}, 150),
}


@pytest.fixture
def dear(monkeypatch):
    """Looks that took long enough."""
    monkeypatch.setattr(ahead, "DEAR_LOOK", 0.0)


def search(case, **how):
    estimator, space, n = SEARCHES[case]
    X, y = make_data(2, n=n)
    return GradientSearchCV(estimator, space, cv=3, random_state=0, **how).fit(X, y)


@pytest.fixture
def trained_here(monkeypatch):
    """The gradients that this thread has trained machines for."""
    found, evaluation = [], checkpoint._New.evaluation

    def noted(self, train):
        if threading.current_thread() is threading.main_thread():
            found.append(self._line["at"])
        return evaluation(self, train)

    monkeypatch.setattr(checkpoint._New, "evaluation", noted)
    return found


@pytest.mark.parametrize("case", ["few rows", "more rows"])
def test_what_workers_have_trained_is_not_trained_again(case, dear, trained_here):
    with told("threading"):
        found = search(case)
    first = found.history_[0]["n_samples"]
    rows = "all" if first == 150 else str(first)
    assert any(f"rows {rows}" in at and "gradient False" in at for at in trained_here)  # looks
    assert not any(f"rows {rows}" in at and "gradient True" in at for at in trained_here)
    assert found.best_score_ == pytest.approx(search(case).best_score_, abs=0.02)


@pytest.mark.parametrize("case", SEARCHES)
def test_a_cluster_finds_what_threads_find(case, dear):
    results = []
    for backend in ("threading", "dask"):
        with told(backend):
            results.append(search(case))
    one, other = results
    assert one.best_score_ == other.best_score_
    for name, value in one.best_params_.items():
        np.testing.assert_array_equal(value, other.best_params_[name])
    assert len(one.history_) == len(other.history_)


def test_a_checkpoint_goes_on_with_what_workers_have_trained(dear, tmp_path):
    with told("threading"):
        one = search("few rows", checkpoint=tmp_path / "found")
        again = search("few rows", checkpoint=tmp_path / "found")
    assert one.best_params_ == again.best_params_


@pytest.mark.parametrize(("least", "n_rounds"), [(0.0, 1), (1e3, 0)], ids=["slow", "quick"])
def test_only_slow_looks_are_followed_by_workers(monkeypatch, least, n_rounds):
    parallel, rounds = ahead.Parallel, []

    def noted(*args, **how):
        rounds.append(how)
        return parallel(*args, **how)

    monkeypatch.setattr(ahead, "DEAR_LOOK", least)
    monkeypatch.setattr(ahead, "Parallel", noted)
    with joblib.parallel_config("threading", n_jobs=3):
        search("few rows")
    assert len(rounds) == n_rounds


def test_workers_that_fail_are_told_of_and_done_without(dear, monkeypatch):
    def lost(*args, **how):
        raise RuntimeError("the scheduler is gone")

    monkeypatch.setattr(ahead, "Parallel", lost)
    with told("threading"), pytest.warns(UserWarning, match="the scheduler is gone"):
        found = search("few rows")
    assert found.best_params_ == search("few rows").best_params_
