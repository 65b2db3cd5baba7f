"""Free rows that depend on each other: all but independent ones go to their bounds.

Points on a line, duplicates and features that are few make blocks of the kernel matrix singular.
Then there are directions along which no output of a machine changes: for a row k that depends on
the rows of a basis,

    v_k = 1,   v_basis = -T_k,   sum v = 0,   K v = 0,

and the dual is linear along v.  So the best is at a bound, of row k or of a row of the basis, whose
place k then takes, as in the simplex method.  What remains are rows that Newton's method can solve
for.  Pairs, or Newton steps that each meet one bound, would need very long.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from ..._core.compiled import compiled
from ..._core.lapack import pivoted_cholesky

DEPENDENT = 1e-12  # part of a row that others do not have, squared, which counts as none
SLIGHT = 1e-9  # entries of T, below which they may be rounding: such a row takes no place


def without_dependent(
    Q: np.ndarray, beta: np.ndarray, slope: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Return coefficients of the same outputs, at least as good, with few rows between bounds.

    None if no row depends on others.  `slope` is that of the dual, which rises along it.
    """
    first = int(np.argmin(np.diagonal(Q)))
    # from one row to the others, which takes care of the sum
    steps = Q - Q[first] - Q[:, first, None] + Q[first, first]
    order, rank = pivoted_cholesky(steps, DEPENDENT * float(np.diagonal(Q).max()))
    rest = order[rank:][order[rank:] != first]
    if not len(rest):
        return None
    kept = order[rank:] != first
    T = solve_triangular(steps[:rank, :rank], steps[:rank, rank:][:, kept], check_finite=False)
    T = np.vstack([T, 1.0 - T.sum(axis=0)])
    found = beta.copy()
    basis = np.append(order[:rank], first)
    return found if _exchange(T, basis, rest, found, slope, low, high) else None


@compiled
def _exchange(T, basis, rest, beta, slope, low, high):
    """Take row after row of `rest` to a bound, or to the place of one that gets there first."""
    size, many = T.shape
    for k in range(many):
        row = rest[k]
        gain = slope[row]
        for i in range(size):
            gain -= T[i, k] * slope[basis[i]]
        sign = 1.0 if gain >= 0.0 else -1.0
        reach = high[row] - beta[row] if gain >= 0.0 else beta[row] - low[row]
        leaves = -1
        for i in range(size):
            j, d = basis[i], -sign * T[i, k]
            if abs(d) <= SLIGHT:
                continue
            room = (high[j] - beta[j] if d > 0.0 else low[j] - beta[j]) / d
            if room < reach:
                reach, leaves = room, i
        if reach == np.inf:
            return False
        beta[row] += sign * reach
        for i in range(size):
            j = basis[i]
            beta[j] = min(max(beta[j] - sign * reach * T[i, k], low[j]), high[j])
        if leaves < 0:
            beta[row] = high[row] if gain >= 0.0 else low[row]
            continue
        j = basis[leaves]
        beta[j] = low[j] if sign * T[leaves, k] > 0.0 else high[j]
        basis[leaves] = row
        for c in range(k + 1, many):
            part = T[leaves, c] / T[leaves, k]
            for i in range(size):
                T[i, c] -= T[i, k] * part
            T[leaves, c] = part
    return True
