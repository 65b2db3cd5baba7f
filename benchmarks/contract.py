"""Where methods end, against the best of a dense grid, on small draws of every dense set.

A case is a draw of 50 to 160 rows of a set, by its number: every dense set that there is, none
chosen and none left out; 40 drawn features of those with more, and of several classes the largest
against the rest.  Features and targets are standardised, folds are three.  What counts is the least
outer loss that a method has come to with 50 evaluations, the loss that it minimises itself, above
the least of a grid of 41 points of one hyperparameter or 13 x 13 of two, in percent.  "grid" and
"random" with the same 50 evaluations are there for comparison.  Numbers below zero are gains.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from benchmarks._common import draw, measure_each, table
from hypermargin import GradientSearchCV, LinearClassifier, LinearRegressor
from hypermargin.methods import Mpec

CLASSES = (
    "bbbp", "breast_cancer_ljubljana", "breast_cancer_wisconsin", "covtype_binary", "diabetes",
    "heart", "ijcnn1", "ionosphere", "madelon", "magic04", "mnist", "parkinsons", "pendigits",
    "seeds", "shuttle", "splice", "svmguide1", "titanic", "twonorm", "usps", "waveform",
)  # fmt: skip
TARGETS = (
    "abalone", "aqueous_solubility", "bike_sharing", "blood_brain", "bodyfat", "boston_housing",
    "california_housing", "concrete", "esol", "freesolv", "kin8nm", "melting_point", "power_plant",
    "protein", "winequality_red", "yearpredictionmsd_small",
)  # fmt: skip
DRAWS = (300, 301)
FEATURES, FEW_ROWS = 40, 60  # features at most, and rows of the bilevel programmes
EVALUATIONS, BOUND = 50, 2.0  # evaluations of a method, and percent that it may be above the grid
ONE = {"C": (1e-4, 1e4)}
WIDTH = {"C": (1e-2, 1e3), "gamma": (1e-3, 10.0)}
TUBE = {"C": (1e-4, 1e3), "epsilon": (1e-2, 1.0)}
PLAIN = ("gradient", "grid", "random")
MPEC = {"slams": Mpec("slams"), "ez-slams": Mpec("ez-slams"), "ipopt": Mpec("ipopt")}


class Claim(NamedTuple):
    """A model, what is tuned of it, and the methods that claim it."""

    estimator: Any
    space: dict[str, Any]
    methods: tuple[str, ...]
    criterion: str
    few_rows: bool = False
    to_one: bool = False  # features in [-1, 1], as the paper of the stochastic steps has them

    @property
    def classifies(self) -> bool:
        return hasattr(self.estimator, "decision_function")


LABELS, SQUARES, DISTANCES = "accuracy", "neg_mean_squared_error", "neg_mean_absolute_error"
LINEAR = ("curve", "path", *PLAIN)
CLAIMS = {
    "hinge": Claim(LinearClassifier(loss="hinge"), ONE, LINEAR, LABELS),
    "squared hinge": Claim(LinearSVC(), ONE, ("penalty", *LINEAR), LABELS),
    "logistic": Claim(LogisticRegression(), ONE, ("penalty", *LINEAR), LABELS),
    "RBF": Claim(SVC(), WIDTH, PLAIN, LABELS),
    "ridge": Claim(Ridge(), {"alpha": (1e-4, 1e4)}, ("penalty", *LINEAR), SQUARES),
    "tube": Claim(
        LinearRegressor(loss="squared_epsilon_insensitive"), TUBE, ("penalty", *PLAIN), SQUARES
    ),
    "RBF regression": Claim(SVR(), WIDTH, PLAIN, SQUARES),
    "kernel ridge": Claim(
        KernelRidge(kernel="rbf"), {"alpha": (1e-4, 1e2), "gamma": (1e-3, 10.0)}, PLAIN, SQUARES
    ),
    "hinge, features in [-1, 1]": Claim(
        LinearSVC(loss="hinge"), {"C": (1e-3, 1e2)}, ("sgd-dcd", "bilevel-sgd", *LINEAR),
        "smooth_hinge", to_one=True,
    ),
    "bilevel programmes": Claim(
        LinearSVR(), {"C": (1e-3, 1e1), "epsilon": (1e-2, 1.0)}, (*MPEC, *PLAIN), DISTANCES,
        few_rows=True,
    ),
}  # fmt: skip


def rows_of(name: str, seed: int, claim: Claim) -> tuple[np.ndarray, np.ndarray]:
    """Return a draw of a set."""
    rng = np.random.default_rng([seed, (CLASSES + TARGETS).index(name)])
    n = FEW_ROWS if claim.few_rows else int(rng.integers(50, 161))
    sample = draw(name, n, seed, n_test=1000)
    X, y = np.asarray(sample.X), sample.y
    X = X[:, np.sort(rng.permutation(X.shape[1])[:FEATURES])]
    if claim.to_one:
        X = minmax_scale(X, (-1, 1))
    if claim.classifies:
        labels, counts = np.unique(y, return_counts=True)
        return X, y == labels[counts.argmax()]
    return X, (y - y.mean()) / y.std()


def least(claim: Claim, X: np.ndarray, y: np.ndarray, method: str, most: int) -> float:
    """Return the least outer loss that a search has come to."""
    search = GradientSearchCV(
        claim.estimator, claim.space, cv=3, method=MPEC.get(method, method), max_evals=most,
        random_state=0, criterion=claim.criterion, refit=False,
        scoring=DISTANCES if claim.criterion == DISTANCES else None,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points on a bound, steps that swing
        return float(np.nanmin(search.fit(X, y).cv_results_["objective"]))


def case(label: str, name: str, seed: int) -> dict[str, Any]:
    """Return the grid's least loss, and in percent how far above it each method ends."""
    claim = CLAIMS[label]
    X, y = rows_of(name, seed, claim)
    best = least(claim, X, y, "grid", 41 if len(claim.space) == 1 else 169)
    ends = {method: least(claim, X, y, method, EVALUATIONS) for method in claim.methods}
    above = {method: 100.0 * (end / best - 1.0) for method, end in ends.items()}
    return {"rows": len(X), "features": X.shape[1], "grid": best, "above": above}


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    tasks: dict[str, Callable[[], Any]] = {}
    for name in (*CLASSES[::8], *TARGETS[::8]) if quick else CLASSES + TARGETS:
        # a set at a time: to read it takes longer than most searches
        for label, claim in CLAIMS.items():
            if claim.classifies == (name in CLASSES):
                for seed in DRAWS[:1] if quick or claim.few_rows else DRAWS:
                    tasks[f"{label}: {name} {seed}"] = partial(case, label, name, seed)
    return measure_each("contract", tasks, quick, only)


def missed(label: str, found: dict[str, Any], method: str) -> list[Any]:
    """Return the line of a case in which a method ends too far above the grid."""
    shape = found["rows"], found["features"]
    return [label, method, *shape, f"{found['grid']:.4g}", f"{found['above'][method]:+.1f}"]


def report(results: dict[str, Any]) -> str:
    rows, misses = [], []
    for label, claim in CLAIMS.items():
        cases = {k: v for k, v in results.items() if k.startswith(f"{label}: ")}
        for method in claim.methods if cases else ():
            above = {k: v["above"][method] for k, v in cases.items()}
            values = np.array(list(above.values()))
            over = f"{np.sum(values > BOUND)} of {len(values)}"
            numbers = (f"{v:+.2f}" for v in (np.median(values), values.max()))
            rows.append([label, method, over, *numbers])
            if method not in ("grid", "random", "bilevel-sgd"):
                misses += [missed(k, cases[k], method) for k, v in above.items() if v > BOUND]
    return "\n\n".join(
        [
            table(["problem", "method", f"above {BOUND:g} %", "median, %", "largest, %"], rows),
            "Every miss",
            table(["case", "method", "rows", "features", "loss of the grid", "above, %"], misses),
        ]
    )
