"""The kernel matrix of one design: stored when it fits into memory, by blocks of rows when not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ._budget import Budget, Workers
from ._kernels import Kernel, Params, Points

BLOCK_BYTES = 2**23  # a block of rows is about as large as a core's share of the cache


class Gram:
    """K over all pairs of `points` at given hyperparameters.

    Parameters
    ----------
    points : Points
        The rows of the design.
    kernel : Kernel
    params : dict
        Values of the kernel's hyperparameters.
    memory : float
        Bytes that the stored matrix may take; above that every use computes its rows anew.
    """

    def __init__(
        self,
        points: Points,
        kernel: Kernel,
        params: Params,
        memory: float,
        workers: Workers,
        budget: Budget,
    ):
        self.points = points
        self.kernel = kernel
        self.params = params
        self.memory = memory
        self.workers = workers
        self.budget = budget

    def __len__(self) -> int:
        return len(self.points)

    @property
    def stored(self) -> bool:
        return 8.0 * len(self) ** 2 <= self.memory

    @cached_property
    def matrix(self) -> np.ndarray:
        matrix = np.empty((len(self), len(self)))

        def fill(rows: np.ndarray) -> None:
            matrix[rows[0] : rows[-1] + 1] = self._compute(rows)

        self.workers.map(fill, self._blocks(np.arange(len(self))), self.budget)
        if not np.isfinite(matrix).all():
            raise FloatingPointError(
                f"the kernel matrix is not finite at {self.params}; scale the data or narrow "
                "the space."
            )
        return matrix

    @cached_property
    def diagonal(self) -> np.ndarray:
        return self.kernel.diagonal(self.points, self.params)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return K[rows, :]."""
        return self.matrix[rows] if self.stored else self._compute(rows)

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Return K[rows, cols]."""
        if self.stored:
            return self.matrix[np.ix_(rows, cols)]
        return self.kernel.block(self.points.take(rows), self.points.take(cols), self.params)

    def right(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return K[rows, :] V."""
        if self.stored:
            return self.matrix[rows] @ V
        parts = [self._compute(block) @ V for block in self._blocks(rows)]
        return np.concatenate(parts) if parts else np.zeros((0, *V.shape[1:]))

    def left(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return K[rows, :]' V."""
        if self.stored:
            return self.matrix[rows].T @ V
        total = np.zeros((len(self), *V.shape[1:]))
        for block, part in zip(self._blocks(rows), self._blocks(np.arange(len(rows))), strict=True):
            total += self._compute(block).T @ V[part]
        return total

    def restrict(self, rows: np.ndarray) -> Gram:
        """Return the Gram matrix of some of the rows."""
        part = Gram(
            self.points.take(rows), self.kernel, self.params, self.memory, self.workers, self.budget
        )
        if self.stored:
            part.__dict__["matrix"] = self.matrix[np.ix_(rows, rows)]
        return part

    def pullback(self, E: np.ndarray, B: np.ndarray) -> Params:
        """Return sum_ij (E B')_ij dK_ij/dtheta for each hyperparameter of the kernel.

        Only rows where E and columns where B have an entry are touched, in blocks of rows.
        """
        if not self.kernel.hyperparameters:
            return {}
        cols = np.flatnonzero(np.any(B != 0, axis=1))
        B_cols, col_points = B[cols], self.points.take(cols)

        def part(rows: np.ndarray) -> Params:
            row_points = self.points.take(rows)
            if self.stored:
                block = self.matrix[np.ix_(rows, cols)]
            else:
                block = self.kernel.block(row_points, col_points, self.params)
            M = E[rows] @ B_cols.T
            return self.kernel.pullback(row_points, col_points, block, M, self.params)

        rows = np.flatnonzero(np.any(E != 0, axis=1))
        parts = self.workers.map(part, self._blocks(rows), self.budget)
        return {name: sum(p[name] for p in parts) for name in self.kernel.hyperparameters}

    def _compute(self, rows: np.ndarray) -> np.ndarray:
        return self.kernel.block(self.points.take(rows), self.points, self.params)

    def _blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        size = max(1, int(BLOCK_BYTES // (8 * max(1, len(self)))))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


def bytes_of(megabytes: Any) -> float:
    return float(megabytes) * 2**20
