"""Test error of two rules for the best visited point: least smooth loss, or best CV score.

SVC in a pipeline on at most 600 training rows of each set, six splits; the default parameters of
scikit-learn beside them.
"""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks._common import load_merged, table
from hypermargin import GradientSearchCV

SETS = (
    "parkinsons", "diabetes", "heart", "ionosphere", "breast_cancer_wisconsin", "seeds",
    "titanic", "waveform", "splice", "pendigits", "breast_cancer_ljubljana", "svmguide1",
)  # fmt: skip
RULES = ("least smooth loss", "best CV score", "default parameters")


def errors(name: str, split: int) -> list[float]:
    """Return the test error in % of the point that each rule chooses."""
    X, y = load_merged(name)
    size = min(600, int(0.6 * len(y)))
    X, X_test, y, y_test = train_test_split(X, y, train_size=size, stratify=y, random_state=split)
    X_test, y_test = X_test[:5000], y_test[:5000]
    model = make_pipeline(StandardScaler(), SVC())
    search = GradientSearchCV(model, cv=5, refit=False, random_state=0, n_jobs=2).fit(X, y)
    results = search.cv_results_
    smooth = int(np.argmin(results["objective"]))
    # of equal scores the one with the least smooth loss
    score = int(np.lexsort((results["objective"], -results["mean_test_score"].round(10)))[0])
    points: list[dict[str, float]] = [results["params"][smooth], results["params"][score], {}]
    fitted = [clone(model).set_params(**params).fit(X, y) for params in points]
    return [100 * (1 - f.score(X_test, y_test)) for f in fitted]


def run(quick: bool) -> dict[str, Any]:
    sets, n_splits = (SETS[:3], 2) if quick else (SETS, 6)
    return {name: [errors(name, split) for split in range(n_splits)] for name in sets}


def report(results: dict[str, Any]) -> str:
    means = {name: np.mean(rows, axis=0) for name, rows in results.items()}
    means["mean"] = np.mean(list(means.values()), axis=0)
    rows = [[name, *(f"{error:.2f}" for error in m)] for name, m in means.items()]
    return table(["test error, %", *RULES], rows)
