"""Sequential minimal optimisation with second-order selection, for the dual of `losses`.

All variables live in one vector beta over the rows of a shared kernel matrix; rows that do not
belong to the machine (the validation rows of its fold) have lower = upper = 0 and never move.  With
residual r = target - (K + diag(ridge)) beta, moving beta_i up by a little gains r_i + up_i, and
moving beta_j down gains -(r_j + down_j), where up and down hold the slope of the kink, or minus or
plus infinity at a bound.  The optimality gap is  max(r + up) - min(r + down).
"""

from __future__ import annotations

import numpy as np

from ..._core.compiled import compiled, fast_max, fast_min

HUGE = 1e30  # stands for infinity: fast-math code may not meet a real one
SCAN = 256  # rows per vectorised scan; the winner is located inside the best strip only
FLAT = 1e-12  # least curvature along a pair, relative to the diagonal (1e-6 in single precision)


@compiled(inner=True)
def size_of(values):
    """Return the largest absolute value."""
    largest = 0.0  # NumPy's way takes a second to compile
    for value in values:
        largest = max(largest, abs(float(value)))
    return largest


@compiled
def slopes(beta, lower, upper, kink, up, down):
    """Fill `up` and `down`: the slope of the penalty to the right and to the left of beta."""
    for t in range(beta.shape[0]):
        set_slopes(t, beta, lower, upper, kink, up, down)


@compiled(inner=True)
def set_slopes(t, beta, lower, upper, kink, up, down):
    b = beta[t]
    if b >= upper[t]:
        up[t] = -HUGE
    else:
        up[t] = -kink[t] if b >= 0.0 else kink[t]
    if b <= lower[t]:
        down[t] = HUGE
    else:
        down[t] = -kink[t] if b > 0.0 else kink[t]


@compiled(inner=True)
def room_up(t, beta, lower, upper, kink):
    """Return how far beta_t can rise before its penalty changes slope."""
    if beta[t] < 0.0 and kink[t] > 0.0:
        return -beta[t]
    return upper[t] - beta[t]


@compiled(inner=True)
def room_down(t, beta, lower, upper, kink):
    if beta[t] > 0.0 and kink[t] > 0.0:
        return beta[t]
    return beta[t] - lower[t]


@compiled(inner=True)
def place(t, value, beta, lower, upper, largest):
    """Set beta_t, snapping to a breakpoint that is only a rounding error away.

    Errors add up over the rows, as the coefficients have to add up to zero; they are as large as
    rounding makes them of the `largest` coefficient, or of one at its bound.
    """
    near = (1e-13 + 1e-15 * beta.shape[0]) * min(upper[t] - lower[t], largest)
    if abs(value - upper[t]) <= near:
        value = upper[t]
    elif abs(value - lower[t]) <= near:
        value = lower[t]
    elif abs(value) <= near:
        value = 0.0
    beta[t] = value


@compiled(fastmath=True, inner=True)
def advance(r, Ki, Kj, up, down, step):
    """Subtract step (K_i - K_j) from r; return max(r + up) and min(r + down)."""
    number = r.dtype.type  # all arithmetic in the precision of r
    best, least, factor = number(-HUGE), number(HUGE), number(step)
    for t in range(r.shape[0]):
        value = r[t] - factor * (Ki[t] - Kj[t])
        r[t] = value
        best = fast_max(best, value + up[t])
        least = fast_min(least, value + down[t])
    return best, least


@compiled(fastmath=True, inner=True)
def list_gains(r, down, Ki, diag, top, own, floor, gains):
    """Write the second-order gains of all pairs (i, t); return the largest.

    `own` is the diagonal at i.
    """
    number = r.dtype.type
    zero, two, high, corner, least = number(0), number(2), number(top), number(own), number(floor)
    best = zero
    for t in range(r.shape[0]):
        drop = fast_max(high - (r[t] + down[t]), zero)
        gain = drop * drop / fast_max(corner + diag[t] - two * Ki[t], least)
        gains[t] = gain
        best = fast_max(best, gain)
    return best


@compiled(inner=True)
def select_up(r, Ki, Kj, up, down, step):
    """Bring r up to date after a step; return the best row to raise and both ends of the gap."""
    n = r.shape[0]
    top, bottom, strip = -HUGE, HUGE, 0
    for s in range(0, n, SCAN):
        e = min(n, s + SCAN)
        high, low = advance(r[s:e], Ki[s:e], Kj[s:e], up[s:e], down[s:e], step)
        if high > top:
            top, strip = high, s
        bottom = min(bottom, low)
    for t in range(strip, min(n, strip + SCAN)):
        if r[t] + up[t] >= top:
            return t, top, bottom
    return strip, top, bottom


@compiled(inner=True)
def select_down(r, down, Ki, diag, top, own, floor, gains):
    """Return the row to lower: the one with the largest second-order gain."""
    n = r.shape[0]
    best, strip = -1.0, 0
    for s in range(0, n, SCAN):
        e = min(n, s + SCAN)
        gain = list_gains(r[s:e], down[s:e], Ki[s:e], diag[s:e], top, own, floor, gains[s:e])
        if gain > best:
            best, strip = gain, s
    for t in range(strip, min(n, strip + SCAN)):
        if gains[t] >= best:
            return t
    return strip


