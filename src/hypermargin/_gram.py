"""The kernel matrix of one design: rows that are held in memory, and all others on demand.

Machines need few rows of the matrix: those of their support vectors and of points that may become
some.  Rows are computed once, for all folds and classes, and held side by side in one array; when
they would not fit into the memory limit, every use computes what it needs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from ._budget import Budget, Workers
from ._compiled import add_rows, add_rows_at, gather
from ._kernels import Kernel, Params, Points

BLOCK_BYTES = 2**20  # a block of rows is about as large as a core's share of the cache


class RowStore:
    """Memory for held rows that outlives a kernel matrix.

    The first touch of fresh memory costs more than filling it, so it is used again and again.
    What is reserved but never touched costs nothing.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.uint8)

    def array(self, n_rows: int, width: int, dtype: np.dtype) -> np.ndarray:
        """Return an array of that shape, with whatever it has in it."""
        size = n_rows * width * dtype.itemsize
        if self._memory.size < size:
            self._memory = np.empty(size, dtype=np.uint8)
        return self._memory[:size].view(dtype).reshape(n_rows, width)


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
        Bytes that held rows and the machines' own blocks may take.
    store : RowStore
    single : bool
        Whether held rows are in single precision, like the kernel cache of libsvm.
    """

    def __init__(
        self,
        points: Points,
        kernel: Kernel,
        params: Params,
        memory: float,
        workers: Workers,
        budget: Budget,
        store: RowStore | None = None,
        single: bool = False,
    ):
        self.points = points.single if single else points
        self.kernel = kernel
        self.params = params
        self.memory = memory
        self.workers = workers
        self.budget = budget
        self._slot = np.full(len(points), -1)
        self._held = np.empty(0, dtype=int)
        self._lock = threading.Lock()
        self.dtype = np.dtype(np.float32 if single else np.float64)
        n, size = len(points), self.dtype.itemsize
        most = n if float(size) * n * n <= memory else int(memory // (size * n))
        self._rows = (store or RowStore()).array(most, n, self.dtype)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def capacity(self) -> int:
        """The most rows that a machine may work on at a time."""
        most = np.sqrt(self.memory / self.dtype.itemsize / (1 + self.workers.count))
        return int(np.clip(most, min(64, len(self)), len(self)))

    def hold(self, rows: np.ndarray) -> bool:
        """Compute and keep K[rows, :], unless that takes too much memory; return whether."""
        if (self._slot[rows] >= 0).all():
            return True
        with self._lock:
            new = rows[self._slot[rows] < 0]
            used = len(self._held)
            if used + len(new) > len(self._rows):
                return False

            def fill(part: np.ndarray) -> bool:
                block = self._rows[used + part[0] : used + part[-1] + 1]
                self.kernel.block(self.points.take(new[part]), self.points, self.params, block)
                return bool(np.isfinite(block.sum()))

            finite = self.workers.map(fill, self._blocks(np.arange(len(new))), self.budget)
            if not all(finite):
                raise FloatingPointError(
                    f"the kernel matrix is not finite at {self.params}; scale the data or narrow "
                    "the space."
                )
            self._slot[new] = np.arange(used, used + len(new))
            self._held = np.concatenate([self._held, new])
            return True

    def compact(self, rows: np.ndarray) -> np.ndarray:
        """Return K[rows, rows], contiguous; a view where all rows are held in their order."""
        slots = self._slot[rows]
        if (slots >= 0).all():
            if len(rows) == len(self) and (slots == np.arange(len(self))).all():
                return self._rows[: len(self)]
            out = np.empty((len(rows), len(rows)), self.dtype)
            gather(self._rows, slots, rows, out)
            return out
        points = self.points.take(rows)
        return np.ascontiguousarray(self.kernel.block(points, points, self.params))

    def combine(
        self, rows: np.ndarray, factors: np.ndarray, cols: np.ndarray | None = None
    ) -> np.ndarray:
        """Return sum_i factors_i K[rows_i, cols]; all columns by default."""
        total = np.zeros(len(self) if cols is None else len(cols))
        slots = self._slot[rows]
        held = slots >= 0
        if cols is None:
            add_rows(self._rows, slots[held], factors[held], total)
        else:
            add_rows_at(self._rows, slots[held], factors[held], cols, total)
        rest, factors = rows[~held], factors[~held]
        for part in self._blocks(np.arange(len(rest))):
            block = self._compute(rest[part], cols)
            total += factors[part] @ block
        return total

    def product(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return K[rows, :] V."""
        slots = self._slot[rows]
        if (slots >= 0).all():
            return (self._rows[: len(self._held)] @ V.astype(self.dtype))[slots].astype(float)
        parts = [self._compute(part) @ V for part in self._blocks(rows)]
        return np.concatenate(parts) if parts else np.zeros((0, V.shape[1]))

    def pullback(self, E: np.ndarray, B: np.ndarray) -> Params:
        """Return sum_ij (E B')_ij dK_ij/dtheta for each hyperparameter of the kernel.

        Only rows where B and columns where E have an entry are touched, in blocks of rows.
        """
        if not self.kernel.hyperparameters:
            return {}
        rows = np.flatnonzero(np.any(B != 0, axis=1))
        rows = rows[np.argsort(self._slot[rows], kind="stable")]
        cols = np.flatnonzero(np.any(E != 0, axis=1))
        everything = len(cols) == len(self)
        col_points = self.points if everything else self.points.take(cols)
        # both factors scaled to one, so that single precision neither over- nor underflows
        unit_E, unit_B = np.abs(E).max() or 1.0, np.abs(B).max() or 1.0
        E_cols = np.ascontiguousarray((E[cols] / unit_E).T, dtype=self.dtype)
        B = np.asarray(B / unit_B, dtype=self.dtype)

        def part(rows: np.ndarray) -> Params:
            row_points, slots = self.points.take(rows), self._slot[rows]
            if slots[0] >= 0 and slots[-1] - slots[0] == len(slots) - 1:
                block = self._rows[slots[0] : slots[-1] + 1]
                block = block if everything else block[:, cols]
            else:
                block = self.kernel.block(row_points, col_points, self.params)
            return self.kernel.pullback(
                row_points, col_points, block, B[rows] @ E_cols, self.params
            )

        parts = self.workers.map(part, self._blocks(rows), self.budget)
        unit = float(unit_E * unit_B)
        return {name: unit * sum(p[name] for p in parts) for name in self.kernel.hyperparameters}

    def _compute(self, rows: np.ndarray, cols: np.ndarray | None = None) -> np.ndarray:
        col_points = self.points if cols is None else self.points.take(cols)
        return self.kernel.block(self.points.take(rows), col_points, self.params)

    def _blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        size = max(16, int(BLOCK_BYTES // (self.dtype.itemsize * max(1, len(self)))))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
