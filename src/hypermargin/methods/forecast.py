"""How long a search will take on all rows, and how much memory, before it begins there.

An evaluation on all rows takes as long as those on fewer rows say: time grows with a power of the
number of rows that the problem knows.  So does the memory for rows of the kernel matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from .._core.warn import warn
from ..problems.base import Problem

LONG = 3600.0  # seconds that one should be warned of


@dataclass(frozen=True)
class Forecast:
    """Seconds from then on, without the refit, and bytes; `n_samples` is what it was read off."""

    seconds: float
    memory: float
    n_samples: int

    def as_dict(self) -> dict[str, float]:
        """Return what users see of it."""
        return asdict(self)

    @property
    def is_long(self) -> bool:
        return self.seconds >= LONG

    def warn(self, kernels: bool) -> None:
        """Say that a search will take long, and what would take less; `rank` is for kernels."""
        less = (
            "With rank (500, say, or less than it is) machines are trained on landmarks in much "
            "less; "
        )
        warn(
            f"The search will take about {in_words(self.seconds)} on all rows.  "
            f"{less if kernels else ''}time_budget=SECONDS ends the search with the best point so "
            "far."
        )


def foresee(
    problem: Problem, seconds: Sequence[float], n_samples: int, n_rows: int, evaluations: float
) -> Forecast:
    """Return what evaluations on n_rows will take, of those on n_samples rows."""
    more = n_rows / n_samples
    # the median: what is evaluated first in a new environment is compiled, which takes seconds
    one = float(np.median(seconds)) * more**problem.growth
    return Forecast(evaluations * one, problem.memory_on(n_rows), n_samples)


def in_words(seconds: float) -> str:
    """Return a time as people say it."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} seconds"
