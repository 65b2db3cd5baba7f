"""Compiled helpers: the decorator for scalar loops, and the loops over rows of a kernel matrix."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

STRIP = 1024  # columns per pass, so that what is added to stays in the fastest cache
# Powers of two that kernel values are at least: nothing beside one, and products of two of them are
# normal numbers still, with which all processors are quick.
LEAST_SINGLE, LEAST_DOUBLE = -60.0, -500.0


class Wait:
    """Says on stderr, once, what is being waited for when functions take long to compile."""

    def __init__(self, patience: float = 2.0):
        self.patience = patience
        self._depth, self._since, self._before, self._told = 0, 0.0, 0.0, False

    def begin(self) -> None:
        """Begin with a function, maybe for another one that has begun."""
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        self._depth = max(0, self._depth - 1)
        seconds = self._before + time.perf_counter() - self._since
        if self._depth == 0:
            self._before = seconds
        if seconds > self.patience and not self._told:
            self._told = True
            print(
                "hypermargin compiles functions for their first use here, which may take 10 s; "
                "they are kept on disk if that is possible.",
                file=sys.stderr,
            )


WAIT = Wait()


class _SturdyCache(FunctionCache):
    """numba's cache on disk, for disks that are full, files that are broken and calls across files.

    What cannot be read is compiled anew, what cannot be written is compiled in every process.
    Broken pickles may raise anything, and no error here says anything about the function.

    numba knows a function by the file that it is in.  What it calls in other files is compiled into
    it, and so are the constants that it uses: here they all count.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            # now, and not when it is made: a function may call others that come after it
            self._cache_file._source_stamp = stamp(self._py_func)
            found = super().load_overload(sig, target_context)
        except Exception:
            found = None
            try:
                self.flush()
            except OSError:
                self.disable()
        if found is None:
            WAIT.begin()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        WAIT.end()
        try:
            super().save_overload(sig, data)
        except Exception:
            self.disable()


def stamp(function: FunctionType) -> str:
    """Return a digest of all that a compiled function is made of."""
    files, constants = {__file__}, set()
    todo, seen = [function], set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        files.add(one.__code__.co_filename)
        for name in _names(one.__code__):
            value = one.__globals__.get(name)
            if isinstance(value, Dispatcher):
                todo.append(value.py_func)
            elif isinstance(value, (int, float, str, tuple)):
                constants.add(f"{name} = {value!r}")
    parts = [_digest(file, os.stat(file).st_mtime_ns) for file in files]
    return hashlib.sha256("\n".join(sorted(parts) + sorted(constants)).encode()).hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, in its comprehensions, too."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


@cache
def _digest(file: str, changed: int) -> str:
    with open(file, "rb") as source:
        return hashlib.sha256(source.read()).hexdigest()


def compiled(function: Callable | None = None, *, inner: bool = False, **options: Any) -> Any:
    """Compile a scalar loop: serial, without the GIL, cached on disk where that is possible.

    One that only compiled loops call, an `inner` one, is compiled in half of the time, as it lacks
    what Python would call it by.
    """
    if function is None:
        return partial(compiled, inner=inner, **options)
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
    dispatcher = njit(**{"nogil": True, "error_model": "numpy", **options})(function)
    if inner:
        dispatcher._insert = lambda *_, **__: None  # numba would call what is not there
        dispatcher._compile_for_args = partial(_refuse, function.__name__)
    with suppress(RuntimeError):  # no place for a cache: compile in every process instead
        dispatcher._cache = _SturdyCache(function)
    return dispatcher


def _refuse(name: str, *_: Any, **__: Any) -> None:
    raise TypeError(f"{name} is for compiled loops only; leave out inner=True to call it.")


def _reduction(llvm_name: str) -> Any:
    """Return LLVM's max/min; the built-in ones keep NaN semantics, which blocks vectorisation."""

    @intrinsic
    def reduction(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(signature.return_type)
            function = builder.module.declare_intrinsic(
                llvm_name, [kind], ir.FunctionType(kind, [kind, kind])
            )
            return builder.call(function, args, fastmath=("fast",))

        return a(a, a), generate

    return reduction


fast_max = _reduction("llvm.maxnum")
fast_min = _reduction("llvm.minnum")


def bitcast(source: Any, target: Any, llvm_type: Any) -> Any:
    """Return a function that reads the bits of one type as another type."""

    @intrinsic
    def cast(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], llvm_type)

        return target(source), generate

    return cast


_bits = bitcast(types.float32, types.int32, ir.IntType(32))
_number = bitcast(types.int32, types.float32, ir.FloatType())


@compiled(fastmath=True, inner=True)
def add(total, row, factor):
    """Add factor times a row to total."""
    for t in range(total.shape[0]):
        total[t] += factor * row[t]


@compiled(fastmath=True, inner=True)
def _add_four(total, a, b, c, d, w, x, y, z):
    for t in range(total.shape[0]):
        total[t] += (w * a[t] + x * b[t]) + (y * c[t] + z * d[t])


@compiled
def add_rows(total, K, rows, factors, first):
    """Add sum_k factors_k K[rows_k, first:] to total; four rows at a time, to touch it less."""
    stop, n = first + total.shape[0], rows.shape[0]
    for k in range(0, n - 3, 4):
        _add_four(
            total, K[rows[k], first:stop], K[rows[k + 1], first:stop], K[rows[k + 2], first:stop],
            K[rows[k + 3], first:stop], factors[k], factors[k + 1], factors[k + 2], factors[k + 3],
        )  # fmt: skip
    for k in range(n - n % 4, n):
        add(total, K[rows[k], first:stop], factors[k])


