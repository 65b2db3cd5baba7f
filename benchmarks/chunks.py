"""Searches on Dask: the same results as on one machine, what crosses the network, what is lost.

Clusters are local ones of worker processes with a thread each.  "equal" compares a search on two
workers with one on one machine, at a tolerance of 1e-15 and at the usual one; "lost" kills a worker
in the middle of a search; "memory" is what a client grew by, at most, for rows that are made on the
workers in 20 chunks; "workers" is the time of a search with LinearSVC on covtype, repeated four
times, on one worker over that on two; "bytes" are what left the workers in each kind of pass, by
their own counters, next to what the cost model of docs/dask.md says; "apart" is the work of an
evaluation whose folds, or pairs of classes, are computed by themselves, as other processes would;
"searches apart" are whole searches, in one thread, in two, and within joblib.parallel_config.
"""

import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import combinations, cycle
from typing import Any

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from benchmarks._common import ROOT, Skip, load_all, load_merged, read_results, table
from hypermargin import CrossValidationLoss, GradientSearchCV, LinearClassifier
from hypermargin.problems.chunked.solver import Solver

try:
    import dask.array as da
    from distributed import Client, LocalCluster, wait
except ImportError:
    da = None  # type: ignore

TIGHT = 1e-15
SIZES = (100_000, 1_000_000, 4_000_000)
QUICK_SIZES = (20_000, 40_000)
N_FEATURES = 20
FOLDS = 5


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    """Start worker processes, and a client of theirs."""
    how = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**how) as started, Client(started) as client:
        yield client


# --- equal


