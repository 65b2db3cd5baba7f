"""Where machines ended, as a start for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

    def part(self, folds: Sequence[int], columns: slice) -> WarmStart:
        """Return the machines of some folds and of neighbouring columns."""
        at = np.array([self.folds.index(f) for f in folds])
        first, last = self.edges[columns.start], self.edges[columns.stop]
        part = np.ix_(at, np.arange(first, last))
        return WarmStart(
            tuple(folds), self.rows[first:last],
            self.edges[columns.start : columns.stop + 1] - first, self.beta[part],
            self.lower[part], self.upper[part], self.active[first:last],
            self.bias[columns][:, at], self.iterations[columns],
        )  # fmt: skip

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

    def part(self, folds: Sequence[int], columns: slice) -> State:
        """Return the machines of some folds and of neighbouring columns."""
        own = {d: [f for f in folds if f in start.folds] for d, start in self.designs.items()}
        return State({d: self.designs[d].part(some, columns) for d, some in own.items() if some})

    def __getitem__(self, key: tuple[int, int]) -> WarmStart:
        return self.designs[key[0]].column(key[1])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((d, c) for d, start in self.designs.items() for c in range(len(start.bias)))

    def __len__(self) -> int:
        return sum(len(start.bias) for start in self.designs.values())


def joined(columns: Sequence[int], states: Sequence[State]) -> State:
    """Return the machines of several parts, each of which begins at a column, as those of one."""
    designs = {}
    for number in sorted({number for state in states for number in state.designs}):
        found: dict[int, list[WarmStart]] = {}
        for first, state in zip(columns, states, strict=True):
            if number in state.designs:
                found.setdefault(first, []).append(state.designs[number])
        designs[number] = _beside([_together(found[first]) for first in sorted(found)])
    return State(designs)


def _together(parts: list[WarmStart]) -> WarmStart:
    """Return the machines of the same columns, of all folds of the parts."""
    one, arrays = parts[0], zip(*((p.beta, p.lower, p.upper) for p in parts))
    beta, lower, upper = (np.concatenate(array) for array in arrays)
    return WarmStart(
        tuple(f for part in parts for f in part.folds), one.rows, one.edges, beta, lower, upper,
        np.any([part.active for part in parts], axis=0),
        np.concatenate([part.bias for part in parts], axis=1),
        np.max([part.iterations for part in parts], axis=0),
    )  # fmt: skip


def _beside(parts: list[WarmStart]) -> WarmStart:
    """Return the machines of the same folds, of all columns of the parts."""
    sizes = np.concatenate([np.diff(part.edges) for part in parts])
    beta, lower, upper = (
        np.concatenate([getattr(part, name) for part in parts], axis=1)
        for name in ("beta", "lower", "upper")
    )
    rows, active, bias, iterations = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("rows", "active", "bias", "iterations")
    )
    edges = np.concatenate([[0], np.cumsum(sizes)])
    return WarmStart(
        parts[0].folds, rows, edges, beta, lower, upper, active, bias, iterations
    )  # fmt: skip


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
