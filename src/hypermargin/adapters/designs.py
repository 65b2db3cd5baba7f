"""Data matrices of folds: one for all, or one for each where transformers are fitted inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from ..kernels.base import Kernel
from ..kernels.points import Points
from ..problems.base import Design
from .base import Targets
from .folds import Split, TransformerFailed
from .input import LARGEST, check_size, check_square, is_precomputed
from .model import Model


def shared_design(
    model: Model,
    X: Any,
    splits: Sequence[Split],
    targets: Targets,
    by_fold: bool,
    kernel: Kernel | None,
) -> list[Design]:
    """One design for all folds, unless a gamma that is read off the training rows differs.

    With `by_fold` its rows are in the order of the folds.
    """
    if kernel is None:
        return [Design(X, np.arange(X.shape[0]), tuple(range(len(splits))))]
    points, rows = Points.of(X), np.arange(X.shape[0])
    if by_fold and not is_precomputed(model):  # that would copy a square matrix
        rows = _by_fold(splits, targets)
        points = Points(points.X[rows], rows, points.centre)
    if not model.adapter.unset:
        return [Design(points, rows, tuple(range(len(splits))))]
    return [
        Design(points, rows, (number,), model.adapter.read_off(X[train], kernel))
        for number, (train, _) in enumerate(splits)
    ]


def _by_fold(splits: Sequence[Split], targets: Targets) -> np.ndarray:
    """Return the rows in the order of the folds that validate on them, and of their classes.

    So what a machine reads of a row of the kernel matrix lies side by side.
    """
    first = np.full(len(targets.y), len(splits))
    for number in reversed(range(len(splits))):
        first[splits[number][1]] = number
    return (
        np.argsort(first, kind="stable")
        if targets.classes is None
        else np.lexsort((targets.y, first))
    )


def own_design(
    model: Model, X: Any, y: Any, split: Split, number: int, fit_params: Mapping[str, Any]
) -> tuple[Design, Kernel | None]:
    """Fit the transformers on the training part of one fold and apply them to both parts.

    Also returned is the kernel of what they give.
    """
    train, test = split
    X_train, y_train = _safe_split(model.whole, X, y, train)
    X_test, _ = _safe_split(model.whole, X, y, test, train)
    params = _check_method_params(X, params=dict(fit_params), indices=train)
    try:
        transformers = clone(model.transformers)
        parts = [
            transformers.fit_transform(X_train, y_train, **params),
            transformers.transform(X_test),
        ]
    except Exception as error:
        raise TransformerFailed(str(error)) from error
    linear = model.adapter.linear
    kernel = None if linear else model.adapter.kernel_on(parts[0])
    dtype = [np.float64, np.float32] if linear else np.float64
    parts = [
        check_array(part, dtype=dtype, accept_sparse="csr", accept_large_sparse=linear)
        for part in parts
    ]
    for part in parts:
        check_size("X behind the transformers", part, LARGEST)
    fixed = {} if kernel is None else model.adapter.read_off(parts[0], kernel)
    if is_precomputed(model):
        check_square(parts[0])
        # machines never ask for similarities between test rows, which nobody knows
        unknown = np.zeros((len(test), len(test)))
        parts = [np.hstack([parts[0], parts[1].T]), np.hstack([parts[1], unknown])]
    # a row in both parts, or twice in one, is one point; it comes from the training part
    rows, first = np.unique(np.concatenate([train, test]), return_index=True)
    stacked = _stack(parts)[first]
    points = stacked if linear else Points.of(stacked, first)
    if kernel is not None:
        kernel.check(points)
    return Design(points, rows, (number,), fixed), kernel


def _stack(parts: list[Any]) -> Any:
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.vstack(parts)