def drawn(n: int, d: int) -> dict[str, np.ndarray]:
    """Return rows with labels and targets, of which a few features say something."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    signal = 0.6 * X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.5])
    bent = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.normal(size=n)
    return {
        "X": X,
        "labels": np.where(signal + rng.logistic(size=n) > 0.2, "yes", "no"),
        "targets": 3.0 * signal + 6.0 * rng.normal(size=n),
        "bent": bent,
        "sides": np.where(bent > 0.3, "a", "b"),
    }


# what is descended on has one minimum here, so that both searches have one place to end at
CASES: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "squared hinge": (LinearSVC(), "labels", "squared_labels", {"C": (1e-5, 0.1)}),
    "logistic": (LogisticRegression(), "labels", "neg_log_loss", {"C": (1e-3, 1.0)}),
    "squared": (Ridge(), "targets", "r2", {"alpha": (10.0, 1e4)}),
    "squared epsilon-insensitive": (
        LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.5),
        "targets",
        "neg_mean_squared_error",
        {"C": (1e-4, 0.1)},
    ),
    "smoothed hinge": (
        LinearClassifier(loss="smooth_hinge"),
        "labels",
        "smooth_hinge",
        {"C": (1e-4, 0.1)},
    ),
    "SVR on 60 landmarks": (
        SVR(tol=1e-11, gamma=0.3),
        "bent",
        "neg_mean_squared_error",
        {"C": (1e-2, 10.0)},
    ),
    "SVC on 60 landmarks": (SVC(tol=1e-11), "sides", "smooth_hinge", {"gamma": (0.03, 3.0)}),
}
ON_LANDMARKS = [name for name in CASES if "landmarks" in name]


def compare(name: str, kind: str, tol: float, n: int) -> dict[str, Any]:
    """Return how far a search on a cluster ends from one on one machine."""
    estimator, target, criterion, space = CASES[name]
    d = 4 if name in ON_LANDMARKS else 20 if n < 1000 else 150
    data = drawn(n, d)
    X, y = data["X"], data[target]
    Xd, yd = da.from_array(X, chunks=(n // 7, d)), da.from_array(y, chunks=n // 5)
    if kind == "sparse":
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0))
        Xd = da.from_array(X.toarray(), chunks=(n // 7, d)).map_blocks(sparse.csr_matrix)
    how: dict[str, Any] = {
        "space": space, "criterion": criterion, "cv": FOLDS, "tol": tol, "method": "gradient",
        "max_evals": 200, "random_state": 0, "rank": 60 if name in ON_LANDMARKS else None,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = GradientSearchCV(estimator, **how).fit(X, y)
        many = GradientSearchCV(estimator, **how).fit(Xd, yd)
    ((cost, value),) = one.best_params_.items()
    losses = [s.cv_results_["objective"][s.best_index_] for s in (one, many)]
    return {
        "value": float(value),
        "inside": bool(space[cost][0] < value < space[cost][1]),
        "parameter": abs(float(many.best_params_[cost] / value) - 1.0),
        "score": abs(float(many.best_score_ / one.best_score_) - 1.0),
        "loss": abs(float(losses[1] / losses[0]) - 1.0),
    }


def equal(quick: bool) -> dict[str, Any]:
    found = {}
    with cluster(2):
        for name in CASES:
            # landmarks are drawn from the rows that come here, which are all where they are few
            n = 400 if quick else 1500 if name in ON_LANDMARKS else 3000
            kinds = ["dense"] if name in ON_LANDMARKS else ["dense", "sparse"]
            for kind in kinds:
                row = {
                    "tight": compare(name, kind, TIGHT, n),
                    "usual": compare(name, kind, 5e-3, n),
                }
                found[f"{name}, {kind}"] = row
    return found


# --- lost


def made(n: int, chunk: int, slow: float = 0.0) -> tuple[Any, Any]:
    """Return rows that workers make, the same ones whenever they are made."""

    def block(block_info: Any = None) -> np.ndarray:
        time.sleep(slow)
        (start, stop), _ = block_info[None]["array-location"]
        return np.random.default_rng(start).normal(size=(stop - start, N_FEATURES))

    chunks = (tuple(min(chunk, n - i) for i in range(0, n, chunk)), (N_FEATURES,))
    X = da.map_blocks(block, chunks=chunks, dtype=float, meta=np.empty((0, 0)))
    y = X.map_blocks(_labels, drop_axis=1, dtype=int, meta=np.empty(0, dtype=int))
    return X, y


def _labels(X: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(len(X)).logistic(size=len(X))
    return (X[:, :5].sum(axis=1) + 2.0 * noise > 0).astype(int)


def searched(X: Any, y: Any, estimator: Any = None, **how: Any) -> GradientSearchCV:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"cv": FOLDS, "random_state": 0, **how}
        return GradientSearchCV(estimator or LogisticRegression(), **how).fit(X, y)


def lost(quick: bool) -> dict[str, Any]:
    """Search twice, and kill a worker in the middle of the second one."""
    n, results = 20_000 if quick else 200_000, []
    passes, killed = [0], list[int]()
    usual = Solver.pass_over
    for kills in (False, True):
        with cluster(3) as client:
            pids = client.run(os.getpid)
            passes[0] = 0

            def counted(solver: Solver, *args: Any, kills: bool = kills, pids: Any = pids) -> Any:
                passes[0] += 1
                if kills and passes[0] == 5:
                    victim = next(iter(pids.values()))
                    killed.append(victim)
                    threading.Timer(0.02, os.kill, (victim, 9)).start()
                return usual(solver, *args)

            Solver.pass_over = counted  # type: ignore
            try:
                search = searched(*made(n, n // 8))
            finally:
                Solver.pass_over = usual  # type: ignore
            alive = set(client.run(os.getpid).values())
            results.append(
                {
                    "C": float(search.best_params_["C"]),
                    "score": float(search.best_score_),
                    "passes": passes[0],
                    "gone": len(set(pids.values()) - alive),
                }
            )
    return {"rows": n, "whole": results[0], "with a worker killed": results[1]}


# --- memory


def memory(quick: bool) -> dict[str, float]:
    """Return megabytes that clients took, each in a process of its own."""
    found = {}
    for n in QUICK_SIZES if quick else SIZES:
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.chunks", str(n)],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        found[str(n)] = float(ran.stdout.split()[-1])
    return found


def print_memory(n: int) -> None:
    """Print how much a client grows in a search, after one on few rows."""
    with cluster(2):
        searched(*made(10_000, 500), refit=True)  # compiles, and imports what it needs
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        searched(*made(n, n // 20), refit=True)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


# --- workers


def workers(quick: bool) -> dict[str, Any]:
    X, y = load_merged("covtype_binary")
    rows = np.random.default_rng(100).permutation(len(y))[: 20_000 if quick else len(y)]
    X, y = StandardScaler().fit_transform(X[rows]).astype(np.float32), y[rows]
    found: dict[str, Any] = {"rows": 4 * len(y)}
    for n_workers in (1, 2):
        with cluster(n_workers) as client:
            size = -(-len(y) // 4)
            # rows and their labels are on one worker, as many rows on each
            on = cycle(client.scheduler_info(n_workers=-1)["workers"])
            parts = [
                client.scatter([X[i : i + size], y[i : i + size]], workers=[next(on)])
                for i in range(0, len(y), size)
            ]
            sizes = [min(size, len(y) - i) for i in range(0, len(y), size)]
            Xd, yd = (
                da.concatenate(
                    [
                        da.from_delayed(part[k], (n, *shape), dtype=dtype)
                        for _ in range(4)
                        for part, n in zip(parts, sizes, strict=True)
                    ]
                )
                for k, shape, dtype in ((0, X.shape[1:], X.dtype), (1, (), y.dtype))
            )
            # copies that are rows of their own
            Xd, yd = client.persist([Xd.map_blocks(np.copy), yd.map_blocks(np.copy)])
            wait([Xd, yd])
            searched(Xd[::100], yd[::100], LinearSVC(), max_evals=2)  # compiles, on each worker
            begun = time.perf_counter()
            search = searched(Xd, yd, LinearSVC(), refit=False)
            seconds = time.perf_counter() - begun
            found[str(n_workers)] = {
                "seconds": seconds,
                "phases": {name: round(of, 2) for name, of in search.seconds_.items()},
                "C": float(search.best_params_["C"]),
            }
            print(n_workers, found[str(n_workers)], flush=True)
    found["ratio"] = found["1"]["seconds"] / found["2"]["seconds"]
    return found


# --- bytes


def bytes_of(function: Callable, args: tuple, width: int, lanes: int) -> float:
    """Return what the cost model says that one worker sends of a pass: its sums."""
    kind = args[1] if function.__name__ == "look" else None
    grams = (FOLDS + 1) * width**2 if kind == "shared" else 0
    own = {"look": width * lanes + grams, "bend": width * lanes, "right_hand": 2 * width * lanes}
    return 8.0 * own.get(function.__name__, 0)


def moved(quick: bool) -> dict[str, Any]:
    """Return the bytes that left the workers in passes of each kind, and what the model says."""
    n, usual = 20_000 if quick else 200_000, Solver.pass_over
    found: dict[str, Any] = {}
    with cluster(2) as client:

        def sent() -> float:
            return float(sum(client.run(_sent).values()))

        def counted(solver: Solver, function: Callable, params: Any, *args: Any) -> Any:
            before = sent()
            result = usual(solver, function, params, *args)
            width, lanes = len(solver.penalty), solver.machines.n_lanes
            hessians = any(isinstance(given, str) for given in args)
            name = function.__name__ + (" with Hessians" if hessians else "")
            row = found.setdefault(name, {"passes": 0, "measured": 0.0, "sums": 0.0, "weights": 0})
            row["passes"] += 1
            row["measured"] += sent() - before
            row["sums"] += bytes_of(function, args, width, lanes)
            row["weights"] = 8 * width * lanes
            return result

        Solver.pass_over = counted  # type: ignore
        try:
            search = searched(*made(n, n // 8), refit=False)
        finally:
            Solver.pass_over = usual  # type: ignore
    for row in found.values():
        row["measured"] /= row["passes"]
        row["sums"] /= row["passes"]
    return {"rows": n, "evaluations": len(search.cv_results_["params"]), "passes": found}


def _sent(dask_worker: Any) -> int:
    return dask_worker.transfer_outgoing_bytes_total


# --- apart

KERNELS = {
    "ijcnn1": (8000, SVC(), {"C": 20.0, "gamma": 0.5}),
    "magic04": (8000, SVC(), {"C": 5.0, "gamma": 0.1}),
    "pendigits": (8000, SVC(), {"C": 10.0, "gamma": 0.1}),
    "a9a": (40_000, LinearSVC(), {"C": 0.05}),
}


def work(estimator: Any, X: Any, y: np.ndarray, splits: Any, point: dict[str, float]) -> float:
    """Return the seconds of CPU that value and gradient at a point take from nothing."""
    found = []
    for _ in range(3):
        loss = CrossValidationLoss(estimator, X, y, cv=splits, n_jobs=1, tol=1e-3)
        begun = time.process_time()
        loss.value_and_grad(point)
        found.append(time.process_time() - begun)
    return min(found)


def scaled(name: str, n: int) -> tuple[Any, np.ndarray]:
    """Return some of the rows of a set, and their labels."""
    X, y = load_all(name)
    rows = np.random.default_rng(100).permutation(len(y))[:n]
    scaler = StandardScaler(with_mean=not sparse.issparse(X))
    return scaler.fit_transform(X[rows].astype(float)), y[rows]


def apart(quick: bool) -> dict[str, Any]:
    found = {}
    for name, (n, estimator, point) in KERNELS.items():
        X, y = scaled(name, 1000 if quick else n)
        splits = list(StratifiedKFold(FOLDS).split(X, y))
        together = work(estimator, X, y, splits, point)
        folds = [work(estimator, X, y, [split], point) for split in splits]
        row = {"together": together, "folds": sum(folds), "longest": max(folds)}
        if len(classes := np.unique(y)) > 2:
            pairs = [np.isin(y, pair) for pair in combinations(classes, 2)]
            row["pairs"] = sum(work(estimator, X[p], y[p], FOLDS, point) for p in pairs)
        search = GradientSearchCV(estimator, cv=splits, method="gradient", random_state=0, n_jobs=1)
        search.fit(X, y)
        few = min(record["n_samples"] for record in search.history_)
        spent = [(record["n_samples"] == few, record["seconds"]) for record in search.history_]
        row["starts"] = sum(s for is_few, s in spent if is_few) / sum(s for _, s in spent)
        found[name] = row
    return found


# --- searches apart


@contextmanager
def clustered() -> Iterator[None]:
    """Within this context joblib has three worker processes of Dask."""
    with cluster(3), parallel_config("dask"):
        yield


def searches(quick: bool) -> dict[str, Any]:
    """Return what searches take in one thread, in two, and by three workers of joblib's."""
    ways: dict[str, tuple[Any, int | None]] = {
        "one thread": (nullcontext, 1),
        "two threads": (nullcontext, 2),
        "three processes": (lambda: parallel_config("loky", n_jobs=3), None),
        "three workers of Dask": (clustered, None),
    }
    found: dict[str, Any] = {}
    cases = [(name, n, estimator) for name, (n, estimator, _) in KERNELS.items()]
    cases += [("ijcnn1", 30_000, SVC()), ("magic04", 8000, make_pipeline(StandardScaler(), SVC()))]
    for data, n, estimator in cases:
        X, y = scaled(data, 1000 if quick else n)
        name = f"{data}, {len(y):,} rows, {type(estimator).__name__}"
        found[name] = {"rows": len(y)}
        for way, (context, n_jobs) in ways.items():
            with context():
                searched(X[:1000], y[:1000], estimator, n_jobs=n_jobs)  # compiles, starts processes
                begun = time.perf_counter()
                search = searched(X, y, estimator, n_jobs=n_jobs, refit=False)
                seconds = time.perf_counter() - begun
            on_all = [r["seconds"] for r in search.history_ if r["n_samples"] == len(y)]
            found[name][way] = {
                "seconds": seconds,
                "on_all": sum(on_all),
                "evaluations": len(on_all),
                "score": float(search.best_score_),
            }
            print(name, way, found[name][way], flush=True)
    return found


