"""Logarithms and powers of two in loops that the compiler vectorises: no calls, no branches.

Numbers are m 2^e with m around one; log m comes from the series of atanh((m - 1) / (m + 1)), and
2^f with f between -1/2 and 1/2 from its Taylor polynomial.  Both are as exact as their precision.
"""

from __future__ import annotations

from math import factorial, log
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import overload

from .compiled import _bits, _number, bitcast, compiled, fast_max

FAST = {"contract", "nsz", "reassoc", "arcp"}
_long_bits = bitcast(types.float64, types.int64, ir.IntType(64))
_long_number = bitcast(types.int64, types.float64, ir.DoubleType())
ROOT = 0x3F3504F3  # the bits of sqrt(1 / 2)
LONG_ROOT = 0x3FE6A09E667F3BCD
WHOLE, WHOLE_BITS = 1.5 * 2.0**52, 0x4338000000000000  # a number with no fractions near it
LOG = tuple(2.0 / ((2 * k + 1) * log(2.0)) for k in range(11))
EXP = tuple(log(2.0) ** k / factorial(k) for k in range(14))
SINGLE_LOG = tuple(np.float32(c) for c in LOG[:5])
SINGLE_EXP = tuple(np.float32(c) for c in EXP[:7])


def fast_log2(x: Any) -> Any:
    """Return log2 of a positive, normal number; in compiled code only."""
    raise NotImplementedError


def fast_exp2(x: Any) -> Any:
    """Return 2^x, x being below the largest exponent; in compiled code only."""
    raise NotImplementedError


@overload(fast_log2)
def _fast_log2(x):
    return (lambda x: _single_log2(x)) if x == types.float32 else (lambda x: _double_log2(x))


@overload(fast_exp2)
def _fast_exp2(x):
    return (lambda x: _single_exp2(x)) if x == types.float32 else (lambda x: _double_exp2(x))


@compiled(fastmath=FAST)
def _single_log2(x):
    shifted = _bits(x) - np.int32(ROOT)
    e = np.float32(shifted >> np.int32(23))
    m = _number((shifted & np.int32(0x007FFFFF)) + np.int32(ROOT))
    z = (m - np.float32(1)) / (m + np.float32(1))
    s = z * z
    a, b, c, d, f = SINGLE_LOG
    return e + z * (a + s * (b + s * (c + s * (d + s * f))))


@compiled(fastmath={"contract", "nsz"})
def _single_exp2(x):
    x = fast_max(x, np.float32(-126.0))
    k = np.int32(np.floor(x + np.float32(0.5)))
    f = x - np.float32(k)
    a, b, c, d, e, g, h = SINGLE_EXP
    p = a + f * (b + f * (c + f * (d + f * (e + f * (g + f * h)))))
    return p * _number((k + np.int32(127)) << np.int32(23))


@compiled(fastmath=FAST)
def _double_log2(x):
    shifted = _long_bits(x) - np.int64(LONG_ROOT)
    e = _long_number((shifted >> np.int64(52)) + np.int64(WHOLE_BITS)) - WHOLE
    m = _long_number((shifted & np.int64(0x000FFFFFFFFFFFFF)) + np.int64(LONG_ROOT))
    z = (m - 1.0) / (m + 1.0)
    s = z * z
    a, b, c, d, f, g, h, i, j, k, n = LOG
    series = f + s * (g + s * (h + s * (i + s * (j + s * (k + s * n)))))
    return e + z * (a + s * (b + s * (c + s * (d + s * series))))


@compiled(fastmath={"contract", "nsz"})
def _double_exp2(x):
    x = fast_max(x, -1022.0)
    whole = x + WHOLE  # its last bits are the nearest integer
    f = x - (whole - WHOLE)
    a, b, c, d, e, g, h, i, j, m, n, o, p, q = EXP
    tail = h + f * (i + f * (j + f * (m + f * (n + f * (o + f * (p + f * q))))))
    series = a + f * (b + f * (c + f * (d + f * (e + f * (g + f * tail)))))
    return series * _long_number((_long_bits(whole) + np.int64(1023)) << np.int64(52))
