"""Test score and time against a 15 x 15 grid search on ten small sets, six splits each.

`--reuse-grid` takes the grid's part from the last run. Regression targets are standardised by the
training part, and their score is the negative mean squared error. The grid leaves epsilon at 0.1.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks._common import load, read_results, table, timed, write_results
from hypermargin import GradientSearchCV

CLASSIFICATION = (
    "parkinsons",
    "diabetes",
    "heart",
    "ionosphere",
    "breast_cancer_wisconsin",
    "seeds",
    "pendigits",
)
REGRESSION = ("boston_housing", "concrete", "bodyfat")
QUICK = ("heart", "seeds", "bodyfat")  # one of each task
N_SPLITS = 6
N_MOST = {"pendigits": 1000}  # rows drawn, where all would be too many
C = np.logspace(-2, 4, 15)
GAMMA = np.logspace(-4, 1, 15)


class Problem(NamedTuple):
    """One split of one set, with the model to tune on it."""

    name: str
    split: int
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.name in REGRESSION

    def arguments(self) -> dict[str, Any]:
        """Return what both searches have in common: model, score and folds."""
        folds = KFold if self.is_regression else StratifiedKFold
        return {
            "estimator": make_pipeline(StandardScaler(), SVR() if self.is_regression else SVC()),
            "scoring": "neg_mean_squared_error" if self.is_regression else "accuracy",
            "cv": folds(5, shuffle=True, random_state=self.split),
            "n_jobs": 2,
        }


def problem(name: str, split: int) -> Problem:
    """Return a split with 60 % of the rows for training."""
    data = load(name)
    X, y = np.asarray(data.X, dtype=np.float64), data.y
    labels = None if name in REGRESSION else y
    if name in N_MOST:
        rows = np.arange(len(y))
        rows, _ = train_test_split(
            rows, train_size=N_MOST[name], stratify=labels, random_state=split
        )
        X, y, labels = X[rows], y[rows], y[rows]
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=0.6, stratify=labels, random_state=split
    )
    if name in REGRESSION:
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    return Problem(name, split, X, y, X_test, y_test)


def measure(search, p: Problem) -> dict[str, Any]:
    """Return test score, its standard error and the time of one search without its refit."""
    seconds, _ = timed(lambda: search.fit(p.X, p.y))
    predicted = search.predict(p.X_test)
    score = -((predicted - p.y_test) ** 2) if p.is_regression else predicted == p.y_test
    return {
        "score": float(np.mean(score)),
        # for accuracy this is sqrt(p (1 - p) / n)
        "standard_error": float(np.std(score) / np.sqrt(len(score))),
        "seconds": seconds - search.refit_time_,
        "cv_score": float(search.best_score_),
        "params": {key: float(value) for key, value in search.best_params_.items()},
    }


def by_gradient(p: Problem) -> dict[str, Any]:
    return measure(GradientSearchCV(**p.arguments(), random_state=p.split), p)


def by_grid(p: Problem) -> dict[str, Any]:
    step = "svr" if p.is_regression else "svc"
    grid = {f"{step}__C": C, f"{step}__gamma": GAMMA}
    return measure(GridSearchCV(param_grid=grid, **p.arguments()), p)


def compile_first() -> None:
    """Search a few rows, so that no measured time holds a compilation."""
    for name in QUICK:
        p = problem(name, 0)
        GradientSearchCV(**p.arguments()).fit(p.X[:100], p.y[:100])


def run(quick: bool, reuse_grid: bool = False) -> dict[str, Any]:
    """Return the figures of both searches by method, set and split."""
    old = read_results("small_sets", quick).get("grid", {}) if reuse_grid else {}
    results: dict[str, Any] = {"gradient": {}, "grid": {}}
    compile_first()
    for name in QUICK if quick else (*CLASSIFICATION, *REGRESSION):
        problems = {str(split): problem(name, split) for split in range(2 if quick else N_SPLITS)}
        known = old.get(name, {})
        results["gradient"][name] = {k: by_gradient(p) for k, p in problems.items()}
        results["grid"][name] = {k: known.get(k) or by_grid(p) for k, p in problems.items()}
        # A full run takes long: keep what there is, should it be interrupted.
        write_results("small_sets", results, quick)
    return results


def summary(results: dict[str, Any], name: str) -> dict[str, float]:
    """Return the means over the splits of one set."""

    def mean(method: str, key: str) -> float:
        return float(np.mean([row[key] for row in results[method][name].values()]))

    return {
        "ours": mean("gradient", "score"),
        "grid": mean("grid", "score"),
        "difference": mean("gradient", "score") - mean("grid", "score"),
        "standard_error": mean("grid", "standard_error"),
        "seconds": mean("gradient", "seconds"),
        "grid_seconds": mean("grid", "seconds"),
    }


def verdicts(means: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    """Return the two questions that the table answers; sets are averaged in standard errors."""
    in_errors = {name: m["difference"] / m["standard_error"] for name, m in means.items()}
    worse = [name for name, d in in_errors.items() if d < -1]
    average = float(np.mean(list(in_errors.values())))
    return [
        (
            "not worse by more than the standard error on any",
            f"no: {', '.join(worse)}" if worse else "yes",
        ),
        (
            "not worse on average",
            f"{'yes' if average >= 0 else 'no'}: {average:+.2f} standard errors",
        ),
    ]


def report(results: dict[str, Any]) -> str:
    means = {name: summary(results, name) for name in results["gradient"]}
    sets = table(
        ["set", "ours", "grid", "difference", "standard error", "ours, s", "grid, s"],
        [
            [
                name,
                f"{m['ours']:.4f}",
                f"{m['grid']:.4f}",
                f"{m['difference']:+.4f}",
                f"{m['standard_error']:.4f}",
                f"{m['seconds']:.2f}",
                f"{m['grid_seconds']:.1f}",
            ]
            for name, m in means.items()
        ],
    )
    if set(means) not in ({*CLASSIFICATION, *REGRESSION}, set(QUICK)):
        return f"{sets}\n\nThe run was interrupted; no verdict on part of the sets."
    return f"{sets}\n\n{table(['ours against the grid', 'verdict'], verdicts(means))}"
