"""Checks of what a user gives, before any work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils import check_X_y
from sklearn.utils.metadata_routing import _routing_enabled, get_routing_for_object, process_routing
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _get_feature_names,
    has_fit_parameter,
)

from .._core.space import Labels, Params
from ..kernels.base import Kernel
from ..kernels.compose import Composite, OnColumns
from ..kernels.points import Points
from ..kernels.precomputed import Precomputed
from ..problems.exact.smo import HUGE
from .base import Targets
from .model import Model

LARGEST = 1e100  # values whose squares, of all rows and times a cost, are finite
OF_FIT = ("sample_weight", "cost_groups")  # what machines may get beside X and y
ASYMMETRY = 1e-5  # of a kernel matrix in single precision, relative to its largest entry


def canonical(X: Any) -> Any:
    """Return X; a copy, if it is sparse and its entries are not in order, or some are in parts.

    libsvm sorts the entries of what it is given in place, and takes one part for the whole.
    """
    if not hasattr(X, "sum_duplicates") or getattr(X, "has_canonical_format", True):
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def check_inputs(
    model: Model, X: Any, y: Any, own: Mapping[str, Any]
) -> tuple[Any, Any, Targets, Params]:
    """Check all that can be checked before any work is done.

    `own` are the parameters of `fit` that are for the machine.  Returned are X, y, the targets, and
    the values that the estimator has of its hyperparameters.
    """
    given = X
    X, y = _check_data(model, X, y)
    targets = model.adapter.targets(y).in_groups(own.get("cost_groups"))
    model.adapter.check_targets(targets)
    values = _values(model) | model.adapter.values_by_part(targets)
    if model.transformers is None and not model.adapter.linear:
        check_widths(values, X.shape[1], model.adapter.kernel_on(given), model.adapter.tuned)
    return X, y, targets, values


def features_of(X: Any, n_features: int, kernel: Kernel, name: str) -> Labels:
    """Return what the features are called that a hyperparameter of a kernel has entries for.

    They have the names of a data frame's columns, or numbers.
    """
    found = _get_feature_names(X)
    names = list(range(n_features)) if found is None else found.tolist()
    return Labels("features", [names[k] for k in kernel.columns_of(name, n_features)])


def check_widths(
    values: Params, n_features: int, kernel: Kernel, tuned: Sequence[str] = ()
) -> None:
    """Say so if a width for each feature is none; those that are tuned are not used."""
    for name in kernel.widths:
        groups, width = kernel.ard_of(name), values.get(name, 1.0)
        if not isinstance(groups, (bool, str)):
            n_columns = len(kernel.columns_of(name, n_features))
            Labels("features", range(n_columns)).check_number_of(f"ard of {name}", list(groups))
        if np.ndim(width) == 0 or any(t.removeprefix("kernel__") == name for t in tuned):
            continue
        wanted = len(kernel.columns_of(name, n_features))
        if np.shape(width) != (wanted,):
            raise ValueError(
                f"{name} has the shape {np.shape(width)}; give a number, or one for each of the "
                f"{wanted} features."
            )
        if not (np.isfinite(width).all() and np.all(width >= 0) and np.any(width > 0)):
            raise ValueError(
                f"{name}={width!r} must be positive and finite; some features may have 0, not all."
            )


def check_threshold(targets: Targets) -> None:
    """Say so if a threshold is given for more than two classes."""
    if targets.several:
        raise ValueError("threshold is for two classes; y has several labels.")
    if targets.classes is not None and len(targets.classes) != 2:
        raise ValueError(f"threshold is for two classes; y has {len(targets.classes)}.")


def _check_data(model: Model, X: Any, y: Any) -> tuple[Any, Any]:
    """Check y, and X unless it is for transformers to read."""
    numeric = not hasattr(model.adapter, "decision_function")
    name = type(model.machine).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if model.transformers is not None:
        y = _check_y(y, multi_output=True, y_numeric=numeric, estimator=model.machine)
        if numeric:
            check_size("y", y, _largest_target(model))
        return X, y
    linear, given = model.adapter.linear, X
    X, y = check_X_y(
        X,
        y,
        dtype=[np.float64, np.float32] if linear else np.float64,
        order="C",
        accept_sparse="csr",
        accept_large_sparse=linear,
        multi_output=True,
        y_numeric=numeric,
        estimator=model.machine,
    )
    check_size("X", X, LARGEST)
    if not linear:
        kernel = model.adapter.kernel_on(given)
        check_matrices(kernel, X)
        kernel.check(Points.of(X))
    if numeric:
        check_size("y", y, _largest_target(model))
    return X, y


def _largest_target(model: Model) -> float:
    """Return how large targets may be; training with bounds has a number in infinity's place."""
    bounded = not model.adapter.linear and not model.adapter.loss().linear
    return 1e-5 * HUGE if bounded else LARGEST


