"""The estimator that suits a problem: scikit-learn's usual pipeline, with a machine at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from ..estimators.kernel import KernelSVC, KernelSVR
from ..files import Mistake
from .columns import CATEGORY, DATE, NUMBER, TEXT
from .problem import Problem

THEIRS = ("rbf", "linear", "poly", "sigmoid")  # kernels that SVC has; KernelSVC has the others
LINEAR_STEPS = (
    10_000  # of the solvers of linear models, whose defaults end with a warning too often
)
LEAST_IN_FOLD = 2  # rows, on one of which there is no r2
MANY_ROWS, LANDMARKS = 30_000, 2_000
SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler, "maxabs": MaxAbsScaler,
           "robust": RobustScaler}  # fmt: skip


def estimator(problem: Problem, options: Any) -> tuple[Any, str]:
    """Return the model to tune, and the prefix of its machine's parameters."""
    machine = _machine(problem, options)
    before = _before(problem, _scaler(problem, options.scale))
    if not before:
        return machine, ""
    model = make_pipeline(*before, machine)
    return model, f"{model.steps[-1][0]}__"


def _machine(problem: Problem, options: Any) -> Any:
    model, kernel, classes = options.model, options.kernel, problem.is_classification
    if model == "auto":
        model = _guessed_model(problem, kernel)
    if model not in ("svm", "kernel-ridge"):
        if kernel is not None:
            raise Mistake(f"--kernel is for --model svm or kernel-ridge, not for {model}.")
        if model == "logistic" and not classes:
            raise Mistake("--model logistic is for classification; the task is regression.")
        made: dict[str, Any] = {
            "linear": LinearSVC(max_iter=LINEAR_STEPS)
            if classes
            else LinearSVR(max_iter=LINEAR_STEPS),
            "logistic": LogisticRegression(max_iter=LINEAR_STEPS),
            "ridge": RidgeClassifier() if classes else Ridge(),
        }
        return made[model]
    if kernel is None:
        kernel = "rbf"
        if options.model != "auto":
            problem.guessed.append("an RBF kernel")
    if model == "kernel-ridge":
        if classes:
            raise Mistake("--model kernel-ridge is for regression; the task is classification.")
        if kernel not in (*THEIRS, "laplacian"):
            raise Mistake(f"--model kernel-ridge has no kernel {kernel!r}; --model svm has.")
        return KernelRidge(kernel=kernel)
    if kernel in THEIRS:
        return SVC(kernel=kernel) if classes else SVR(kernel=kernel)
    return KernelSVC(kernel=kernel) if classes else KernelSVR(kernel=kernel)


def _guessed_model(problem: Problem, kernel: str | None) -> str:
    """Guess a linear model for long text and for more sparse features than rows, else an SVM."""
    if kernel is not None:
        return "svm"
    n_rows, n_features = problem.X.shape
    if TEXT in problem.kinds:
        problem.guessed.append("a linear model, as there is long text")
        return "linear"
    if sparse.issparse(problem.X) and n_features > n_rows:
        problem.guessed.append("a linear model, as there are more features than rows")
        return "linear"
    problem.guessed.append("a support vector machine with an RBF kernel")
    return "svm"


def landmarks(problem: Problem, machine: Any, asked: int | None) -> int | None:
    """Return the number of landmarks: for many rows and a kernel machine there are some."""
    can = isinstance(machine, (SVC, SVR, KernelSVC, KernelSVR))
    if asked is not None:
        if not can:
            raise Mistake("--landmarks is for --model svm.")
        if asked > problem.X.shape[0]:
            raise Mistake(f"--landmarks {asked} is more than the {problem.X.shape[0]} rows.")
        return asked
    if not can or problem.X.shape[0] <= MANY_ROWS:
        return None
    problem.guessed.append(f"{LANDMARKS} landmarks, as there are more than {MANY_ROWS} rows")
    return LANDMARKS