@compiled
def smo(K, diag, ridge, beta, r, lower, upper, kink, tol, max_iter):
    """Improve beta and its residual r in place until the gap is at most tol.

    Returns the iterations made and the gap reached.  `diag` includes the ridge.
    """
    n = beta.shape[0]
    up, down, gains = np.empty(n, r.dtype), np.empty(n, r.dtype), np.empty(n, r.dtype)
    slopes(beta, lower, upper, kink, up, down)
    flat = FLAT if r.itemsize == 8 else 1e-6
    floor = flat * max(size_of(diag), 1e-30)
    largest = size_of(beta)
    i, top, bottom = select_up(r, K[0], K[0], up, down, 0.0)
    for iteration in range(max_iter):
        if top - bottom <= tol:
            return iteration, top - bottom
        j = select_down(r, down, K[i], diag, top, diag[i], floor, gains)
        step = (top - (r[j] + down[j])) / max(diag[i] + diag[j] - 2.0 * K[i, j], floor)
        step = min(step, room_up(i, beta, lower, upper, kink))
        step = min(step, room_down(j, beta, lower, upper, kink))
        largest = max(largest, abs(beta[i] + step), abs(beta[j] - step))
        place(i, beta[i] + step, beta, lower, upper, largest)
        place(j, beta[j] - step, beta, lower, upper, largest)
        r[i] -= step * ridge[i]
        r[j] += step * ridge[j]
        set_slopes(i, beta, lower, upper, kink, up, down)
        set_slopes(j, beta, lower, upper, kink, up, down)
        i, top, bottom = select_up(r, K[i], K[j], up, down, step)
    return max_iter, top - bottom


@compiled(inner=True)
def smo_on_rows(K, W, lower, upper, kink, ridge, beta, r, tol, max_iter):
    """Run `smo` on the rows W of a machine whose vectors cover more rows; K is K[W, W]."""
    n = W.shape[0]
    b, low, high = np.empty(n), np.empty(n), np.empty(n)
    bend, rise = np.empty(n), np.empty(n)
    residual, diag = np.empty(n, K.dtype), np.empty(n, K.dtype)
    for k in range(n):
        t = W[k]
        b[k], low[k], high[k], bend[k], rise[k] = beta[t], lower[t], upper[t], kink[t], ridge[t]
        residual[k] = r[t]
        diag[k] = K[k, k] + ridge[t]
    made, gap = smo(K, diag, rise, b, residual, low, high, bend, tol, max_iter)
    for k in range(n):
        beta[W[k]] = b[k]
        r[W[k]] = residual[k]
    return made, gap


@compiled
def optimality(r, beta, lower, upper, kink, excess):
    """Return both ends of the gap and the bias, and how far each row violates its condition.

    `excess` is below zero where a row's condition holds, by how much it does, and -HUGE for rows
    that take no part.  The bias is that of the free rows, or the middle of the gap without any.
    """
    n = r.shape[0]
    largest = size_of(beta)
    for t in range(n):  # a row that is free by a rounding error would have the bias to itself
        if beta[t] != 0.0:
            place(t, beta[t], beta, lower, upper, largest)
    up, down = np.empty(n), np.empty(n)
    slopes(beta, lower, upper, kink, up, down)
    top, bottom, total, free = -HUGE, HUGE, 0.0, 0
    for t in range(n):
        top = max(top, r[t] + up[t])
        bottom = min(bottom, r[t] + down[t])
        inside = lower[t] < beta[t] < upper[t]
        if inside and (beta[t] != 0.0 or kink[t] == 0.0):
            total += r[t] + up[t]
            free += 1
    bias = total / free if free > 0 else 0.5 * (top + bottom)
    for t in range(n):
        excess[t] = -HUGE
        if lower[t] < upper[t]:
            excess[t] = max(r[t] + up[t] - bias, bias - (r[t] + down[t]))
    return top, bottom, bias


@compiled(inner=True)
def exact_sum(values):
    """Return the sum, with what rounding takes from it added again."""
    total, lost = 0.0, 0.0
    for value in values:
        new = total + (value - lost)
        lost = (new - total) - (value - lost)
        total = new
    return total


@compiled
def make_feasible(beta, lower, upper):
    """Clip a start into the box and restore sum beta = 0, moving no more rows than that takes."""
    size = 0.0
    for t in range(beta.shape[0]):
        beta[t] = min(max(beta[t], lower[t]), upper[t])
        size += abs(beta[t])
    room = np.empty(beta.shape[0])
    # free rows first, then all that have a coefficient, then any
    for kind in range(3):
        excess = exact_sum(beta)
        if abs(excess) <= 1e-14 * size:
            return
        there = 0.0
        for t in range(beta.shape[0]):
            inside = lower[t] < beta[t] < upper[t]
            room[t] = 0.0
            if kind == 2 or (beta[t] != 0.0 and (kind == 1 or inside)):
                room[t] = beta[t] - lower[t] if excess > 0.0 else beta[t] - upper[t]
            there += room[t]
        there = abs(there)
        if there > 0.0:
            for t in range(beta.shape[0]):
                beta[t] -= room[t] * min(1.0, abs(excess) / there)
    size = 0.0
    for value in beta:
        size += abs(value)
    # What rounding leaves would stay for good, as pairs keep the sum: start from nothing instead.
    if abs(exact_sum(beta)) > 1e-10 * size:
        for t in range(beta.shape[0]):
            beta[t] = 0.0
