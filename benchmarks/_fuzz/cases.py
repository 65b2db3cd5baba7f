"""A case: data, an estimator, a space and the options of a search, drawn from a number."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR

from benchmarks._fuzz import data, models
from benchmarks._fuzz.data import Rng
from benchmarks._fuzz.hostile import spoil_case
from benchmarks._fuzz.models import pick
from hypermargin import GradientSearchCV

SEED = 20261117
LABEL_SCORES = (
    None, None, "accuracy", "balanced_accuracy", "f1_macro", "precision_macro", "recall_macro",
    "jaccard_macro", "matthews_corrcoef",
)  # fmt: skip
BINARY_SCORES = ("roc_auc", "average_precision")
TARGET_SCORES = (
    None, None, "r2", "neg_mean_squared_error", "neg_mean_absolute_error",
    "neg_median_absolute_error", "neg_root_mean_squared_error",
)  # fmt: skip


@dataclass
class Case:
    """All that one search is given; `said` describes it, `fault` what is wrong on purpose."""

    number: int
    estimator: Any
    space: Any
    X: Any
    y: Any
    fit_params: dict[str, Any]
    options: dict[str, Any]
    classes: list | None
    said: list[str]
    fault: str | None = None
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        self.kind = type(self.machine).__name__

    @property
    def machine(self) -> Any:
        return self.estimator.steps[-1][1] if self.is_pipeline else self.estimator

    @property
    def is_pipeline(self) -> bool:
        return isinstance(self.estimator, Pipeline)

    @property
    def prefix(self) -> str:
        return self.estimator.steps[-1][0] + "__" if self.is_pipeline else ""

    @property
    def n_rows(self) -> int:
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)

    def search(self, **changed: Any) -> Any:
        """Return the search, not fitted."""
        return GradientSearchCV(self.estimator, self.space, **{**self.options, **changed})

    def copy_of_input(self) -> tuple[Any, Any, dict[str, Any]]:
        return deepcopy((self.X, self.y, self.fit_params))

    def describe(self) -> str:
        options = {k: v for k, v in self.options.items() if k != "random_state"}
        return (
            f"case {self.number}: {self.n_rows} rows, {', '.join(self.said)}\n"
            f"  GradientSearchCV({self.estimator!r}, {self.space!r}, {options})\n"
            f"  fit with {sorted(self.fit_params) or 'nothing else'}; "
            f"on purpose wrong: {self.fault or 'nothing'}"
        )


def draw(number: int) -> Case:
    """Draw a case; equal numbers give equal cases."""
    rng = np.random.default_rng([SEED, number])
    n = data.n_rows(rng)
    X, said = data.spoil(rng, data.signal(rng, n))
    with np.errstate(all="ignore"):
        f = data.score_of_rows(rng, X)
    regression = rng.uniform() < 0.4
    if regression:
        y, more = data.target(rng, f)
        said, classes = said + more, None
    else:
        y = data.labels(rng, f, min(n, int(pick(rng, {2: 0.6, 3: 0.3, 4: 0.1}))))
        classes = np.unique(y).tolist()
        said = [*said, f"{len(classes)} classes"]
    precomputed = rng.uniform() < 0.05
    machine = models.machine(rng, classes, precomputed)
    X, container = _contain(rng, X, machine, precomputed)
    estimator, prefix = _wrap(rng, machine, classes, X, precomputed)
    y, y_said = _contain_targets(rng, y, machine)
    space = models.space(rng, machine, prefix, classes)
    weight, weight_said = data.weights(rng, n)
    fit_params: dict[str, Any] = {}
    if weight is not None and not isinstance(machine, KernelRidge) | bool(prefix):
        fit_params["sample_weight"] = weight
    elif weight is not None and not isinstance(machine, KernelRidge):
        fit_params[prefix + "sample_weight"] = weight
    options = _options(rng, machine, space, classes, fit_params, n)
    said += [container, f"y {y_said}", f"weights {weight_said if fit_params else 'none'}"]
    case = Case(number, estimator, space, X, y, fit_params, options, classes, said)
    return spoil_case(rng, case) if rng.uniform() < 0.08 else case


def _contain(rng: Rng, X: np.ndarray, machine: Any, precomputed: bool) -> tuple[Any, str]:
    kind = str(pick(rng, data.CONTAINERS))
    if precomputed:
        Z = X - X.mean(axis=0)
        scale = float(np.abs(Z).max()) or 1.0
        return (Z / scale) @ (Z / scale).T, "precomputed"
    if "cs" in kind or kind == "coo":
        X = np.where(np.abs(X - X.mean(axis=0)) < 0.3 * X.std(axis=0), 0.0, X)
    return data.contain_rows(kind, X), kind


def _wrap(
    rng: Rng, machine: Any, classes: list | None, X: Any, precomputed: bool
) -> tuple[Any, str]:
    """Put some machines into a pipeline; return it and the prefix of the machine's parameters."""
    dense = isinstance(X, np.ndarray) and X.dtype == float and X.flags.writeable
    has_nan = bool(dense and not precomputed and rng.uniform() < 0.05)
    if precomputed or not (has_nan or rng.uniform() < 0.25):
        return machine, ""
    if has_nan:
        X[rng.uniform(size=X.shape) < 0.1] = np.nan
    whole = models.pipeline(rng, machine, classes, has_nan)
    return whole, whole.steps[-1][0] + "__"


