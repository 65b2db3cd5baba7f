"""Time and test error beside Optuna, HalvingGridSearchCV and GridSearchCV, 8,000 rows.

The same draws, folds and two cores for all, searches without refit.  Rivals get fixed ranges, in
which the best points of both sets lie well inside; ours reads its own off the data.
`--reuse-grid` measures ours again and keeps the rivals of the last run, `--only TEXT` runs one set.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.svm import SVC

from benchmarks._common import SEEDS, Sample, draw, measure_each, read_results, table, timed
from benchmarks.speed import compile_first, search

SETS = ("ijcnn1", "magic04")
RANGES = {"C": (1e-1, 1e3), "gamma": (1e-3, 1e1)}
FLOOR = 30  # times that each rival must take, at the same or a larger mean test error

try:
    optuna: Any = import_module("optuna")
except ImportError:
    optuna = None


class Scale(NamedTuple):
    """How large a run is: rows, draws, points of a grid along each side, trials of Optuna."""

    n: int
    seeds: tuple[int, ...]
    side: int
    trials: int


FULL, QUICK = Scale(8_000, SEEDS, 7, 30), Scale(500, SEEDS[:1], 3, 3)


def ours(sample: Sample, seed: int, scale: Scale) -> dict[str, float]:
    return search(sample, seed).best_params_


def by_optuna(sample: Sample, seed: int, scale: Scale) -> dict[str, float]:
    """Return the best of some trials of TPE."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: Any) -> float:
        params = {name: trial.suggest_float(name, *ends, log=True) for name, ends in RANGES.items()}
        model = SVC(cache_size=2000, **params)
        return cross_val_score(model, sample.X, sample.y, cv=sample.folds(seed), n_jobs=2).mean()

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=scale.trials)
    return study.best_params


def by_grid(sample: Sample, seed: int, scale: Scale, halving: bool = False) -> dict[str, float]:
    grid = {name: np.geomspace(*ends, scale.side) for name, ends in RANGES.items()}
    kind = partial(HalvingGridSearchCV, random_state=seed) if halving else GridSearchCV
    found = kind(SVC(cache_size=2000), grid, cv=sample.folds(seed), n_jobs=2, refit=False)
    return found.fit(sample.X, sample.y).best_params_


METHODS: dict[str, Callable[..., dict[str, float]]] = {
    "ours": ours,
    "Optuna, 30 trials": by_optuna,
    "HalvingGridSearchCV, 7 x 7": partial(by_grid, halving=True),
    "GridSearchCV, 7 x 7": by_grid,
}


def measure(name: str, sample: Sample, seed: int, scale: Scale) -> dict[str, Any]:
    """Return the time of one search, what it has found and the test error of that."""
    seconds, params = timed(lambda: METHODS[name](sample, seed, scale))
    model = SVC(cache_size=2000, **params).fit(sample.X, sample.y)
    return {
        "seconds": seconds,
        "test_error": 100 * (1 - model.score(sample.X_test, sample.y_test)),
        "params": {key: float(value) for key, value in params.items()},
    }


def measure_set(name: str, scale: Scale, known: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of every method by draw; those that are known are not measured again."""
    few = draw(name, 300, seed=0, n_test=100)
    compile_first(few)
    by_grid(few, seed=0, scale=QUICK)  # starts the two processes
    results: dict[str, Any] = {}
    for seed in scale.seeds:
        sample, old = draw(name, scale.n, seed), known.get(str(seed), {})
        results[str(seed)] = {
            method: old.get(method) or measure(method, sample, seed, scale)
            for method in METHODS
            if method in old or optuna is not None or METHODS[method] is not by_optuna
        }
    return results


def run(quick: bool, reuse_grid: bool = False, only: str | None = None) -> dict[str, Any]:
    """Return the figures by set, draw and method."""
    known = rivals_of(read_results("rivals", quick)) if reuse_grid else {}
    scale = QUICK if quick else FULL
    tasks = {name: partial(measure_set, name, scale, known.get(name, {})) for name in SETS}
    return measure_each("rivals", tasks, quick, only, keep=reuse_grid)


def rivals_of(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results without ours."""
    return {
        name: {
            seed: {method: row for method, row in by_method.items() if method != "ours"}
            for seed, by_method in draws.items()
        }
        for name, draws in results.items()
    }


def summary(draws: dict[str, Any], method: str) -> dict[str, float] | None:
    """Return a method's figures over all draws, or None if it was not measured."""
    pairs = [(d["ours"], d[method]) for d in draws.values() if method in d]
    if not pairs:
        return None
    return {
        "seconds": float(np.median([theirs["seconds"] for _, theirs in pairs])),
        "times": float(np.median([theirs["seconds"] / our["seconds"] for our, theirs in pairs])),
        "error": float(np.mean([theirs["test_error"] for _, theirs in pairs])),
        "our_error": float(np.mean([our["test_error"] for our, _ in pairs])),
    }


def report(results: dict[str, Any]) -> str:
    rows, missed = [], []
    for name, draws in results.items():
        for method in METHODS:
            m = summary(draws, method)
            if m is None:
                rows.append([name, method, "not measured: pip install optuna", "", ""])
                continue
            figures = f"{m['seconds']:.2f}", f"{m['times']:.1f}", f"{m['error']:.2f}"
            rows.append([name, method, *figures])
            if method != "ours" and (m["times"] < FLOOR or m["our_error"] > m["error"]):
                missed.append(f"{name}, {method}")
    header = ["set", "search", "seconds, median", "times ours", "test error, mean %"]
    verdict = f"no: {'; '.join(missed)}" if missed else "yes"
    claim = f"Ours is {FLOOR} times faster than each, at the same or a lower mean test error"
    return f"{table(header, rows)}\n\n{claim}: {verdict}."
