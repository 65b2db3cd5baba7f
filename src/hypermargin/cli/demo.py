"""`hypermargin demo`: a search and a grid on data that come with scikit-learn."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ..files.writing import beside, check_outputs
from ..search.search import GradientSearchCV
from .telling import Teller, params, table
from .tune import interruptible

POINTS = 9  # of the grid on either axis


def run(options: Any) -> int:
    """Show a search; return the exit code."""
    teller = Teller(options)
    check_outputs([options.report], options.overwrite)
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model, cv = (
        make_pipeline(StandardScaler(), SVC()),
        StratifiedKFold(5, shuffle=True, random_state=0),
    )
    teller.aside(f"breast cancer data: {len(y)} rows to tune on, {len(y_test)} to test on")
    teller.aside("the first search of an installation compiles its functions ...")
    with interruptible() as stop, teller.listening():
        GradientSearchCV(model, cv=3).fit(X[:90], y[:90])
        ours, our_seconds = _timed(
            GradientSearchCV(model, cv=cv, random_state=0, verbose=0 if teller.quiet else 1), X, y
        )
        teller.aside(f"a grid of {POINTS} x {POINTS} points ...")
        space = {"svc__C": np.logspace(-2, 4, POINTS), "svc__gamma": np.logspace(-4, 1, POINTS)}
        grid, grid_seconds = _timed(GridSearchCV(model, space, cv=cv), X, y)
    if options.report:
        with beside(options.report) as place:
            ours.report(place, overwrite=True)
    found = [("hypermargin", ours, our_seconds), ("grid", grid, grid_seconds)]
    rows = [
        {"way": name, "params": one.best_params_, "score": one.best_score_,
         "test_score": one.score(X_test, y_test), "seconds": seconds}
        for name, one, seconds in found
    ]  # fmt: skip
    lines = table(
        ["", "accuracy, folds", "test rows", "seconds", "found"],
        [
            [row["way"], f"{row['score']:.4f}", f"{row['test_score']:.4f}", f"{row['seconds']:.1f}",
             params(row["params"], "svc__")]
            for row in rows
        ],
    )  # fmt: skip
    if options.report:
        lines.append(f"report   {options.report}")
    teller.result({"ways": rows, "report": options.report}, lines)
    return 130 if stop.pressed else 0


def _timed(search: Any, X: Any, y: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    return search.fit(X, y), time.perf_counter() - begun
