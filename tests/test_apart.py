"""Folds and pairs evaluated by the workers of joblib: the same search, whatever happens to them."""

import os
import pickle
import time
from contextlib import contextmanager, suppress

import distributed
import joblib
import numpy as np
import pytest
from helpers import Differentiated, make_data
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR, LinearClassifier, kernels
from hypermargin._core.budget import Budget, Effort, OutOfTime
from hypermargin.problems import apart
from hypermargin.problems.apart import KNOWN, Apart, cut_up

N = 800  # more than a search looks at all at once
CASES = {
    "SVC": (SVC(tol=1e-9), 2, {}),
    "pairs of classes": (SVC(tol=1e-9), 4, {"method": "gradient"}),
    "LinearSVC": (LinearSVC(tol=1e-9), 2, {}),
    "SVR": (SVR(tol=1e-9), 0, {}),
}
HOW = {"cv": 3, "random_state": 0, "tol": 1e-5, "max_evals": 2}


@contextmanager
def told(backend):
    """Within this context joblib has three workers: threads, processes, or those of a cluster."""
    if backend != "dask":
        with joblib.parallel_config(backend, n_jobs=3):
            yield
        return
    how = {"processes": False, "n_workers": 3, "threads_per_worker": 1}
    with distributed.Client(**how, dashboard_address=None), joblib.parallel_config("dask"):
        yield


@pytest.fixture
def asked(monkeypatch):
    """What workers were asked for, and whether the problem was sent along."""
    run, found = Apart._run, []

    def noted(self, function, tasks, sent):
        found.append((function.__name__, sent is not None))
        return run(self, function, tasks, sent)

    monkeypatch.setattr(Apart, "_run", noted)
    return found


def search(case, **how):
    estimator, n_classes, own = CASES[case]
    return GradientSearchCV(estimator, **{**HOW, **own, **how}).fit(*make_data(n_classes, N))


@pytest.fixture(scope="module")
def plain():
    return {case: search(case, n_jobs=1) for case in CASES}