@compiled
def combine(K, rows, B, first, total):
    """Add sum_k B[l, k] K[rows_k, first:] to total[l], for every lane l; zeros cost nothing.

    A lane is the coefficient vector of one machine: all machines that share rows are served by one
    pass over them, four rows at a time.
    """
    n = rows.shape[0]
    for start in range(0, total.shape[1], STRIP):
        stop = min(total.shape[1], start + STRIP)
        i, j = first + start, first + stop
        for k in range(0, n - 3, 4):
            for lane in range(B.shape[0]):
                w, x, y, z = B[lane, k], B[lane, k + 1], B[lane, k + 2], B[lane, k + 3]
                if w != 0.0 or x != 0.0 or y != 0.0 or z != 0.0:
                    _add_four(
                        total[lane, start:stop], K[rows[k], i:j], K[rows[k + 1], i:j],
                        K[rows[k + 2], i:j], K[rows[k + 3], i:j], w, x, y, z,
                    )  # fmt: skip
        for k in range(n - n % 4, n):
            for lane in range(B.shape[0]):
                if B[lane, k] != 0.0:
                    add(total[lane, start:stop], K[rows[k], i:j], B[lane, k])


@compiled(fastmath=True, inner=True)
def dot(a, b):
    """Return the inner product, summed in the precision of b."""
    total = b.dtype.type(0)
    for t in range(a.shape[0]):
        total += a[t] * b[t]
    return total


@compiled
def dot_rows(K, rows, first, v, out):
    """Set out_k to the product of K[rows_k, first:] and v; v has the precision of K."""
    for k in range(rows.shape[0]):
        out[k] = dot(K[rows[k], first : first + v.shape[0]], v)


@compiled
def gather(K, rows, cols, out):
    """Copy K[rows, cols] to out."""
    for k in range(rows.shape[0]):
        row, target = K[rows[k]], out[k]
        for t in range(cols.shape[0]):
            target[t] = row[cols[t]]


@compiled(fastmath={"contract", "nsz"}, inner=True)
def _exp_row(row):
    for t in range(row.shape[0]):
        # exp(x) = 2^k 2^f with f between -1/2 and 1/2; 2^f from its Taylor polynomial
        x = fast_max(row[t] * np.float32(1.4426950408889634), np.float32(LEAST_SINGLE))
        x = x if x < np.float32(0) else np.float32(0)
        k = np.int32(x - np.float32(0.5))
        f = x - np.float32(k)
        p = np.float32(0.0013333558) + f * np.float32(0.00015403530)
        p = np.float32(0.055504109) + f * (np.float32(0.0096181291) + f * p)
        p = np.float32(1.0) + f * (np.float32(0.69314718) + f * (np.float32(0.24022651) + f * p))
        p *= _number((k + np.int32(127)) << np.int32(23))
        row[t] = p if row[t] == row[t] else row[t]  # what is not a number stays so


@compiled
def exp_below_zero(A):
    """Replace A by exp(min(A, 0)), in single precision."""
    for i in range(A.shape[0]):
        _exp_row(A[i])


def least_exponent(dtype: Any) -> float:
    """Return the logarithm of the least value that a kernel has."""
    return float(np.log(2.0)) * (LEAST_SINGLE if dtype == np.float32 else LEAST_DOUBLE)


def exp_of(exponent: np.ndarray) -> np.ndarray:
    """Replace exponents by their exponentials, of very small ones by the least value."""
    least = least_exponent(exponent.dtype)
    np.maximum(exponent, exponent.dtype.type(least), out=exponent)
    return np.exp(exponent, out=exponent)


@compiled(fastmath={"contract", "nnan", "nsz", "ninf", "reassoc", "arcp"}, inner=True)
def _sum_of_logs(M, K):
    one, total = np.float32(1), np.float32(0)
    for t in range(K.shape[0]):
        # K = m 2^e with m around one; log m from the series of atanh((m - 1) / (m + 1))
        shifted = _bits(K[t]) - np.int32(0x3F3504F3)
        e = np.float32(shifted >> np.int32(23))
        m = _number((shifted & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3))
        z = (m - one) / (m + one)
        q = z * z
        series = np.float32(2 / 5) + q * (np.float32(2 / 7) + q * np.float32(2 / 9))
        series = np.float32(2) + q * (np.float32(2 / 3) + q * series)
        total += M[t] * K[t] * (e * np.float32(0.6931471805599453) + z * series)
    return total


@compiled
def sum_of_logs(M, K):
    """Return sum_ij M_ij K_ij log K_ij in single precision; K between 0 and 1."""
    total = 0.0
    for i in range(K.shape[0]):
        total += _sum_of_logs(M[i], K[i])
    return total


@compiled(inner=True)
def _mixed(code):
    """Spread the bits of an integer over all of them (splitmix64)."""
    code ^= code >> np.uint64(30)
    code *= np.uint64(0xBF58476D1CE4E5B9)
    code ^= code >> np.uint64(27)
    code *= np.uint64(0x94D049BB133111EB)
    return code ^ (code >> np.uint64(31))


@compiled
def row_codes(bits):
    """Return an integer for every row that equal rows have in common, and others hardly ever."""
    codes = np.zeros(bits.shape[0], np.uint64)
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            if bits[i, j] << np.uint64(1) != 0:  # zeros count as none, whatever their sign
                codes[i] += _mixed(_mixed(bits[i, j]) + np.uint64(j))
    return codes


@compiled
def sparse_row_codes(bits, indices, indptr):
    """Do the same for rows of a sparse matrix."""
    codes = np.zeros(indptr.shape[0] - 1, np.uint64)
    for i in range(codes.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            if bits[k] << np.uint64(1) != 0:
                codes[i] += _mixed(_mixed(bits[k]) + np.uint64(indices[k]))
    return codes
