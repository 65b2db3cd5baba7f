"""Many small machines: all folds of a column in one compiled call each.

With one machine per pair of classes there are dozens of columns, and a machine is trained in less
time than a few calls of NumPy take.  These are the steps of `_train` and `_exact` for one column,
written out for rows that are held.
"""

from __future__ import annotations

import numpy as np

from ._compiled import add, compiled, dot
from ._smo import optimality, smo_on_rows


def runs_of(members: np.ndarray) -> np.ndarray:
    """Return where runs of neighbouring members begin and end, one row (begin, end) per run."""
    breaks = np.flatnonzero(np.diff(members) != 1) + 1
    begins = members[np.concatenate([[0], breaks])]
    ends = members[np.concatenate([breaks - 1, [len(members) - 1]])] + 1
    return np.column_stack([begins, ends])


@compiled
def train_round(
    K, slots, runs, columns, W, target, lower, upper, kink, ridge, beta, r, excess, ends, folds,
    goal, max_iter, block,
):  # fmt: skip
    """Improve the machines of `folds` on the rows W; bring all that depends on them up to date.

    W are positions among the members, `slots` and `columns` the places of these rows and columns in
    K, and `runs` where the members are among the columns of K.  All rows with a coefficient are in
    W.  `ends` gets top, bottom and bias.  `block` is memory for K[W, W].  Returns the pairs that
    were made.
    """
    n, m = W.shape[0], r.shape[1]
    for a in range(n):
        row, copied = K[slots[a]], block[a]
        for b in range(n):
            copied[b] = row[columns[b]]
    made = 0
    for f in folds:
        values = np.zeros(n)
        for a in range(n):
            if beta[f, W[a]] != 0.0:
                add(values, block[a], beta[f, W[a]])
        for a in range(n):
            t = W[a]
            r[f, t] = target[f, t] - ridge[f, t] * beta[f, t] - values[a]
        pairs, _ = smo_on_rows(
            block, W, lower[f], upper[f], kink[f], ridge[f], beta[f], r[f], goal[f], max_iter
        )
        made = max(made, pairs)
        r[f] = target[f] - ridge[f] * beta[f]
    part = np.empty(m, K.dtype)
    for a in range(n):
        if not beta[:, W[a]].any():
            continue
        row, place = K[slots[a]], 0
        for k in range(runs.shape[0]):
            length = runs[k, 1] - runs[k, 0]
            part[place : place + length] = row[runs[k, 0] : runs[k, 1]]
            place += length
        for f in folds:
            if beta[f, W[a]] != 0.0:
                add(r[f], part, -beta[f, W[a]])
    for f in folds:
        ends[0, f], ends[1, f], ends[2, f] = optimality(
            r[f], beta[f], lower[f], upper[f], kink[f], excess[f]
        )
    return made


@compiled
def outputs_of(K, slots, beta, bias, first, out):
    """Set out[f, :] to the outputs of the machine of each fold on its validation rows.

    These begin at `first[f]` and end where the next fold's begin.
    """
    for f in range(beta.shape[0]):
        total = out[first[f] : first[f + 1]]
        total[:] = bias[f]
        for k in range(slots.shape[0]):
            if beta[f, k] != 0.0:
                add(total, K[slots[k], first[f] : first[f + 1]], beta[f, k])


@compiled
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


@compiled
def cholesky_solve(L, x):
    """Solve L L' x = x in place."""
    n = L.shape[0]
    for i in range(n):
        x[i] = (x[i] - dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        add(x[:i], L[i, :i], -x[i])


@compiled
def adjoint(K, slots, members, free, bound, ridge, first, delta, v, w):
    """Solve eq. (14) for a machine with free rows and a bias.

    `delta` is the gradient on its validation rows, which begin at `first`.  Sets v on the free rows
    and w = K'e - c on the bound ones; False if the free block is not definite.
    """
    n = free.shape[0]
    noise = 1e-6 if K.itemsize == 4 else 0.0
    A = np.empty((n, n))
    for a in range(n):
        row = K[slots[free[a]]]
        for b in range(n):
            A[a, b] = row[members[free[b]]]
        A[a, a] += ridge[free[a]] + noise * A[a, a]
        v[a] = dot(row[first : first + delta.shape[0]], delta)
    if not cholesky(A):
        return False
    ones = np.ones(n)
    cholesky_solve(A, v)
    cholesky_solve(A, ones)
    c = (v.sum() - delta.sum()) / ones.sum()
    add(v, ones, -c)
    for k in range(bound.shape[0]):
        row = K[slots[bound[k]]]
        total = dot(row[first : first + delta.shape[0]], delta) - c
        for a in range(n):
            total -= row[members[free[a]]] * v[a]
        w[k] = total
    return True