def assert_same(found, expected):
    for name, value in expected.best_params_.items():
        assert found.best_params_[name] == pytest.approx(value, rel=1e-6)
    assert found.best_score_ == pytest.approx(expected.best_score_, rel=1e-6)
    for name in ("objective", "mean_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("backend", ["threading", "loky", "dask"])
def test_a_search_is_the_same_whoever_evaluates(backend, plain, asked):
    with told(backend):
        for case, expected in plain.items():
            asked.clear()
            assert_same(search(case), expected)
            assert asked[0] == ("evaluated", False)
            # each worker at most once; threads of this process not at all
            assert sum(sent for _, sent in asked) <= (3 if backend == "loky" else 0)
    assert not KNOWN


def test_few_rows_and_what_was_told_how_many_threads_stay_here(asked):
    X, y = make_data(2, 200)
    with told("threading"):
        GradientSearchCV(SVC(), **HOW).fit(X, y)
        search("LinearSVC", n_jobs=2)
        GradientSearchCV(SVC(), {"C": [0.1, 1.0]}, **HOW).fit(*make_data(2, N))
        search("LinearSVC", return_train_score=True)
    assert not asked


def test_two_workers_get_pairs_of_classes_but_no_folds_that_share_their_work(asked):
    with joblib.parallel_config("threading", n_jobs=2):
        search("SVC")
        assert not asked
        search("pairs of classes")
        assert asked


# --- Evaluations

WEIGHT = np.random.default_rng(1).uniform(0.5, 2.0, size=60)
PROBLEMS = {
    "folds": (SVC(gamma=0.3), 2, {"C": 2.0, "gamma": 0.3}, {}),
    "pairs": (SVC(gamma=0.3), 4, {"C": 2.0, "gamma": 0.3}, {"sample_weight": WEIGHT}),
    "a class each": (
        KernelSVC(multi_class="ovr", gamma=0.3),
        3,
        {"C": 2.0, "gamma": 0.3, "machine_cost": np.array([1.0, 2.0, 0.5])},
        {"tuned": ("C", "gamma", "machine_cost")},
    ),
    "regression": (SVR(gamma=0.3), 0, {"C": 2.0, "gamma": 0.3, "epsilon": 0.1}, {}),
    "precomputed": (SVC(kernel="precomputed"), 2, {"C": 2.0}, {}),
    "threshold": (SVC(), 2, {"C": 2.0, "gamma": 0.3, "threshold": 0.1}, {"tuned": ("C", "gamma")}),
    "own designs": (make_pipeline(StandardScaler(), SVC()), 3, {"C": 2.0, "gamma": 0.3}, {}),
    "landmarks": (SVC(gamma=0.3), 4, {"C": 2.0, "gamma": 0.3}, {"rank": 20}),
    "linear": (LinearSVC(), 4, {"C": 0.3}, {}),
    "linear machines with costs": (
        LinearClassifier(),
        3,
        {"C": 0.3, "machine_cost": np.array([1.0, 2.0, 0.5])},
        {"tuned": ("C", "machine_cost")},
    ),
    "coupled": (LogisticRegression(), 3, {"C": 0.3}, {}),
}


@pytest.fixture
def make_apart():
    """Return a function that makes a problem, and the same for workers."""

    def make(estimator, n_classes, how, n_workers):
        X, y = make_data(n_classes)
        if getattr(estimator, "kernel", None) == "precomputed":
            X = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
        problem = Differentiated(estimator, X, y, **how).prepared.problem
        return problem, Apart(problem, n_workers)

    with joblib.parallel_config("threading", n_jobs=2):
        yield make


@pytest.mark.parametrize("n_workers", [2, 3, 8])
@pytest.mark.parametrize("name", PROBLEMS)
def test_an_evaluation_in_pieces_is_that_of_the_whole(name, n_workers, make_apart):
    estimator, n_classes, params, how = PROBLEMS[name]
    problem, place = make_apart(estimator, n_classes, how, n_workers)
    assert 2 <= len(place.pieces) <= n_workers
    effort = Effort(1e-10)
    whole = problem.evaluate(params, effort)
    delta = [np.cos(np.arange(part.size)).reshape(part.shape) for part in whole.outputs]
    gradient = whole.pullback(delta)
    found = place.evaluate(params, effort)
    assert found.converged
    assert_near(found.outputs, whole.outputs)
    assert_near(found.test, whole.test)
    pulled = found.pullback(delta)
    assert pulled.keys() == gradient.keys()
    for key, value in gradient.items():
        np.testing.assert_allclose(pulled[key], value, rtol=1e-5, atol=1e-7)
    again = place.evaluate(params, effort, warm=found.state)
    assert_near(again.outputs, whole.outputs)
    here = problem.evaluate(params, effort, warm=found.state)
    assert_near(here.outputs, whole.outputs)
    assert found.state.keys() == whole.state.keys()
    assert_near([found.outputs_at(0, found.test[1])], [here.outputs_at(0, found.test[1])])
    place.release()
    assert place.search not in KNOWN


def assert_near(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.fixture
def linear(make_apart):
    """Return a problem, the same for workers, and what the whole one gives at a point."""
    problem, place = make_apart(LinearSVC(), 3, {}, 2)
    return place, problem.evaluate({"C": 0.3}, Effort(1e-10))


def at_point(place):
    return place.evaluate({"C": 0.3}, Effort(1e-10))


def slope(evaluation):
    return evaluation.pullback([np.ones_like(part) for part in evaluation.outputs])["C"]


def test_rates_are_those_of_the_whole(linear):
    place, whole = linear
    found = at_point(place)
    assert_near(found.rates()[0], whole.rates()[0])
    for job, start in whole.rates()[1].items():
        assert_near([found.rates()[1][job].rate], [start.rate])


def test_pieces_that_are_gone_are_evaluated_again(linear, asked):
    place, whole = linear
    found = at_point(place)
    KNOWN[place.search].idle.clear()
    assert slope(found) == pytest.approx(slope(whole), rel=1e-6)
    assert [name for name, _ in asked] == ["evaluated", "answers", "answer_anew"]
    asked.clear()
    assert slope(found) == pytest.approx(slope(whole), rel=1e-6)  # they are there again
    assert [name for name, _ in asked] == ["evaluated", "answers"][1:]
    at_point(place)
    assert slope(found) == pytest.approx(slope(whole), rel=1e-6)  # an older one


def test_where_processes_are_replaced_nothing_is_kept(linear, asked):
    place, whole = linear
    place.processes = {"one", "two", "three"}
    found = at_point(place)
    assert slope(found) == pytest.approx(slope(whole), rel=1e-6)
    assert [name for name, _ in asked] == ["evaluated", "answer_anew"]
    assert all(one.found is None for one in KNOWN[place.search].idle.values())


def test_who_does_not_know_the_problem_is_sent_it(linear, asked):
    place, whole = linear
    KNOWN.clear()  # as in another process
    found = at_point(place)
    assert [sent for _, sent in asked] == [False, True]
    assert slope(found) == pytest.approx(slope(whole), rel=1e-6)
    assert KNOWN[place.search].problem is not place.problem
    asked.clear()
    place.release()
    assert asked == [("forget", False)]
    assert not KNOWN


def test_a_process_knows_few_searches(make_apart):
    places = [make_apart(LinearSVC(), 3, {}, 2)[1] for _ in range(8)]
    KNOWN.clear()
    for place in places:
        at_point(place)
    assert list(KNOWN) == [place.search for place in places[-4:]]
    assert at_point(places[0]).converged


# --- Mishaps


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_kernel_that_cannot_be_sent(asked):
    class Own(kernels.RBF):
        """Has no name by which another process would find it."""

    X, y = make_data(0, N)
    one = GradientSearchCV(KernelSVR(kernel=Own(), tol=1e-9), **HOW)
    here = one.fit(X, y).best_params_
    with told("threading"):
        assert one.fit(X, y).best_params_ == pytest.approx(here, rel=1e-6)
    assert ("answers", False) in asked
    with told("loky"), pytest.warns(UserWarning, match="(?s)pickle.*goes on in this process"):
        assert one.fit(X, y).best_params_ == here


class Broken(RuntimeError):
    pass


def fails(*_):
    raise Broken("no disk")


def dies(*_):
    os._exit(1)


@pytest.mark.parametrize(
    "backend, task, failing, name",
    [
        ("threading", "evaluated", fails, "Broken: no disk"),
        ("threading", "answers", fails, "Broken: no disk"),
        ("loky", "evaluated", dies, "TerminatedWorkerError"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_goes_on_without_workers(backend, task, failing, name, plain, monkeypatch):
    monkeypatch.setattr(apart, task, failing)
    with told(backend), pytest.warns(UserWarning, match=f"(?s){name}.*goes on in this process"):
        found = search("LinearSVC")
    assert_same(found, plain["LinearSVC"])


def test_what_is_wrong_with_a_point_is_not_the_workers(linear, monkeypatch):
    def wrong(*_):
        raise FloatingPointError("C is too large")

    place, _ = linear
    with monkeypatch.context() as patched, pytest.raises(FloatingPointError, match="too large"):
        patched.setattr(apart, "evaluated", wrong)
        at_point(place)
    assert at_point(place).converged
    assert not place.lost


def test_a_budget_goes_along_as_the_seconds_that_are_left():
    assert pickle.loads(pickle.dumps(Budget(100.0))).seconds <= 100.0
    assert pickle.loads(pickle.dumps(Budget())).left is None
    ended = Budget(0.0)
    time.sleep(1e-3)
    assert pickle.loads(pickle.dumps(ended)).seconds == 0.0


def test_time_that_ends_while_workers_evaluate_ends_the_search(monkeypatch):
    usual = apart.evaluated

    def slow(known, sent, order):
        while not order.effort.budget.expired():
            time.sleep(1e-3)
        return usual(known, sent, order)

    monkeypatch.setattr(apart, "evaluated", slow)
    with told("threading"), pytest.warns(ConvergenceWarning, match="time_budget"):
        found = search("pairs of classes", time_budget=1.0)
    assert len(found.cv_results_["n_samples"]) == 1  # of two; machines end where they are


def test_an_interrupt_ends_what_threads_do(linear, monkeypatch):
    place, _ = linear
    budget = Budget()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Apart, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        place.evaluate({"C": 0.3}, Effort(1e-10, budget))
    assert budget.expired()


def test_time_that_is_up_is_not_the_workers(linear):
    place, _ = linear
    budget = Budget()
    budget.stop()
    with suppress(OutOfTime):
        assert not place.evaluate({"C": 0.3}, Effort(1e-10, budget)).converged
    assert not place.lost


@pytest.mark.parametrize("estimator", [SVC(), SVC(gamma=0.3)], ids=["designs", "a design"])
def test_pieces_have_all_folds_columns_and_memory_once(estimator, make_apart):
    for n_classes, n_workers in ((2, 2), (4, 2), (4, 4), (4, 9), (4, 100)):
        problem, _ = make_apart(estimator, n_classes, {}, 2)
        seen = np.zeros((len(problem.folds), len(problem.columns)), dtype=int)
        pieces = cut_up(problem, n_workers)
        assert 2 <= len(pieces) <= n_workers
        for piece in pieces:
            seen[np.array(piece.folds), piece.columns] += 1
        assert (seen == 1).all()
        for design in problem.designs:
            shares = [piece.share for piece in pieces if {*piece.folds} & {*design.folds}]
            assert sum(shares) == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize(
    "estimator, how",
    [(SVC(gamma=0.3), {}), (SVC(gamma=0.3), {"rank": 20}), (LinearSVC(), {})],
    ids=["exact", "landmarks", "linear"],
)
def test_folds_that_lack_a_class_keep_their_columns_together(estimator, how, make_apart):
    X, y = make_data(3)
    y[0] = 3  # the only row of its class
    problem = Differentiated(estimator, X, y, **how).prepared.problem
    assert problem.coupled
    place = Apart(problem, 3)
    params, effort = {"C": 2.0}, Effort(1e-10)
    whole, found = problem.evaluate(params, effort), place.evaluate(params, effort)
    assert not place.lost
    assert_near(found.outputs, whole.outputs)
    delta = [np.ones_like(part) for part in whole.outputs]
    pulled = found.pullback(delta)["C"]
    assert pulled == pytest.approx(problem.evaluate(params, effort).pullback(delta)["C"], rel=1e-5)
