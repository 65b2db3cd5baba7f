"""C of linear classifiers: our search and our path beside LIBLINEAR's `train -C -v 5`.

Squared hinge and logistic loss, five folds, two cores for ours (LIBLINEAR has one thread).  The
accuracies are LIBLINEAR's own, at our C and at the C that it chose, on our folds: at its default
tolerance, and trained to a hundredth of it.  (At large C the former stops early, which acts like a
smaller C.)  `--only TEXT` runs one set.

`-C` draws its folds by `rand()`.  Seeded, it draws those that we then draw the same way, so that
our path and `-C` choose C on the same folds, three times.  How much of that choice is rounding is
told by `-C` with the features in another order, which changes nothing but the order of sums.
"""

import ctypes
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks._common import (
    AS_THEY_ARE,
    Skip,
    load,
    measure_each,
    median_seconds,
    table,
    timed,
)
from hypermargin import GradientSearchCV

try:
    from liblinear.liblinearutil import parameter, problem, train
except ImportError:
    train = None

# Which class is told from the rest, where there are more than two.
SETS = {"a9a": None, "ijcnn1": None, "news20": 1, "news_basehock": None, "connect4": -1}
QUICK_SETS = ("news_basehock",)
LOSSES = {"squared hinge": 2, "logistic": 0}  # and LIBLINEAR's number of the primal solver
DEFAULT, TRAINED = 0.01, 0.0001  # LIBLINEAR's tolerances
SEED = 100
DRAWS = (101, 102, 103)  # of folds by `rand()`
FLOORS = {"in total": 10.0, "on each": 3.0, "points": 0.1}


def read(name: str) -> tuple[Any, np.ndarray]:
    """Return all training rows, dense ones standardised, and labels -1 and 1."""
    data = load(name)
    X, y = data.X, data.y
    y = np.where(y == (y.max() if SETS[name] is None else SETS[name]), 1, -1)
    X = X.astype(np.float64)
    if not sparse.issparse(X) and name not in AS_THEY_ARE:
        X = StandardScaler().fit_transform(X)
    return X, y


def model(loss: str) -> Any:
    """Return the estimator with LIBLINEAR's objective, its penalised bias included."""
    return LinearSVC() if loss == "squared hinge" else LogisticRegression(solver="liblinear")


def folds() -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=SEED)


def search(X: Any, y: np.ndarray, loss: str, method: str) -> GradientSearchCV:
    searching = GradientSearchCV(model(loss), cv=folds(), n_jobs=2, refit=False, method=method)
    return searching.fit(X, y)


def their_folds(n: int, k: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Seed `rand()`, and return the folds that `-C -v k` draws after the same seed."""
    libc = ctypes.CDLL(None)
    libc.srand(seed)
    order = np.arange(n)
    for i in range(n):
        j = i + libc.rand() % (n - i)
        order[i], order[j] = order[j], order[i]
    ends = [i * n // k for i in range(k + 1)]
    tests = [np.sort(order[a:b]) for a, b in pairwise(ends)]
    return [(np.setdiff1d(order, test), test) for test in tests]


def choices(X: Any, y: np.ndarray, loss: str, data: Any, seed: int) -> dict[str, float]:
    """Return the C that our path and `-C`, twice, choose on the same folds."""
    searching = GradientSearchCV(
        model(loss), cv=their_folds(len(y), 5, seed), n_jobs=2, refit=False, method="path"
    )
    found = {"path": float(searching.fit(X, y).best_params_["C"])}
    other = np.random.default_rng(seed).permutation(X.shape[1])
    reordered = problem(y.astype(float), sparse.csr_matrix(X[:, other]), bias=1)
    for name, rows in {"-C": data, "-C, reordered": reordered}.items():
        ctypes.CDLL(None).srand(seed)
        found[name] = float(train(rows, parameter(f"-s {LOSSES[loss]} -C -v 5 -B 1 -q"))[0])
    return found


def accuracy(X: Any, y: np.ndarray, loss: str, C: float, tol: float = DEFAULT) -> float:
    """Return LIBLINEAR's accuracy on our folds, in per cent."""
    right = 0
    for rows, test in folds().split(X, y):
        options = parameter(f"-s {LOSSES[loss]} -c {C!r} -e {tol} -B 1 -q")
        fitted = train(problem(y[rows].astype(float), sparse.csr_matrix(X[rows]), bias=1), options)
        w, b = fitted.get_decfun()
        outputs = X[test] @ np.asarray(w) + b
        right += int(((outputs > 0) == (y[test] > 0)).sum())
    return 100 * right / len(y)


def measure(name: str, loss: str) -> dict[str, Any]:
    """Return times, chosen values of C, and accuracies at them."""
    X, y = read(name)
    few = np.random.default_rng(0).permutation(len(y))[:300]
    for method in ("curve", "path"):
        search(X[few], y[few], loss, method)  # compiles
    data = problem(y.astype(float), sparse.csr_matrix(X), bias=1)
    found = {method: search(X, y, loss, method) for method in ("curve", "path")}
    seconds = {m: median_seconds(partial(search, X, y, loss, m)) for m in found}
    options = parameter(f"-s {LOSSES[loss]} -C -v 5 -B 1 -q")
    theirs, answer = zip(*(timed(lambda: train(data, options)) for _ in range(3)))
    C = {method: float(one.best_params_["C"]) for method, one in found.items()}
    C["-C"] = float(answer[0][0])  # the first draw of its folds
    one_fit = median_seconds(
        lambda: train(data, parameter(f"-s {LOSSES[loss]} -c {C['curve']!r} -B 1 -q"))
    )
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "seconds": {**seconds, "-C": float(np.median(theirs)), "fit": one_fit},
        "C": C,
        "accuracy": {method: accuracy(X, y, loss, value) for method, value in C.items()},
        "trained": {method: accuracy(X, y, loss, value, TRAINED) for method, value in C.items()},
        "on its folds": [choices(X, y, loss, data, seed) for seed in DRAWS],
        "evaluations": {method: len(one.history_) for method, one in found.items()},
        "last C of the path": float(max(found["path"].curve_["C"])),
    }


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    if train is None:
        raise Skip("no LIBLINEAR: pip install liblinear-official")
    names = QUICK_SETS if quick else SETS
    tasks = {f"{name}, {loss}": partial(measure, name, loss) for name in names for loss in LOSSES}
    return measure_each("linear", tasks, quick, only)


