"""A width for each feature against one for all, by kernel, beside trees; and what widths cost.

Errors are in percent, of regressions the root mean squared error in units of the target's standard
deviation, medians of three draws.  "asks" is `{"gamma": "per_feature"}`, "always" skips the
question.  LightGBM and xRFM are measured where they are installed.

`--only cost` and the like run the parts whose label has that text.
"""

import importlib.util
import tracemalloc
from collections.abc import Callable
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from benchmarks._common import Sample, draw, measure_each, medians, table, timed
from hypermargin import CrossValidationLoss, GradientSearchCV, KernelSVC, KernelSVR

CASES = (
    ("splice", 1900),
    ("madelon", 1560),
    ("ijcnn1", 2000),
    ("ijcnn1", 8000),
    ("magic04", 8000),
    ("kin8nm", 4000),
    ("california_housing", 8000),
    ("diabetes", 460),
)
QUICK = (("diabetes", 200),)
DRAWS = 3
COSTS = (1, 22, 100, 500)  # numbers of widths
COST_ROWS = 2000
# what is searched, by label: the kernel and what is given for gamma
SEARCHES = {
    "rbf, one": ("rbf", None),
    "rbf, asks": ("rbf", "per_feature"),
    "rbf, always": ("rbf", "always_per_feature"),
    "laplacian, one": ("laplacian", None),
    "laplacian, asks": ("laplacian", "per_feature"),
    "matern32, asks": ("matern32", "per_feature"),
    "auto": ("auto", None),
}


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    seeds = range(1 if quick else DRAWS)
    tasks: dict[str, Callable[[], Any]] = {}
    for name, n in QUICK if quick else CASES:
        for label in (*SEARCHES, *trees()):
            tasks[f"{name}, {n}: {label}"] = partial(of_draws, name, n, label, seeds)
    for n_widths in COSTS[:2] if quick else COSTS:
        tasks[f"cost, {n_widths} widths"] = partial(cost, n_widths, 300 if quick else COST_ROWS)
    return measure_each("widths", tasks, quick, only, keep=True)


def trees() -> dict[str, tuple[Any, Any]]:
    """Return the classifiers and regressors that are not ours, as far as they are installed."""
    found: dict[str, tuple[Any, Any]] = {
        "HistGradientBoosting": (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
    }
    if importlib.util.find_spec("lightgbm") is not None:
        lightgbm = importlib.import_module("lightgbm")
        found["LightGBM"] = (
            partial(lightgbm.LGBMClassifier, verbose=-1),
            partial(lightgbm.LGBMRegressor, verbose=-1),
        )
    if importlib.util.find_spec("xrfm") is not None:
        found["xRFM"] = (RecursiveFeatureMachine, RecursiveFeatureMachine)
    return found


class RecursiveFeatureMachine(BaseEstimator):
    """xRFM with its defaults, which wants rows to choose its iteration on: a fifth of them."""

    def __init__(self, random_state: int):
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> "RecursiveFeatureMachine":
        machine = importlib.import_module("xrfm").xRFM(
            random_state=self.random_state, device="cpu", verbose=False
        )
        self.classes_, labels = None, None
        if y.dtype.kind != "f":
            self.classes_, y = np.unique(y, return_inverse=True)
            labels = y
        parts = train_test_split(
            X, y, test_size=0.2, stratify=labels, random_state=self.random_state
        )
        X, X_val, y, y_val = (
            part.astype("f4") if part.dtype.kind == "f" else part for part in parts
        )
        self.machine_ = machine.fit(X, y, X_val, y_val)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        found = np.asarray(self.machine_.predict(X.astype("f4"))).reshape(-1)
        return found if self.classes_ is None else self.classes_[found.astype(int)]

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(self.predict(X) == y))


def of_draws(name: str, n: int, label: str, seeds: range) -> dict[str, float]:
    return medians([one_draw(draw(name, n, seed), label, seed) for seed in seeds])


def one_draw(sample: Sample, label: str, seed: int) -> dict[str, float]:
    if label in SEARCHES:
        model: Any = search(sample, *SEARCHES[label], seed)
    else:
        model = trees()[label][sample.is_regression](random_state=seed)
    seconds, _ = timed(partial(model.fit, sample.X, sample.y))
    found = {"error": error_of(model, sample), "seconds": seconds}
    if label in SEARCHES:
        found["kept"] = float(hasattr(model, "widths_") and model.widths_["kept"])
    return found


def search(sample: Sample, kernel: str, gamma: Any, seed: int) -> GradientSearchCV:
    model = KernelSVR(kernel=kernel) if sample.is_regression else KernelSVC(kernel=kernel)
    space: Any = {"C": None, "gamma": gamma} | ({"epsilon": None} if sample.is_regression else {})
    if kernel == "auto":
        space = None
    return GradientSearchCV(model, space, cv=sample.folds(seed), random_state=seed)


def error_of(model: Any, sample: Sample) -> float:
    if sample.is_regression:
        off = model.predict(sample.X_test) - sample.y_test
        return float(np.sqrt(np.mean(off**2)))
    return 100.0 * (1.0 - model.score(sample.X_test, sample.y_test))


def cost(n_widths: int, n_rows: int) -> dict[str, float]:
    """Return time and peak memory of one value and gradient, beside those of one width."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_widths))
    y = X[:, : min(n_widths, 5)].sum(axis=1) + rng.normal(size=n_rows) > 0
    found: dict[str, float] = {}
    for label, gamma in (("one", None), ("each", "always_per_feature")):
        loss = CrossValidationLoss(KernelSVC(), X, y, {"C": None, "gamma": gamma}, cv=5)
        at = loss.start
        loss.value_and_grad(at)
        moved = iter(1e-3 * rng.normal(size=(20, len(at))))  # the same point would be remembered

        def evaluate(loss: Any = loss, at: Any = at, moved: Any = moved) -> float:
            begun = process_time()  # of one thread, so that others do not count
            loss.value_and_grad(at + next(moved))
            return process_time() - begun

        found[f"{label}, s"] = median(evaluate() for _ in range(5))
        tracemalloc.start()
        evaluate()
        found[f"{label}, MB"] = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    return found


def report(results: dict[str, Any]) -> str:
    errors = {k: v for k, v in results.items() if not k.startswith("cost")}
    cases = list(dict.fromkeys(key.partition(": ")[0] for key in errors))
    labels = list(dict.fromkeys(key.partition(": ")[2] for key in errors))
    tables = []
    for what, form in (("error", "{:.3g}"), ("seconds", "{:.1f}")):
        lines = []
        for case in cases:
            found = [errors.get(f"{case}: {label}") for label in labels]
            lines.append([case, *("" if f is None else form.format(f[what]) for f in found)])
        tables.append(table([f"set, rows ({what})", *labels], lines))
    lines = [
        [key, f"{1e3 * f['one, s']:.0f}", f"{f['each, s'] / f['one, s']:.2f}",
         f"{f['one, MB']:.0f}", f"{f['each, MB'] / f['one, MB']:.2f}"]
        for key, f in results.items() if key.startswith("cost")
    ]  # fmt: skip
    header = ["value and gradient", "one width, ms", "each, times", "one width, MB", "each, times"]
    missing = [n for n in ("lightgbm", "xrfm") if importlib.util.find_spec(n) is None]
    told = f"\n\nNot installed, so not measured: {', '.join(missing)}." if missing else ""
    return "\n\n".join([*tables, table(header, lines)]) + told
