"""A search that was stopped goes on where it was, and ends as if nothing had happened."""

import json
import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
from helpers import C_GAMMA, quick, svc
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin._core.packing import Packer, Unpacker
from hypermargin.methods import METHODS, BilevelSgd, SgdDcd
from hypermargin.problems.exact.problem import CrossValidation
from hypermargin.problems.landmarks.problem import LowRankCrossValidation
from hypermargin.problems.linear.problem import LinearCrossValidation

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = CrossValidation, LinearCrossValidation, LowRankCrossValidation
HINGE, COSTS = LinearSVC(loss="hinge"), {"C": (1e-3, 10.0)}
PER_FEATURE = {"C": (0.1, 100.0), "gamma": "per_feature"}
CASES = {
    "gradient": (SVC(), "binary", {"max_evals": 8}),
    "curve": (LogisticRegression(), "binary", {"method": "curve"}),
    "path": (LinearSVC(), "binary", {"method": "path"}),
    "grid": (SVC(), "binary", {"method": "grid", "max_evals": 9}),
    "random": (SVC(), "binary", {"method": "random", "max_evals": 9}),
    "penalty": (Ridge(), "regression", {"method": "penalty", "max_evals": 12}),
    "mpec": (LinearSVR(), "regression", {"method": "mpec", "max_evals": 12}),
    "sgd-dcd": (HINGE, "binary", {"method": SgdDcd(iterations=20), "space": COSTS}),
    "bilevel-sgd": (HINGE, "binary", {"method": BilevelSgd(iterations=20), "space": COSTS}),
    "levels": (SVC(), "many_rows", {"max_evals": 4}),
    "two threads": (SVC(), "many_rows", {"max_evals": 4, "n_jobs": 2}),
    "landmarks": (SVC(), "many_rows", {"max_evals": 4, "rank": 30}),
    "lists": (
        SVC(), "binary", {"space": {"kernel": ["rbf", "poly"], **C_GAMMA}, "max_evals": 4},
    ),
    "widths": (KernelSVC(), "binary", {"space": PER_FEATURE, "max_evals": 4}),
    "regression": (SVR(), "regression", {"max_evals": 6}),
    "several scores": (
        SVC(), "binary",
        {"scoring": ["accuracy", "f1"], "refit": "f1", "return_train_score": True, "max_evals": 6},
    ),
    "a scorer that fits": (
        SVC(), "binary", {"scoring": lambda m, X, y: m.score(X, y), "max_evals": 3},
    ),
}  # fmt: skip


class Stopped(BaseException):
    """Stands for a kill: nothing in a search may wait for it."""


@pytest.fixture
def counter(monkeypatch):
    """Count what is trained; `after` that many something else happens."""

    class Counter:
        count, most = 0, np.inf
        lock = threading.Lock()

        def then(self):
            raise Stopped

    counter = Counter()
    for kind in KINDS:

        def evaluate(self, *args, trained=kind.evaluate, **how):
            with counter.lock:
                counter.count += 1
                if counter.count > counter.most:
                    counter.then()
            return trained(self, *args, **how)

        monkeypatch.setattr(kind, "evaluate", evaluate)
    return counter


def search_of(name, **more):
    estimator, _, given = CASES[name]
    folds = KFold(3) if isinstance(estimator, (SVR, LinearSVR, Ridge)) else StratifiedKFold(3)
    return GradientSearchCV(
        estimator, **{"cv": folds, "random_state": 0, "n_jobs": 1, **given, **more}
    )


