"""Searches that are killed and go on: what they end with, what they repeat, what that costs.

A process runs a search with `checkpoint=` and is killed (SIGKILL) at a random moment; then the
same call goes on.  Counted are evaluations: calls of a problem's `evaluate`, and lines of the file.
What progress and checkpoint cost is the CPU time of the functions that show and keep.
"""

import contextlib
import io
import json
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.live import Live as RichLive
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from benchmarks._common import Skip, read_results, table
from hypermargin import GradientSearchCV, KernelSVC
from hypermargin._core.packing import Unpacker
from hypermargin.problems.exact.problem import CrossValidation
from hypermargin.problems.landmarks.problem import LowRankCrossValidation
from hypermargin.problems.linear.problem import LinearCrossValidation
from hypermargin.search import search as search_module
from hypermargin.search.checkpoint import Answers, Checkpoint, _Kept, _New
from hypermargin.search.display import Rich

KILLS = 4  # of every search
TURNS = 9  # of searches whose cost is measured


def two(n: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(n, 8, flip_y=0.1, class_sep=0.8, random_state=0)


def numbers(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_regression(n, 6, noise=15.0, random_state=0)
    return X, y / 50.0


def searches() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    hinge, costs = LinearSVC(loss="hinge"), {"C": (1e-3, 1e2)}
    yield "gradient", SVC(), two(400), {}
    yield "gradient, 3,000 rows", SVC(), two(3000), {}
    yield "gradient, two threads", SVC(), two(1500), {"n_jobs": 2}
    yield "gradient, regression", SVR(), numbers(900), {}
    yield "gradient, no seed", SVC(), two(1500), {"random_state": None}
    yield "landmarks", SVC(), two(3000), {"rank": 100}
    yield "two kernels", SVC(), two(400), {"space": {"kernel": ["rbf", "poly"], "C": None}}
    yield "widths", KernelSVC(), two(300), {"space": {"C": None, "gamma": "per_feature"}}
    yield "curve", LogisticRegression(), two(20_000), {"method": "curve"}
    yield "path", LinearSVC(), two(20_000), {"method": "path"}
    yield "grid", SVC(), two(400), {"method": "grid"}
    yield "random", SVC(), two(400), {"method": "random"}
    yield "penalty", Ridge(), numbers(400), {"method": "penalty"}
    space = {"C": (1e-2, 10.0), "epsilon": (0.01, 1.0)}
    yield "mpec", LinearSVR(), numbers(90), {"method": "mpec", "space": space}
    yield "sgd-dcd", hinge, two(1000), {"method": "sgd-dcd", "space": costs}
    yield "bilevel-sgd", hinge, two(1000), {"method": "bilevel-sgd", "space": costs}


class Counter:
    """Counts evaluations that are trained."""

    def __init__(self) -> None:
        self.count = 0
        for kind in (CrossValidation, LowRankCrossValidation, LinearCrossValidation):
            kind.evaluate = self._counting(kind.evaluate)  # type: ignore[method-assign]

    def _counting(self, train: Any) -> Any:
        def evaluate(problem: Any, *args: Any, **how: Any) -> Any:
            found = train(problem, *args, **how)
            self.count += 1
            return found

        return evaluate


def search_of(estimator: Any, given: dict[str, Any], **more: Any) -> GradientSearchCV:
    arguments = {"cv": 5, "n_jobs": 1, "random_state": 0, "refit": False, **given, **more}
    return GradientSearchCV(estimator, **arguments)


def killed_after(seconds: float, search: GradientSearchCV, data: Any) -> bool:
    """Run a search in a process of its own; return whether it was killed before its end."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            search.fit(*data)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def known(path: Path) -> list[tuple[str, str]]:
    """Return what was asked in every evaluation of a file, up to a torn line."""
    found = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        with contextlib.suppress(ValueError):
            read = json.loads(line) if line.endswith(b"\n") else {}
            if "theta" in read:
                found.append((read["at"], str(read["theta"])))
    return found


def apart(one: GradientSearchCV, two: GradientSearchCV) -> float:
    """Return the largest relative difference of the best hyperparameters."""
    pairs = [(one.best_params_[name], two.best_params_[name]) for name in one.best_params_]
    if any(a != b for a, b in pairs if isinstance(a, str)):
        return np.inf
    gaps = [np.abs(np.subtract(a, b) / a).max() for a, b in pairs if not isinstance(a, str)]
    return float(max(gaps))


def drawn(path: Path) -> np.random.RandomState:
    """Return where a search without a seed has drawn from, as its file has it."""
    for line in path.read_text().splitlines():
        if "random" in (found := json.loads(line)):
            rng = np.random.RandomState()
            rng.set_state(Unpacker(found["arrays"], found["data"], {}).read(found["random"]))
            return rng
    raise ValueError(f"{path} has no draws.")


def kill(estimator: Any, data: Any, given: dict[str, Any], kills: int, rng: Any) -> dict[str, Any]:
    """Kill a search again and again, each time from its beginning; return how it went on."""
    search_of(estimator, given).fit(*data)  # compiles
    counter.count, begun = 0, time.perf_counter()
    whole = search_of(estimator, given).fit(*data)
    took, total = time.perf_counter() - begun, counter.count
    found: dict[str, Any] = {"evaluations": total, "kills": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(10 * kills):
            path = Path(folder) / f"{number}.jsonl"
            search = search_of(estimator, given, checkpoint=path)
            if len(found["kills"]) == kills:
                break
            if not killed_after(rng.uniform(0.0, took), search, data):
                continue
            before, counter.count = len(known(path)), 0
            again, asked = search.fit(*data), known(path)
            trained, reference = counter.count, whole
            if given.get("random_state", 0) is None:
                same = {**given, "random_state": drawn(path)}
                reference = search_of(estimator, same).fit(*data)
            found["kills"].append(
                {
                    "known": before,
                    "trained": trained,
                    "repeated": trained + before - len(asked),
                    "apart": apart(reference, again),
                }
            )
    return found


def cost(estimator: Any, data: Any, given: dict[str, Any], turns: int) -> dict[str, float]:
    """Return the CPU time of a search, and the share of what is done for progress and checkpoint.

    That share is some thousandths: the difference of two searches would be noise.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder, Meter() as meter:
        for turn in range(turns + 1):
            path = f"{folder}/{turn}.jsonl"
            search = search_of(estimator, {**given, "refit": True}, verbose=1, checkpoint=path)
            meter.seconds = 0.0
            with contextlib.redirect_stdout(Terminal()):
                begun = time.process_time()
                search.fit(*data)
                found.append((time.process_time() - begun, meter.seconds))
        size = os.path.getsize(path)
    whole, more = np.median(found[1:], axis=0)
    return {"seconds": float(whole - more), "more": float(more / (whole - more)), "bytes": size}


class Meter:
    """Adds up the CPU time of whatever shows a search or keeps it, in all threads."""

    PARTS = (
        (search_module, "fingerprint"), (Checkpoint, "__init__"), (Checkpoint, "close"),
        (Checkpoint, "generator"), (_Kept, "memo"), (_Kept, "once"), (_New, "keep"),
        (Answers, "of"), (Rich, "__init__"), (Rich, "update"), (Rich, "stage"), (Rich, "record"),
        (Rich, "close"), (Rich, "say"), (RichLive, "refresh"),
    )  # fmt: skip

    def __init__(self) -> None:
        self.seconds, self._inside, self._lock = 0.0, threading.local(), threading.Lock()

    def __enter__(self) -> "Meter":
        self._before = [getattr(place, name) for place, name in self.PARTS]
        for (place, name), function in zip(self.PARTS, self._before):
            setattr(place, name, self._metered(function))
        return self

    def __exit__(self, *_: Any) -> None:
        for (place, name), function in zip(self.PARTS, self._before):
            setattr(place, name, function)

    def _metered(self, function: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "it", False):  # of a part that counts already
                return function(*args, **kwargs)
            self._inside.it, begun = True, time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._inside.it = False
                with self._lock:
                    self.seconds += time.thread_time() - begun

        return called


class Terminal(io.StringIO):
    """Stands for a terminal."""

    def isatty(self) -> bool:
        return True


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    if not hasattr(os, "fork"):
        raise Skip("there is no fork here")
    warnings.simplefilter("ignore")
    os.environ["TERM"] = "xterm"
    global counter
    counter, rng = Counter(), random.Random(0)
    found: dict[str, Any] = {"kills": {}, "cost": {}}
    if only is not None:
        found |= read_results("resume")
    for label, estimator, data, given in searches():
        if only is None or only in label:
            found["kills"][label] = kill(estimator, data, given, 1 if quick else KILLS, rng)
            print(label, found["kills"][label], flush=True)
    for label, estimator, data, given in costs():
        if only is None or only in label:
            found["cost"][label] = cost(estimator, data, given, 3 if quick else TURNS)
            print(label, found["cost"][label], flush=True)
    return found


def costs() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Yield searches of a fifth of a second to a second."""
    yield "cost: SVC, 200 rows", SVC(), two(200), {}
    yield "cost: SVC, 400 rows", SVC(), two(400), {}
    yield "cost: SVC, 6,000 rows", SVC(), two(6000), {}
    yield "cost: LogisticRegression, 150,000 rows", LogisticRegression(), two(150_000), {}


def report(results: dict[str, Any]) -> str:
    rows, number = [], 0
    for label, found in results["kills"].items():
        kills = found["kills"]
        number += len(kills)
        knew = ", ".join(str(one["known"]) for one in kills)
        repeated, gap = (max((one[k] for one in kills), default=0) for k in ("repeated", "apart"))
        rows.append([label, found["evaluations"], knew, repeated, f"{gap:.1g}"])
    names = [
        "search",
        "evaluations",
        "in the file when killed",
        "repeated",
        "hyperparameters apart",
    ]
    costs = [
        [label, f"{of['seconds']:.2f}", f"{100 * of['more']:.1f} %", f"{of['bytes'] / 1e6:.2f}"]
        for label, of in results["cost"].items()
    ]
    head = ["search", "CPU seconds", "more with progress and checkpoint", "megabytes"]
    return f"{number} kills.\n\n{table(names, rows)}\n\n{table(head, costs)}"


counter: Any = None
