"""LAPACK as SciPy has it, called without the GIL, and without a wrapper around small systems.

SciPy's own wrappers keep the GIL, so that only one thread at a time would factor.  Matrices are
overwritten.  What is below the diagonal for LAPACK, which counts along columns, is above for NumPy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address


def _lapack(name: str, n_arguments: int) -> Any:
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


_FACTOR = {np.dtype(t): _lapack(n, 5) for t, n in ((np.float32, "spotrf"), (np.float64, "dpotrf"))}
_SOLVE = {np.dtype(t): _lapack(n, 8) for t, n in ((np.float32, "spotrs"), (np.float64, "dpotrs"))}
_INVERT, _PIVOTED = _lapack("dpotri", 5), _lapack("dpstrf", 9)
_UPPER, _LOWER = ctypes.c_char(b"U"), ctypes.c_char(b"L")


def cholesky(A: np.ndarray) -> bool:
    """Overwrite A by its Cholesky factor; False if it has none."""
    return _in_place(_FACTOR[A.dtype], A)


def inverse_of(factor: np.ndarray) -> bool:
    """Overwrite a Cholesky factor by the inverse, of which the lower half is right only."""
    return _in_place(_INVERT, factor)


def _in_place(routine: Any, A: np.ndarray) -> bool:
    n, info = ctypes.c_int(len(A)), ctypes.c_int(0)
    size, result = ctypes.addressof(n), ctypes.addressof(info)
    routine(ctypes.addressof(_UPPER), size, A.ctypes.data, size, result)
    return info.value == 0


def cholesky_solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve with a Cholesky factor; right-hand sides are rows."""
    x = np.array(rhs, factor.dtype, order="C")
    n, columns = ctypes.c_int(len(factor)), ctypes.c_int(x.size // max(1, len(factor)))
    info = ctypes.c_int(0)
    size = ctypes.addressof(n)
    _SOLVE[factor.dtype](
        ctypes.addressof(_UPPER), size, ctypes.addressof(columns), factor.ctypes.data, size,
        x.ctypes.data, size, ctypes.addressof(info),
    )  # fmt: skip
    return x.astype(float)


def pivoted_cholesky(A: np.ndarray, least: float) -> tuple[np.ndarray, int]:
    """Overwrite the upper half of A by its factor; return the order of the rows, and their rank.

    The rank is reached where what is left of the diagonal is not above `least`.
    """
    n, rank, info = ctypes.c_int(len(A)), ctypes.c_int(0), ctypes.c_int(0)
    order, work, tol = np.zeros(len(A), np.intc), np.empty(2 * len(A)), ctypes.c_double(least)
    size = ctypes.addressof(n)
    _PIVOTED(
        ctypes.addressof(_LOWER), size, A.ctypes.data, size, order.ctypes.data,
        ctypes.addressof(rank), ctypes.addressof(tol), work.ctypes.data, ctypes.addressof(info),
    )  # fmt: skip
    return order - 1, rank.value
