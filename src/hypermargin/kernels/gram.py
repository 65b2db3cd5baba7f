"""The kernel matrix of one design: rows that are held in memory, and all others on demand.

Machines need few rows of the matrix: those of their support vectors and of points that may become
some.  Rows are computed once, for all folds and classes, and held side by side in one array; when
they would not fit into the memory limit, every use computes what it needs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from .._core.budget import Budget, Workers
from .._core.compiled import combine, dot_rows, gather
from .._core.space import Params
from .base import Kernel
from .points import Points, copied

SPARSE = 0.4  # part of the coefficients up to which products skip those that are zero
BLOCK_BYTES = 2**21  # a block of rows is about as large as a core's share of the cache

Columns = slice | np.ndarray


class _Spare:
    """Memory that earlier searches of this process have used and the next one may use again."""

    def __init__(self, most: float):
        self.most = most
        self._lock = threading.Lock()
        self._pieces: list[np.ndarray] = []

    def begin_in_child(self) -> None:
        """Begin anew after a fork: a thread that held the lock is not there."""
        self._lock, self._pieces = threading.Lock(), []

    def clear(self) -> None:
        """Give all of it back to the system."""
        with self._lock:
            self._pieces.clear()

    def take(self, size: int) -> np.ndarray | None:
        """Return the smallest piece of at least that size."""
        with self._lock:
            fitting = [piece.size for piece in self._pieces if piece.size >= size]
            if not fitting:
                return None
            return self._pieces.pop([p.size for p in self._pieces].index(min(fitting)))

    def give(self, piece: np.ndarray) -> None:
        with self._lock:
            self._pieces.append(piece)
            while sum(p.size for p in self._pieces) > self.most:
                sizes = [p.size for p in self._pieces]
                self._pieces.pop(sizes.index(max(sizes) if max(sizes) > self.most else min(sizes)))


SPARE = _Spare(most=2**30)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SPARE.begin_in_child)


@contextmanager
def borrowed(n_rows: int, width: int, dtype: np.dtype) -> Iterator[np.ndarray]:
    """Give an array of that shape for a while, with whatever it has in it."""
    store = RowStore()
    size = n_rows * width * dtype.itemsize
    try:
        # powers of two, so that few pieces serve many shapes
        yield store.array(n_rows, width, dtype, reserve=2 ** max(12, (size - 1).bit_length()))
    finally:
        store.release()


class RowStore:
    """Memory for held rows that outlives a kernel matrix.

    The first touch of fresh memory costs more than filling it, so it is used again and again, also
    by the next search.  What is reserved but never touched costs nothing.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.uint8)

    def array(self, n_rows: int, width: int, dtype: np.dtype, reserve: float = 0) -> np.ndarray:
        """Return an array of that shape, with whatever it has in it.

        `reserve` are bytes that may be asked for later.
        """
        size = n_rows * width * dtype.itemsize
        if self._memory.size < size:
            wanted = max(size, int(reserve))
            spare = SPARE.take(wanted)
            self._memory = np.empty(wanted, dtype=np.uint8) if spare is None else spare
        return self._memory[:size].view(dtype).reshape(n_rows, width)

    def release(self) -> None:
        """Leave the memory to others; arrays that were made of it must not be used any more."""
        if self._memory.size:
            SPARE.give(self._memory)
            self._memory = np.empty(0, dtype=np.uint8)


