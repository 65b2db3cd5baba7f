"""Adjoints of many small machines, in compiled calls: eq. (14) of Keerthi et al.

Without them, and with `SaddleSystem` alone, searches with ten classes take three times as long.
"""

from __future__ import annotations

import numpy as np

from ..._core.compiled import add, compiled, dot
from .smo import exact_sum, slopes

FEW_FREE = 200  # free rows up to which a compiled loop solves faster than LAPACK can be called


@compiled(inner=True)
def cholesky(A):
    """Overwrite the lower triangle of A by its factor; False if a pivot is not clearly positive."""
    n, largest = A.shape[0], 0.0
    for i in range(n):
        largest = max(largest, A[i, i])
    for i in range(n):
        for j in range(i):
            A[i, j] = (A[i, j] - dot(A[i, :j], A[j, :j])) / A[j, j]
        pivot = A[i, i] - dot(A[i, :i], A[i, :i])
        if not pivot > 1e-10 * largest:
            return False
        A[i, i] = np.sqrt(pivot)
    return True


@compiled(inner=True)
def cholesky_solve(L, x):
    """Solve L L' x = x in place."""
    n = L.shape[0]
    for i in range(n):
        x[i] = (x[i] - dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        add(x[:i], L[i, :i], -x[i])


@compiled(inner=True)
def adjoint(K, slots, rows, free, bound, ridge, first, delta, v, w):
    """Solve eq. (14) for a machine with free rows and a bias.

    `delta` is the gradient on its validation rows, which begin at `first`.  Sets v on the free rows
    and w = K'e - c on the bound ones; False if the free block is not definite.
    """
    n = free.shape[0]
    noise = 1e-6 if K.itemsize == 4 else 0.0
    A = np.empty((n, n))
    for a in range(n):
        row = K[slots[rows[free[a]]]]
        for b in range(n):
            A[a, b] = row[rows[free[b]]]
        A[a, a] += ridge[free[a]] + noise * A[a, a]
        v[a] = dot(row[first : first + delta.shape[0]], delta)
    if not cholesky(A):
        return False
    ones = np.empty(n)
    for a in range(n):
        ones[a] = 1.0
    cholesky_solve(A, v)
    cholesky_solve(A, ones)
    c = (exact_sum(v) - exact_sum(delta)) / exact_sum(ones)
    add(v, ones, -c)
    for k in range(bound.shape[0]):
        row = K[slots[rows[bound[k]]]]
        total = dot(row[first : first + delta.shape[0]], delta) - c
        for a in range(n):
            total -= row[rows[free[a]]] * v[a]
        w[k] = total
    return True


@compiled(inner=True)
def parts_of(beta, lower, upper, kink):
    """Return the free rows of a machine, and those with a coefficient at a bound."""
    n = beta.shape[0]
    free, bound = np.empty(n, np.int64), np.empty(n, np.int64)
    n_free, n_bound = 0, 0
    for t in range(n):
        if not lower[t] < upper[t]:
            continue
        if beta[t] <= lower[t] or beta[t] >= upper[t]:
            if beta[t] != 0.0:
                bound[n_bound] = t
                n_bound += 1
        elif beta[t] != 0.0 or kink[t] == 0.0:
            free[n_free] = t
            n_free += 1
    return free[:n_free], bound[:n_bound]


@compiled(inner=True)
def end_rows(target, ridge, values, beta, lower, upper, kink):
    """Return the rows that would gain most by rising and by falling, and their sides of the kink.

    Where no row is free they fix the bias, which is in the middle between them.
    """
    n, i, j = target.shape[0], -1, -1
    up, down = np.empty(n), np.empty(n)
    slopes(beta, lower, upper, kink, up, down)
    top, bottom = 0.0, 0.0
    for t in range(n):
        if lower[t] < upper[t]:
            r = target[t] - ridge[t] * beta[t] - values[t]
            if i < 0 or r + up[t] > top:
                i, top = t, r + up[t]
            if j < 0 or r + down[t] < bottom:
                j, bottom = t, r + down[t]
    return i, j, 1.0 if beta[i] >= 0.0 else -1.0, 1.0 if beta[j] > 0.0 else -1.0


@compiled(inner=True)
def adjoint_of_ends(K, slots, rows, ends, bound, first, delta, w):
    """Set w = K'e on the bound rows where the middle of two rows is all that moves."""
    half = 0.5 * exact_sum(delta)
    for k in range(bound.shape[0]):
        row = K[slots[rows[bound[k]]]]
        w[k] = dot(row[first : first + delta.shape[0]], delta)
        w[k] -= half * (row[rows[ends[0]]] + row[rows[ends[1]]])
    return half


@compiled
def adjoints(
    K, slots, machines, rows, edges, first, delta, target, lower, upper, kink, ridge, beta, values,
    E, on_target, on_lower, on_upper, on_kink, on_ridge, hard,
):  # fmt: skip
    """Solve the adjoints of some machines; mark those for which that is `hard`.

    Machines count fold by fold, one column after the other.  `delta[c]` has the gradients on the
    validation rows, which are where `first` says.  Writes -v to the machine's lane of E, and what
    the adjoint says of its dual to `on_...`.
    """
    for machine in machines:
        c, f = machine // beta.shape[0], machine % beta.shape[0]
        a, b = edges[c], edges[c + 1]
        members, d = rows[a:b], delta[c, first[f] : first[f + 1]]
        own, low, high = beta[f, a:b], lower[f, a:b], upper[f, a:b]
        bend, rise = kink[f, a:b], ridge[f, a:b]
        free, bound = parts_of(own, low, high, bend)
        n = free.shape[0]
        hard[machine] = n > FEW_FREE
        for t in free:
            hard[machine] |= slots[members[t]] < 0
        for t in bound:
            hard[machine] |= slots[members[t]] < 0
        if hard[machine]:
            continue
        size = n if n > 0 else 2
        v, w, side = np.empty(size), np.empty(bound.shape[0]), np.empty(size)
        if n > 0:
            if not adjoint(K, slots, members, free, bound, rise, first[f], d, v, w):
                hard[machine] = True
                continue
            for k in range(n):
                side[k] = 1.0 if own[free[k]] >= 0.0 else -1.0
        else:
            i, j, side[0], side[1] = end_rows(
                target[f, a:b], rise, values[f, a:b], own, low, high, bend
            )
            if i < 0 or j < 0:  # no fold has the machine
                continue
            free = np.array([i, j])
            v[0] = v[1] = adjoint_of_ends(K, slots, members, free, bound, first[f], d, w)
        for k in range(free.shape[0]):  # the two ends may be one and the same row
            t = free[k]
            E[machine, members[t]] -= v[k]
            on_target[f, a + t] += v[k]
            on_ridge[f, a + t] -= v[k] * own[t]
            if bend[t] > 0.0:
                on_kink[f, a + t] -= v[k] * side[k]
        for k in range(bound.shape[0]):
            t = bound[k]
            if own[t] <= low[t]:
                on_lower[f, a + t] = w[k]
            else:
                on_upper[f, a + t] = w[k]
