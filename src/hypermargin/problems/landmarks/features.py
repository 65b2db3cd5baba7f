"""Kernel values between all rows and the landmarks: held in memory, or made block by block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.budget import Budget, Workers
from ..._core.compiled import compiled
from ..._core.space import Params
from ...kernels.base import Kernel
from ...kernels.gram import RowStore
from ...kernels.points import Points

BLOCK_BYTES = 2**23  # kernel values that are computed at a time
CACHE_BYTES = 2**19  # kernel values that are used twice before they leave the cache
ROWS_PER_LANDMARK = 8, 16  # least and most rows per landmark from which a preconditioner is made


class Features:
    """K(points, landmarks), with a column of ones if there is a bias, in chunks of rows.

    Rows are held in `store` as far as they fit into `memory` bytes; the others are computed at
    every use.
    """

    def __init__(
        self,
        points: Points,
        landmarks: Points,
        kernel: Kernel,
        params: Params,
        bias: bool,
        store: RowStore,
        memory: float,
        workers: Workers,
        budget: Budget | None = None,
    ):
        self.points, self.landmarks = points, landmarks
        self.kernel, self.params, self.bias = kernel, params, bias
        self.workers = workers
        self.budget = budget or Budget()
        self.dtype = points.dtype
        n, row_bytes = len(points), self.dtype.itemsize * len(landmarks)
        self._size = size = max(64, BLOCK_BYTES // row_bytes)
        self._chunks = [slice(i, min(i + size, n)) for i in range(0, n, size)]
        n_held = n if n * row_bytes <= memory else int(memory // row_bytes // size) * size
        self._room = store.array(n_held, len(landmarks), self.dtype)
        self._held = self._room[:0]

    def fill(self) -> Features:
        """Compute the rows that are held; before, every use computes all it needs."""
        room = self._room

        def fill(chunk: slice) -> None:
            self._compute(chunk, room[chunk])

        self._map(fill, [chunk for chunk in self._chunks if chunk.stop <= len(room)])
        self._held = room
        return self

    def __len__(self) -> int:
        return len(self.points)

    @property
    def width(self) -> int:
        return len(self.landmarks) + self.bias

    def _map(self, function: Callable, items: list) -> list:
        def careful(item: object) -> object:
            self.budget.check()
            try:
                return function(item)
            except FloatingPointError as error:  # raised in a worker it would end the search
                return error

        results = self.workers.map(careful, items, self.budget)
        for result in results:
            if isinstance(result, FloatingPointError):
                raise result
        return results

    def _compute(self, chunk: slice, out: np.ndarray | None = None) -> np.ndarray:
        block = self.kernel.block(self.points.take(chunk), self.landmarks, self.params, out)
        if not np.isfinite(block.sum()):
            raise FloatingPointError(
                f"the kernel matrix is not finite at {self.params}; scale the data or narrow the "
                "space."
            )
        return block

    def _block(self, chunk: slice) -> np.ndarray:
        return self._held[chunk] if chunk.stop <= len(self._held) else self._compute(chunk)

    def _lookup(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a matrix, and where in it some rows are, given in ascending order."""
        if rows[-1] < len(self._held):
            return self._held, rows
        block = self.kernel.block(self.points.take(rows), self.landmarks, self.params)
        return block, np.arange(len(rows))

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows with the column of ones, in double precision."""
        out = np.ones((len(rows), self.width))
        K, places = self._lookup(rows)
        out[:, : len(self.landmarks)] = K[places]
        return out

    def times(self, A: np.ndarray) -> np.ndarray:
        """Return K A, one row per point, with sums in double precision."""
        A_landmarks = A[: len(self.landmarks)]
        out = np.empty((len(self), A.shape[1]))

        def part(chunk: slice) -> None:
            block, own = self._block(chunk), out[chunk]
            for some in self._pieces(len(block)):
                own[some] = block[some].astype(float) @ A_landmarks

        self._map(part, self._chunks)
        return out + A[-1] if self.bias else out

    def transposed(self, B: np.ndarray) -> np.ndarray:
        """Return K' B, one row per landmark, with sums in double precision."""

        def part(chunk: slice) -> tuple[np.ndarray, np.ndarray]:
            block, own = self._block(chunk), B[chunk]
            total = np.zeros((len(self.landmarks), B.shape[1]))
            for some in self._pieces(len(block)):
                total += block[some].astype(float).T @ own[some]
            return total, own

        return self._sum(part, B.shape[1], self._chunks)

    def _pieces(self, n_rows: int) -> list[slice]:
        """Return slices of so few rows that they stay in the cache."""
        size = max(16, CACHE_BYTES // (self.dtype.itemsize * len(self.landmarks)))
        return [slice(i, i + size) for i in range(0, n_rows, size)]

    def curvature(self, rows: np.ndarray, D: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Return K' (D * (K A)) over some rows, in one pass and in the precision of K."""
        D = D.astype(self.dtype)
        lanes = np.ascontiguousarray(A[: len(self.landmarks)].T, dtype=self.dtype)
        offset = (A[-1] if self.bias else np.zeros(A.shape[1])).astype(self.dtype)

        def part(chunk: slice) -> tuple[np.ndarray, np.ndarray]:
            total, B = np.zeros_like(lanes), np.empty_like(D[chunk])
            add_curvature(*self._lookup(rows[chunk]), D[chunk], lanes, offset, total, B)
            return total.T, B

        chunks = [slice(i, i + self._size) for i in range(0, len(rows), self._size)]
        return self._sum(part, len(lanes), chunks)

    def _sum(
        self, part: Callable[[slice], tuple], n_columns: int, chunks: list[slice]
    ) -> np.ndarray:
        """Add K' B over chunks in double precision, with the row of the bias, from (K'B, B)."""
        out = np.zeros((self.width, n_columns))
        for product, B in self._map(part, chunks):
            out[: len(self.landmarks)] += product
            if self.bias:
                out[-1] += B.sum(axis=0, dtype=float)
        return out

    def pullback(self, left: np.ndarray, right: np.ndarray) -> Params:
        """Return sum_ij (left right')_ij dK_ij/dtheta for each hyperparameter of the kernel."""
        if not self.kernel.hyperparameters:
            return {}
        # columns of both factors scaled to one, so that single precision does not overflow
        units = np.abs(left).max(axis=0), np.abs(right).max(axis=0)
        unit = float((units[0] * units[1]).max()) or 1.0
        left = left / np.where(units[0] > 0, units[0], 1.0)
        right = right * (np.where(units[0] > 0, units[0], 1.0) / unit)
        left, right = left.astype(self.dtype), right.astype(self.dtype).T

        def part(chunk: slice) -> Params:
            points, M = self.points.take(chunk), left[chunk] @ right
            return self.kernel.pullback(points, self.landmarks, self._block(chunk), M, self.params)

        parts = self._map(part, self._chunks)
        return {name: unit * sum(p[name] for p in parts) for name in self.kernel.hyperparameters}


@compiled(fastmath=True)
def add_curvature(K, rows, D, A, offset, total, B):
    """Set B = D * (K A' + offset) on some rows of K, and add B'K to total.

    Four rows at a time, so that A and total are read a quarter as often as K.
    """
    n, m = rows.shape[0], K.shape[1]
    zero = K.dtype.type(0)
    for i in range(0, n, 4):
        last = min(3, n - 1 - i)
        a, b = K[rows[i]], K[rows[i + min(1, last)]]
        c, d = K[rows[i + min(2, last)]], K[rows[i + last]]
        for f in range(A.shape[0]):
            own, out = A[f], total[f]
            p = q = r = s = zero
            for t in range(m):
                p += a[t] * own[t]
                q += b[t] * own[t]
                r += c[t] * own[t]
                s += d[t] * own[t]
            p = D[i, f] * (p + offset[f])
            q = D[i + 1, f] * (q + offset[f]) if last > 0 else zero
            r = D[i + 2, f] * (r + offset[f]) if last > 1 else zero
            s = D[i + 3, f] * (s + offset[f]) if last > 2 else zero
            for t in range(m):
                out[t] += p * a[t] + q * b[t] + r * c[t] + s * d[t]
            for k, value in enumerate((p, q, r, s)):
                if k <= last:
                    B[i + k, f] = value
