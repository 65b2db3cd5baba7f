"""Decimal numbers to doubles, rounded correctly, in compiled code.

A number is w 10^q with a whole w below 2^64.  Where w is below 2^53 and q small, one operation of
doubles is exact (Clinger 1990).  Else w is multiplied by the first 128 bits of 5^q, which nearly
always decides the rounding (D. Lemire, Number parsing at a gigabyte per second, 2021).  Where it
does not, and for whatever else looks unusual, the caller is told to ask Python.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import types

from .._core.compiled import bitcast, compiled

LEAST_POWER, MOST_POWER = -290, 290  # of ten; beyond, doubles run out of digits or of range
LAST_EXACT_POWER = 22  # 10^22 is the last power of ten that a double holds exactly
MOST_DIGITS = 19  # that a whole number below 2^64 surely has room for
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
U0, U1, U3, U9, U10 = (np.uint64(k) for k in (0, 1, 3, 9, 10))
U32, U48, U52, U63, LOW = (
    np.uint64(32),
    np.uint64(48),
    np.uint64(52),
    np.uint64(63),
    np.uint64(0xFFFFFFFF),
)
NINE_ONES, EXACT, HIDDEN = np.uint64(0x1FF), np.uint64(2**53), np.uint64(2**52)

_as_double = bitcast(types.uint64, types.float64, ir.DoubleType())


@cache
def powers() -> tuple[np.ndarray, np.ndarray]:
    """Return 10^0 to 10^22, and the first 128 bits of 5^q for every q, as two whole numbers."""
    small = np.array([10.0**k for k in range(LAST_EXACT_POWER + 1)])
    bits = np.empty((MOST_POWER - LEAST_POWER + 1, 2), dtype=np.uint64)
    for place, q in enumerate(range(LEAST_POWER, MOST_POWER + 1)):
        if q >= 0:
            whole = 5**q << 128
        else:  # rounded up, so that the truncated product is exact where the true one is whole
            whole = (1 << (128 + 2 * (5**-q).bit_length())) // 5**-q + 1
        whole >>= whole.bit_length() - 128
        bits[place] = whole >> 64, whole & (2**64 - 1)
    return small, bits


@compiled
def _product(a, b):
    """Return the upper and the lower half of a product of two 64-bit numbers."""
    a1, a0, b1, b0 = a >> U32, a & LOW, b >> U32, b & LOW
    low, cross, other, high = a0 * b0, a1 * b0, a0 * b1, a1 * b1
    middle = (low >> U32) + (cross & LOW) + (other & LOW)
    high += (cross >> U32) + (other >> U32) + (middle >> U32)
    return high, (middle << U32) | (low & LOW)


@compiled(inner=True)
def _rounded(w, q, bits):
    """Return the double next to w 10^q, and whether it is sure to be."""
    zeros = 0
    while w >> U63 == U0:
        w, zeros = w << U1, zeros + 1
    high, low = _product(w, bits[q - LEAST_POWER, 0])
    if high & NINE_ONES == NINE_ONES:  # the next 64 bits may carry over
        more, _ = _product(w, bits[q - LEAST_POWER, 1])
        low += more
        if low < more:
            high += U1
    if low == ALL_ONES:
        return 0.0, False
    upper = high >> U63
    mantissa = high >> (upper + U9)
    if low <= U1 and mantissa & U3 == U1:  # in the middle between two doubles, or nearly so
        return 0.0, False
    mantissa = (mantissa + (mantissa & U1)) >> U1
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if mantissa >> np.uint64(53) != U0:
        mantissa, exponent = mantissa >> U1, exponent + 1
    if exponent <= 0 or exponent >= 2047:
        return 0.0, False
    return _as_double((np.uint64(exponent) << U52) | (mantissa & (HIDDEN - U1))), True


@compiled(inner=True)
def _exponent(text, at):
    """Return the number after an `e`, where it ends, and whether there is one."""
    stop = text.shape[0]
    negative = at < stop and text[at] == 45
    if at < stop and (text[at] == 45 or text[at] == 43):
        at += 1
    start, value = at, 0
    while at < stop and 48 <= text[at] <= 57 and value < 100000:
        value, at = 10 * value + text[at] - 48, at + 1
    return (-value if negative else value), at, at > start


@compiled
def _digits(text, at, w):
    """Append the digits at a place to a whole number; return it, and where they end."""
    while at < text.shape[0]:
        digit = np.uint64(text[at]) - U48
        if digit > U9:  # also what is below zero: these numbers have no sign
            break
        w, at = w * U10 + digit, at + 1
    return w, at


@compiled
def number(text, at, small, bits):
    """Return the number at a place, where it ends, and whether that is sure.

    If it is not, Python shall see it.
    """
    stop, more, good = text.shape[0], 0, True
    negative = at < stop and text[at] == 45
    if at < stop and (text[at] == 45 or text[at] == 43):
        at += 1
    first = at
    w, at = _digits(text, at, U0)
    n_digits, q = at - first, 0
    if at < stop and text[at] == 46:
        point = at + 1
        w, at = _digits(text, point, w)
        q = point - at
        n_digits -= q
    if n_digits > MOST_DIGITS:  # zeros before the first digit need no room
        while first < at and (text[first] == 48 or text[first] == 46):
            n_digits -= text[first] == 48
            first += 1
    if at < stop and (text[at] == 101 or text[at] == 69):
        more, at, good = _exponent(text, at + 1)
        q += more
    if not good or n_digits > MOST_DIGITS:
        return 0.0, at, False
    if w == U0:
        # of a sign or a point alone Python must say that it is no number
        return (-0.0 if negative else 0.0), at, n_digits > 0
    value, sure = 0.0, False
    if w <= EXACT and -LAST_EXACT_POWER <= q <= LAST_EXACT_POWER:
        value, sure = (np.float64(w) / small[-q] if q < 0 else np.float64(w) * small[q]), True
    elif LEAST_POWER <= q <= MOST_POWER:
        value, sure = _rounded(w, q, bits)
    return (-value if negative else value), at, sure