def report(results: dict[str, Any]) -> str:
    rows = []
    for label, r in results.items():
        s, acc = r["seconds"], r["accuracy"]
        rows.append(
            [
                label,
                f"{s['curve']:.2f}",
                f"{s['path']:.2f}",
                f"{s['-C']:.2f}",
                f"{s['-C'] / s['curve']:.0f}",
                f"{s['-C'] / s['path']:.1f}",
                f"{s['curve'] / s['fit']:.1f}",
                *(f"{np.log2(r['C'][m]):.1f}" for m in ("curve", "path", "-C")),
                ", ".join(str(_apart(draw, "path")) for draw in r["on its folds"]),
                ", ".join(str(_apart(draw, "-C, reordered")) for draw in r["on its folds"]),
                *(f"{acc[m]:.2f}" for m in ("curve", "path", "-C")),
                *(f"{r['trained'][m]:.2f}" for m in ("curve", "path", "-C")),
            ]
        )
    header = [
        "set and loss", "search, s", "path, s", "-C, s", "-C / search", "-C / path", "search, fits",
        "log2 C, search", "path", "-C", "path against -C on its folds", "-C, features reordered",
        "accuracy, search", "path", "-C", "trained, search", "path", "-C",
    ]  # fmt: skip
    return f"{table(header, rows)}\n\n{verdict(results)}"


def _apart(draw: dict[str, float], name: str) -> int:
    """Return log2 of a chosen C over that of `-C` on the same folds."""
    return round(float(np.log2(draw[name] / draw["-C"])))


def verdict(results: dict[str, Any]) -> str:
    """Say which floors hold."""
    seconds = [r["seconds"] for r in results.values()]
    total = sum(s["-C"] for s in seconds) / sum(s["curve"] for s in seconds)
    least = min(s["-C"] / s["curve"] for s in seconds)
    lost, lost_trained = (
        max(r[key]["-C"] - r[key]["curve"] for r in results.values())
        for key in ("accuracy", "trained")
    )
    path = min(s["-C"] / s["path"] for s in seconds)
    draws = [draw for r in results.values() for draw in r["on its folds"]]

    def agreed(one: str) -> int:
        return sum(abs(_apart(draw, one)) <= 1 for draw in draws)

    return (
        f"Whole search: {total:.0f} times faster than -C in total "
        f"(floor {FLOORS['in total']:.0f}), at least {least:.1f} times on each "
        f"(floor {FLOORS['on each']:.0f}); "
        f"at most {lost:.2f} points of accuracy below it (floor {FLOORS['points']}), and "
        f"{lost_trained:.2f} where LIBLINEAR is trained to a hundredth of its tolerance.\n"
        f"Path: at least {path:.1f} times as fast as -C on each.  On the same folds it chooses a C "
        f"within a factor of two of that of -C in {agreed('path')} of {len(draws)} draws; -C with "
        f"the features in another order does so in {agreed('-C, reordered')}."
    )