def check_size(name: str, values: Any, most: float) -> None:
    """Say so if values are so large that what is computed of them overflows."""
    values = values.data if sparse.issparse(values) else np.asarray(values)
    if values.dtype.kind not in "fiu":  # what is no number is refused elsewhere
        return
    largest = float(max(np.max(values, initial=0.0), -np.min(values, initial=0.0)))
    if largest > most:
        raise ValueError(
            f"{name} has values as large as {largest:.3g}, with which training overflows; scale it "
            f"so that they are below {most:.3g}."
        )


def is_precomputed(model: Model) -> bool:
    """Whether X is a kernel matrix, and nothing but one."""
    return is_pairwise(getattr(model.machine, "kernel", None))


def is_pairwise(kernel: Any) -> bool:
    """Whether X of a kernel, or of its name, is a kernel matrix, and nothing but one."""
    if isinstance(kernel, Precomputed):
        return kernel.columns is None
    return isinstance(kernel, str) and kernel == "precomputed"


def check_matrices(kernel: Kernel, X: Any) -> None:
    """Say so if a kernel matrix in X is none."""
    if isinstance(kernel, Composite):
        for _, part in kernel.checked():
            check_matrices(part, X)
    elif isinstance(kernel, OnColumns) and isinstance(kernel.kernel, Precomputed):
        check_square(X[:, kernel.numbers])
    elif isinstance(kernel, Precomputed):
        check_square(X)


def check_square(K: Any) -> None:
    if sparse.issparse(K):
        raise TypeError("Sparse precomputed kernels are not supported.")
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            "Precomputed matrix must be a square matrix. "
            f"Input is a {K.shape[0]}x{K.shape[1]} matrix."
        )
    unit = float(np.abs(K).max())
    for start in range(0, len(K), 256):  # in parts, as K may be large
        rows = slice(start, start + 256)
        differs = np.abs(K[rows] - K[:, rows].T) > ASYMMETRY * unit
        if differs.any():
            i, j = np.argwhere(differs)[0]
            i += start
            raise ValueError(
                f"Precomputed matrix must be symmetric, but K[{i}, {j}] is {K[i, j]:g} and "
                f"K[{j}, {i}] is {K[j, i]:g}; use (K + K.T) / 2."
            )


def _values(model: Model) -> Params:
    """Return the machine's plain numbers, or say which is of no use and is not tuned."""
    adapter = model.adapter
    values, of_loss = adapter.values(), adapter.loss().hyperparameters
    for name in adapter.scalars():
        own = adapter.own(name)
        if name in adapter.tuned:
            continue
        if own not in values and own != "gamma" and not adapter.of_kernel:
            value = getattr(model.machine, name)
            raise ValueError(f"{model.prefix}{name}={value!r} must be a single number here.")
        value = values.get(own, 1.0)
        if not np.isfinite(value).all():
            raise ValueError(f"{model.prefix}{name}={value!r} must be finite here.")
        if own in of_loss and adapter.signs.get(name) == "positive" and value <= 0:
            raise ValueError(f"{model.prefix}{name}={value!r} must be positive here.")
    return values


def split_params(
    model: Model, fit_params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the parameters of `fit` into those of the transformers and those of the machine."""
    given = {name: value for name, value in fit_params.items() if value is not None}
    if model.prefix and _routing_enabled():
        own, machine = given, model.whole
        while isinstance(machine, Pipeline):
            name, last = machine.steps[-1]
            own, machine = process_routing(machine, "fit", **own)[name].fit, last
        wanted: set[str] = set()
        if model.transformers is not None:
            wanted = get_routing_for_object(model.transformers).consumes("fit_transform", given)
        return {name: given[name] for name in wanted}, own
    usable = [n for n in OF_FIT if has_fit_parameter(model.machine, n)]
    own = {n: given.pop(model.prefix + n) for n in usable if model.prefix + n in given}
    steps = [] if model.transformers is None else [name for name, _ in model.transformers.steps]
    rest = {}
    for path, step in zip(model.paths, steps, strict=True):
        for name in [each for each in given if each.startswith(f"{path}__")]:
            rest[step + name.removeprefix(path)] = given.pop(name)
    for name in given:
        raise TypeError(
            f"{type(model.whole).__name__}.fit got an unexpected parameter {name!r}; "
            f"{' and '.join(model.prefix + n for n in usable)} can be used here."
        )
    return rest, own


def row_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_rows)
    table = np.empty((n_rows, 1))
    checked = _check_sample_weight(sample_weight, table, ensure_non_negative=True)
    return np.asarray(checked, dtype=float)
