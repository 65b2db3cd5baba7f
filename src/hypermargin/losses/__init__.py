"""Losses by the names that estimators give them.

To add one, write its class in a file here and list it in `LOSSES`; the contract tests of losses
pick it up.
"""

from __future__ import annotations

from .base import Loss
from .classification import Hinge, LeastSquares, Logistic, ModifiedHuber, SmoothHinge, SquaredHinge
from .regression import (
    EpsilonInsensitive,
    LeastSquaresRegression,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
)

LOSSES: tuple[type[Loss], ...] = (
    Hinge,
    SmoothHinge,
    Logistic,
    SquaredHinge,
    ModifiedHuber,
    LeastSquares,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    LeastSquaresRegression,
    Pinball,
    Squared,
)


# by the names that estimators give them
CLASSIFICATION: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "modified_huber": ModifiedHuber,
    "squared": LeastSquares,
    "smooth_hinge": SmoothHinge,
    "logistic": Logistic,
}


REGRESSION: dict[str, type[Loss]] = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "squared": LeastSquaresRegression,
    "pinball": Pinball,
}