class Gram:
    """K over all pairs of `points` at given hyperparameters.

    Parameters
    ----------
    points : Points
        The rows of the design, as kernel values are computed of them.
    kernel : Kernel
    params : dict
        Values of the kernel's hyperparameters.
    memory : float
        Bytes that held rows and the machines' own blocks may take.
    store, scratch : RowStore
        Memory for the held rows, and for the block that a machine works on.
    single : bool
        Whether values are kept in single precision, like the kernel cache of libsvm.
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
        scratch: RowStore | None = None,
        single: bool = False,
    ):
        self.points = points
        self.kernel = kernel
        self.params = params
        self.memory = memory
        self.workers = workers
        self.budget = budget
        self._slot = np.full(len(points), -1)
        self._held = np.empty(0, dtype=int)
        self._lock = threading.Lock()
        self._scratch = scratch or RowStore()
        self.dtype = np.dtype(np.float32 if single else np.float64)
        n, size = len(points), self.dtype.itemsize
        most = n if float(size) * n * n <= memory else int(memory // (size * n))
        self._rows = (store or RowStore()).array(most, n, self.dtype)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def held(self) -> np.ndarray:
        """The rows that are held."""
        return self._held

    @property
    def capacity(self) -> int:
        """The most rows that a machine may work on at a time."""
        most = np.sqrt(self.memory / self.dtype.itemsize / (1 + self.workers.count))
        return int(np.clip(most, min(64, len(self)), len(self)))

    def hold(self, rows: np.ndarray) -> bool:
        """Compute and keep K[rows, :], unless that takes too much memory; return whether."""
        if len(rows) == len(self) and len(self._rows) == len(self) and not self.in_order:
            self._slot[:] = -1  # computed again, so that the block of all rows needs no copy
            self._held = self._held[:0]
        if (self._slot[rows] >= 0).all():
            return True
        with self._lock:
            new = rows[self._slot[rows] < 0]
            used = len(self._held)
            if used + len(new) > len(self._rows):
                return False

            def fill(part: np.ndarray) -> bool:
                block = self._rows[used + part[0] : used + part[-1] + 1]
                self._compute(self.points.take(new[part]), self.points, block)
                return bool(np.isfinite(block.sum()))

            with self.workers.clock.phase("rows"):
                finite = self.workers.map(fill, self._blocks(np.arange(len(new))), self.budget)
            if not all(finite):
                raise FloatingPointError(
                    f"the kernel matrix is not finite at {self.params}; scale the data or narrow "
                    "the space."
                )
            self._slot[new] = np.arange(used, used + len(new))
            self._held = np.concatenate([self._held, new])
            return True

    @property
    def in_order(self) -> bool:
        """Whether all rows that are held, and no others, come first and in their order."""
        return bool((self._held == np.arange(len(self._held))).all())

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The memory of held rows, and the place of every row in it, -1 if it is not held."""
        return self._rows, self._slot

    def compact(self, rows: np.ndarray, scratch: bool = False) -> np.ndarray:
        """Return K[rows, rows], contiguous; a view where all rows are held in their order.

        With `scratch` the result is in memory that the next such call overwrites, unless workers
        would do that to each other.
        """
        slots = self._slot[rows]
        if (slots >= 0).all():
            if len(rows) == len(self) and self.in_order:
                return self._rows[: len(self)]
            shape = (len(rows), len(rows))
            if scratch and not self.workers.inside:
                reserve = min(self.memory, float(self.dtype.itemsize) * len(self) ** 2)
                out = self._scratch.array(*shape, self.dtype, reserve)
            else:
                out = np.empty(shape, self.dtype)

            def copy(part: np.ndarray) -> None:
                gather(self._rows, slots[part], rows, out[part[0] : part[-1] + 1])

            with self.workers.clock.phase("rows"):
                self.workers.map(copy, self._blocks(np.arange(len(rows)), len(rows)), self.budget)
            return out
        points = self.points.take(rows)
        return np.ascontiguousarray(self._compute(points, points))

    def block(
        self, rows: np.ndarray, cols: np.ndarray | None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return K[rows, cols], written to `out` if that is given."""
        slots = self._slot[rows]
        if (slots >= 0).all():
            if cols is None:
                return self._rows[slots]
            if out is None:
                out = np.empty((len(rows), len(cols)), self.dtype)
            gather(self._rows, slots, cols, out)
            return out
        col_points = self.points if cols is None else self.points.take(cols)
        return self._compute(self.points.take(rows), col_points, out)

    def _compute(self, rows: Points, cols: Points, out: np.ndarray | None = None) -> np.ndarray:
        """Return K(rows, cols) in the precision that values are kept in."""
        if self.points.dtype == self.dtype:
            return self.kernel.block(rows, cols, self.params, out)
        found = self.kernel.block(rows, cols, self.params)
        # below the least normal number many processors are slow
        found[np.abs(found) < np.finfo(np.float32).tiny] = 0.0
        return found.astype(self.dtype) if out is None else copied(found, out)

    def combine(self, rows: np.ndarray, B: np.ndarray, cols: Columns) -> np.ndarray:
        """Return the sums over i of B[lane, i] K[rows_i, cols], shape (lanes, columns)."""
        used = np.flatnonzero(B.any(axis=0))
        rows, B = rows[used], np.ascontiguousarray(B[:, used])
        slots = self._slot[rows]
        if isinstance(cols, slice) and (slots >= 0).all():
            total = np.zeros((len(B), cols.stop - cols.start))

            def strip(part: slice) -> None:
                out = np.zeros((len(B), part.stop - part.start))
                combine(self._rows, slots, B, cols.start + part.start, out)
                total[:, part] = out

            with self.workers.clock.phase("outputs"):
                self.workers.map(strip, self._strips(total.shape[1], len(rows)), self.budget)
            return total
        index = np.arange(cols.start, cols.stop) if isinstance(cols, slice) else cols
        total = np.zeros((len(B), len(index)))
        for part in self._blocks(np.arange(len(rows)), len(index)):
            total += B[:, part] @ self.block(rows[part], index)
        return total

    def dot(self, rows: np.ndarray, cols: Columns, v: np.ndarray) -> np.ndarray:
        """Return K[rows, cols] v."""
        out = np.empty(len(rows))
        slots = self._slot[rows]
        unit = np.abs(v).max(initial=0.0) or 1.0  # single precision must not underflow
        scaled = (v / unit).astype(self.dtype)
        if isinstance(cols, slice) and (slots >= 0).all():
            dot_rows(self._rows, slots, cols.start, scaled, out)
            return unit * out
        index = np.arange(cols.start, cols.stop) if isinstance(cols, slice) else cols
        for part in self._blocks(np.arange(len(rows)), len(index)):
            # (for a handful of columns BLAS may raise floating-point flags that mean nothing)
            block = np.ascontiguousarray(self.block(rows[part], index))
            dot_rows(block, np.arange(len(part)), 0, scaled, out[part[0] : part[-1] + 1])
        return unit * out

    def pullback(self, E: np.ndarray, groups: Sequence[tuple]) -> Params:
        """Return sum_lij B_li E_lj dK_ij/dtheta for each hyperparameter of the kernel.

        E has a row per lane, in the precision of K.  `groups` are triples (rows, lanes, B): rows
        that have coefficients B (rows, lanes) in these lanes and in no others.  Only rows where B
        and columns where E have an entry are touched.
        """
        gradient = dict.fromkeys(self.kernel.hyperparameters, 0.0)
        if not gradient:
            return gradient
        cols = np.flatnonzero(E.any(axis=0))
        everything = len(cols) > 0.7 * len(self)
        col_points = self.points if everything else self.points.take(cols)
        E = E if everything else np.ascontiguousarray(E[:, cols])
        # scaled to one, so that single precision neither over- nor underflows
        unit = max((float(np.abs(B).max(initial=0.0)) for _, _, B in groups), default=0.0) or 1.0
        jobs = []
        for rows, lanes, B in groups:
            used = np.flatnonzero(B.any(axis=1))
            used = used[np.argsort(self._slot[rows[used]], kind="stable")]
            B_used = np.asarray(B[used] / unit, self.dtype)
            for part in self._blocks(np.arange(len(used))):
                jobs.append((rows[used[part]], lanes, B_used[part]))

        def run(job: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Params:
            rows, lanes, B = job
            slots = self._slot[rows]
            if everything and slots[0] >= 0 and slots[-1] - slots[0] == len(slots) - 1:
                block = self._rows[slots[0] : slots[-1] + 1]
            else:
                block = self.block(rows, None if everything else cols)
            M = _product(B, E, lanes)
            return self.kernel.pullback(self.points.take(rows), col_points, block, M, self.params)

        for part in self.workers.map(run, jobs, self.budget):
            for name, value in part.items():
                gradient[name] += unit * value
        return gradient

    def _blocks(self, rows: np.ndarray, width: int | None = None) -> Iterator[np.ndarray]:
        size = max(16, int(BLOCK_BYTES // (self.dtype.itemsize * max(1, width or len(self)))))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _strips(self, width: int, n_rows: int) -> list[slice]:
        """Split columns among the workers, unless there is too little to do."""
        count = self.workers.count if width * n_rows > 500_000 else 1
        edges = np.linspace(0, width, count + 1).astype(int)
        return [slice(a, b) for a, b in pairwise(edges)]


def _product(B: np.ndarray, E: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Return B E[lanes]; most rows are support vectors of few of many machines."""
    if np.count_nonzero(B) > SPARSE * B.size:
        return B @ E[lanes]
    M = np.zeros((len(B), E.shape[1]), E.dtype)
    combine(E, lanes, B, 0, M)
    return M
