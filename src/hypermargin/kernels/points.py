"""Rows of the data, with what every kernel needs of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.budget import cached
from .._core.compiled import compiled, row_codes, sparse_row_codes

RANGE = 1e-30, 1e30  # of squared norms, that leaves room for widths and sums
NEAR_ROWS = 0.01  # distances, relative to the norms, that are computed from differences of rows
NOTHING = 1e-12  # those of sparse rows that may be those of equal ones
DENSE = 2**28  # bytes that a dense copy of sparse rows may take
WIDE = 10  # features for each row, from which on rows are turned into fewer dimensions


@dataclass(frozen=True)
class Points:
    """Rows of the data, with what every kernel needs of them.

    `index` holds the rows' numbers in the design they were taken from; only the precomputed kernel
    reads it, because there a row of X holds similarities to the rows of that design.  `centre` is
    subtracted where only differences matter, so that squares stay small.
    """

    X: Any
    index: np.ndarray
    centre: Any = 0.0

    @classmethod
    def of(cls, X: Any, index: np.ndarray | None = None) -> Points:
        """Return the rows of X as points, around their mean; sparse ones only if that is lighter.

        Few zeros make sparse rows larger than dense ones, and these have more digits left where
        all values are far from zero.
        """
        index = np.arange(X.shape[0]) if index is None else index
        if sparse.issparse(X) and X.data.nbytes + X.indices.nbytes >= 8.0 * np.prod(X.shape):
            X = X.toarray()
        return cls(X, index, 0.0 if sparse.issparse(X) else X.mean(axis=0))

    def __len__(self) -> int:
        return len(self.index)

    def __getstate__(self) -> dict[str, Any]:
        # what follows from them is computed again elsewhere
        return {"X": self.X, "index": self.index, "centre": self.centre}

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.X.dtype)

    def take(self, rows: Any) -> Points:
        taken = Points(self.X[rows], self.index[rows], self.centre)
        if "lifted" in vars(self):
            vars(taken)["lifted"] = self.lifted[rows]
        return taken

    def of_columns(self, numbers: np.ndarray) -> Points:
        """Return the points with some of the features."""
        centre = self.centre[numbers] if np.ndim(self.centre) else self.centre
        return Points(self.X[:, numbers], self.index, centre)

    def stretched(self, factors: np.ndarray) -> Points:
        """Return the points with every feature multiplied by its factor."""
        if sparse.issparse(self.X):
            return Points(sparse.csr_matrix(self.X.multiply(factors)), self.index)
        return Points(self.X * factors, self.index, self.centre * factors)

    @cached
    def single(self) -> Points:
        """The same points in single precision; what is centred is so before it is rounded."""
        if sparse.issparse(self.X):
            return Points(self.X.astype(np.float32), self.index)
        X, centre = np.asarray(self.X), np.asarray(self.centre)
        single = Points(X.astype(np.float32), self.index, centre.astype(np.float32))
        vars(single)["lifted"] = self.lifted.astype(np.float32)
        return single

    @cached
    def centred(self) -> Points:
        """The same points around zero, where differences have more digits; sparse ones stay."""
        if sparse.issparse(self.X):
            return self
        return Points(self.X - self.centre, self.index)

    @cached
    def narrow(self) -> Points:
        """The points themselves, or, of far more features than rows, turned into few dimensions.

        Rows lie in a space of as many dimensions as they are; distances and products are the same
        there, and take no more time than the rows are many.
        """
        n, d = self.X.shape
        if sparse.issparse(self.X) or not np.ndim(self.centre) or d <= WIDE * (n + 1):
            return self
        spanned = np.vstack([self.X - self.centre, self.centre])
        turned = np.asarray(np.linalg.qr(spanned.T, mode="r")).T
        first, centre = first_equal(self.X), turned[-1]  # equal rows stay equal to the bit
        return Points(turned[:-1][first] + centre, self.index, centre)

    @cached
    def columns(self) -> np.ndarray:
        """A row for each feature."""
        return np.ascontiguousarray(self.X.T)

    @cached
    def twins(self) -> np.ndarray | None:
        """The place of the first point that is equal to each; None if all are different."""
        first = first_equal(self.X)
        return None if (first == np.arange(len(self))).all() else first

    def tied(self, outputs: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Give equal points equal outputs, to the bit; `at` are the places of their points here.

        Rounding depends on where a row lies in memory, and that may depend on its label: scores of
        order or sign would tell equal rows of different labels apart.
        """
        if self.twins is None:
            return outputs
        _, first, number = np.unique(self.twins[at], return_index=True, return_inverse=True)
        return outputs[first[number]]

    @cached
    def square_norms(self) -> np.ndarray:
        if sparse.issparse(self.X):
            return np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", self.X, self.X)

    @cached
    def spread(self) -> tuple[float, float]:
        """The mean and the largest of the squared norms that distances are computed from."""
        norms = self.square_norms if sparse.issparse(self.X) else self.lifted[:, -2]
        return float(norms.mean()), float(norms.max())

    @property
    def fits_single(self) -> bool:
        """Whether single precision has numbers as large, and as small, as squares of the values."""
        mean, largest = self.spread
        return largest == 0.0 or (mean > RANGE[0] and largest < RANGE[1])

    @cached
    def merged(self) -> bool:
        """Whether values of a feature differ that single precision rounds to the same."""
        values = np.sort(self.X, axis=0)
        rounded = values.astype(np.float32)
        return bool(((values[1:] != values[:-1]) & (rounded[1:] == rounded[:-1])).any())

    @cached
    def lifted(self) -> np.ndarray:
        """Rows (x, |x|^2, 1), centred; products with (-2 z, 1, |z|^2) are squared distances."""
        X = self.X - self.centre
        return np.column_stack([X, np.einsum("ij,ij->i", X, X), np.ones(len(X), X.dtype)])

    @cached
    def upright(self) -> np.ndarray | None:
        """Columns (z, 1, |z|^2) of sparse rows, dense; None if they are too large for that.

        Products of sparse rows with a dense matrix take a tenth of the time of those with a sparse
        one, whose result is dense anyway.
        """
        n, d = self.X.shape
        if d > n or n * (d + 2) * self.dtype.itemsize > DENSE:
            return None
        upright = np.empty((d + 2, n), self.dtype)  # in order, or every product would copy it
        upright[:-2] = self.X.toarray().T
        upright[-2], upright[-1] = 1.0, self.square_norms
        return upright

    @cached
    def lying(self) -> Any:
        """Sparse rows (-2 x, |x|^2, 1): products with the upright ones are squared distances."""
        ends = np.column_stack([self.square_norms, np.ones(len(self), self.dtype)])
        return sparse.hstack([-2.0 * self.X, sparse.csr_matrix(ends)], format="csr")

    def inner(self, other: Points, out: np.ndarray | None = None) -> np.ndarray:
        if not sparse.issparse(self.X):
            return np.matmul(self.X, other.X.T, out=out)
        if other.upright is None:
            product = (self.X @ other.X.T).toarray()
        else:
            product = self.X @ other.upright[:-2]
        return product if out is None else copied(product, out)

    def centred_inner(self, other: Points, out: np.ndarray | None = None) -> np.ndarray:
        """Return (x - c)'(z - c); nothing is subtracted from sparse rows."""
        if sparse.issparse(self.X):
            return self.inner(other, out)
        rows = self if self.centre is other.centre else replace(self, centre=other.centre)
        return np.matmul(rows.lifted[:, :-2], other.lifted[:, :-2].T, out=out)

    def square_distances(
        self, other: Points, out: np.ndarray | None = None, factor: float = 1.0
    ) -> np.ndarray:
        """Return factor |x - z|^2; rounding may pass zero."""
        if sparse.issparse(self.X) and other.upright is not None:
            product = (factor * self.lying).astype(self.dtype, copy=False) @ other.upright
            return product if out is None else copied(product, out)
        if sparse.issparse(self.X):
            product = self.inner(other, out)
            product *= -2.0
            product += self.square_norms[:, None]
            product += other.square_norms[None, :]
            product *= factor
        else:
            rows = self if self.centre is other.centre else replace(self, centre=other.centre)
            mirrored = rows.lifted * self.lifted.dtype.type(-2.0 * factor)
            mirrored[:, -2], mirrored[:, -1] = factor, rows.lifted[:, -2] * factor
            product = np.matmul(mirrored, other.lifted.T, out=out)
        return product

    def sharp_distances(
        self, other: Points, out: np.ndarray | None = None, factor: float = 1.0
    ) -> np.ndarray:
        """Return factor |x - z|^2; those of near rows have all digits, those of equal ones are 0.

        Differences of squared norms do not know small distances, and kernels that are steep at
        zero ask for them.
        """
        d = self.square_distances(other, out, factor)
        if sparse.issparse(self.X):
            d[d <= NOTHING * factor * (self.spread[0] + other.spread[0])] = 0.0
            return d
        rows = self if self.centre is other.centre else replace(self, centre=other.centre)
        norms = np.ascontiguousarray(other.lifted[:, -2])
        _sharpen(d, rows.lifted, other.lifted, norms, d.dtype.type(factor), d.dtype.type(NEAR_ROWS))
        return d


