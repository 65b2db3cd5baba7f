"""From an estimator and data to a problem: input checks, folds, transformers inside folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_X_y
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_sample_weight

from ._adapters import Model, Targets
from ._budget import Workers
from ._kernels import Points
from ._problem import CrossValidation, Design, Fold
from ._space import Dimension

Split = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Prepared:
    """A problem, and what is needed to read its outputs."""

    model: Model
    problem: CrossValidation
    targets: Targets
    splits: list[Split]

    @property
    def n_rows(self) -> int:
        return len(self.targets.y)


def prepare(
    model: Model,
    X: Any,
    y: Any,
    splits: Sequence[Split],
    fit_params: Mapping[str, Any],
    tuned: Sequence[str],
    memory: float,
    workers: Workers,
) -> Prepared:
    """Build the cross-validation problem of a model.

    Parameters
    ----------
    splits : sequence of (train, test) row numbers
    fit_params : dict
        What `fit` of the whole estimator would get, `sample_weight` of the machine included.
    tuned : sequence of str
        The machine's hyperparameters that every evaluation will name.
    """
    if y is None:
        raise ValueError(
            f"{type(model.machine).__name__} requires y to be passed, but the target y is None."
        )
    if model.transformers is None:
        X, y = _check_data(model, X, y)
    targets = model.adapter.targets(y)
    fit_params, sample_weight = _machine_weight(model, fit_params, len(targets.y))
    folds = [
        Fold(np.sort(test), _training_weight(model, targets, train, sample_weight, number))
        for number, (train, test) in enumerate(splits)
    ]
    if model.transformers is None:
        designs = _shared_design(model, X, splits, tuned)
    else:
        designs = [
            _own_design(model, X, y, split, number, fit_params, tuned)
            for number, split in enumerate(splits)
        ]
    problem = CrossValidation(
        designs,
        folds,
        targets.columns,
        model.adapter.kernel(model.machine),
        model.adapter.loss,
        model.adapter.values(model.machine),
        memory,
        workers,
    )
    return Prepared(model, problem, targets, list(splits))


def _check_data(model: Model, X: Any, y: Any) -> tuple[Any, Any]:
    X, y = check_X_y(
        X,
        y,
        dtype=np.float64,
        order="C",
        accept_sparse="csr",
        accept_large_sparse=False,
        multi_output=True,
        y_numeric=not hasattr(model.adapter, "decision_function"),
        estimator=model.machine,
    )
    if getattr(model.machine, "kernel", None) == "precomputed" and X.shape[0] != X.shape[1]:
        raise ValueError(
            "Precomputed matrix must be a square matrix. "
            f"Input is a {X.shape[0]}x{X.shape[1]} matrix."
        )
    return X, y


def _machine_weight(
    model: Model, fit_params: Mapping[str, Any], n_rows: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Split the machine's sample_weight off the parameters of `fit`."""
    rest = {name: value for name, value in fit_params.items() if value is not None}
    weight = rest.pop(model.prefix + "sample_weight", None)
    known = () if model.transformers is None else tuple(f"{n}__" for n, _ in model.whole.steps[:-1])
    for name in rest:
        if not name.startswith(known) or not known:
            raise TypeError(
                f"{type(model.whole).__name__}.fit got an unexpected parameter {name!r}; "
                f"{model.prefix}sample_weight is the one that can be used here."
            )
    if weight is None:
        return rest, np.ones(n_rows)
    weight = _check_sample_weight(weight, np.empty((n_rows, 1)), ensure_non_negative=True)
    return rest, np.asarray(weight, dtype=float)