PARTS: dict[str, Callable[[bool], Any]] = {
    "equal": equal, "lost": lost, "memory": memory, "bytes": moved, "workers": workers,
    "apart": apart, "searches apart": searches,
}  # fmt: skip


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    if da is None:
        raise Skip("dask and distributed are not installed")
    found = {name: part(quick) for name, part in PARTS.items() if not only or only in name}
    return {**read_results("chunks", quick), **found} if only else found


def report(results: dict[str, Any]) -> str:
    parts = []
    if "equal" in results:
        rows = [
            [name, *(f"{row[tol][what]:.1e}" for tol in ("tight", "usual")
                     for what in ("parameter", "score", "loss"))]
            for name, row in results["equal"].items()
        ]  # fmt: skip
        names = ["relative difference", "hyperparameter", "score", "loss"]
        parts.append(table([*names, *(f"{n}, tol=5e-3" for n in names[1:])], rows))
    if "lost" in results:
        rows = [
            [name, f"{row['C']:.10g}", f"{row['score']:.10g}", row["passes"], row["gone"]]
            for name, row in results["lost"].items() if name != "rows"
        ]  # fmt: skip
        parts.append(table(["three workers", "C", "score", "passes", "workers gone"], rows))
    if "memory" in results:
        rows = [[f"{int(n):,}", f"{mb:.1f}"] for n, mb in results["memory"].items()]
        parts.append(table(["rows", "client grows by, MB"], rows))
    if "bytes" in results:
        rows = [
            [name, row["passes"], f"{row['measured']:,.0f}", f"{row['sums']:,.0f}",
             f"{row['weights']:,}"]
            for name, row in results["bytes"]["passes"].items()
        ]  # fmt: skip
        head = ["pass", "number", "bytes that left the workers", "sums of one", "weights"]
        parts.append(table(head, rows))
    if "workers" in results:
        found = results["workers"]
        rows = [[n, f"{found[n]['seconds']:.1f}", f"{found[n]['C']:.6g}"] for n in ("1", "2")]
        parts.append(table(["workers", "search, s", "C"], rows))
        parts.append(f"Ratio {found['ratio']:.2f} on {found['rows']:,} rows.")
    return "\n\n".join([*parts, *report_apart(results)])


def report_apart(results: dict[str, Any]) -> list[str]:
    parts = []
    if "apart" in results:
        rows = [
            [name, f"{row['together']:.2f}", f"{row['folds'] / row['together']:.1f}",
             f"{row['together'] / row['longest']:.1f}",
             f"{row['pairs'] / row['together']:.1f}" if "pairs" in row else "",
             f"{100 * row['starts']:.0f} %"]
            for name, row in results["apart"].items()
        ]  # fmt: skip
        head = ["evaluation", "CPU, s", "folds apart, times", "gain of five processes at most",
                "pairs apart, times", "looks and starts of a search"]  # fmt: skip
        parts.append(table(head, rows))
    if "searches apart" in results:
        rows = [
            [name, way, f"{row['seconds']:.2f}", f"{row['on_all']:.2f}", row["evaluations"],
             f"{row['score']:.4f}"]
            for name, of in results["searches apart"].items()
            for way, row in of.items() if way != "rows"
        ]  # fmt: skip
        head = ["set", "way", "search, s", "of which on all rows", "evaluations on all", "score"]
        parts.append(table(head, rows))
    return parts


if __name__ == "__main__":
    print_memory(int(sys.argv[1]))
