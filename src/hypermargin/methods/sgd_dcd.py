"""Jiang and Siddiqui's method: dual coordinate descent of the machines, stochastic steps of C.

Algorithm 1 for K folds.  Machines start from zero, and C at the lower end of its range.  In every
iteration each machine makes sweeps over its rows in random order, one as the paper's discussion has
it (the algorithm as printed makes a step on one row).  How its weights move with C,

    dw/dC = sum_i y_i x_i dalpha_i/dC,

goes along.  Equation (23) as printed has dalpha_i/dC = 1 for rows at C, 0 for all others.  That
leaves out the free support vectors, which stay on their margins while those at C move:

    x_i' dw/dC = 0   for  0 < alpha_i < C.

Coordinate descent solves these equations beside its own: a step on a row also makes the step of
their coordinate.  That costs one more product with the row, no more.

The printed steps of C, 1 / (t sqrt(p)), cannot go further than 5.6 / sqrt(p) in 150 iterations, and
the sign of a row's derivative is no estimate of that of their mean.  By default steps therefore are
in log C, of length 1.5 / sqrt(t), all validation rows are taken instead of one of each fold,
machines are trained better, and the mean of log C over the last half is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.compiled import compiled
from .arguments import check_flag, check_whole
from .stochastic import Machine, StochasticSteps, add_row, row_dot

JACOBIANS = ("exact", "paper")
SWEEPS = 10  # in one iteration, at most
FIRST_STEP = 1.5  # of log C: with 1 more searches end in a dent on the way (7 of 34 small draws
# above 2 %, instead of 3), and 2 may step over a minimum
VIOLATION = 0.1  # of a margin, at which a machine is well enough trained: LIBLINEAR's own


@compiled
def descend(sheet, order, sign, margin, cost, C, alpha, rate, w, slope, exact):
    """Make a step of dual coordinate descent on each of some rows, and of its derivative by C.

    Return the largest violation of a margin that a step has mended.
    """
    worst = 0.0
    for k in range(order.shape[0]):
        i = order[k]
        bound, y, length = C * cost[i], sign[i], sheet.lengths[i]
        moved, moved_rate = bound, cost[i]  # a row of length zero is never on its margin
        if length > 0.0:
            moved = alpha[i] - (y * row_dot(sheet, i, w) - margin[i]) / length
            if moved <= 0.0:
                moved, moved_rate = 0.0, 0.0
            elif moved >= bound:
                moved = bound
            elif exact:
                moved_rate = rate[i] - y * row_dot(sheet, i, slope) / length
            else:
                moved_rate = 0.0
        if moved != alpha[i]:
            worst = max(worst, abs(moved - alpha[i]) * length)
            add_row(sheet, i, (moved - alpha[i]) * y, w)
            alpha[i] = moved
        if moved_rate != rate[i]:
            add_row(sheet, i, (moved_rate - rate[i]) * y, slope)
            rate[i] = moved_rate
    return worst


class DualDescent(Machine):
    """A machine that is trained by dual coordinate descent, and knows how it moves with C."""

    moving: ClassVar[tuple[str, ...]] = (*Machine.moving, "alpha", "rate")

    def __init__(self, exact: bool, rows: int | None, sweeps: int, *of: Any):
        super().__init__(*of)
        self.exact, self.rows, self.sweeps = exact, rows, sweeps
        self.alpha, self.rate = np.zeros((2, len(self.sign)))

    def work(self, C: float, t: int) -> None:
        for _ in range(self.sweeps):
            order = self.rng.permutation(self.trained)[: self.rows]
            worst = descend(
                self.sheet, order, self.sign, self.margin, self.cost, C, self.alpha, self.rate,
                self.weights, self.slope, self.exact,
            )  # fmt: skip
            if worst <= VIOLATION:
                break


@dataclass(frozen=True)
class SgdDcd(StochasticSteps):
    """Dual coordinate descent of the machines, and stochastic steps of C.

    Parameters
    ----------
    iterations, step, watch
        As in `StochasticSteps`.
    jacobian : {"exact", "paper"}
        How coefficients move with C: with the free support vectors, or as eq. (23) is printed.
    as_printed : bool
        Whether steps of C, the drawn validation rows and the sweeps are those of the paper.
    rows : int, optional
        Rows that a sweep goes over; None for all of them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from sklearn.svm import LinearSVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import SgdDcd
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> method = SgdDcd(iterations=50)
    >>> search = GradientSearchCV(
    ...     LinearSVC(loss="hinge"), {"C": (1e-4, 1e6)}, method=method, random_state=0
    ... )
    >>> bool(search.fit(minmax_scale(X, (-1, 1)), y).best_score_ > 0.96)
    True
    """

    jacobian: str = "exact"
    as_printed: bool = False
    rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jacobian not in JACOBIANS:
            raise ValueError(f"jacobian={self.jacobian!r} must be one of {list(JACOBIANS)}.")
        check_flag("as_printed", self.as_printed)
        check_whole("rows", self.rows)

    @property
    def draws(self) -> bool:
        return self.as_printed

    def machine(self, *of: Any) -> Machine:
        sweeps = 1 if self.as_printed else SWEEPS
        return DualDescent(self.jacobian == "exact", self.rows, sweeps, *of)

    def moved(self, C: float, up: float, t: int, n_features: int) -> float:
        if self.as_printed:
            return super().moved(C, up, t, n_features)
        return C * float(np.exp(up * FIRST_STEP * self.step / np.sqrt(t)))

    def chosen(self, past: list[float]) -> float:
        if self.as_printed:
            return super().chosen(past)
        return float(np.exp(np.mean(np.log(past[len(past) // 2 :]))))
