"""Price of a default search on every set: its time in units of one fit at the point found.

Each set has its natural model: SVC or SVR with a Gaussian kernel, epsilon tuned too; LinearSVC for
text.  At most 16,000 rows, five folds, two cores, no refit, medians of three draws.  Where the time
goes is read off the search itself.  Scores on test rows, r2 for regression and else accuracy, stand
beside those of a 7 x 7 grid, both tuned on at most 600 rows of the first draw.  The figure has the
time and memory that searches expected on all rows (`forecast_`) and those that they took.

Constants of the package may be chosen while watching the sets of half A, and are to be checked on
those of half B: which is which was drawn once.  `--only TEXT` runs some of the sets.
"""

import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from benchmarks._common import ROOT, SEEDS, Sample, load_all, measure_each, medians, pyplot, table
from hypermargin import GradientSearchCV
from hypermargin.kernels.gram import SPARE

TEXT = ("news20", "news_basehock", "news_pcmac", "news_relathe", "rcv1_small")
SETS = (
    "a9a", "abalone", "aqueous_solubility", "bbbp", "bike_sharing", "blood_brain", "bodyfat",
    "boston_housing", "breast_cancer_ljubljana", "breast_cancer_wisconsin", "california_housing",
    "concrete", "connect4", "covtype_binary", "diabetes", "esol", "freesolv", "heart", "ijcnn1",
    "ionosphere", "kin8nm", "madelon", "magic04", "melting_point", "mnist", *TEXT, "parkinsons",
    "pendigits", "power_plant", "protein", "seeds", "shuttle", "splice", "svmguide1", "titanic",
    "twonorm", "usps", "waveform", "winequality_red", "yearpredictionmsd_small",
)  # fmt: skip
QUICK = ("heart", "seeds", "bodyfat", "rcv1_small")
AS_THEY_ARE = ("ijcnn1", "a9a", "connect4", "usps")  # scaled by their authors, or bits
MOST, N_TEST = 16_000, 10_000  # rows to tune on, and to test on
SUBSET = 600  # rows that the grid can afford
GRID = {"C": np.logspace(-2, 4, 7), "gamma": np.logspace(-4, 1, 7)}
GRID_LINEAR = {"C": np.logspace(-4, 4, 49)}  # as many points
FLOORS = (  # rows from, rows below; what holds in the median and in the worst case; the unit
    (4_000, np.inf, 1.5, 4.0, "price"),
    (1_000, 4_000, 6.0, 15.0, "price"),
    (0, 1_000, 0.25, 0.8, "search_seconds"),
)
MANY_CLASSES = 5.0  # the worst price where classes are many


def half(name: str) -> str:
    """Return the half of the sets that a set is in."""
    order = np.random.default_rng(2026).permutation(len(SETS))
    return "A" if order[SETS.index(name)] < len(SETS) // 2 else "B"


def draw(name: str, seed: int, most: int = MOST) -> Sample:
    """Draw rows to tune on and to test on, scaled as one would for the natural model."""
    X, y = load_all(name)
    n = min(most, 3 * len(y) // 4)
    labels = None if y.dtype.kind == "f" else y
    if labels is not None and np.unique(labels, return_counts=True)[1].min() < 2:
        labels = None
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n, test_size=min(N_TEST, len(y) - n), stratify=labels, random_state=seed
    )
    X, X_test = X.astype(np.float64), X_test.astype(np.float64)
    if name in TEXT and name != "rcv1_small":  # that one has its weights already
        tfidf = TfidfTransformer(sublinear_tf=True).fit(X)
        X, X_test = tfidf.transform(X), tfidf.transform(X_test)
    elif name == "mnist":
        X, X_test = X / 255, X_test / 255
    elif name not in AS_THEY_ARE and not sparse.issparse(X):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    if y.dtype.kind == "f":
        y, y_test = y / y.std(), y_test / y.std()
    return Sample(X, y, X_test, y_test)


def model(name: str, sample: Sample) -> Any:
    """Return the natural model."""
    if name in TEXT:
        return LinearSVC()
    return SVR(cache_size=2000) if sample.is_regression else SVC(cache_size=2000)


