"""Smooth loss at the end of a search against the best of a 25 x 25 grid, 20 sets, five splits.

The grid covers the search's own ranges of C and gamma on the same folds, and both are evaluated by
the same engine at the final tolerance.  `--reuse-grid` takes the grid's part from the last run,
`--only TEXT` runs some of the sets.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.svm import SVC, SVR

from benchmarks._common import Sample, draw, load_all, measure_each, read_results, table
from hypermargin import GradientSearchCV
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import default_dimensions, prepare
from hypermargin.criteria import criterion_for
from hypermargin.methods.validation import validation_loss

TWO_CLASSES = (
    "parkinsons", "diabetes", "heart", "ionosphere", "breast_cancer_wisconsin",
    "breast_cancer_ljubljana", "titanic", "waveform", "splice", "svmguide1", "magic04", "ijcnn1",
)  # fmt: skip
MORE_CLASSES = ("seeds", "pendigits", "usps")
REGRESSION = ("boston_housing", "concrete", "abalone", "winequality_red", "kin8nm")
SETS = (*TWO_CLASSES, *MORE_CLASSES, *REGRESSION)
QUICK = ("heart", "seeds", "boston_housing")
SEEDS = tuple(range(100, 105))
# Training rows at most: large costs take long where machines are many, or targets noisy.
MOST, MOST_OF_THE_SLOW = 1000, 400
NAMES = ("C", "gamma")
FLOORS = {"mean": 1.0, "worst": 5.0}  # excess over the grid, in %
POINTS = {"chosen": "chosen point", "least": "point of least loss"}


class SmoothLoss:
    """The loss that a search of C and gamma descends on, at its final tolerance."""

    def __init__(self, sample: Sample, seed: int):
        # targets have unit variance, so that the default epsilon of SVR is a tenth of it
        self.model = SVR() if sample.is_regression else SVC()
        self.splits = list(sample.folds(seed).split(sample.X, sample.y))
        model, workers = read_model(self.model).tuning(NAMES), Workers(1)
        self.prepared = prepare(model, sample.X, sample.y, self.splits, {}, 4e9, workers)
        scorer = check_scoring(self.model)
        self.criterion, _ = criterion_for(scorer, is_classifier(self.model))
        self.tol = model.adapter.tol()
        found = default_dimensions(self.prepared, dict.fromkeys(NAMES, True))
        self.ranges = {name: (d.low, d.high) for name, d in found.items()}

    def __call__(self, params: dict[str, float], warm: Any = None) -> tuple[float, Any]:
        """Return the value, and the state that starts a neighbour."""
        found = self.prepared.problem.evaluate(params, Effort(self.tol), warm=warm)
        weight = np.ones(self.prepared.n_rows)
        value, _ = validation_loss(found, self.criterion, self.prepared, weight)
        return value if found.converged else np.inf, found.state


def grid_minimum(loss: SmoothLoss, size: int) -> dict[str, Any]:
    """Return the best point of a grid; costs go up for each width, every point starts warm."""
    best: dict[str, Any] = {"value": np.inf}
    first = None
    for gamma in np.geomspace(*loss.ranges["gamma"], size):
        state = first
        for number, C in enumerate(np.geomspace(*loss.ranges["C"], size)):
            params = {"C": float(C), "gamma": float(gamma)}
            value, state = loss(params, state)
            first = state if number == 0 else first
            if value < best["value"]:
                best = {"value": value, "params": params}
    return best


def by_search(loss: SmoothLoss, sample: Sample, seed: int) -> dict[str, Any]:
    """Return the loss of the chosen point and of the visited point with the least loss.

    On the way machines are trained to a coarser tolerance, so the latter is evaluated again.
    """
    search = GradientSearchCV(
        loss.model, loss.ranges, cv=loss.splits, n_jobs=1, refit=False, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points on a bound
        results = search.fit(sample.X, sample.y).cv_results_
    least = results["params"][int(np.nanargmin(results["objective"]))]
    return {
        "chosen": float(results["objective"][search.best_index_]),
        "least": loss(least)[0],
        "evaluations": len(results["params"]),
        "params": search.best_params_,
    }


def measure(name: str, seed: int, size: int, most: int, grid: dict[str, Any] | None) -> dict:
    """Return what grid and search find on one split."""
    n = min(most, int(0.8 * len(load_all(name)[1])))
    sample = draw(name, n, seed, n_test=100)
    loss = SmoothLoss(sample, seed)
    return {"grid": grid or grid_minimum(loss, size), "search": by_search(loss, sample, seed)}


def measure_set(name: str, seeds: tuple[int, ...], size: int, most: int, known: dict) -> dict:
    grids = [known.get(str(seed), {}).get("grid") for seed in seeds]
    jobs = [delayed(measure)(name, seed, size, most, grid) for seed, grid in zip(seeds, grids)]
    # processes, because times do not matter here
    return dict(zip(map(str, seeds), Parallel(n_jobs=2)(jobs)))


def run(quick: bool, reuse_grid: bool = False, only: str | None = None) -> dict[str, Any]:
    """Return the losses by set and split."""
    sets, seeds, size = (QUICK, SEEDS[:1], 5) if quick else (SETS, SEEDS, 25)
    known = read_results("robust", quick) if reuse_grid else {}
    tasks = {}
    for name in sets:
        most = 100 if quick else MOST if name in TWO_CLASSES else MOST_OF_THE_SLOW
        tasks[name] = partial(measure_set, name, seeds, size, most, known.get(name, {}))
    return measure_each("robust", tasks, quick, only, keep=reuse_grid)


def excess(results: dict[str, Any], key: str) -> dict[str, list[float]]:
    """Return by how many % each search ends above the grid; 0 where it ends below."""
    return {
        name: [
            max(0.0, 100 * (row["search"][key] / row["grid"]["value"] - 1))
            for row in splits.values()
        ]
        for name, splits in results.items()
    }


def report(results: dict[str, Any]) -> str:
    tables = [excess(results, key) for key in POINTS]
    for by_set in tables:
        by_set["all"] = [value for values in by_set.values() for value in values]
    rows = [
        [name, *(f"{f(by_set[name]):.2f}" for by_set in tables for f in (np.mean, max))]
        for name in tables[0]
    ]
    header = ["excess, %", *(f"{title}, {what}" for title in POINTS.values() for what in FLOORS)]
    floors = ", ".join(f"{what} {floor:g}" for what, floor in FLOORS.items())
    return (
        f"{table(header, rows)}\n\n{len(results)} of {len(SETS)} sets. Floors: {floors}; "
        "a search that ends below the grid counts as 0."
    )