@compiled(fastmath={"contract", "nsz", "reassoc"}, inner=True)
def _square_distance(x, z):
    total = x[0] * 0
    for j in range(x.shape[0] - 2):
        total += (x[j] - z[j]) ** 2
    return total


@compiled
def _sharpen(d, X, Z, norms, factor, near):
    """Replace distances that are small against the norms that they are differences of."""
    for i in range(d.shape[0]):
        own, row = X[i, -2], d[i]
        for start in range(0, d.shape[1], 64):
            stop = min(d.shape[1], start + 64)
            found = 0
            for k in range(start, stop):  # without a branch, as most are not
                found += row[k] < near * factor * (own + norms[k])
            if found > 0:
                for k in range(start, stop):
                    if row[k] < near * factor * (own + norms[k]):
                        row[k] = factor * _square_distance(X[i], Z[k])


def first_equal(X: Any) -> np.ndarray:
    """Return, for every row, the number of the first row that is equal to it."""
    if sparse.issparse(X):
        codes = sparse_row_codes(_bits(X.data), X.indices, X.indptr)
    else:
        codes = row_codes(_bits(X))
    _, first, number = np.unique(codes, return_index=True, return_inverse=True)
    first = first[number]
    repeated = np.flatnonzero(first != np.arange(len(first)))
    differs = np.asarray((X[repeated] != X[first[repeated]]).sum(axis=1)).ravel() > 0
    first[repeated[differs]] = repeated[differs]
    return first


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=float).view(np.uint64)


def copied(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    out[:] = source
    return out
