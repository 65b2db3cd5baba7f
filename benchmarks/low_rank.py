"""Half a million rows on landmarks, against an exact machine that was tuned on some of them.

covtype, two classes, standardised; C and gamma of an RBF machine, five folds, two cores.
"""

import resource
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks._common import load_merged, table, timed
from hypermargin import GradientSearchCV

SEED = 100
FLOORS = {"minutes": 15, "gigabytes": 20}


def draw(n: int) -> list[np.ndarray]:
    """Return n standardised training rows, the others, and their labels."""
    X, y = load_merged("covtype_binary")
    X, X_test, y, y_test = train_test_split(X, y, train_size=n, stratify=y, random_state=SEED)
    scaler = StandardScaler().fit(X)
    return [scaler.transform(X), scaler.transform(X_test), y, y_test]


def measure(X, X_test, y, y_test, **options: Any) -> dict[str, Any]:
    """Return time and test error of a search, refit included."""
    cv = StratifiedKFold(5, shuffle=True, random_state=SEED)
    search = GradientSearchCV(SVC(cache_size=2000), cv=cv, n_jobs=2, random_state=SEED, **options)
    seconds, found = timed(lambda: search.fit(X, y))
    return {
        "rows": len(y),
        "rank": options.get("rank"),
        "minutes": seconds / 60,
        "refit_minutes": found.refit_time_ / 60,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "evaluations": len(found.cv_results_["params"]),
        "params": {name: float(value) for name, value in found.best_params_.items()},
        "cv_error": 100 * (1 - float(found.best_score_)),
        "test_error": 100 * (1 - float(found.score(X_test, y_test))),
        "support_vectors": len(found.best_estimator_.support_),
    }


def run(quick: bool) -> dict[str, Any]:
    n, few, rank, n_test = (5_000, 1_500, 200, 2_000) if quick else (500_000, 20_000, 2_500, None)
    X, X_test, y, y_test = draw(n)
    X_test, y_test = X_test[:n_test], y_test[:n_test]
    low = measure(X, X_test, y, y_test, rank=rank, memory_limit=13_000)
    some, _, y_some, _ = train_test_split(X, y, train_size=few, stratify=y, random_state=SEED)
    return {"landmarks": low, "exact": measure(some, X_test, y_some, y_test)}


def report(results: dict[str, Any]) -> str:
    header = [
        "",
        "rows",
        "rank",
        "minutes",
        "refit",
        "GB",
        "evaluations on all rows",
        "test error, %",
    ]
    rows = [
        [
            name, r["rows"], r["rank"] or "", f"{r['minutes']:.1f}", f"{r['refit_minutes']:.1f}",
            f"{r['gigabytes']:.1f}", r["evaluations"], f"{r['test_error']:.2f}",
        ]
        for name, r in results.items()
    ]  # fmt: skip
    low, exact = results["landmarks"], results["exact"]
    missed = [name for name, floor in FLOORS.items() if low[name] > floor]
    missed += ["test error"] if low["test_error"] > exact["test_error"] else []
    verdict = f"Floors missed: {', '.join(missed)}." if missed else "All floors are reached."
    limits = ", ".join(f"{floor} {name}" for name, floor in FLOORS.items())
    return f"{table(header, rows)}\n\n{verdict} (At most {limits}, and the exact machine's error.)"
