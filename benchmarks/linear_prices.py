"""Price of a search of C for linear machines: its time in units of one LIBLINEAR fit.

Every set that is sparse or has more than 20,000 rows, all of them, with all its classes: squared
hinge (with `dual=False` as well), hinge and, on two classes, logistic loss; absolute and squared
errors of a regression.  Five folds, two cores, no refit; the fit is scikit-learn's own at the point
found.  Medians of three draws of folds; prices are in CPU time, of which a fit has one core.
`--only TEXT` runs some of the sets.
"""

import warnings
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from benchmarks._common import AS_THEY_ARE, SEEDS, Sample, load_all, measure_each, medians, table
from benchmarks.prices import clocked
from hypermargin import GradientSearchCV

SETS = (
    "a9a", "california_housing", "connect4", "covtype_binary", "ijcnn1", "mnist", "news20",
    "news_basehock", "news_pcmac", "news_relathe", "protein", "rcv1_small", "shuttle",
)  # fmt: skip
QUICK = ("news_pcmac", "rcv1_small")
MODELS = {
    "squared hinge": LinearSVC(),
    "squared hinge, dual=False": LinearSVC(dual=False),
    "hinge": LinearSVC(loss="hinge"),
    "logistic": LogisticRegression(solver="liblinear"),
    "absolute": LinearSVR(),
    "squared": LinearSVR(loss="squared_epsilon_insensitive", dual="auto"),
}
REGRESSORS = ("absolute", "squared")
FLOORS = {"price": 5.0, "hinge": 5.0}


def read(name: str) -> Sample:
    """Return all rows, dense ones standardised, and no test rows."""
    X, y = load_all(name)
    X = X.astype(np.float64)
    if name == "mnist":
        X = X / 255
    elif not sparse.issparse(X) and name not in AS_THEY_ARE:
        X = StandardScaler().fit_transform(X)
    y = y / y.std() if y.dtype.kind == "f" else y
    return Sample(X, y, X[:0], y[:0])


def models(sample: Sample) -> dict[str, Any]:
    """Return the models that are for these targets."""
    if sample.is_regression:
        return {name: MODELS[name] for name in REGRESSORS}
    few = len(np.unique(sample.y)) == 2
    return {
        name: model
        for name, model in MODELS.items()
        if name not in REGRESSORS and (few or name != "logistic")
    }


def search(model: Any, sample: Sample, seed: int, rows: Any = slice(None)) -> GradientSearchCV:
    found = GradientSearchCV(model, cv=sample.folds(seed), n_jobs=2, refit=False, random_state=seed)
    return found.fit(sample.X[rows], sample.y[rows])


def measure(model: Any, sample: Sample, seed: int) -> dict[str, float]:
    """Return the figures of one search."""
    seconds, cpu, found = clocked(lambda: search(model, sample, seed))
    return {
        "seconds": seconds,
        "cpu": cpu,
        "evaluations": len(found.history_),
        "C": float(found.best_params_["C"]),
        "score": float(found.best_score_),
    }


def fit_cpu(model: Any, sample: Sample, C: float) -> float:
    """Return the CPU seconds of a fit: the median of three, or those of one that takes long."""
    model.set_params(C=C)
    times = [clocked(lambda: model.fit(sample.X, sample.y))[1]]
    while len(times) < 3 and times[0] <= 5:
        times.append(clocked(lambda: model.fit(sample.X, sample.y))[1])
    return median(times)


def measure_set(name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    sample = read(name)
    few = np.random.default_rng(0).permutation(len(sample.y))[:1500]
    results: dict[str, Any] = {"n": sample.X.shape[0], "features": sample.X.shape[1], "models": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of LIBLINEAR
        warnings.simplefilter("ignore", UserWarning)
        for label, model in models(sample).items():
            search(model, sample, 0, few)  # compiles
            draws = [measure(model, sample, seed) for seed in seeds]
            of = medians(draws)
            of["fit_cpu"] = fit_cpu(model, sample, draws[0]["C"])
            results["models"][label] = of
    return results


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    names, seeds = (QUICK, SEEDS[:1]) if quick else (SETS, SEEDS)
    tasks = {name: partial(measure_set, name, seeds) for name in names}
    return measure_each("linear_prices", tasks, quick, only)


def ratios(results: dict[str, Any], above: str, below: str) -> dict[str, float]:
    """Return the CPU time of one model over that of another, by set."""
    found = {name: of["models"] for name, of in results.items()}
    return {name: of[above]["cpu"] / of[below]["cpu"] for name, of in found.items() if above in of}


def worst(figures: dict[str, float]) -> str:
    """Say what is largest, and where."""
    name = max(figures, key=lambda one: figures[one])
    return f"{figures[name]:.1f} ({name})"


def report(results: dict[str, Any]) -> str:
    rows, prices = [], {}
    for name, of in results.items():
        for label, figures in of["models"].items():
            prices[f"{name}, {label}"] = price = figures["cpu"] / figures["fit_cpu"]
            rows.append(
                [
                    name, label, of["n"], of["features"], f"{figures['evaluations']:.0f}",
                    f"{figures['seconds']:.2f}", f"{figures['cpu']:.2f}",
                    f"{figures['fit_cpu']:.2f}", f"{price:.1f}", f"{figures['C']:.3g}",
                    f"{figures['score']:.4f}",
                ]
            )  # fmt: skip
    header = [
        "set", "loss", "n", "features", "evaluations", "search, s", "CPU s", "one fit, CPU s",
        "price", "C", "score",
    ]  # fmt: skip
    lines = [f"- At worst {worst(prices)} fits (floor {FLOORS['price']})."]
    pairs = {
        f"hinge over squared hinge (floor {FLOORS['hinge']})": ("hinge", "squared hinge"),
        "dual=False over dual='auto' (floor 1)": ("squared hinge, dual=False", "squared hinge"),
        "absolute over squared errors": ("absolute", "squared"),
    }
    for what, (above, below) in pairs.items():
        if figures := ratios(results, above, below):
            middle = median(figures.values())
            lines.append(f"- {what}: {middle:.2f} in the median, at worst {worst(figures)}.")
    return "\n".join([table(header, rows), "", *lines])
