"""Where machines ended, as a start for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WarmStart:
    """Where the machines of a design, or of a column of it, ended, by row numbers of the data.

    The members of all columns follow each other, as in a `Roster`.
    """

    folds: tuple[int, ...]
    rows: np.ndarray
    edges: np.ndarray
    beta: np.ndarray  # (folds, rows), as are the bounds
    lower: np.ndarray
    upper: np.ndarray
    active: np.ndarray  # whether a row is, or may become, a support vector
    bias: np.ndarray  # (columns, folds); of a column, (folds,)
    iterations: np.ndarray

    def column(self, c: int) -> WarmStart:
        part = slice(self.edges[c], self.edges[c + 1])
        return WarmStart(
            self.folds, self.rows[part], np.array([0, part.stop - part.start]), self.beta[:, part],
            self.lower[:, part], self.upper[:, part], self.active[part], self.bias[c],
            self.iterations[c : c + 1],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class State(Mapping[tuple[int, int], WarmStart]):
    """Where all machines ended, by number of the design and of the column."""

    designs: dict[int, WarmStart]

    def __getitem__(self, key: tuple[int, int]) -> WarmStart:
        return self.designs[key[0]].column(key[1])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((d, c) for d, start in self.designs.items() for c in range(len(start.bias)))

    def __len__(self) -> int:
        return sum(len(start.bias) for start in self.designs.values())


def merged(state: State, n_rows: int) -> State:
    """Return the mean machines of all folds, as a start for machines on all rows."""
    columns = []
    for c in sorted({column for _, column in state}):
        parts = [state[key] for key in state if key[1] == c]
        beta, times = np.zeros((2, n_rows))
        low, high = np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
        active = np.zeros(n_rows, dtype=bool)
        for part in parts:
            beta[part.rows] += part.beta.sum(axis=0)
            times[part.rows] += (part.lower < part.upper).sum(axis=0)
            low[part.rows] = np.minimum(low[part.rows], part.lower.min(axis=0))
            high[part.rows] = np.maximum(high[part.rows], part.upper.max(axis=0))
            active[part.rows] |= part.active
        rows = np.flatnonzero(low <= high)
        beta = beta[rows] / np.maximum(times[rows], 1)
        columns.append((rows, beta, low[rows], high[rows], active[rows]))
    rows, beta, low, high, active = map(np.concatenate, zip(*columns, strict=True))
    edges = np.cumsum([0, *(len(column[0]) for column in columns)])
    nothing = np.zeros((len(columns), 1))
    start = WarmStart(
        (0,), rows, edges, beta[None], low[None], high[None], active, nothing, nothing[:, 0]
    )
    return State({0: start})