def _scaler(problem: Problem, asked: str) -> Any:
    """Return the scaler of numbers, or None."""
    thin = sparse.issparse(problem.X)
    if asked == "auto":
        asked = "standard"
        if thin:
            largest = np.abs(problem.X.data).max(initial=0.0)
            asked = "none" if largest <= 1.0 else "maxabs"
        if problem.places(NUMBER, DATE):
            said = {"standard": "features get mean 0 and variance 1",
                    "maxabs": "features are divided by their largest value",
                    "none": "features are not scaled, as none is above 1"}  # fmt: skip
            problem.guessed.append(said[asked])
    if asked == "none":
        return None
    if thin and asked != "maxabs":
        if asked != "standard":
            raise Mistake(f"--scale {asked} would make sparse data dense; maxabs would not.")
        return StandardScaler(with_mean=False)
    return SCALERS[asked]()


def _before(problem: Problem, scaler: Any) -> list[Any]:
    """Return the steps before the machine."""
    steps: list[Any] = []
    if problem.has_gaps:
        steps.append(SimpleImputer(strategy="median"))
        problem.guessed.append("missing numbers become the median of their column")
    if scaler is not None:
        steps.append(scaler)
    if CATEGORY not in problem.kinds and TEXT not in problem.kinds:
        return steps
    parts: list[tuple[str, Any, Any]] = []
    numbers = problem.places(NUMBER, DATE)
    if numbers:
        parts.append(("numbers", make_pipeline(*steps) if steps else "passthrough", numbers))
    categories = problem.places(CATEGORY)
    if categories:
        encoder = OneHotEncoder(handle_unknown="ignore")
        parts.append(("categories", encoder, categories))
    parts += [(f"text {k + 1}", TfidfVectorizer(), k) for k in problem.places(TEXT)]
    return [ColumnTransformer(parts)]


def folds(problem: Problem, asked: int | None, seed: int) -> Any:
    """Return the splitter: stratified for classes, by groups if there are any."""
    n_rows, y = len(problem.y), problem.y
    most, what = n_rows, f"{n_rows} rows"
    if problem.groups is not None:
        words = problem.groups.astype(str) if problem.groups.dtype == object else problem.groups
        most = len(np.unique(words))
        what = f"{most} groups"
    if problem.is_classification:
        classes, counts = np.unique(y, return_counts=True)
        rarest = int(counts.argmin())
        if counts[rarest] < 2:
            numbers = " (--task regression takes them as numbers)" * (y.dtype.kind in "iuf")
            raise Mistake(
                f"Class {str(classes[rarest])!r} has one row only; every class should have two or "
                f"more{numbers}."
            )
        if problem.groups is None and counts[rarest] < most:
            most = int(counts[rarest])
            what = f"{most} rows of class {str(classes[rarest])!r}"
    if most < 2 or n_rows < 2 * LEAST_IN_FOLD:
        raise Mistake(f"There are {what} only, too few to be split into folds.")
    if asked is not None and asked > most:
        raise Mistake(f"--folds {asked} is more than the {what}.")
    number = min(5, most, n_rows // LEAST_IN_FOLD) if asked is None else asked
    if asked is None:
        problem.guessed.append(f"{number} folds")
    return _splitter(problem, number, seed)


def _splitter(problem: Problem, number: int, seed: int) -> Any:
    shuffled = {"shuffle": True, "random_state": seed}
    if problem.groups is None:
        kind = StratifiedKFold if problem.is_classification else KFold
        return kind(number, **shuffled)
    if problem.is_classification:
        return StratifiedGroupKFold(number, **shuffled)
    return GroupKFold(number)


def fit_params(problem: Problem, prefix: str) -> dict[str, Any]:
    """Return what `fit` of a search takes beside rows and targets."""
    found: dict[str, Any] = {}
    if problem.groups is not None:
        words = problem.groups
        found["groups"] = words.astype(str) if words.dtype == object else words
    if problem.weights is not None:
        found[f"{prefix}sample_weight"] = problem.weights
    return found


def machine_of(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model
