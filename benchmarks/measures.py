"""Section 5 of Keerthi et al.: F by a threshold, weighted error by costs, margins and a threshold.

Adult (a9a) and ijcnn1, 2,000 rows, ten draws, five folds, RBF machines.  The other rows are the
test part.  `--only TEXT` runs one of the two.
"""

import tracemalloc
import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks._common import load_all, measure_each, table, timed
from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.criteria import CRITERIA, WeightedError

SEEDS = tuple(range(100, 110))
ETA = 0.01
# the columns of Table 3: fixed class costs, and what is tuned besides gamma and the threshold
MODELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "C+ = C- = C": (None, ("C",)),
    "C+ = C, C- = eta C": ((ETA, 1.0), ("C",)),
    "C+, C- tuned": (None, ("class_cost",)),
    "full weighted hinge": (None, ("class_cost", "margin")),
}
FLOORS = {"f1": 0.66, "weighted_error": 0.05, "milliseconds": 20}


def weighted_error(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the weighted error of Keerthi et al., section 4; the positive class is the larger."""
    cost = np.where(y == y.max(), 1.0, ETA)
    return float(cost @ (predicted != y) / cost.sum())


def draw(name: str, n: int, seed: int) -> list:
    X, y = load_all(name)
    X = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X, dtype=float)
    return train_test_split(X, y, train_size=n, stratify=y, random_state=seed)


def measure(
    name: str, n: int, seed: int, cost: Any, knobs: tuple[str, ...], **options: Any
) -> dict:
    """Return the score on the folds and on the test part."""
    X, X_test, y, y_test = draw(name, n, seed)
    cv = StratifiedKFold(5, shuffle=True, random_state=seed)
    space = dict.fromkeys(("gamma", *knobs))
    search = GradientSearchCV(
        KernelSVC(class_cost=cost), space, cv=cv, n_jobs=2, random_state=seed, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points on a bound
        search.fit(X, y)
    return {
        "validation": float(search.best_score_),
        "test": float(search.scorer_(search.best_estimator_, X_test, y_test)),
        "params": {k: np.asarray(v).tolist() for k, v in search.best_params_.items()},
    }


def adult(n: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return F with and without a threshold."""
    scorer = make_scorer(f1_score)
    return {
        str(with_threshold): [
            measure("a9a", n, seed, None, ("C", *with_threshold * ["threshold"]), scoring=scorer)
            for seed in seeds
        ]
        for with_threshold in (False, True)
    }


def ijcnn1(n: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return the weighted errors of Table 3."""
    scorer = make_scorer(weighted_error, greater_is_better=False)
    results: dict[str, Any] = {}
    for with_threshold in (True, False):
        for model, (cost, knobs) in MODELS.items():
            names = (*knobs, *with_threshold * ["threshold"])
            results.setdefault(str(with_threshold), {})[model] = [
                measure(
                    "ijcnn1", n, seed, cost, names, scoring=scorer, criterion=WeightedError(eta=ETA)
                )
                for seed in seeds
            ]
    return results


def roc_auc(n: int) -> dict[str, float]:
    """Return the time of value and gradient on many outputs, and the largest piece of memory."""
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=n) < 0.3).astype(int)
    outputs, weight = (rng.normal(size=n) + y)[:, None], np.ones(n)
    times = [timed(lambda: CRITERIA["roc_auc"](outputs, y, weight))[0] for _ in range(9)]
    tracemalloc.start()
    CRITERIA["roc_auc"](outputs, y, weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"n": n, "milliseconds": 1e3 * float(np.median(times)), "megabytes": peak / 2**20}


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    n, seeds = (300, SEEDS[:1]) if quick else (2_000, SEEDS)
    tasks = {
        "a9a": partial(adult, n, seeds),
        "ijcnn1": partial(ijcnn1, n, seeds),
        "roc_auc": partial(roc_auc, 20_000),
    }
    return measure_each("measures", tasks, quick, only, keep=True)


def _mean(rows: list[dict], part: str, sign: int = 1) -> tuple[float, str]:
    values = [sign * row[part] for row in rows]
    return float(np.mean(values)), f"{np.mean(values):.4f} ({np.std(values):.4f})"


def report(results: dict[str, Any]) -> str:
    parts, missed = [], []
    if "a9a" in results:
        rows = [
            ["with" if key == "True" else "without"]
            + [_mean(draws, part)[1] for part in ("validation", "test")]
            for key, draws in results["a9a"].items()
        ]
        parts.append("F on Adult\n\n" + table(["threshold", "validation", "test"], rows))
        if _mean(results["a9a"]["True"], "test")[0] < FLOORS["f1"]:
            missed.append("F with a threshold")
    if "ijcnn1" in results:
        rows, tests = [], {}
        for key, by_model in results["ijcnn1"].items():
            for part in ("validation", "test"):
                cells = [_mean(draws, part, -1) for draws in by_model.values()]
                rows.append([f"{'with' if key == 'True' else 'without'} threshold, {part}"])
                rows[-1] += [text for _, text in cells]
                tests[key, part] = [mean for mean, _ in cells]
        parts.append(f"Weighted error, eta = {ETA}\n\n" + table(["", *MODELS], rows))
        *others, full = tests["True", "test"]
        if full > FLOORS["weighted_error"] or full > min(others):
            missed.append("full weighted hinge with a threshold")
    if "roc_auc" in results:
        r = results["roc_auc"]
        parts.append(
            f"Value and gradient of the smooth area under the ROC curve, {r['n']:,} outputs: "
            f"{r['milliseconds']:.1f} ms, {r['megabytes']:.1f} MB at most."
        )
        if r["milliseconds"] > FLOORS["milliseconds"]:
            missed.append("time of the area under the ROC curve")
    verdict = f"Floors missed: {', '.join(missed)}." if missed else "All floors are reached."
    floors = "F at least 0.66, weighted error at most 0.05 and the least of its line"
    return "\n\n".join([*parts, f"{verdict} ({floors}, both with a threshold.)"])
