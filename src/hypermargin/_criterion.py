"""What a criterion is: a number and its gradient, made of out-of-fold outputs.

A criterion is minimised.  It is called with the pooled outputs (rows, columns), the targets and the
weights of the same rows, and returns the value and its gradient with respect to the outputs.  For
classifiers the targets are class numbers and the columns are the one-vs-one machines in the order
(0, 1), (0, 2), ..., an output above zero speaking for the second class of its pair; for two classes
that is the one output of a usual SVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

Valued = tuple[Any, np.ndarray]


class Criterion:
    """A smooth stand-in for a score, to be minimised.

    `score_func` and `sign` are those of the scikit-learn scorer that it stands for, if there is
    one; `read` makes the criterion of a scorer's further arguments.
    """

    score_func: ClassVar[Any] = None
    sign: ClassVar[int] = 1  # of the scorer: whether greater values of the score are better
    for_classifiers: ClassVar[bool]
    two_classes: ClassVar[bool] = False  # whether there must be two of them
    label: ClassVar[str]  # what users call it

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        raise NotImplementedError

    @classmethod
    def read(cls, arguments: Mapping[str, Any], classes: np.ndarray) -> Criterion | None:
        """Return the criterion of a scorer with these arguments; None if there is none."""
        return None if arguments else cls()


def tally_matrix(n_pairs: int) -> np.ndarray:
    """Return T (pairs, classes): outputs @ T adds each to its second class, minus to its first."""
    n_classes = round((1 + (1 + 8 * n_pairs) ** 0.5) / 2)
    T = np.zeros((n_pairs, n_classes))
    for p, (i, j) in enumerate(combinations(range(n_classes), 2)):
        T[p, i], T[p, j] = -1.0, 1.0
    return T


def spread_of(
    outputs: np.ndarray, weight: np.ndarray
) -> tuple[float, Callable[[np.ndarray], np.ndarray]]:
    """Return the standard deviation rho of all outputs, and what its derivative adds to a gradient.

    A function of outputs / rho has the derivative -(gradient . outputs) / rho by rho.
    """
    share = (weight / (weight.sum() * outputs.shape[1]))[:, None]
    centred = outputs - (share * outputs).sum()
    rho = float(np.sqrt((share * centred**2).sum()))
    # outputs that differ by rounding only say nothing, and must not be blown up
    rho = max(rho, 1e-9 * float(np.abs(outputs).max()), 1e-10)

    def add_rho(gradient: np.ndarray) -> np.ndarray:
        d_rho = -float((gradient * outputs).sum()) / rho
        return gradient + d_rho * share * centred / rho

    return rho, add_rho
