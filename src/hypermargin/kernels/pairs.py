"""Sums over features of a function of two values, in compiled loops.

Kernels that are no functions of inner products need  S_ik = sum_j s(x_ij, z_kj),  and for widths of
features  sum_ik G_ik s(x_ij, z_kj)  for every j.  Columns are read feature by feature, so that the
innermost loop runs over neighbours in memory.  Every s(0, 0) is zero, so that of
sparse rows only entries count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._core.compiled import STRIP, compiled, single_exp2, single_log2
from .points import Points

# |x - z|, [x != z], (x - z)^2 / (x + z), |x - z|^p, and the last in single precision
ABSOLUTE, DIFFERENT, CHI2, POWER, SINGLE_POWER = range(5)
FAST = {"contract", "nsz", "reassoc", "arcp"}  # all of fastmath, but what is not finite stays so


def pair_sums(
    kind: int, rows: Points, cols: Points, out: np.ndarray | None = None, p: float = 1.0
) -> np.ndarray:
    """Return S, written to `out` if that is given."""
    X, dtype = rows.X, rows.X.dtype
    S = np.empty((len(rows), len(cols)), dtype) if out is None else out
    S[:] = 0
    if sparse.issparse(X):
        _add_sparse(kind, p, X.shape[1], *_parts(rows), *_parts(cols), S)
    else:
        _add(_dense(kind, dtype), dtype.type(p), X, cols.columns, S)
    return S


def feature_sums(
    kind: int, rows: Points, cols: Points, G: np.ndarray, p: float = 1.0
) -> np.ndarray:
    """Return sum_ik G_ik s(x_ij, z_kj) for every feature j."""
    X, dtype = rows.X, rows.X.dtype
    found = np.zeros(X.shape[1])
    if sparse.issparse(X):
        _sum_sparse(kind, p, *_parts(rows), *_parts(cols), G, found)
    else:
        _sum(
            _dense(kind, dtype),
            dtype.type(p),
            X,
            cols.columns,
            np.ascontiguousarray(G, dtype),
            found,
        )
    return found


def _dense(kind: int, dtype: np.dtype) -> int:
    return SINGLE_POWER if kind == POWER and dtype == np.float32 else kind


def _parts(points: Points) -> tuple[Any, Any, Any]:
    return points.X.data, points.X.indices, points.X.indptr


@compiled
def _add(kind, p, X, Zt, S):
    """Add sum_j s(x_ij, z_kj) to S_ik; `Zt` has a row for each feature."""
    whole = X.shape[1] - X.shape[1] % 4 if kind <= DIFFERENT else 0
    for start in range(0, S.shape[1], STRIP):
        stop = min(S.shape[1], start + STRIP)
        for j in range(0, whole, 4):
            for i in range(S.shape[0]):
                _add_four(
                    kind, X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3], Zt[j, start:stop],
                    Zt[j + 1, start:stop], Zt[j + 2, start:stop], Zt[j + 3, start:stop],
                    S[i, start:stop],
                )  # fmt: skip
        for j in range(whole, X.shape[1]):
            for i in range(S.shape[0]):
                _add_one(kind, p, X[i, j], Zt[j, start:stop], S[i, start:stop])


@compiled(fastmath=FAST)
def _add_four(kind, v, w, x, y, a, b, c, d, S):
    """Add what four features say, so as to touch S less."""
    if kind == ABSOLUTE:
        for k in range(S.shape[0]):
            S[k] += (abs(v - a[k]) + abs(w - b[k])) + (abs(x - c[k]) + abs(y - d[k]))
    else:
        none, one = S.dtype.type(0), S.dtype.type(1)
        for k in range(S.shape[0]):
            S[k] += (none if v == a[k] else one) + (none if w == b[k] else one)
            S[k] += (none if x == c[k] else one) + (none if y == d[k] else one)


@compiled(fastmath=FAST)
def _add_one(kind, p, x, z, S):
    none, one = S.dtype.type(0), S.dtype.type(1)
    if kind == ABSOLUTE:
        for k in range(S.shape[0]):
            S[k] += abs(x - z[k])
    elif kind == DIFFERENT:
        for k in range(S.shape[0]):
            S[k] += none if x == z[k] else one
    elif kind == CHI2:
        for k in range(S.shape[0]):
            d, both = x - z[k], x + z[k]
            S[k] += d * d / both if both > 0 else none
    elif kind == SINGLE_POWER:
        for k in range(S.shape[0]):
            d = np.float32(abs(x - z[k]))
            S[k] += single_exp2(np.float32(p) * single_log2(d)) if d > 0 else none
    else:
        for k in range(S.shape[0]):
            S[k] += abs(x - z[k]) ** p


@compiled
def _sum(kind, p, X, Zt, G, found):
    for start in range(0, G.shape[1], STRIP):
        stop = min(G.shape[1], start + STRIP)
        for j in range(X.shape[1]):
            for i in range(G.shape[0]):
                found[j] += _sum_one(kind, p, X[i, j], Zt[j, start:stop], G[i, start:stop])


@compiled(fastmath=FAST)
def _sum_one(kind, p, x, z, G):
    none = G.dtype.type(0)
    total = none
    if kind == ABSOLUTE:
        for k in range(G.shape[0]):
            total += G[k] * abs(x - z[k])
    elif kind == DIFFERENT:
        for k in range(G.shape[0]):
            total += none if x == z[k] else G[k]
    elif kind == CHI2:
        for k in range(G.shape[0]):
            d, both = x - z[k], x + z[k]
            total += G[k] * (d * d / both if both > 0 else none)
    elif kind == SINGLE_POWER:
        for k in range(G.shape[0]):
            d = np.float32(abs(x - z[k]))
            total += G[k] * (single_exp2(np.float32(p) * single_log2(d)) if d > 0 else none)
    else:
        for k in range(G.shape[0]):
            total += G[k] * abs(x - z[k]) ** p
    return total


@compiled
def _pair(kind, p, x, z):
    """Return s(x, z) in double precision."""
    d = abs(x - z)
    if kind == ABSOLUTE or d == 0.0:
        return d
    if kind == DIFFERENT:
        return 1.0
    return d * d / (x + z) if kind == CHI2 else d**p


@compiled
def _add_sparse(kind, p, n_features, X, X_at, X_from, Z, Z_at, Z_from, S):
    """Do what `_add` does: entries alone, and what pairs of them differ from that."""
    row = np.zeros(n_features)
    alone = np.zeros(len(Z_from) - 1)
    for k in range(len(alone)):
        for t in range(Z_from[k], Z_from[k + 1]):
            alone[k] += _pair(kind, p, 0.0, float(Z[t]))
    for i in range(S.shape[0]):
        here = 0.0
        for t in range(X_from[i], X_from[i + 1]):
            row[X_at[t]] = X[t]
            here += _pair(kind, p, float(X[t]), 0.0)
        for k in range(S.shape[1]):
            total = here + alone[k]
            for t in range(Z_from[k], Z_from[k + 1]):
                x, z = row[Z_at[t]], float(Z[t])
                if x != 0.0:
                    total += _pair(kind, p, x, z) - _pair(kind, p, x, 0.0) - _pair(kind, p, 0.0, z)
            S[i, k] = max(total, 0.0)
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
