"""How far targets spread: the unit of gaps, of rounded corners and of default ranges."""

from __future__ import annotations

import numpy as np

OUTLYING = 5.0  # median deviations; of a normal variable these are 3.4 standard deviations


def deviation(y: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Return the standard deviation of y, zero if y is constant."""
    return _deviations(y, weight)[0]


def typical_deviation(y: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Return the standard deviation of y, unless that is due to a few rows far out.

    At most it is `OUTLYING` times the median deviation from the median, of rows that deviate at
    all: often most targets are zero.  So one wrong target does not move it, however large it is.
    """
    return min(_deviations(y, weight))


def _deviations(y: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    y = np.ravel(y).astype(float, copy=False)
    if weight is not None:
        weight = np.ravel(weight)
        y, weight = y[weight > 0], weight[weight > 0]
    if not len(y):
        return 0.0, 0.0
    centred = y - _median(y, weight)
    largest = float(np.abs(centred).max())
    if not 0.0 < largest < np.inf:
        return 0.0, 0.0
    centred /= largest  # squares must not overflow
    square = np.average(centred**2, weights=weight) - np.average(centred, weights=weight) ** 2
    off = centred != 0.0
    typical = OUTLYING * _median(np.abs(centred[off]), None if weight is None else weight[off])
    return largest * float(np.sqrt(max(square, 0.0))), largest * typical


def _median(y: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the least value that has half of the weight at or below it."""
    if weight is None:
        middle = (len(y) - 1) // 2
        return float(np.partition(y, middle)[middle])
    order = np.argsort(y, kind="stable")
    below = np.cumsum(weight[order])
    return float(y[order[np.searchsorted(below, 0.5 * below[-1])]])
