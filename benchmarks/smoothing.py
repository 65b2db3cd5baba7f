"""Test error of the grid point with the least smooth error, by the steepness t of the sigmoid.

ijcnn1 with 2,000 training rows, a 9 x 9 grid of C and gamma; beside it the choice by the plain
cross-validation error (mean over ties) and the best point of the grid on the test rows.
"""

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import SVC

from benchmarks._common import load_merged, table
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.criteria import SmoothError

STEEPNESS = (5, 10, 20, 40)


def choices(X, y, X_test, y_test, seed: int, size: int) -> dict[str, float]:
    """Return the test error in % at the point that each rule chooses."""
    splits = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y))
    model = read_model(SVC()).tuning(["C", "gamma"])
    prepared = prepare(model, X, y, splits, {}, 4e9, Workers(2))
    losses: dict[str, list[float]] = {f"t = {t}": [] for t in STEEPNESS}
    losses["cross-validation error"] = []
    test = []
    for gamma in np.geomspace(0.15, 5, size):
        for C in np.geomspace(4, 1000, size):
            found = prepared.problem.evaluate({"C": C, "gamma": gamma}, Effort(1e-3))
            rows, outputs = np.concatenate(found.test), np.concatenate(found.outputs)
            truth = prepared.targets.y[rows]
            for t in STEEPNESS:
                value, _ = SmoothError(t=t)(outputs, truth, np.ones(len(rows)))
                losses[f"t = {t}"].append(value)
            losses["cross-validation error"].append(np.mean((outputs[:, 0] > 0) != truth))
            fitted = SVC(C=C, gamma=gamma, cache_size=1000).fit(X, y)
            test.append(100 * (1 - fitted.score(X_test, y_test)))
    errors = np.array(test)
    chosen = {rule: float(errors[np.array(v) == min(v)].mean()) for rule, v in losses.items()}
    return {**chosen, "best on the test rows": float(errors.min())}


def run(quick: bool) -> dict[str, Any]:
    X, y = load_merged("ijcnn1")
    results = []
    for seed in range(2 if quick else 8):
        few, X_test, y_few, y_test = train_test_split(
            X, y, train_size=2000, test_size=10_000, stratify=y, random_state=seed
        )
        results.append(choices(few, y_few, X_test, y_test, seed, 4 if quick else 9))
    return {"splits": results}


def report(results: dict[str, Any]) -> str:
    rows = [
        [rule, f"{np.mean(errors):.2f}", f"{np.median(errors):.2f}"]
        for rule in results["splits"][0]
        for errors in [[split[rule] for split in results["splits"]]]
    ]
    return table(["chosen by", "test error, mean %", "median %"], rows)
