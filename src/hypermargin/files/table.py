"""What is in a file of data: a table of named columns, or a matrix with its targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Table:
    """Named columns of equal length.

    Numbers are float64, NaN where they are missing; text is of dtype object, None where it is
    missing; dates are datetime64.  `told` says what was guessed on the way.
    """

    names: list[str]
    columns: list[np.ndarray]
    told: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0]) if self.columns else 0


@dataclass
class Matrix:
    """Rows of numbers, dense or sparse, their targets if there are any, and arrays beside them.

    `zero_based` is whether the first feature of LIBSVM text has the number 0, None elsewhere.
    """

    X: Any
    y: np.ndarray | None
    others: dict[str, np.ndarray] = field(default_factory=dict)
    zero_based: bool | None = None
    told: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])
