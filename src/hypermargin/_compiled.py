"""Compiled helpers: the decorator for scalar loops, and a maximum that vectorises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit
from numba.extending import intrinsic


def compiled(function: Callable | None = None, **options: Any) -> Any:
    """Compile a scalar loop: serial, without the GIL, cached on disk where that is possible."""
    if function is None:
        return lambda f: compiled(f, **options)
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no writable place for the cache: compile in every process instead
        return njit(**options)(function)


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


@compiled(fastmath=True)
def add_rows(K, rows, factors, total):
    """Add factors_k K[rows_k, :] to total; a product with some rows, without copying them."""
    for k in range(rows.shape[0]):
        row, factor = K[rows[k]], factors[k]
        for t in range(total.shape[0]):
            total[t] += factor * row[t]


@compiled(fastmath=True)
def add_rows_at(K, rows, factors, cols, total):
    """Add factors_k K[rows_k, cols] to total."""
    for k in range(rows.shape[0]):
        row, factor = K[rows[k]], factors[k]
        for t in range(total.shape[0]):
            total[t] += factor * row[cols[t]]


@compiled
def gather(K, rows, cols, out):
    """Copy K[rows, cols] to out."""
    for k in range(rows.shape[0]):
        row, target = K[rows[k]], out[k]
        for t in range(cols.shape[0]):
            target[t] = row[cols[t]]
