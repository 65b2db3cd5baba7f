"""C of a linear SVM on covtype against the number of rows: time, one LIBLINEAR fit, memory.

Squared hinge loss, standardised, five folds, two cores.  The slope is that of the time on
logarithmic axes, drawn to docs/images/linear.svg.  Memory is the most that a process with nothing
else in it had during the search, above what it had with the data loaded, in copies of X.
"""

import resource
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks._common import (
    RESULTS,
    ROOT,
    Skip,
    load_merged,
    measure_each,
    median_seconds,
    pyplot,
    table,
)
from hypermargin import GradientSearchCV

try:
    from liblinear.liblinearutil import parameter, problem, train
except ImportError:
    train = None

SIZES = (50_000, 100_000, 200_000, 400_000, 581_012)
QUICK_SIZES = (5_000, 10_000)
SEED = 100
FLOORS = {"fits": 3.0, "copies": 3.0, "slope": 1.1}
PICTURE = ROOT / "docs" / "images" / "linear.svg"
QUICK_PICTURE = RESULTS / "linear.quick.svg"


def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of covtype, standardised."""
    X, y = load_merged("covtype_binary")
    rows = np.random.default_rng(SEED).permutation(len(y))[:n]
    return StandardScaler().fit_transform(X[rows]), y[rows]


def search(X: np.ndarray, y: np.ndarray) -> GradientSearchCV:
    cv = StratifiedKFold(5, shuffle=True, random_state=SEED)
    return GradientSearchCV(LinearSVC(), cv=cv, n_jobs=2, refit=False).fit(X, y)


def measure(n: int) -> dict[str, Any]:
    """Return the time of a search and of LIBLINEAR's fits at the found C."""
    X, y = draw(n)
    found = search(X[:2_000], y[:2_000])  # compiles
    seconds = median_seconds(lambda: search(X, y))
    found = search(X, y)
    C = float(found.best_params_["C"])
    data = problem(y.astype(float), sparse.csr_matrix(X), bias=1)
    fit = median_seconds(lambda: train(data, parameter(f"-s 2 -c {C!r} -B 1 -q")))
    copies = subprocess.run(
        [sys.executable, "-m", "benchmarks.linear_scaling", str(n)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return {
        "search": seconds,
        "fit": fit,
        "C": C,
        "accuracy": 100 * float(found.best_score_),
        "copies": float(copies.stdout.split()[-1]),
    }


def print_copies(n: int) -> None:
    """Print how much memory a search takes, in copies of X."""
    X, y = draw(n)
    X = X.copy()
    search(X[:2_000], y[:2_000])
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    # what loading took at most must not hide what the search takes
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    search(X, y)
    with open("/proc/self/status") as file:
        peak = next(line for line in file if line.startswith("VmHWM"))
    print((int(peak.split()[1]) * 1024 - before) / X.nbytes)


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    """Return the figures by number of rows, and draw them."""
    if train is None:
        raise Skip("no LIBLINEAR: pip install liblinear-official")
    plt = pyplot()
    tasks = {str(n): partial(measure, n) for n in (QUICK_SIZES if quick else SIZES)}
    results = measure_each("linear_scaling", tasks, quick, only)
    draw_picture(plt, results, QUICK_PICTURE if quick else PICTURE)
    return results


def slope(results: dict[str, Any]) -> float:
    sizes = np.log([float(n) for n in results])
    return float(np.polyfit(sizes, np.log([r["search"] for r in results.values()]), 1)[0])


def draw_picture(plt: Any, results: dict[str, Any], picture) -> None:
    plt.rcParams["svg.hashsalt"] = "linear"
    figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    sizes = [int(n) for n in results]
    for key, title, color in (
        ("search", f"whole search, 5 folds (slope {slope(results):.2f})", "#cc6677"),
        ("fit", "one LIBLINEAR fit", "0.35"),
    ):
        ax.plot(sizes, [row[key] for row in results.values()], "o-", color=color, label=title)
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title="covtype, LinearSVC")
    ax.set_xticks(sizes, [f"{n // 1000}k" for n in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def report(results: dict[str, Any]) -> str:
    rows = [
        [
            f"{int(n):,}",
            f"{r['search']:.2f}",
            f"{r['fit']:.2f}",
            f"{r['search'] / r['fit']:.2f}",
            f"{r['copies']:.2f}",
            f"{r['C']:.3g}",
            f"{r['accuracy']:.2f}",
        ]
        for n, r in results.items()
    ]
    header = ["rows", "search, s", "one fit, s", "in fits", "memory, copies of X", "C", "accuracy"]
    last = list(results.values())[-1]
    return (
        f"{table(header, rows)}\n\n"
        f"On all rows {last['search'] / last['fit']:.2f} fits (floor {FLOORS['fits']:.0f}) and "
        f"{last['copies']:.2f} copies of X (floor {FLOORS['copies']:.0f}); slope "
        f"{slope(results):.2f} (floor {FLOORS['slope']})."
    )


if __name__ == "__main__":
    print_copies(int(sys.argv[1]))
