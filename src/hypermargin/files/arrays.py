"""Arrays and columns in binary files: .npz of NumPy, and Parquet."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .mistake import Mistake
from .table import Matrix, Table

SPARSE = ("data", "indices", "indptr", "shape")


def read_npz(path: str | Path) -> Matrix:
    """Read X and, if it is there, y and other arrays of as many rows.

    X may be sparse: X_data, X_indices, X_indptr and X_shape, or the file one of
    :func:`scipy.sparse.save_npz`.
    """
    arrays = _arrays(path)
    X, of_x = _features(path, arrays)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise Mistake(f"X in {path} should be a table of numbers, not of shape {X.shape}.")
    others = {
        name: array
        for name, array in arrays.items()
        if name not in of_x and array.ndim == 1 and len(array) == X.shape[0]
    }
    return Matrix(X.astype(np.float64), others.pop("y", None), others)


def _arrays(path: str | Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, EOFError, KeyError):
        raise Mistake(f"{path} is truncated or damaged, or no .npz file.") from None
    except (ValueError, AttributeError):
        raise Mistake(
            f"{path} is no .npz file of plain arrays; arrays of Python objects are not read."
        ) from None
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror or error}.") from None


def _features(path: str | Path, arrays: dict[str, np.ndarray]) -> tuple[Any, set[str]]:
    """Return X, and the names of the arrays that it is made of."""
    if "X" in arrays:
        return arrays["X"], {"X"}
    for prefix in ("X_", ""):
        names = [prefix + name for name in SPARSE]
        if all(name in arrays for name in names):
            data, indices, indptr, shape = (arrays[name] for name in names)
            try:
                X = sparse.csr_matrix((data, indices, indptr), tuple(shape))
            except ValueError as error:
                raise Mistake(f"The sparse matrix in {path} is damaged: {error}.") from None
            return X, {*names, prefix + "format"}
    raise Mistake(f"{path} has no array X; it has {', '.join(arrays) or 'none'}.")


def read_parquet(path: str | Path) -> Table:
    """Read the columns of a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Mistake(
            f'{path} is Parquet, which needs pyarrow: pip install "hypermargin[cli]".'
        ) from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise Mistake(f"{path} cannot be read as Parquet: {reason}.") from None
    if table.num_rows == 0:
        raise Mistake(f"{path} has no rows.")
    columns = [_column(path, name, table.column(name)) for name in table.column_names]
    return Table(list(table.column_names), columns)


def _column(path: str | Path, name: str, column: Any) -> np.ndarray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks().dictionary_decode()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=float)
    if pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=float)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        words = np.empty(len(column), dtype=object)
        words[:] = column.to_pylist()
        return words
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us")).to_numpy().astype("datetime64[us]")
    raise Mistake(f"Column {name!r} of {path} is of type {kind}, which is no number and no text.")
