"""A first pass over chunks: what they hold, and what is wrong with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import type_of_target

from .base import is_missing
from .input import LARGEST

MOST_LABELS = 1000  # in one chunk; more are numbers


@dataclass(frozen=True)
class Survey:
    """What one chunk says of itself.

    `labels` are the classes in the order in which they first appear, `counts` their numbers of
    rows.  `fault` is what is wrong with the chunk, if anything is.
    """

    n_rows: int
    n_features: int = 0
    dtype: str = "float64"
    longest: float = 0.0  # squared length of a row
    squares: float = 0.0  # the sum of these
    labels: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()
    middle: float = 0.0  # median of the targets
    folds: tuple[int, ...] = ()
    fault: str | None = None


def as_rows(X: Any) -> Any:
    """Return rows as a dense array or in CSR format; floats stay as they are."""
    if hasattr(X, "to_numpy"):
        kept = X.to_numpy()  # of columns that may have missing values these are objects
        X = kept if kept.dtype != object else X.to_numpy(dtype=float, na_value=np.nan)
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if X.dtype.kind == "c":
        raise ValueError("they are complex")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def as_vector(values: Any) -> np.ndarray:
    """Return one value for each row."""
    found = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def survey(chunk: dict[str, Any], classifies: bool) -> Survey:
    """Look at a chunk once."""
    try:
        X = as_rows(chunk["X"])
    except (TypeError, ValueError) as error:
        return Survey(0, fault=f"X cannot be read as numbers: {error}")
    n_rows = X.shape[0]
    vectors = {name: as_vector(chunk[name]) for name in chunk if name != "X"}
    for name, values in vectors.items():
        if len(values) != n_rows:
            return Survey(n_rows, fault=f"X has {n_rows} rows and {name} has {len(values)}")
        if values.ndim != 1:
            return Survey(n_rows, fault=f"{name} has the shape {values.shape}; give one column")
    fault = _fault_of_rows(X) or _fault_of_weights(vectors.get("sample_weight"))
    fault = fault or _fault_of_folds(vectors.get("cv"))
    if fault is not None:
        return Survey(n_rows, X.shape[1], fault=fault)
    entries = X.data if sparse.issparse(X) else X
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), dtype=float).ravel()
    else:
        squares = np.einsum("ij,ij->i", entries, entries, dtype=float)
    found = Survey(
        n_rows,
        X.shape[1],
        str(X.dtype),
        float(squares.max(initial=0.0)),
        float(squares.sum()),
        folds=tuple(np.unique(vectors["cv"]).tolist()) if "cv" in vectors else (),
    )
    return _with_targets(found, vectors["y"], classifies)


def _fault_of_rows(X: Any) -> str | None:
    if X.ndim != 2:
        return f"X has the shape {X.shape}; give rows of features"
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.abs(values).max(initial=0.0))
    if np.isfinite(total):
        return f"X has values as large as {total:.3g}; scale it" if total > LARGEST else None
    bad = ~np.isfinite(values)
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, np.flatnonzero(bad)[0], side="right")) - 1
    else:
        row = int(np.argwhere(bad)[0, 0])
    return f"X has a value that is missing or infinite in row {row} of the chunk"


def _fault_of_weights(weight: np.ndarray | None) -> str | None:
    if weight is None:
        return None
    if weight.dtype.kind not in "biuf":
        return f"sample_weight has {weight[:1].tolist()}; give numbers from zero on"
    good = np.isfinite(weight) & (weight >= 0)
    if good.all():
        return None
    row = int(good.argmin())
    return f"sample_weight is {weight[row]} in row {row} of the chunk; give numbers from zero on"


def _fault_of_folds(fold: np.ndarray | None) -> str | None:
    if fold is None or fold.dtype.kind in "biu":
        return None
    return f"cv has {fold[:1].tolist()}; give whole numbers, -1 for rows that are never left out"


def _with_targets(found: Survey, y: np.ndarray, classifies: bool) -> Survey:
    """Return a survey with what targets say."""
    if not found.n_rows:
        return found
    if not classifies:
        try:
            numbers = y.astype(float)
        except (TypeError, ValueError):
            return replace(found, fault=f"y has {y.tolist()[0]!r}, which is no number")
        if not np.isfinite(numbers).all():
            row = int(np.isfinite(numbers).argmin())
            return replace(
                found, fault=f"y has a value that is missing or infinite in row {row} of the chunk"
            )
        return replace(found, middle=float(np.median(numbers)))
    if (bad := _first_missing(y)) is not None:
        return replace(found, fault=f"y has no label in row {bad} of the chunk")
    if len({isinstance(label, str) for label in y}) > 1 if y.dtype.kind == "O" else False:
        return replace(found, fault="y has labels of several types; use numbers or strings")
    if type_of_target(y).startswith("continuous"):
        return replace(found, fault="y has numbers that are no labels; use a regressor")
    labels, first, counts = np.unique(y, return_index=True, return_counts=True)
    if len(labels) > MOST_LABELS:
        return replace(found, fault=f"y has {len(labels)} classes; at most {MOST_LABELS} can be")
    order = np.argsort(first)
    return replace(
        found, labels=tuple(labels[order].tolist()), counts=tuple(counts[order].tolist())
    )


def _first_missing(y: np.ndarray) -> int | None:
    """Return the first row without a label."""
    if y.dtype.kind in "biu":
        return None
    if y.dtype.kind == "f":
        missing = np.isnan(y)
        return int(missing.argmax()) if missing.any() else None
    return next((row for row, label in enumerate(y.tolist()) if is_missing(label)), None)


def check(surveys: Sequence[Survey]) -> None:
    """Say which chunk something is wrong with, if with any."""
    for number, one in enumerate(surveys):
        if one.fault is not None:
            raise ValueError(f"chunk {number} of the data: {one.fault}.")
    if not any(one.n_rows for one in surveys):
        raise ValueError("X has no rows in any chunk.")
    wide = {one.n_features for one in surveys}
    if len(wide) > 1:
        number = next(i for i, s in enumerate(surveys) if s.n_features != surveys[0].n_features)
        raise ValueError(
            f"chunk {number} of the data: X has {surveys[number].n_features} features there, and "
            f"{surveys[0].n_features} in chunk 0."
        )


def classes_of(surveys: Sequence[Survey]) -> np.ndarray:
    """Return the labels of all chunks, sorted."""
    kinds: dict[bool, int] = {}
    for number, one in enumerate(surveys):
        for label in one.labels:
            kinds.setdefault(isinstance(label, str), number)
    if len(kinds) > 1:
        number = max(kinds.values())
        raise ValueError(
            f"chunk {number} of the data: y has labels of another type there than before; use "
            "numbers or strings."
        )
    labels = sorted({label for one in surveys for label in one.labels})
    if len(labels) < 2:
        raise ValueError(
            f"y has one class only ({labels[0]!r}); the number of classes has to be greater than "
            "one."
        )
    return np.array(labels)
