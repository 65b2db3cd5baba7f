"""C of multinomial logistic regression: the whole search beside one fit by scikit-learn's lbfgs.

Five folds, two cores for the search, no refit; dense sets are standardised.  The fit is cold, at
the C that was found, to scikit-learn's own tolerance, with one thread of BLAS or two, whichever is
faster.  `--only TEXT` runs one set.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._common import load, measure_each, median_seconds, table, timed
from hypermargin import GradientSearchCV

SETS = ("digits", "pendigits", "usps", "shuttle", "connect4")
QUICK_SETS = ("digits",)
SEED = 100
LONG = 20.0  # seconds of a search from which it is timed once


def read(name: str) -> tuple[Any, np.ndarray]:
    """Return all training rows, dense ones standardised."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        data = load(name)
        X, y = data.X.astype(np.float64), data.y
    return X if sparse.issparse(X) else StandardScaler().fit_transform(X), y


def search(X: Any, y: np.ndarray) -> GradientSearchCV:
    cv = StratifiedKFold(5, shuffle=True, random_state=SEED)
    return GradientSearchCV(LogisticRegression(), cv=cv, n_jobs=2, refit=False).fit(X, y)


def _fit_seconds(model: LogisticRegression, X: Any, y: np.ndarray, threads: int) -> float:
    """Return the time of a fit; on small data BLAS is many times faster with one thread."""
    with threadpool_limits(threads):
        return median_seconds(lambda: model.fit(X, y))


def measure(name: str) -> dict[str, Any]:
    """Return the time of a search and of a cold fit at the found C."""
    X, y = read(name)
    search(*read("digits"))  # compiles
    seconds, found = timed(lambda: search(X, y))
    if seconds < LONG:
        seconds = median_seconds(lambda: search(X, y))
    C = float(found.best_params_["C"])
    model = LogisticRegression(C=C, max_iter=1000)
    fit = min(_fit_seconds(model, X, y, threads) for threads in (1, 2))
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "classes": len(np.unique(y)),
        "search": seconds,
        "fit": fit,
        "iterations": int(model.n_iter_.max()),
        "C": C,
        "accuracy": 100 * float(found.best_score_),
    }


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    tasks = {name: partial(measure, name) for name in (QUICK_SETS if quick else SETS)}
    return measure_each("multinomial", tasks, quick, only)


def report(results: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{r['rows']:,}, {r['features']:,}, {r['classes']}",
            f"{r['search']:.2f}",
            f"{r['fit']:.2f}",
            f"{r['search'] / r['fit']:.1f}",
            str(r["iterations"]),
            f"{r['C']:.2g}",
            f"{r['accuracy']:.2f}",
        ]
        for name, r in results.items()
    ]
    header = [
        "set", "rows, features, classes", "search, s", "one fit, s", "in fits", "its iterations",
        "C", "accuracy of the folds",
    ]  # fmt: skip
    return table(header, rows)
