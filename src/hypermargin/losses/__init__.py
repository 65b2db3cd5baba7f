"""Losses by the names that estimators give them.

To add one, write its class in a file here and list it below; the contract tests of losses
pick it up.
"""

from __future__ import annotations

from .base import Costly, Dual, Loss, Rows, inverse
from .classification import Hinge, LeastSquares, Logistic, ModifiedHuber, SmoothHinge, SquaredHinge
from .regression import (
    EpsilonInsensitive,
    LeastSquaresRegression,
    Pinball,
    SquaredEpsilonInsensitive,
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

__all__ = ["CLASSIFICATION", "REGRESSION", "Costly", "Dual", "Loss", "Rows", "inverse"]
