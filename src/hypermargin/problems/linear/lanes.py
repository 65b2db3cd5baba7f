"""Products of a data matrix with eight vectors at once.

Linear machines that differ in their folds only meet the same rows of X.  Their weight vectors are
the columns, or lanes, of one matrix (features, 8): a pass over X that is limited by memory serves
eight machines for the price of one, and eight numbers are what a vector register holds.

Plain loops over the lanes are not put into registers by the compiler, so the two innermost
operations on a sparse row are written in its intermediate language.  Dense rows go to BLAS, in
blocks that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..._core.budget import Budget, Workers, cached
from ..conjugate import sums
from .loops import (
    LANES,
    add_squares,
    backward,
    curved,
    forward,
    row_squares,
    wide_backward,
    wide_forward,
)

BLOCK_BYTES = 2**19  # of a dense matrix that are used several times before they leave the cache
LEAST = 2**21  # multiplications that are worth a thread
MANY = 2**16  # entries of a matrix from which it pays to do less than one could
CHUNK_ROWS = 1024  # sparse rows whose outputs stay in the cache
Change = Callable[[np.ndarray, int], None]  # changes outputs of rows in place, given the first row


def _total(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays, in the place of the first one."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


class Matrix:
    """Rows of features, and what a linear machine does with them; passes run in threads.

    A constant column `scale` stands after the last feature, unless it is zero: the weight of a bias
    is the last row of W.
    """

    X: Any
    n_rows: int
    n_features: int
    dtype: np.dtype

    def __init__(self, workers: Workers, scale: float):
        self.workers, self.scale = workers, scale

    @property
    def width(self) -> int:
        return self.n_features + 1

    @property
    def small(self) -> bool:
        """Whether there are so few entries that exact answers cost nothing."""
        return len(self.rows[2]) < MANY

    def _parts(self, work: float) -> list[slice]:
        """Split the rows among the threads, if there is work for them."""
        n = self.workers.count if work > LEAST and not self.workers.inside else 1
        if n == 1:
            return [slice(0, self.n_rows)]
        ends = self._ends(n)
        return [slice(a, b) for a, b in pairwise(ends) if a < b]

    def _ends(self, n: int) -> np.ndarray:
        return np.linspace(0, self.n_rows, n + 1).astype(int)

    def each(self, function: Callable, work: float) -> list:
        """Apply a function to parts of the rows, side by side."""
        parts = self._parts(work)
        if len(parts) == 1:
            return [function(parts[0])]
        return self.workers.map(function, parts, Budget())

    def times(self, W: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Set out to X W."""
        raise NotImplementedError

    def transposed(self, A: np.ndarray) -> np.ndarray:
        """Return X' A."""
        raise NotImplementedError

    def curved(self, D: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return X' (D * X V)."""
        raise NotImplementedError

    def through(self, V: np.ndarray, change: Change) -> np.ndarray:
        """Return X' U, where `change` has been applied to the rows of U = X V.

        There may be any number of lanes.
        """
        raise NotImplementedError

    def take(self, rows: np.ndarray) -> Self:
        raise NotImplementedError

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows, the constant included."""
        raise NotImplementedError

    def sums_of_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_i weights_ik x_ij^2 for every feature j and any number of columns k."""
        raise NotImplementedError

    def gram(self, rows: np.ndarray) -> np.ndarray:
        """Return the inner products of some rows, the constant included."""
        some = self.X[rows]
        products = some @ some.T
        return (products.toarray() if sparse.issparse(products) else products) + self.scale**2

    @cached
    def means(self) -> np.ndarray:
        """The mean of every feature, as a column."""
        sums = self.transposed(np.ones((self.n_rows, LANES), dtype=self.dtype))
        return sums[:-1, :1] / self.n_rows

    @cached
    def full(self) -> np.ndarray:
        """All rows as they are multiplied, dense and in double precision: for few features."""
        return self.dense(np.arange(self.n_rows)).astype(float, copy=False)

    @cached
    def squared_lengths(self) -> np.ndarray:
        """The squared length of every row."""
        return self.squares() + self.scale**2

    def squares(self) -> np.ndarray:
        """Return the squared length of every row, the constant left out."""
        raise NotImplementedError

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Return where rows begin, the features and values of entries, and whether rows are full.

        Full rows share the list of features.
        """
        raise NotImplementedError

    def _lanes(self, A: np.ndarray) -> np.ndarray:
        """Return an array of lanes in the matrix's own type, which compiled code relies on."""
        return np.ascontiguousarray(A, dtype=self.dtype)

    def _with_bias(self, R: np.ndarray, totals: np.ndarray) -> np.ndarray:
        return np.vstack([R, (self.scale * totals).astype(R.dtype)])


class DenseMatrix(Matrix):
    def __init__(self, X: np.ndarray, workers: Workers, scale: float):
        super().__init__(workers, scale)
        self.X = X
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype
        self._least = max(1, BLOCK_BYTES // max(X.itemsize * X.shape[1], 1))

    @property
    def _work(self) -> float:
        return self.X.size * LANES

    def _blocks(self, part: slice, least: int = 256) -> Iterator[slice]:
        """Yield some rows at a time, enough for a product to be fast."""
        step = max(least, self._least)
        for start in range(part.start, part.stop, step):
            yield slice(start, min(start + step, part.stop))

    def times(self, W: np.ndarray, out: np.ndarray) -> np.ndarray:
        W = self._lanes(W)
        weights, bias = W[:-1], self.scale * W[-1]

        def run(part: slice) -> None:
            for block in self._blocks(part):
                np.dot(self.X[block], weights, out=out[block])
                out[block] += bias

        self.each(run, self._work)
        return out

    def transposed(self, A: np.ndarray) -> np.ndarray:
        A = self._lanes(A)

        def run(part: slice) -> np.ndarray:
            R = np.zeros((self.n_features, A.shape[1]), dtype=A.dtype)
            for block in self._blocks(part):
                R += self.X[block].T @ A[block]
            return R

        return self._with_bias(sum(self.each(run, self._work)), sums(A))

    def curved(self, D: np.ndarray, V: np.ndarray) -> np.ndarray:
        D = self._lanes(D)

        def bend(u: np.ndarray, first: int) -> None:
            u *= D[first : first + len(u)]

        return self.through(V, bend)

    def through(self, V: np.ndarray, change: Change) -> np.ndarray:
        V = self._lanes(V)
        weights, bias = V[:-1], self.scale * V[-1]

        def run(part: slice) -> np.ndarray:
            R = np.zeros((self.width, V.shape[1]), dtype=V.dtype)
            for block in self._blocks(part):
                u = self.X[block] @ weights
                u += bias
                change(u, block.start)
                R[:-1] += self.X[block].T @ u
                R[-1] += u.sum(axis=0)
            R[-1] *= self.scale
            return R

        return sum(self.each(run, 2 * self._work))

    def take(self, rows: np.ndarray) -> DenseMatrix:
        return DenseMatrix(self.X[rows], self.workers, self.scale)

    def dense(self, rows: np.ndarray) -> np.ndarray:
        return np.column_stack([self.X[rows], np.full(len(rows), self.scale, dtype=self.dtype)])

    def sums_of_squares(self, weights: np.ndarray) -> np.ndarray:
        weights = self._lanes(weights)

        def run(part: slice) -> np.ndarray:
            R = np.zeros((self.n_features, weights.shape[1]), dtype=weights.dtype)
            for block in self._blocks(part, least=1):  # the squares take memory
                R += np.square(self.X[block]).T @ weights[block]
            return R

        totals = self.scale * weights.sum(axis=0, dtype=float)
        return self._with_bias(sum(self.each(run, self._work)), totals)

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        starts = np.arange(self.n_rows + 1, dtype=np.int64) * self.n_features
        return starts, np.arange(self.n_features, dtype=np.int32), self.X.reshape(-1), True

    def squares(self) -> np.ndarray:
        return np.einsum("ij,ij->i", self.X, self.X, dtype=float)


class SparseMatrix(Matrix):
    def __init__(self, X: Any, workers: Workers, scale: float):
        super().__init__(workers, scale)
        self.X = X
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype
        self._csr = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), X.data

    @property
    def _work(self) -> float:
        return (len(self._csr[2]) + self.n_rows) * LANES

    def _ends(self, n: int) -> np.ndarray:
        """Split the rows so that all parts have as many entries."""
        indptr = self._csr[0]
        shares = np.linspace(0, indptr[-1], n + 1)
        ends = np.searchsorted(indptr, shares)
        ends[0], ends[-1] = 0, self.n_rows
        return ends

    def times(self, W: np.ndarray, out: np.ndarray) -> np.ndarray:
        if W.shape[1] != LANES:
            return self._wide_times(W, out)
        W = self._lanes(W)
        weights, bias = W[:-1], self.scale * W[-1]

        def run(part: slice) -> None:
            out[part] = bias
            forward(*self._csr, weights, out, part.start, part.stop)

        self.each(run, self._work)
        return out

    def transposed(self, A: np.ndarray) -> np.ndarray:
        if A.shape[1] != LANES:
            return self._wide_transposed(A)
        A = self._lanes(A)

        def run(part: slice) -> np.ndarray:
            R = np.zeros((self.width, A.shape[1]), dtype=A.dtype)
            backward(*self._csr, A, R[:-1], part.start, part.stop)
            return R

        total = _total(self.each(run, self._work))
        total[-1] = self.scale * sums(A)
        return total

    def _chunks(self, part: slice) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield some rows at a time, and where their entries begin."""
        for start in range(part.start, part.stop, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, part.stop)
            yield slice(start, stop), self._csr[0][start : stop + 1]

    def _eights(self, A: np.ndarray) -> np.ndarray:
        """Return A with columns of zeros that make their number a multiple of the lanes."""
        missing = -A.shape[1] % LANES
        return self._lanes(np.pad(A, ((0, 0), (0, missing))) if missing else A)

    def _places(self, n_blocks: int) -> np.ndarray:
        """Return the rows at which the features of all entries begin, if each has so many."""
        fits = self.n_features * n_blocks < 2**31
        return self._csr[1].astype(np.int32 if fits else np.int64) * n_blocks

    def _wide_times(self, W: np.ndarray, out: np.ndarray) -> np.ndarray:
        W = self._eights(W)
        weights, bias, places = W[:-1], self.scale * W[-1], self._places(W.shape[1] // LANES)

        def run(part: slice) -> None:
            for rows, starts in self._chunks(part):
                u = np.empty((rows.stop - rows.start, W.shape[1]), dtype=W.dtype)
                u[:] = bias
                wide_forward(starts, places, self._csr[2], weights, u)
                out[rows] = u[:, : out.shape[1]]

        self.each(run, self._work * W.shape[1] / LANES)
        return out

    def _wide_transposed(self, A: np.ndarray) -> np.ndarray:
        places = self._places(-(-A.shape[1] // LANES))

        def run(part: slice) -> np.ndarray:
            R = self._eights(np.zeros((self.width, A.shape[1]), dtype=self.dtype))
            for rows, starts in self._chunks(part):
                wide_backward(starts, places, self._csr[2], self._eights(A[rows]), R[:-1])
            return R[:, : A.shape[1]]

        total = _total(self.each(run, self._work * A.shape[1] / LANES))
        total[-1] = self.scale * sums(A)
        return total

    def through(self, V: np.ndarray, change: Change) -> np.ndarray:
        n_lanes, V = V.shape[1], self._eights(V)
        weights, bias, places = V[:-1], self.scale * V[-1], self._places(V.shape[1] // LANES)

        def run(part: slice) -> np.ndarray:
            R, of_bias = np.zeros(V.shape, dtype=V.dtype), np.zeros(V.shape[1])
            for rows, starts in self._chunks(part):
                u = np.empty((rows.stop - rows.start, V.shape[1]), dtype=V.dtype)
                u[:] = bias
                wide_forward(starts, places, self._csr[2], weights, u)
                change(u[:, :n_lanes], rows.start)
                of_bias += u.sum(axis=0, dtype=float)
                wide_backward(starts, places, self._csr[2], u, R[:-1])
            R[-1] = self.scale * of_bias
            return R

        return _total(self.each(run, 2 * self._work * V.shape[1] / LANES))[:, :n_lanes]

    def curved(self, D: np.ndarray, V: np.ndarray) -> np.ndarray:
        D, V = self._lanes(D), self._lanes(V)
        bias = (self.scale * V[-1]).astype(V.dtype)

        def run(part: slice) -> tuple[np.ndarray, np.ndarray]:
            R, R_bias = np.zeros((self.n_features, V.shape[1]), dtype=V.dtype), np.zeros(LANES)
            curved(*self._csr, V[:-1], bias, D, R, R_bias, part.start, part.stop)
            return R, R_bias

        found = self.each(run, 2 * self._work)
        return self._with_bias(sum(R for R, _ in found), sum(b for _, b in found))

    def take(self, rows: np.ndarray) -> SparseMatrix:
        return SparseMatrix(self.X[rows], self.workers, self.scale)

    def dense(self, rows: np.ndarray) -> np.ndarray:
        full = np.full((len(rows), self.width), self.scale, dtype=self.dtype)
        full[:, :-1] = self.X[rows].toarray()
        return full

    def sums_of_squares(self, weights: np.ndarray) -> np.ndarray:
        padded = self._eights(weights)

        def run(first: int) -> np.ndarray:
            R = np.zeros((self.n_features, LANES), dtype=self.dtype)
            add_squares(*self._csr, np.ascontiguousarray(padded[:, first : first + LANES]), R)
            return R

        found = self.workers.map(run, range(0, padded.shape[1], LANES), Budget())
        totals = self.scale * weights.sum(axis=0, dtype=float)
        return self._with_bias(np.hstack(found)[:, : weights.shape[1]], totals)

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        return *self._csr, False

    def squares(self) -> np.ndarray:
        total = np.zeros(self.n_rows)
        row_squares(self._csr[0], self._csr[2], total)
        return total


def as_matrix(X: Any, dtype: Any, workers: Workers, scale: float) -> Matrix:
    """Return X as a matrix of lanes; it is copied only if its type or order must change."""
    if sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # entries that are listed twice would be squared one by one
            X = X.copy()
            X.sum_duplicates()
        return SparseMatrix(X.astype(dtype, copy=False), workers, scale)
    return DenseMatrix(np.ascontiguousarray(X, dtype=dtype), workers, scale)