def _contain_targets(rng: Rng, y: np.ndarray, machine: Any) -> tuple[Any, str]:
    if isinstance(machine, (Ridge, KernelRidge)) and rng.uniform() < 0.25:
        return np.column_stack([y, -2.0 * y, np.roll(y, 1)]), "three targets"
    kind = str(
        pick(rng, {"array": 0.6, "list": 0.1, "series": 0.15, "column": 0.08, "polars": 0.07})
    )
    return data.contain_targets(kind, y), kind


def _options(
    rng: Rng, machine: Any, space: Any, classes: list | None, fit_params: dict[str, Any], n: int
) -> dict[str, Any]:
    """Draw the parameters of the search; groups of the rows go into `fit_params`."""
    made: dict[str, Any] = {
        "cv": _folds(rng, n, classes, fit_params),
        "scoring": _scoring(rng, machine, classes),
        "max_evals": int(rng.integers(2, 7)),
        "random_state": 0,
    }
    rare = {
        "n_jobs": 2, "pooled": False, "return_train_score": True, "memory_limit": 0.01,
        "refit": False, "time_budget": 0.05, "tol": 1e-5, "error_score": "raise",
    }  # fmt: skip
    made |= {name: value for name, value in rare.items() if rng.uniform() < 0.04}
    if isinstance(made["scoring"], list):
        made["refit"] = made["scoring"][0]
    strength = {"C", "alpha"}
    alone = isinstance(space, dict) and {n.rpartition("__")[2] for n in space} <= strength
    linear = not hasattr(machine, "kernel")
    if linear and rng.uniform() < 0.3:
        made["method"] = pick(rng, ("curve", "path") if alone else ("gradient",))
    if isinstance(machine, (SVC, SVR)) and rng.uniform() < 0.06:
        made["rank"] = int(rng.integers(2, 30))
    return made


def _folds(rng: Rng, n: int, classes: list | None, fit_params: dict[str, Any]) -> Any:
    k, seed = int(rng.integers(2, min(5, n // 2) + 1)), int(rng.integers(100))
    kind = pick(
        rng,
        {"number": 0.45, "shuffled": 0.25, "random": 0.1, "time": 0.05, "groups": 0.07,
         "explicit": 0.06, "one out": 0.02},
    )  # fmt: skip
    if kind == "shuffled":
        folds = KFold if classes is None or rng.uniform() < 0.2 else StratifiedKFold
        return folds(k, shuffle=True, random_state=seed)
    if kind == "random":
        return ShuffleSplit(k, test_size=0.3, random_state=seed)
    if kind == "time" and n > k + 1:
        return TimeSeriesSplit(k)
    if kind == "groups":
        fit_params["groups"] = rng.integers(0, k, size=n) if n > 20 else np.arange(n) % k
        return GroupKFold(min(k, len(np.unique(fit_params["groups"]))))
    if kind == "explicit":
        rows = rng.permutation(n)
        return [(rows[n // 3 :], rows[: n // 3]), (rows[: n // 2], rows[n // 2 :])]
    if kind == "one out" and n <= 15:
        return LeaveOneOut()
    return k


def _scoring(rng: Rng, machine: Any, classes: list | None) -> Any:
    if rng.uniform() < 0.04:
        return plain_score
    if classes is None:
        if rng.uniform() < 0.06:
            return make_scorer(mean_absolute_error, greater_is_better=False)
        return pick(rng, TARGET_SCORES) if rng.uniform() < 0.94 else ["r2", "max_error"]
    if rng.uniform() < 0.06:
        return ["accuracy", "f1_macro"]
    if rng.uniform() < 0.06:
        return make_scorer(accuracy_score)
    if rng.uniform() < 0.08 and isinstance(machine, LogisticRegression):
        return "neg_log_loss"
    return pick(rng, LABEL_SCORES + BINARY_SCORES * (len(classes) == 2))


def plain_score(estimator: Any, X: Any, y: Any) -> float:
    """Score as a plain function does, of which nothing is known."""
    return float(estimator.score(X, y))


def is_sparse(X: Any) -> bool:
    return sparse.issparse(X)


def quietly(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function without its warnings."""
    return listening(function, *args, **kwargs)[0]


def listening(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """Call a function; return its value, and whether it warned that training did not converge."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        value = function(*args, **kwargs)
    return value, any(issubclass(w.category, ConvergenceWarning) for w in caught)