def _training_weight(
    model: Model, targets: Targets, train: np.ndarray, sample_weight: np.ndarray, number: int
) -> np.ndarray:
    """Return the weight of every row in the training part of a fold, 0 outside of it."""
    y = targets.y[train]
    weight = np.zeros(len(targets.y))
    weight[train] = sample_weight[train]
    if targets.classes is not None:
        present = np.unique(y[sample_weight[train] > 0])
        for missing in np.setdiff1d(np.arange(len(targets.classes)), present):
            raise ValueError(
                f"the training part of fold {number} has no sample of class "
                f"{targets.classes[missing]!r}; use fewer or stratified folds, or drop the class."
            )
    elif not weight.any():
        raise ValueError(f"the training part of fold {number} has no sample with weight.")
    weight[train] *= model.adapter.class_weight(model.machine, y, targets)
    return weight


def _shared_design(
    model: Model, X: Any, splits: Sequence[Split], tuned: Sequence[str]
) -> list[Design]:
    """One design for all folds, unless a gamma that is read off the training rows differs."""
    points, rows = Points.of(X), np.arange(X.shape[0])
    if not _needs_gamma(model, tuned):
        return [Design(points, rows, tuple(range(len(splits))))]
    return [
        Design(points, rows, (number,), {"gamma": model.adapter.gamma(model.machine, X[train])})
        for number, (train, _) in enumerate(splits)
    ]


def _own_design(
    model: Model,
    X: Any,
    y: Any,
    split: Split,
    number: int,
    fit_params: Mapping[str, Any],
    tuned: Sequence[str],
) -> Design:
    """Fit the transformers on the training part of one fold and apply them to both parts."""
    train, test = split
    transformers = clone(model.transformers)
    X_train, y_train = _safe_split(model.whole, X, y, train)
    X_test, _ = _safe_split(model.whole, X, y, test, train)
    sliced = {
        name: np.asarray(value)[train] if np.shape(value)[:1] == (len(y),) else value
        for name, value in fit_params.items()
    }
    parts = [
        check_array(part, dtype=np.float64, accept_sparse="csr", accept_large_sparse=False)
        for part in (
            transformers.fit_transform(X_train, y_train, **sliced),
            transformers.transform(X_test),
        )
    ]
    fixed = {}
    if _needs_gamma(model, tuned):
        fixed["gamma"] = model.adapter.gamma(model.machine, parts[0])
    if getattr(model.machine, "kernel", None) == "precomputed":
        # columns for the test rows, which no machine reads, make the matrix square
        width = len(train) + len(test)
        parts = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    rows = np.concatenate([train, test])
    order = np.argsort(rows, kind="stable")
    stacked = _stack(parts)
    return Design(Points(stacked[order], order), rows[order], (number,), fixed)


def _stack(parts: list[Any]) -> Any:
    from scipy import sparse

    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.vstack(parts)


def _needs_gamma(model: Model, tuned: Sequence[str]) -> bool:
    names = model.adapter.hyperparameters(model.machine)
    return (
        "gamma" in names
        and "gamma" not in tuned
        and "gamma" not in model.adapter.values(model.machine)
    )


def default_dimensions(prepared: Prepared, names: Sequence[str]) -> dict[str, Dimension]:
    """Return ranges that suit the data for the machine's hyperparameters `names`."""
    problem = prepared.problem
    design = problem.designs[0]
    kernel, loss = problem.kernel, problem.loss
    at = np.linspace(0, len(design.rows) - 1, min(len(design.rows), 500)).astype(int)
    sample = design.points.take(at)
    dimensions = {
        name: kernel.dimension(name, sample) for name in names if name in kernel.hyperparameters
    }
    middle = {name: d.from_scaled(_middle(d)) for name, d in dimensions.items()}
    params = {**problem.values, **design.fixed, **middle}
    K = kernel.block(sample, sample, params)
    scale = float(np.mean(kernel.diagonal(sample, params)) - K.mean())
    scale = scale if np.isfinite(scale) and scale > 1e-12 else 1.0
    y = prepared.targets.y
    for name in names:
        if name in loss.hyperparameters:
            dimensions[name] = loss.dimension(name, np.asarray(y, dtype=float), scale)
    return {name: dimensions[name] for name in names}


def _middle(dimension: Dimension) -> float:
    return 0.5 * (dimension.to_scaled(dimension.low) + dimension.to_scaled(dimension.high))