def evaluated(path):
    """Return the evaluations that a file knows."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [line for line in lines if "theta" in line]


def estimate_of(search):
    """Return what is to be expected on new data, in all digits; None where that is not told."""
    found = getattr(search, "score_estimate_", None)
    return found if found is None else str(vars(found))


def assert_same(one, two):
    """Whatever can be seen of two searches but their times is the same to the last bit."""
    assert len(one.history_) == len(two.history_)
    for a, b in zip(one.history_, two.history_, strict=True):
        for key in ("params", "objective", "gradient", "score", "n_samples", "tol"):
            assert_array_equal(str(a[key]), str(b[key]))
    assert str(one.best_params_) == str(two.best_params_)
    assert one.best_score_ == two.best_score_
    assert estimate_of(one) == estimate_of(two)
    for key, column in one.cv_results_.items():
        if "time" not in key and key != "params":
            assert str(np.asarray(column).tolist()) == str(
                np.asarray(two.cv_results_[key]).tolist()
            )


def test_every_method_is_tried():
    own = {n for n, m in METHODS.items() if type(m).__module__.startswith("hypermargin.")}
    assert own <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_search_goes_on_where_it_was_stopped(request, tmp_path, counter, name):
    X, y = request.getfixturevalue(CASES[name][1])
    whole = search_of(name, refit=CASES[name][2].get("refit", False)).fit(X, y)
    assert (estimate_of(whole) is None) == (name == "a scorer that fits")
    total, path = counter.count, tmp_path / "search.jsonl"
    refit = whole.refit
    known = 0
    for most in (total // 3, total // 3):  # it is stopped twice
        counter.count, counter.most = 0, most
        with pytest.raises(Stopped):
            search_of(name, refit=refit, checkpoint=path).fit(X, y)
        assert len(evaluated(path)) > known or most == 0
        known = len(evaluated(path))
    counter.count, counter.most = 0, np.inf
    again = search_of(name, refit=refit, checkpoint=str(path)).fit(X, y)
    assert counter.count <= total - known
    assert_same(again, whole)
    counter.count = 0
    assert_same(search_of(name, refit=refit, checkpoint=path).fit(X, y), whole)
    assert counter.count == 0


@needs_fork
@pytest.mark.parametrize("name", ["gradient", "curve", "levels", "sgd-dcd"])
def test_a_kill_loses_no_evaluation(request, tmp_path, counter, name):
    X, y = request.getfixturevalue(CASES[name][1])
    whole = search_of(name).fit(X, y)
    path = tmp_path / "search.jsonl"
    child = os.fork()
    if child == 0:
        counter.count, counter.most = 0, counter.count // 2
        counter.then = lambda: os.kill(os.getpid(), signal.SIGKILL)
        search_of(name, checkpoint=path).fit(X, y)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    total, counter.count = counter.count, 0
    again = search_of(name, checkpoint=path).fit(X, y)
    assert counter.count == total - total // 2
    assert_same(again, whole)
    assert_array_equal(again.predict(X), whole.predict(X))


def test_draws_without_a_seed_are_kept(many_rows, tmp_path, counter):
    path = tmp_path / "search.jsonl"
    counter.most = 12
    with pytest.raises(Stopped):
        search_of("levels", random_state=None, checkpoint=path).fit(*many_rows)
    counter.count, counter.most = 0, np.inf
    first = search_of("levels", random_state=None, checkpoint=path).fit(*many_rows)
    known = len(evaluated(path))
    assert counter.count <= known - 12 + 2  # the refit trains, too
    counter.count = 0
    second = search_of("levels", random_state=np.random.RandomState(5), checkpoint=path)
    assert_same(second.fit(*many_rows), first)
    assert counter.count <= 2


def test_a_run_that_time_has_ended_goes_on(binary, tmp_path, counter, monkeypatch):
    whole = search_of("gradient").fit(*binary)
    total, path = counter.count, tmp_path / "search.jsonl"
    search = search_of("gradient", checkpoint=path, time_budget=1000.0)
    counter.count, counter.most = 0, total // 2

    def late():
        monkeypatch.setattr("hypermargin._core.budget.Budget._late", lambda self: True)
        counter.most = np.inf

    counter.then = late
    search.fit(*binary)
    known = len(evaluated(path))
    assert known < total
    monkeypatch.undo()
    assert_same(search_of("gradient", checkpoint=path).fit(*binary), whole)


def test_ctrl_c_keeps_what_there_is(binary, tmp_path, counter):
    whole = search_of("gradient").fit(*binary)
    total, path = counter.count, tmp_path / "search.jsonl"
    counter.count, counter.most = 0, total - 3

    def interrupt():
        counter.most = np.inf
        raise KeyboardInterrupt

    counter.then = interrupt
    stopped = search_of("gradient", checkpoint=path).fit(*binary)
    assert len(stopped.history_) < len(whole.history_)
    counter.count = 0
    assert_same(search_of("gradient", checkpoint=path).fit(*binary), whole)
    assert counter.count <= 3


OTHER = {
    "X": (lambda X, y: (X + 1e-9, y), {}, "X differs"),
    "y": (lambda X, y: (X, 1 - y), {}, "y differs"),
    "folds": (None, {"cv": StratifiedKFold(4)}, "folds differ"),
    "space": (
        None,
        {"space": {"C": (0.1, 10.0), "gamma": (0.01, 1.0)}},
        r"space\['C'\] was .* and is \('0.1', '10.0'\)",
    ),
    "estimator": (None, {"estimator": SVC(kernel="poly")}, "estimator.kernel was 'rbf' and is"),
    "another one": (None, {"estimator": KernelSVC()}, "estimator was SVC and is KernelSVC"),
    "tol": (None, {"tol": 1e-4}, "tol was '0.005' and is '0.0001'"),
    "method": (None, {"method": "grid"}, "method was 'auto' and is 'grid'"),
    "scoring": (None, {"scoring": "f1"}, "scoring was None and is 'f1'"),
    "random_state": (None, {"random_state": 1}, "random_state was 0 and is 1"),
    "criterion": (None, {"criterion": lambda f, y: (0.0, f)}, "criterion was None and is "),
}


@pytest.mark.parametrize("name", OTHER)
def test_a_file_of_another_search_is_refused(binary, tmp_path, name):
    path = tmp_path / "search.jsonl"
    quick(svc(), C_GAMMA, cv=StratifiedKFold(3), max_evals=2, checkpoint=path).fit(*binary)
    before = path.read_bytes()
    change, settings, message = OTHER[name]
    search = quick(svc(), C_GAMMA, cv=StratifiedKFold(3), max_evals=2, checkpoint=path)
    data = binary if change is None else change(*binary)
    with pytest.raises(ValueError, match=f"is of another search: {message}") as told:
        search.set_params(**settings).fit(*data)
    assert "\n" not in str(told.value)
    assert "another path" in str(told.value)
    assert path.read_bytes() == before


def share_above(level):
    return lambda model, X, y: float(np.mean(model.decision_function(X) > level))


def weighted_share(model, X, y, times=1.0):
    return times * float(np.mean(model.predict(X) == y))


@pytest.mark.parametrize(
    "scorer, other",
    [
        (share_above(0.0), share_above(0.5)),  # the same code, made with another value
        (partial(weighted_share, times=1.0), partial(weighted_share, times=2.0)),
        (lambda m, X, y: m.score(X, y) * 2, lambda m, X, y: m.score(X, y) * 3),
    ],
)
def test_functions_that_do_another_thing_are_told_apart(binary, tmp_path, scorer, other):
    search = quick(svc(), C_GAMMA, max_evals=2, checkpoint=tmp_path / "search.jsonl")
    search.set_params(scoring=scorer).fit(*binary)
    search.fit(*binary)
    with pytest.raises(ValueError, match="is of another search: scoring"):
        search.set_params(scoring=other).fit(*binary)


def test_weights_of_another_search_are_refused(binary, tmp_path):
    path, (X, y) = tmp_path / "search.jsonl", binary
    quick(svc(), C_GAMMA, max_evals=2, checkpoint=path).fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="sample_weight"):
        quick(svc(), C_GAMMA, max_evals=2, checkpoint=path).fit(X, y)


def test_what_limits_the_effort_may_change(binary, tmp_path, counter):
    path = tmp_path / "search.jsonl"
    more = {"n_jobs": 2, "max_evals": 9, "time_budget": 100.0, "verbose": 0, "memory_limit": 500}
    search_of("gradient", max_evals=5, checkpoint=path).fit(*binary)
    known = len(evaluated(path))
    longer = search_of("gradient", checkpoint=path, **more).fit(*binary)
    assert len(evaluated(path)) > known
    assert len(longer.cv_results_["params"]) > 5


@pytest.mark.parametrize("lost", [1, 30, 500, 5000])
def test_a_torn_file_is_read_up_to_there(binary, tmp_path, counter, lost):
    path = tmp_path / "search.jsonl"
    whole = search_of("gradient", checkpoint=path).fit(*binary)
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    counter.count = 0
    assert_same(search_of("gradient", checkpoint=path).fit(*binary), whole)
    assert 0 < counter.count < 20
    counter.count = 0
    assert_same(search_of("gradient", checkpoint=path).fit(*binary), whole)
    assert counter.count == 0


@pytest.mark.parametrize("left", [0, 7, 40])
def test_a_file_that_was_hardly_begun_is_begun_again(binary, tmp_path, left):
    path = tmp_path / "search.jsonl"
    search_of("gradient", max_evals=1, checkpoint=path).fit(*binary)
    path.write_bytes(path.read_bytes()[:left])
    search_of("gradient", max_evals=1, tol=1e-3, checkpoint=path).fit(*binary)
    assert evaluated(path)


@needs_fork
def test_the_second_of_two_processes_is_refused(binary, tmp_path, counter):
    path, (ready, told) = tmp_path / "search.jsonl", os.pipe()
    child = os.fork()
    if child == 0:
        counter.most = 3

        def wait():
            os.write(told, b".")
            time.sleep(60)

        counter.then = wait
        search_of("gradient", checkpoint=path).fit(*binary)
        os._exit(0)
    os.read(ready, 1)
    try:
        with pytest.raises(ValueError, match="is in use by another search"):
            search_of("gradient", checkpoint=path).fit(*binary)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    counter.count = 0
    search_of("gradient", max_evals=1, checkpoint=path).fit(*binary)  # its lock died with it


def test_a_path_that_cannot_be_written_is_refused_at_once(binary, tmp_path, counter):
    (tmp_path / "mine.txt").write_text("of somebody else\n")
    (tmp_path / "mine.json").write_text('{"a": 1}\n')
    for path, why in (
        (tmp_path / "none" / "file", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / "mine.txt", "is not a file that a search has written"),
        (tmp_path / "mine.json", "is not a file that a search has written"),
    ):
        with pytest.raises(ValueError, match=why):
            search_of("gradient", checkpoint=path).fit(*binary)
    assert counter.count == 0
    assert (tmp_path / "mine.txt").read_text() == "of somebody else\n"
    assert (tmp_path / "mine.json").read_text() == '{"a": 1}\n'


@pytest.mark.filterwarnings("default")
def test_a_full_disk_does_not_end_a_search(binary, tmp_path, monkeypatch):
    path = tmp_path / "search.jsonl"
    whole = search_of("gradient").fit(*binary)
    written, count = os.write, 0

    def write(file, data):
        nonlocal count
        count += 1
        if count > 10:
            raise OSError(28, "No space left on device")
        return written(file, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.warns(UserWarning, match="can no longer be written .No space left on device."):
        search = search_of("gradient", checkpoint=path).fit(*binary)
    assert_same(search, whole)
    monkeypatch.undo()
    assert_same(search_of("gradient", checkpoint=path).fit(*binary), whole)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
@pytest.mark.parametrize("distinct", [1, 2, 5, 10_000])
def test_arrays_are_kept_to_their_last_bit(dtype, distinct):
    rng, packer = np.random.default_rng(0), Packer()
    values, arrays = rng.normal(size=distinct).astype(dtype), []
    for shape in ((0,), (), (7,), (3, 500), (90, 60)):
        array = values[rng.integers(0, distinct, size=shape)]
        array = np.where(rng.uniform(size=shape) < 0.1, rng.normal(size=shape), array)
        arrays.append(np.asarray(array, dtype=dtype))
    packed = json.loads(json.dumps([packer.pack(arrays), packer.arrays]))
    for found, array in zip(
        Unpacker(packed[1], packer.text, {}).read(packed[0]), arrays, strict=True
    ):
        assert found.dtype == array.dtype
        assert_array_equal(found, array, strict=True)


def test_signs_of_zero_are_kept():
    packer = Packer()
    found = Unpacker(packer.arrays, packer.text, {}).read(packer.pack(-0.0))
    assert np.signbit(found)
    packed = packer.pack(np.full(9000, -0.0))
    assert np.signbit(Unpacker(packer.arrays, packer.text, {}).read(packed)).all()


def test_what_holds_arrays_is_kept():
    array, packer = np.arange(5.0), Packer()
    value = {(0, 1): [array, array.T, None], "a": (np.nan, np.inf, 1, "text", np.float32(0.1))}
    packed = json.loads(json.dumps(packer.pack(value)))
    found = Unpacker(packer.arrays, packer.text, {}).read(packed)
    assert found[0, 1][0] is not array
    assert_array_equal(found[0, 1][0], array)
    assert found[0, 1][2] is None
    assert np.isnan(found["a"][0])
    assert found["a"][1:] == value["a"][1:]
    assert type(found["a"][4]) is np.float32
