"""What `score_estimate_` says of new data, beside the score on test rows and nested folds.

Each set has its natural model, at most 300 rows to tune on, five folds, ten splits.  An interval is
the one for a test of as many rows as there are.  Biases are in units of the standard error of the
score, so that accuracy and r2 can be averaged; the standard error of a mean is that over the sets.
How the estimate is made was chosen on the sets of half A (on other splits); those of half B check
it.  Nested cross-validation is made on the first split: its score is that of searches on four
fifths of the rows.  `--only TEXT` runs some of the sets.
"""

import warnings
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score

from benchmarks._common import measure_each, table
from benchmarks.prices import QUICK, SETS, draw, half, model
from hypermargin import GradientSearchCV

ROWS, SPLITS, NESTED = 300, 10, 1
TOO_LONG = ("news20",)  # 20 classes of 15 rows: the search takes half a minute


def measure(name: str, seed: int, nested: bool) -> dict[str, float]:
    """Return what one search expects, and what it gets."""
    sample = draw(name, seed, ROWS)
    search = GradientSearchCV(model(name, sample), cv=sample.folds(seed), random_state=seed)
    with warnings.catch_warnings(action="ignore"):
        begin = process_time()
        search.fit(sample.X, sample.y)
        searched = process_time()
        expected = search.score_estimate_
        estimated = process_time()
        found = {
            "best": search.best_score_,
            "estimate": expected.score,
            "std_error": expected.std_error,
            "test": search.score(sample.X_test, sample.y_test),
            "points": expected.n_points,
            "seconds": searched - begin,
            "estimate_seconds": estimated - searched,
        }
        if nested:
            folds = sample.folds(seed + 1)
            found["nested"] = cross_val_score(search, sample.X, sample.y, cv=folds).mean()
    low, high = expected.interval(n_test=len(sample.y_test))
    return {**found, "covers": float(low <= found["test"] <= high)}


def measure_set(name: str, n_splits: int) -> dict[str, Any]:
    return {
        "half": half(name),
        "splits": [measure(name, 100 + k, k < NESTED) for k in range(n_splits)],
    }


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    names = QUICK if quick else sorted(set(SETS) - set(TOO_LONG), key=lambda n: (half(n) == "A", n))
    tasks = {name: partial(measure_set, name, 2 if quick else SPLITS) for name in names}
    return measure_each("estimate", tasks, quick, only, keep=True)


def mean_of(splits: list[dict[str, float]], key: str) -> float:
    return float(np.mean([split[key] for split in splits]))


def bias(splits: list[dict[str, float]], key: str) -> float:
    """Return by how much a number is above the test score, in standard errors of a score."""
    away = np.mean([split[key] - split["test"] for split in splits])
    return float(away / mean_of(splits, "std_error"))


def summary(name: str, results: list[dict[str, Any]]) -> list[str]:
    cells = [name, str(len(results))]
    for key in ("best", "estimate"):
        each = np.array([bias(result["splits"], key) for result in results])
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        cells.append(f"{each.mean():+.2f} ± {error:.2f}")
    every = [split for result in results for split in result["splits"]]
    cells.append(f"{100 * mean_of(every, 'covers'):.0f} %")
    nested = [split for split in every if "nested" in split]
    away = np.mean(
        [abs(split["estimate"] - split["nested"]) / split["std_error"] for split in nested]
    )
    cells.append(f"{away:.2f}")
    times = sum(s["estimate_seconds"] for s in every) / sum(s["seconds"] for s in every)
    return [*cells, f"{100 * times:.1f} %"]


def report(results: dict[str, Any]) -> str:
    each = table(
        ["set", "half", "points", "best", "estimate", "test", "error", "covered", "nested"],
        (
            [
                name, result["half"], f"{mean_of(result['splits'], 'points'):.0f}",
                *(f"{mean_of(result['splits'], key):.3f}" for key in ("best", "estimate", "test")),
                f"{mean_of(result['splits'], 'std_error'):.3f}",
                f"{100 * mean_of(result['splits'], 'covers'):.0f} %",
                f"{mean_of([s for s in result['splits'] if 'nested' in s], 'nested'):.3f}",
            ]
            for name, result in results.items()
        ),
    )  # fmt: skip
    halves = {
        "half A, on which it was chosen": [r for r in results.values() if r["half"] == "A"],
        "half B": [r for r in results.values() if r["half"] == "B"],
        "all": list(results.values()),
    }
    means = table(
        ["sets", "number", "bias of best_score_", "bias of score_estimate_",
         "90 % interval covers", "from nested, standard errors", "time of a search"],
        (summary(name, part) for name, part in halves.items() if part),
    )  # fmt: skip
    return f"{means}\n\n{each}"
