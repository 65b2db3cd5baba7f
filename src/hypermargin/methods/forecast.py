"""How long a search will take on all rows, and how much memory, before it begins there.

An evaluation on all rows takes as long as those on fewer rows say: time grows with a power of the
number of support vectors that the problem knows.  They grow with the rows, or more slowly where a
task is easy; from one level to the next one sees how.  Memory is for rows of the kernel matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._core.warn import warn
from ..problems.base import Problem
from ..problems.exact.state import State

LONG_SEARCH = 3600.0  # seconds that one should be warned of
FIXED = 0.5  # part of an evaluation on the fewest rows that does not depend on their number


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
        return self.seconds >= LONG_SEARCH

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


@dataclass(frozen=True)
class Taken:
    """What evaluations on so many rows took: seconds, and support vectors if they are known."""

    n_rows: int
    seconds: list[float]
    support: list[float]


def n_support(state: Any) -> float:
    """Return how many support vectors machines have, all together; nan where none are counted."""
    if not isinstance(state, State):
        return np.nan
    return float(sum(np.count_nonzero(start.beta) for start in state.designs.values()))


def foresee(problem: Problem, taken: Sequence[Taken], n_rows: int, evaluations: float) -> Forecast:
    """Return what evaluations on n_rows will take, of those on fewer rows, the most last."""
    last = taken[-1]
    # each of them meets all rows once, so that time does not grow more slowly than rows
    power = max(1.0, problem.growth * _growth_of_support(taken))
    # the median: what is evaluated first in a new environment is compiled, which takes seconds
    now, fixed = float(np.median(last.seconds)), FIXED * float(np.median(taken[0].seconds))
    one = fixed + max(now - fixed, 0.0) * (n_rows / last.n_rows) ** power
    n_samples = last.n_rows
    return Forecast(evaluations * one, problem.memory_on(n_rows), n_samples)


def _growth_of_support(taken: Sequence[Taken]) -> float:
    """Return the power of the rows that support vectors grow with, at most 1; 1 if it is unseen."""
    if len(taken) < 2:
        return 1.0
    rows = np.log([level.n_rows for level in taken[-2:]])
    counts = np.array([np.median(level.support) for level in taken[-2:]])
    if not (counts > 0).all() or rows[0] >= rows[1]:
        return 1.0
    return float(min(1.0, np.diff(np.log(counts))[0] / np.diff(rows)[0]))


def in_words(seconds: float) -> str:
    """Return a time as people say it."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} seconds"
