"""What is in a file of data: a table of named columns, or a matrix with its targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .mistake import Mistake


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


def distinct(path: str | Path, found: Sequence[str]) -> list[str]:
    """Return the names of columns, a number for those that have none; refuse a name twice."""
    names = [name.strip() for name in found]
    twice = [name for name, times in Counter(names).items() if times > 1 and name]
    if twice:
        raise Mistake(f"{path} has more than one column {twice[0]!r}; names should differ.")
    return [name or f"column {k}" for k, name in enumerate(names, start=1)]
