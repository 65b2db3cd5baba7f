"""Arrays and columns in binary files: .npz of NumPy, and Parquet."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .mistake import Mistake
from .opening import cannot_be_read
from .table import Matrix, Table, distinct

SPARSE = ("data", "indices", "indptr", "shape")


def read_npz(path: str | Path) -> Matrix:
    """Read X and, if it is there, y and other arrays of as many rows.

    X may be sparse: X_data, X_indices, X_indptr and X_shape, or the file one of
    :func:`scipy.sparse.save_npz`.
    """
    arrays = _arrays(path)
    X, of_x = _features(path, arrays)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise Mistake(
            f"X in {path} should be a table of numbers, rows by columns; it is of shape {X.shape} "
            f"and type {X.dtype}."
        )
    if X.shape[0] == 0:
        raise Mistake(f"{path} has no rows.")
    others = {}
    for name, array in arrays.items():
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if name not in of_x and array.ndim == 1 and len(array) == X.shape[0]:
            others[name] = np.char.decode(array, "utf-8", "replace") if _is_bytes(array) else array
        elif name == "y":
            raise Mistake(f"y in {path} is of shape {array.shape}; X has {X.shape[0]} rows.")
    return Matrix(X.astype(np.float64), others.pop("y", None), others)


def _is_bytes(array: np.ndarray) -> bool:
    return array.dtype.kind == "S"


def _arrays(path: str | Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, EOFError, KeyError):
        raise Mistake(f"{path} is truncated or damaged, or no .npz file.") from None
    except (ValueError, AttributeError):
        raise Mistake(
            f"{path} is no .npz file of plain arrays; arrays of Python objects are not read."
        ) from None
    except OSError as error:
        raise cannot_be_read(path, error) from None
    if "xl/workbook.xml" in arrays:
        raise Mistake(f"{path} is an Excel workbook; save its sheet as CSV.")
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise Mistake(f"{path} is a zip archive, not .npz; unpack it, it has {', '.join(arrays)}.")
    return arrays


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
                X.check_format()  # compiled code trusts the numbers of columns
            except (ValueError, TypeError, IndexError) as error:
                why = " ".join(str(error).split())
                raise Mistake(f"The sparse matrix in {path} is damaged: {why}.") from None
            return X, {*names, prefix + "format"}
    raise Mistake(f"{path} has no array X; it has {', '.join(arrays) or 'none'}.")


def read_parquet(path: str | Path, text: Iterable[str] = ()) -> Table:
    """Read the columns of a Parquet file; those that are named in `text` as text."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Mistake(
            f'{path} is Parquet, which needs pyarrow: pip install "hypermargin[cli]".'
        ) from None
    try:
        names = distinct(path, pq.read_schema(path).names)
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise Mistake(f"{path} cannot be read as Parquet: {reason}.") from None
    if table.num_rows == 0:
        raise Mistake(f"{path} has no rows.")
    words = set(text)
    columns = [_column(path, *one, one[0] in words) for one in zip(names, table.columns)]
    return Table(names, columns)


def _column(path: str | Path, name: str, column: Any, as_text: bool) -> np.ndarray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks().dictionary_decode()
    if as_text and pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
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
