"""Couellan and Wang's method, as Jiang and Siddiqui's section 3.2 describes it.

One training row of each fold is drawn in every iteration.  The weights move by

    w <- w - (w - C v) / t,   v = y x if the row is inside its margin, else 0,

and v stands for dw/dC, eq. (15).  That takes one row for the sum over all of them, eqs. (10) and
(11): the weights are C times a mean over rows and not C times a sum, so that machines are trained
as if C were as many times smaller as there are rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import check_positive
from .stochastic import Machine, StochasticSteps, add_row, row_dot


class OneRow(Machine):
    """A machine that is trained by stochastic gradient descent, one row at a time."""

    def __init__(self, inner_step: float, *of: Any):
        super().__init__(*of)
        self.inner_step = inner_step

    def begin(self, rng: np.random.RandomState) -> None:
        super().begin(rng)
        self.weights[:] = self.rng.uniform(size=len(self.weights))

    def work(self, C: float, t: int) -> None:
        i = self.rng.choice(self.trained)
        inside = self.sign[i] * row_dot(self.sheet, i, self.weights) < self.margin[i]
        self.slope[:] = 0.0
        if inside:
            add_row(self.sheet, i, self.sign[i] * self.cost[i], self.slope)
        with np.errstate(over="ignore", invalid="ignore"):  # who asks for long steps is told so
            self.weights -= self.inner_step / t * (self.weights - C * self.slope)


@dataclass(frozen=True)
class BilevelSgd(StochasticSteps):
    """Stochastic gradient descent of the machines, and stochastic steps of C.

    Parameters
    ----------
    iterations, step, watch
        As in `StochasticSteps`.
    inner_step : float
        Factor on the steps of the weights, 1 / t.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from sklearn.svm import LinearSVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import BilevelSgd
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> method = BilevelSgd(iterations=50)
    >>> search = GradientSearchCV(
    ...     LinearSVC(loss="hinge"), {"C": (1e-4, 1e6)}, method=method, random_state=0
    ... )
    >>> bool(search.fit(minmax_scale(X, (-1, 1)), y).best_score_ > 0.9)
    True
    """

    inner_step: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("inner_step", self.inner_step)

    def machine(self, *of: Any) -> Machine:
        return OneRow(self.inner_step, *of)