def search(name: str, sample: Sample, seed: int) -> GradientSearchCV:
    """Return a search with default arguments, without its refit."""
    found = GradientSearchCV(
        model(name, sample), cv=sample.folds(seed), n_jobs=2, refit=False, random_state=seed
    )
    return found.fit(sample.X, sample.y)


def clocked(function: Any) -> tuple[float, float, Any]:
    """Return the seconds of a call, its CPU seconds, and its value."""
    wall, cpu = perf_counter(), process_time()
    value = function()
    return perf_counter() - wall, process_time() - cpu, value


def fit_seconds(fitted: Any, sample: Sample) -> tuple[float, float]:
    """Return the median time of three fits, or the time of one that takes long; and CPU time."""
    times = [clocked(lambda: fitted.fit(sample.X, sample.y))[:2]]
    while len(times) < 3 and times[0][0] <= 5:
        times.append(clocked(lambda: fitted.fit(sample.X, sample.y))[:2])
    return median(t[0] for t in times), median(t[1] for t in times)


def resident() -> int:
    """Return the bytes of memory that this process has, as Linux counts them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def watched_memory():
    """Give a list whose last number is the memory that was taken in this context at most."""
    SPARE.begin_in_child()  # what earlier searches have left is given back
    before, most, over = resident(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most.append(max(most[-1], resident() - before))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def foreseen(found: GradientSearchCV, n: int, taken: float) -> dict[str, float]:
    """Return what a search expected on all rows, and what it took."""
    if not hasattr(found, "forecast_"):
        return {}
    on_all = sum(row["seconds"] for row in found.history_ if row["n_samples"] == n)
    return {
        "expected_seconds": found.forecast_["seconds"],
        "taken_seconds": on_all,
        "expected_memory": found.forecast_["memory"],
        "taken_memory": taken,
    }


def measure(name: str, seed: int) -> dict[str, float]:
    """Return the figures of one search; the fit leaves the model to be tested."""
    sample = draw(name, seed)
    with watched_memory() as memory:
        seconds, cpu, found = clocked(lambda: search(name, sample, seed))
    fitted = found.estimator.set_params(**found.best_params_)
    fit, fit_cpu = fit_seconds(fitted, sample)
    total = sum(found.seconds_.values())
    return {
        "n": len(sample.y),
        "classes": 0 if sample.is_regression else len(np.unique(sample.y)),
        "evaluations": sum(row["n_samples"] == len(sample.y) for row in found.history_),
        "looks": sum(row["n_samples"] < len(sample.y) for row in found.history_),
        "search_seconds": seconds,
        "search_cpu": cpu,
        "fit_seconds": fit,
        "price": seconds / fit,
        "cpu_price": cpu / fit_cpu,
        "score": fitted.score(sample.X_test, sample.y_test),
        **foreseen(found, len(sample.y), memory[-1]),
        **{f"in {part}": s / total for part, s in found.seconds_.items()},
    }


def beside_grid(name: str, seed: int) -> dict[str, float]:
    """Return the test scores of our search and of a grid, both on few rows."""
    sample = draw(name, seed, SUBSET)
    grid = GridSearchCV(
        model(name, sample), GRID_LINEAR if name in TEXT else GRID, cv=sample.folds(seed), n_jobs=2
    ).fit(sample.X, sample.y)
    found = search(name, sample, seed)
    ours = found.estimator.set_params(**found.best_params_).fit(sample.X, sample.y)
    return {
        "ours": ours.score(sample.X_test, sample.y_test),
        "grid": grid.score(sample.X_test, sample.y_test),
    }


def measure_set(name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    search(name, draw(name, 0, 1000), 0)  # compiles
    rows = [measure(name, seed) for seed in seeds]
    keys = set.intersection(*(set(row) for row in rows))
    rows = [{key: row[key] for key in rows[0] if key in keys} for row in rows]
    few = [beside_grid(name, seeds[0])]
    return {"half": half(name), "median": medians(rows), "seeds": rows, "few": few}


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    names, seeds = (QUICK, SEEDS[:1]) if quick else (SETS, SEEDS)
    tasks = {name: partial(measure_set, name, seeds) for name in names}
    results = measure_each("prices", tasks, quick, only)
    if not quick:
        plot(results)
    return results


def row_of(name: str, result: dict[str, Any]) -> list[str]:
    of = result["median"]
    shares = {key[3:]: of[key] for key in of if key.startswith("in ")}
    top = sorted(shares, key=lambda part: -shares[part])[:3]
    few = result["few"]
    beside = [f"{median(f[who] for f in few):.3f}" if few else "" for who in ("ours", "grid")]
    return [
        name, result["half"], f"{of['n']:.0f}", f"{of['classes']:.0f}" if of["classes"] else "",
        f"{of['evaluations']:.0f}", f"{of['looks']:.0f}", f"{of['search_seconds']:.2f}",
        f"{of['fit_seconds']:.3f}", f"{of['price']:.1f}", f"{of['cpu_price']:.1f}",
        ", ".join(f"{part} {100 * shares[part]:.0f} %" for part in top), f"{of['score']:.4f}",
        *beside,
    ]  # fmt: skip


def verdicts(results: dict[str, Any]) -> list[str]:
    """Return what holds of the floors, in all sets and by half."""
    lines = []
    for least, most, mid, worst, key in FLOORS:
        chosen = {n: r for n, r in results.items() if least <= r["median"]["n"] < most}
        if not chosen:
            continue
        figures = {n: r["median"][key] for n, r in chosen.items()}
        dearest = max(figures, key=lambda n: figures[n])
        halves = "; ".join(
            f"half {h}: {median(part):.2f}, at worst {max(part):.2f}"
            for h in "AB"
            if (part := [v for n, v in figures.items() if chosen[n]["half"] == h])
        )
        what = "price" if key == "price" else "seconds"
        rows = f"n >= {least}" if most == np.inf else f"n from {least} to {most:.0f}"
        lines.append(
            f"- {rows}, {what}: median {median(figures.values()):.2f} (floor {mid}), at worst "
            f"{figures[dearest]:.2f}, {dearest} (floor {worst}"
            + (f", many classes {MANY_CLASSES}" if key == "price" and most == np.inf else "")
            + f"); {halves}."
        )
    return lines


def forecasts(results: dict[str, Any], what: str) -> np.ndarray:
    """Return pairs of what was expected and what was taken, of all draws."""
    rows = [row for of in results.values() for row in of["seeds"] if f"expected_{what}" in row]
    return np.array([[row[f"expected_{what}"], row[f"taken_{what}"]] for row in rows])


def within_two(pairs: np.ndarray) -> float:
    """Return the share of forecasts that are right within a factor of two."""
    return float(np.mean(np.abs(np.log2(pairs[:, 0] / np.maximum(pairs[:, 1], 1e-9))) <= 1))


def plot(results: dict[str, Any]) -> None:
    """Draw expected and taken time and memory."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for ax, what, unit in zip(axes, ("seconds", "memory"), ("s", "bytes")):
        pairs = forecasts(results, what)
        ends = np.array([pairs.min(initial=1e9, where=pairs > 0) / 2, pairs.max(initial=1) * 2])
        ax.loglog(*pairs.T, "o", ms=4, mfc="none", color="C0")
        ax.loglog(ends, ends, "k-", lw=1)
        ax.fill_between(ends, ends / 2, ends * 2, color="0.9", lw=0)
        ax.set(xlabel=f"expected {what} on all rows, {unit}", ylabel=f"taken, {unit}")
    figure.savefig(ROOT / "docs" / "images" / "forecast.png", dpi=110)


def report(results: dict[str, Any]) -> str:
    order = sorted(results, key=lambda name: -results[name]["median"]["price"])
    header = [
        "set", "half", "n", "classes", "evaluations on all rows", "on fewer", "search, s",
        "one fit, s", "price", "in CPU time", "where", "score", "score on few rows", "grid",
    ]  # fmt: skip
    body = table(header, [row_of(name, results[name]) for name in order])
    told = "; ".join(
        f"{what}: {100 * within_two(pairs):.0f} % of {len(pairs)} within a factor of two"
        for what in ("seconds", "memory")
        if len(pairs := forecasts(results, what))
    )
    return "\n".join([body, "", *verdicts(results), f"- Forecasts (floor 90 %), {told or 'none'}."])
