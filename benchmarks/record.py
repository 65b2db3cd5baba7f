"""What some hundred searches find, against the stored run: a rebuild must change nothing.

Every kind of estimator, kernel, loss, method, score, weight and fold on small artificial data.  The
first run stores `history_`, `cv_results_`, `best_params_` and predictions; later runs compare with
that and say what differs by more than rounding.  To record anew, delete the stored results.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import make_classification, make_regression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import make_scorer, zero_one_loss
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from benchmarks._common import read_results, table
from hypermargin import (
    GradientSearchCV,
    KernelSVC,
    KernelSVR,
    LinearClassifier,
    LinearRegressor,
)
from hypermargin.criteria import PrecisionAtRecall

ROUNDING = 1e-6  # relative differences up to which results are the same
Data = tuple[Any, np.ndarray]


def two(n: int = 220, seed: int = 0, **more: Any) -> Data:
    return make_classification(n, 6, flip_y=0.1, class_sep=0.8, random_state=seed, **more)


def three(n: int = 240) -> Data:
    return make_classification(
        n, 6, n_informative=4, n_classes=3, flip_y=0.05, class_sep=1.2, random_state=1
    )


def numbers(n: int = 200, n_targets: int = 1) -> Data:
    X, y = make_regression(n, 5, n_informative=4, n_targets=n_targets, noise=15.0, random_state=2)
    return X, y / 50.0 + np.sin(2 * X[:, :n_targets]).reshape(y.shape)


def as_sparse(data: Data) -> Data:
    X, y = data
    return sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)), y


def groups_of(y: np.ndarray) -> np.ndarray:
    return np.array(["north", "south", "west"])[np.arange(len(y)) % 3]


def kernel_machines() -> Iterator[tuple]:
    for kernel in ("rbf", "linear", "poly", "sigmoid"):
        yield f"SVC, {kernel}", SVC(kernel=kernel), two(), {}
        yield f"SVR, {kernel}", SVR(kernel=kernel), numbers(), {}
    X, y = two()
    yield "SVC, precomputed", SVC(kernel="precomputed"), (X @ X.T, y), {}
    yield "SVC, three classes", SVC(), three(), {}
    yield "SVC, balanced", SVC(class_weight="balanced"), two(weights=[0.8]), {}
    yield "SVC, sparse", SVC(), as_sparse(two()), {}
    yield "SVC, 900 rows", SVC(), two(900), {}
    yield "SVC, 4,200 rows", SVC(), two(4200), {"cv": 3}
    yield "SVC, three classes, 1,500 rows", SVC(), three(1500), {}
    yield "SVR, 1,100 rows", SVR(), numbers(1100), {}
    yield "KernelRidge", KernelRidge(kernel="rbf"), numbers(), {}
    yield "KernelRidge, two targets", KernelRidge(kernel="rbf"), numbers(150, 2), {}
    for loss in ("hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic"):
        yield f"KernelSVC, {loss}", KernelSVC(loss=loss), two(150), {}
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball"):
        yield f"KernelSVR, {loss}", KernelSVR(loss=loss), numbers(150), {}
    space = {"C": None, "gamma": None, "class_cost": None, "margin": None, "threshold": None}
    yield "KernelSVC, costs and margins", KernelSVC(), two(150), {"space": space}
    yield (
        "KernelSVC, three classes, costs",
        KernelSVC(),
        three(150),
        {"space": {"C": None, "class_cost": {0: (0.1, 10.0)}}},
    )
    yield (
        "KernelSVC, groups",
        KernelSVC(),
        two(150),
        {"space": {"C": None, "gamma": None, "group_cost": None}, "cost_groups": groups_of},
    )
    yield (
        "KernelSVR, groups",
        KernelSVR(),
        numbers(150),
        {"space": {"C": None, "group_epsilon": None}, "cost_groups": groups_of},
    )
    yield "SVC, landmarks", SVC(), two(300), {"rank": 40}
    yield "SVR, landmarks, exact refit", SVR(), numbers(300), {"rank": 40, "exact_refit": True}


def linear_machines() -> Iterator[tuple]:
    yield "LinearSVC", LinearSVC(random_state=0), two(400), {}
    yield "LinearSVC, hinge", LinearSVC(loss="hinge", random_state=0), two(400), {}
    yield "LinearSVC, three classes", LinearSVC(random_state=0), three(), {}
    yield "LinearSVC, sparse", LinearSVC(random_state=0), as_sparse(two(400)), {}
    yield "LinearSVC, 2,000 rows", LinearSVC(random_state=0), two(2000), {}
    for method in ("gradient", "curve", "path"):
        yield f"LinearSVC, {method}", LinearSVC(random_state=0), two(300), {"method": method}
        yield f"LogisticRegression, {method}", LogisticRegression(), two(300), {"method": method}
        yield f"Ridge, {method}", Ridge(), numbers(300), {"method": method}
    yield "LogisticRegression, multinomial", LogisticRegression(max_iter=1000), three(), {}
    yield "LinearSVR", LinearSVR(random_state=0), numbers(), {}
    yield (
        "LinearSVR, squared",
        LinearSVR(loss="squared_epsilon_insensitive", dual=True, random_state=0),
        numbers(),
        {},
    )
    yield "Ridge, two targets", Ridge(), numbers(150, 2), {}
    yield "RidgeClassifier", RidgeClassifier(), two(), {}
    yield "RidgeClassifier, three classes", RidgeClassifier(), three(), {}
    for loss in ("hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic"):
        yield f"LinearClassifier, {loss}", LinearClassifier(loss=loss), two(200), {}
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball"):
        yield f"LinearRegressor, {loss}", LinearRegressor(loss=loss), numbers(200), {}
    yield (
        "LinearClassifier, a cost for each machine",
        LinearClassifier(),
        three(200),
        {"space": {"machine_cost": None}},
    )
    yield (
        "LinearClassifier, costs, margins, threshold",
        LinearClassifier(),
        two(200),
        {"space": {"C": None, "class_cost": None, "margin": None, "threshold": None}},
    )
    yield (
        "LinearRegressor, groups",
        LinearRegressor(),
        numbers(200),
        {"space": {"C": None, "epsilon": None, "group_cost": None}, "cost_groups": groups_of},
    )


def searches() -> Iterator[tuple]:
    measures = ("balanced_accuracy", "f1", "matthews_corrcoef", "roc_auc", "average_precision",
                "neg_log_loss", "neg_brier_score")  # fmt: skip
    for scoring in measures:
        yield f"SVC, {scoring}", SVC(), two(weights=[0.7]), {"scoring": scoring}
    for scoring in ("f1_macro", "neg_log_loss"):
        yield f"SVC, three classes, {scoring}", SVC(), three(150), {"scoring": scoring}
    for scoring in ("r2", "neg_mean_absolute_error"):
        yield f"SVR, {scoring}", SVR(), numbers(150), {"scoring": scoring}
    scorer = make_scorer(zero_one_loss, greater_is_better=False)
    yield "SVC, scorer of a user", SVC(), two(150), {"scoring": scorer}
    yield (
        "SVC, several scores",
        SVC(),
        two(),
        {"scoring": ["accuracy", "roc_auc"], "refit": "roc_auc", "return_train_score": True},
    )
    criterion = PrecisionAtRecall(recall=0.8)
    yield "SVC, precision at recall", SVC(), two(), {"criterion": criterion}
    yield "SVC, each fold", SVC(), two(), {"pooled": False, "scoring": "roc_auc"}
    yield (
        "SVC, threshold",
        SVC(),
        two(weights=[0.85]),
        {"space": {"C": None, "gamma": None, "threshold": None}, "scoring": "f1"},
    )
    yield "SVC, class weights", SVC(), two(), {"space": {"C": None, "class_weight": None}}
    yield (
        "SVC, listed kernels",
        SVC(),
        two(),
        {"space": {"kernel": ["rbf", "poly"], "C": (0.1, 100), "gamma": None}},
    )
    yield "SVC, only lists", SVC(), two(), {"space": {"C": [0.1, 1.0, 10.0], "gamma": [0.1]}}
    yield "SVC, linear scale", SVC(), two(), {"space": {"C": (0.1, 5.0, "linear"), "gamma": None}}
    yield "pipeline", make_pipeline(StandardScaler(), SVC()), two(), {}
    yield "pipeline, linear", make_pipeline(StandardScaler(), LinearSVC(random_state=0)), two(), {}
    yield "groups of folds", SVC(), two(), {"cv": GroupKFold(3), "groups": groups_of}
    yield "weights", SVC(), two(), {"sample_weight": lambda y: 0.5 + np.arange(len(y)) % 3}
    yield (
        "weights, linear",
        LinearSVC(random_state=0),
        two(),
        {"sample_weight": lambda y: 0.5 + np.arange(len(y)) % 3},
    )
    for n_jobs in (2, 3):
        yield f"{n_jobs} threads", SVC(), two(800), {"n_jobs": n_jobs}
        yield f"{n_jobs} threads, three classes", SVC(), three(900), {"n_jobs": n_jobs}
    yield "few evaluations", SVC(), two(900), {"max_evals": 3}
    yield "a finer tol", SVC(), two(900), {"tol": 1e-4}


def record(estimator: Any, data: Data, more: dict[str, Any]) -> dict[str, Any]:
    """Return what a search finds, as plain numbers."""
    X, y = data
    of_fit = {
        name: more[name](y) for name in ("groups", "sample_weight", "cost_groups") if name in more
    }
    kinds = KFold if y.dtype.kind == "f" else StratifiedKFold
    arguments = {"cv": kinds(4), "random_state": 0, "n_jobs": 1}
    arguments |= {name: value for name, value in more.items() if name not in of_fit}
    if isinstance(arguments["cv"], int):
        arguments["cv"] = kinds(arguments["cv"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search = GradientSearchCV(estimator, **arguments).fit(X, y, **of_fit)
    evaluated = [h for h in search.history_ if h["gradient"] or np.isfinite(h["score"])]
    scores = [key for key in search.cv_results_ if key.startswith(("mean_t", "std_t"))]
    return {
        "best params": _spelled(search.best_params_),
        "best score": _joined([search.best_score_]),
        "names": " ".join(sorted(search.cv_results_)),
        "scores": _joined(np.ravel([search.cv_results_[k] for k in scores if "score" in k])),
        "rows": _joined([h["n_samples"] for h in search.history_]),
        "objective": _joined([h["objective"] for h in search.history_]),
        "params": [_spelled(h["params"]) for h in evaluated],
        "gradient": [_spelled(h["gradient"] or {}) for h in evaluated],
        "predictions": _joined(np.ravel(_predictions(search, X)).astype(float)),
        "warnings": sorted({f"{w.category.__name__}: {w.message}" for w in told}),
    }


def _predictions(search: Any, X: Any) -> np.ndarray:
    few = X[:30]
    if hasattr(search, "decision_function"):
        return search.decision_function(few)
    return search.predict(few)


def _joined(values: Any) -> str:
    return " ".join(f"{float(value):.8g}" for value in values)


def _spelled(params: dict[str, Any]) -> str:
    """Return parameters as text in which numbers stand between blanks."""
    words = []
    for name, value in params.items():
        if isinstance(value, dict):
            words.append(f"{name} {{ {_spelled({str(k): v for k, v in value.items()})} }}")
        elif isinstance(value, (tuple, list, np.ndarray)):
            words.append(f"{name} ( {_joined(value)} )")
        else:
            number = isinstance(value, (int, float, np.number))
            words.append(f"{name} {_joined([value])}" if number else f"{name} {value!r}")
    return " ".join(words)


def differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Return where two records differ by more than rounding."""
    if isinstance(old, dict):
        return [d for key in old for d in differences(old[key], new.get(key, ""), key)]
    if isinstance(old, list):
        if len(old) != len(new):
            return [f"{place}: {len(old)} before, {len(new)} now"]
        return [d for a, b in zip(old, new, strict=True) for d in differences(a, b, place)][:1]
    words, now = old.split(), new.split()
    if len(words) != len(now):
        return [f"{place}: {len(words)} before, {len(now)} now"]
    found = [f"{place}: {a} before, {b} now" for a, b in zip(words, now) if not _same(a, b)]
    return found[:1]


def _same(a: str, b: str) -> bool:
    try:
        return bool(np.isclose(float(a), float(b), rtol=ROUNDING, atol=ROUNDING**2, equal_nan=True))
    except ValueError:
        return a == b


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    kinds: list[Callable[[], Iterator[tuple]]] = [kernel_machines, linear_machines, searches]
    stored = read_results("record").get("record", {})
    found, told = {}, {}
    for kind in kinds:
        for number, (label, estimator, data, more) in enumerate(kind()):
            if (only is None or only in label) and not (quick and number % 5):
                new = record(estimator, data, dict(more))
                found[label] = stored.get(label, new)
                told[label] = differences(found[label], new)
                print(f"{label}: {'; '.join(told[label]) or 'as before'}", flush=True)
    return {"record": stored | found, "differences": told}


def report(results: dict[str, Any]) -> str:
    told = results["differences"]
    rows = [[label, "; ".join(found)] for label, found in told.items() if found]
    count = f"{len(told)} searches, {len(rows)} that differ from the stored run."
    return count + ("\n\n" + table(["search", "what differs"], rows) if rows else "")
