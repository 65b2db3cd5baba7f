"""Compiled loops over rows and eight lanes, in the processor's vector registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from ..._core.compiled import compiled

LANES = 8
_INT = ir.IntType(64)


def _operation(function: Callable) -> Any:
    """Make an operation for compiled code; it finds its first argument itself."""
    return intrinsic(function)


class _Lanes:
    """Loads, products and stores of eight lanes, in the compiler's language."""

    def __init__(self, builder: ir.IRBuilder, scalar: ir.Type):
        self.builder, self.scalar = builder, scalar
        self.vector = ir.VectorType(scalar, LANES)
        name = f"llvm.fmuladd.v{LANES}f{32 if scalar == ir.FloatType() else 64}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, name)

    def _place(self, base: Any, number: Any) -> Any:
        at = self.builder.gep(base, [self.builder.mul(number, _INT(LANES))])
        return self.builder.bitcast(at, self.vector.as_pointer())

    def load(self, base: Any, number: Any) -> Any:
        """Return the lanes of a row."""
        found = self.builder.load(self._place(base, number))
        found.align = 4
        return found

    def store(self, base: Any, number: Any, value: Any) -> None:
        self.builder.store(value, self._place(base, number)).align = 4

    def add_product(self, factor: Any, lanes: Any, total: Any) -> Any:
        """Return factor times the lanes plus total."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, factor, ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        every = self.builder.shuffle_vector(first, undefined, mask)
        return self.builder.call(self._fma, [every, lanes, total])


def _pointers(context: Any, builder: Any, signature: Any, args: Any) -> Iterator[Any]:
    """Yield the arguments: of arrays the place of their data, numbers as they are."""
    for kind, value in zip(signature.args, args):
        if isinstance(kind, types.Array):
            yield context.make_array(kind)(context, builder, value).data
        else:
            yield value


def check_lanes(values: Any, *lanes: Any) -> None:
    """Refuse what would be read as something that it is not."""
    if any(a.dtype != values.dtype or a.layout != "C" for a in lanes):
        raise TypingError(f"lanes must be C-ordered arrays of {values.dtype}; got {lanes}.")


def for_each(builder: Any, start: Any, stop: Any, step: int, body: Callable) -> Any:
    """Run the body for p = start, start + step, ... while p + step <= stop; return the last p."""
    counter = cgutils.alloca_once(builder, _INT)
    builder.store(start, counter)
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    p = builder.load(counter)
    fits = builder.icmp_signed("<=", builder.add(p, _INT(step)), stop)
    builder.cbranch(fits, inside, after)
    builder.position_at_end(inside)
    body(builder.load(counter))
    builder.store(builder.add(builder.load(counter), _INT(step)), counter)
    builder.branch(head)
    builder.position_at_end(after)
    return builder.load(counter)


@_operation
def add_dots(typing_context, indices, base, values, start, stop, W, out, i):
    """Add sum_p values_p W[indices_(p - base)] to out[i], p from start to stop."""
    check_lanes(values, W, out)

    def generate(context, builder, signature, args):
        ix, base, dx, first, last, w, target, row = _pointers(context, builder, signature, args)
        lanes = _Lanes(builder, dx.type.pointee)
        # four sums, so that a product need not wait for the one before
        sums = [cgutils.alloca_once(builder, lanes.vector) for _ in range(4)]
        for s in sums:
            builder.store(ir.Constant(lanes.vector, [0.0] * LANES), s)

        def add(p: Any, s: Any) -> None:
            j = builder.zext(builder.load(builder.gep(ix, [builder.sub(p, base)])), _INT)
            factor = builder.load(builder.gep(dx, [p]))
            total = lanes.add_product(factor, lanes.load(w, j), builder.load(s))
            builder.store(total, s)

        def add_four(p: Any) -> None:
            for k, s in enumerate(sums):
                add(builder.add(p, _INT(k)), s)

        rest = for_each(builder, first, last, 4, add_four)
        for_each(builder, rest, last, 1, lambda p: add(p, sums[0]))
        a, b, c, d = (builder.load(s) for s in sums)
        total = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
        lanes.store(target, row, builder.fadd(lanes.load(target, row), total))
        return context.get_dummy_value()

    integer = types.int64
    kinds = indices, integer, values, integer, integer, W, out, integer
    return types.void(*kinds), generate


@_operation
def add_outer(typing_context, indices, base, values, start, stop, source, i, R):
    """Add values_p source[i] to R[indices_(p - base)], p from start to stop."""
    check_lanes(values, source, R)

    def generate(context, builder, signature, args):
        ix, base, dx, first, last, origin, row, target = _pointers(
            context, builder, signature, args
        )
        lanes = _Lanes(builder, dx.type.pointee)
        own = lanes.load(origin, row)

        def add(p: Any) -> None:
            j = builder.zext(builder.load(builder.gep(ix, [builder.sub(p, base)])), _INT)
            factor = builder.load(builder.gep(dx, [p]))
            lanes.store(target, j, lanes.add_product(factor, own, lanes.load(target, j)))

        for_each(builder, first, last, 1, add)
        return context.get_dummy_value()

    integer = types.int64
    kinds = indices, integer, values, integer, integer, source, integer, R
    return types.void(*kinds), generate


@compiled
def forward(indptr, indices, values, W, out, start, stop):
    for i in range(start, stop):
        add_dots(indices, 0, values, indptr[i], indptr[i + 1], W, out, i)


@compiled
def backward(indptr, indices, values, A, R, start, stop):
    for i in range(start, stop):
        add_outer(indices, 0, values, indptr[i], indptr[i + 1], A, i, R)


@compiled
def add_squares(indptr, indices, values, A, R):
    longest = 0
    for i in range(len(A)):
        longest = max(longest, indptr[i + 1] - indptr[i])
    squares = np.empty(longest, dtype=values.dtype)
    for i in range(len(A)):
        first, number = indptr[i], indptr[i + 1] - indptr[i]
        for p in range(number):
            squares[p] = values[first + p] * values[first + p]
        add_outer(indices, -first, squares, 0, number, A, i, R)


@compiled
def curved(indptr, indices, values, V, V_bias, D, R, R_bias, start, stop):
    u = np.empty((1, D.shape[1]), dtype=V.dtype)
    for i in range(start, stop):
        some = D.dtype.type(0)
        for lane in range(D.shape[1]):
            some += D[i, lane]
            u[0, lane] = V_bias[lane]
        if some == 0:
            continue
        add_dots(indices, 0, values, indptr[i], indptr[i + 1], V, u, 0)
        for lane in range(D.shape[1]):
            u[0, lane] *= D[i, lane]
            R_bias[lane] += u[0, lane]
        add_outer(indices, 0, values, indptr[i], indptr[i + 1], u, 0, R)


@compiled
def wide_forward(indptr, places, values, W, out):
    """Add X W to out, any number of times eight lanes; `places` are those of features in eights."""
    n_blocks = W.shape[1] // LANES
    weights, outputs = W.reshape(-1, LANES), out.reshape(-1, LANES)
    for i in range(out.shape[0]):
        for b in range(n_blocks):
            start, stop, at = indptr[i], indptr[i + 1], i * n_blocks + b
            add_dots(places, 0, values, start, stop, weights[b:], outputs, at)


@compiled
def wide_backward(indptr, places, values, A, R):
    """Add X' A to R, as `wide_forward` does."""
    n_blocks = A.shape[1] // LANES
    coefficients, totals = A.reshape(-1, LANES), R.reshape(-1, LANES)
    for i in range(A.shape[0]):
        for b in range(n_blocks):
            start, stop, at = indptr[i], indptr[i + 1], i * n_blocks + b
            add_outer(places, 0, values, start, stop, coefficients, at, totals[b:])


@compiled
def row_squares(indptr, values, total):
    for i in range(len(total)):
        for p in range(indptr[i], indptr[i + 1]):
            total[i] += values[p] * values[p]
