"""Sums over features of a function of two values, in compiled loops.

Kernels that are no functions of inner products need  S_ik = sum_j w_j s(x_ij, z_kj),  and for
their widths  sum_ik G_ik s(x_ij, z_kj)  for every feature j.  Columns are read feature by feature,
so that the innermost loop runs over neighbours in memory.  Every s(0, 0) is zero, so that of sparse
rows only entries count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._core.compiled import STRIP, compiled
from .._core.powers import fast_exp2, fast_log2
from .points import Points

# |x - z|, [x != z], (x - z)^2 / (x + z), d^p and d^p log d with d = |x - z|
ABSOLUTE, DIFFERENT, CHI2, POWER, POWER_LOG = range(5)
SIMPLE = ABSOLUTE, DIFFERENT  # they have loops of their own, so that others need not be compiled
ROUNDED = 1e-13  # differences of sparse sums, relative to them, that are none
LOG_2 = float(np.log(2.0))
FAST = {"contract", "nsz", "reassoc", "arcp"}  # all of fastmath, but what is not finite stays so


def pair_sums(
    kind: int,
    rows: Points,
    cols: Points,
    widths: Any,
    out: np.ndarray | None = None,
    p: float = 1.0,
) -> np.ndarray:
    """Return S, written to `out` if that is given; `widths` is one number, or one per feature."""
    X, dtype = rows.X, rows.X.dtype
    S = np.empty((len(rows), len(cols)), dtype) if out is None else out
    if sparse.issparse(X):
        w = np.broadcast_to(np.asarray(widths, dtype=float), X.shape[1])
        _add_sparse(kind, p, np.ascontiguousarray(w), *_parts(rows), *_parts(cols), S)
        return S
    S[:] = 0
    w = np.ascontiguousarray(np.broadcast_to(np.asarray(widths, dtype=dtype), X.shape[1]))
    if kind in SIMPLE:
        _add(kind, w, X, cols.columns, S)
    else:
        _add_powers(kind, dtype.type(p), w, X, cols.columns, S)
    return S


def feature_sums(
    kind: int, rows: Points, cols: Points, G: np.ndarray, p: float = 1.0
) -> np.ndarray:
    """Return sum_ik G_ik s(x_ij, z_kj) for every feature j."""
    X, dtype = rows.X, rows.X.dtype
    found = np.zeros(X.shape[1])
    G = np.ascontiguousarray(G, dtype)
    if sparse.issparse(X):
        _sum_sparse(kind, p, *_parts(rows), *_parts(cols), G, found)
    elif kind in SIMPLE:
        _sum(kind, X, cols.columns, G, found)
    else:
        _sum_powers(kind, dtype.type(p), X, cols.columns, G, found)
    return found


def _parts(points: Points) -> tuple[Any, Any, Any]:
    return points.X.data, points.X.indices, points.X.indptr


@compiled
def _add(kind, w, X, Zt, S):
    """Add sum_j w_j s(x_ij, z_kj) to S_ik; `Zt` has a row for each feature."""
    whole = X.shape[1] - X.shape[1] % 4
    for start in range(0, S.shape[1], STRIP):
        stop = min(S.shape[1], start + STRIP)
        for j in range(0, whole, 4):
            for i in range(S.shape[0]):
                _add_four(
                    kind, w[j], w[j + 1], w[j + 2], w[j + 3],
                    X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3], Zt[j, start:stop],
                    Zt[j + 1, start:stop], Zt[j + 2, start:stop], Zt[j + 3, start:stop],
                    S[i, start:stop],
                )  # fmt: skip
        for j in range(whole, X.shape[1]):
            for i in range(S.shape[0]):
                _add_one(kind, w[j], X[i, j], Zt[j, start:stop], S[i, start:stop])


@compiled
def _add_powers(kind, p, w, X, Zt, S):
    """Do the same with chi-squared distances and powers."""
    for start in range(0, S.shape[1], STRIP):
        stop = min(S.shape[1], start + STRIP)
        for j in range(X.shape[1]):
            for i in range(S.shape[0]):
                _add_power(kind, p, w[j], X[i, j], Zt[j, start:stop], S[i, start:stop])


@compiled(fastmath=FAST)
def _add_four(kind, f, g, h, i, v, w, x, y, a, b, c, d, S):
    """Add what four features say, so as to touch S less; the first four are their widths."""
    if kind == ABSOLUTE:
        for k in range(S.shape[0]):
            S[k] += (f * abs(v - a[k]) + g * abs(w - b[k])) + (
                h * abs(x - c[k]) + i * abs(y - d[k])
            )
    else:
        none = S.dtype.type(0)
        for k in range(S.shape[0]):
            S[k] += ((none if v == a[k] else f) + (none if w == b[k] else g)) + (
                (none if x == c[k] else h) + (none if y == d[k] else i)
            )


@compiled(fastmath=FAST, inner=True)
def _add_one(kind, w, x, z, S):
    none = S.dtype.type(0)
    if kind == ABSOLUTE:
        for k in range(S.shape[0]):
            S[k] += w * abs(x - z[k])
    else:
        for k in range(S.shape[0]):
            S[k] += none if x == z[k] else w


@compiled(fastmath=FAST, inner=True)
def _add_power(kind, p, w, x, z, S):
    none = S.dtype.type(0)
    if kind == CHI2:
        for k in range(S.shape[0]):
            d, both = x - z[k], x + z[k]
            S[k] += w * (d * d / both) if both > 0 else none
    else:
        for k in range(S.shape[0]):
            d = abs(x - z[k])
            S[k] += w * fast_exp2(p * fast_log2(d)) if d > 0 else none


@compiled
def _sum(kind, X, Zt, G, found):
    for start in range(0, G.shape[1], STRIP):
        stop = min(G.shape[1], start + STRIP)
        for j in range(X.shape[1]):
            for i in range(G.shape[0]):
                found[j] += _sum_one(kind, X[i, j], Zt[j, start:stop], G[i, start:stop])


@compiled
def _sum_powers(kind, p, X, Zt, G, found):
    for start in range(0, G.shape[1], STRIP):
        stop = min(G.shape[1], start + STRIP)
        for j in range(X.shape[1]):
            for i in range(G.shape[0]):
                found[j] += _sum_power(kind, p, X[i, j], Zt[j, start:stop], G[i, start:stop])


@compiled(fastmath=FAST, inner=True)
def _sum_one(kind, x, z, G):
    none = G.dtype.type(0)
    total = none
    if kind == ABSOLUTE:
        for k in range(G.shape[0]):
            total += G[k] * abs(x - z[k])
    else:
        for k in range(G.shape[0]):
            total += none if x == z[k] else G[k]
    return total


@compiled(fastmath=FAST, inner=True)
def _sum_power(kind, p, x, z, G):
    none = G.dtype.type(0)
    total = none
    if kind == CHI2:
        for k in range(G.shape[0]):
            d, both = x - z[k], x + z[k]
            total += G[k] * (d * d / both if both > 0 else none)
    elif kind == POWER:
        for k in range(G.shape[0]):
            d = abs(x - z[k])
            total += G[k] * fast_exp2(p * fast_log2(d)) if d > 0 else none
    else:
        log_2 = G.dtype.type(LOG_2)
        for k in range(G.shape[0]):
            d = abs(x - z[k])
            log = fast_log2(d)
            total += G[k] * fast_exp2(p * log) * (log * log_2) if d > 0 else none
    return total


@compiled(inner=True)
def _power(kind, p, d):
    """Return d^p, or d^p log d."""
    if d == 0:
        return d
    return d**p if kind == POWER else d**p * np.log(d)


@compiled(inner=True)
def _pair(kind, p, x, z):
    """Return s(x, z) in double precision."""
    d = abs(x - z)
    if kind == ABSOLUTE or d == 0.0:
        return d
    if kind == DIFFERENT:
        return 1.0
    return d * d / (x + z) if kind == CHI2 else _power(kind, p, d)


@compiled
def _add_sparse(kind, p, w, X, X_at, X_from, Z, Z_at, Z_from, S):
    """Set S to the sums: entries alone, and what pairs of them differ from that."""
    row = np.zeros(len(w))
    alone = np.zeros(len(Z_from) - 1)
    for k in range(len(alone)):
        for t in range(Z_from[k], Z_from[k + 1]):
            alone[k] += w[Z_at[t]] * _pair(kind, p, 0.0, float(Z[t]))
    for i in range(S.shape[0]):
        here = 0.0
        for t in range(X_from[i], X_from[i + 1]):
            row[X_at[t]] = X[t]
            here += w[X_at[t]] * _pair(kind, p, float(X[t]), 0.0)
        for k in range(S.shape[1]):
            total = here + alone[k]
            for t in range(Z_from[k], Z_from[k + 1]):
                x, z = row[Z_at[t]], float(Z[t])
                if x != 0.0:
                    less = _pair(kind, p, x, 0.0) + _pair(kind, p, 0.0, z)
                    total += w[Z_at[t]] * (_pair(kind, p, x, z) - less)
            # of equal rows rounding is left, which a power may make large
            S[i, k] = total if abs(total) > ROUNDED * abs(here + alone[k]) else 0.0
        for t in range(X_from[i], X_from[i + 1]):
            row[X_at[t]] = 0.0


@compiled
def _sum_sparse(kind, p, X, X_at, X_from, Z, Z_at, Z_from, G, found):
    """Do what `_sum` does, in the same way."""
    row = np.zeros(len(found))
    for i in range(G.shape[0]):
        for t in range(X_from[i], X_from[i + 1]):
            row[X_at[t]] = X[t]
            found[X_at[t]] += G[i].sum() * _pair(kind, p, float(X[t]), 0.0)
        for k in range(G.shape[1]):
            for t in range(Z_from[k], Z_from[k + 1]):
                x, z = row[Z_at[t]], float(Z[t])
                more = _pair(kind, p, x, z)
                if x != 0.0:
                    more -= _pair(kind, p, x, 0.0)
                found[Z_at[t]] += G[i, k] * more
        for t in range(X_from[i], X_from[i + 1]):
            row[X_at[t]] = 0.0
