"""Kernels: a block of the kernel matrix, and the pullback of a cotangent on that block.

A kernel is a small class with two formulas.  `block` gives K(rows, cols); `pullback` gives, for a
matrix M of the block's shape, the sums  sum_ij M_ij dK_ij / dtheta  for each hyperparameter theta,
which is all that eq. (13) of keerthi-2006 asks of a kernel.  To add one, write the class and list
it in `KERNELS`; the contract tests of kernels pick it up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ._budget import cached
from ._compiled import exp_below_zero, row_codes, sparse_row_codes, sum_of_logs
from ._space import Dimension

Params = dict[str, float]


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
        index = np.arange(X.shape[0]) if index is None else index
        return cls(X, index, 0.0 if sparse.issparse(X) else X.mean(axis=0))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Any) -> Points:
        taken = Points(self.X[rows], self.index[rows], self.centre)
        if "lifted" in vars(self):
            vars(taken)["lifted"] = self.lifted[rows]
        return taken

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

    @cached
    def lifted(self) -> np.ndarray:
        """Rows (x, |x|^2, 1), centred; products with (-2 z, 1, |z|^2) are squared distances."""
        X = self.X - self.centre
        return np.column_stack([X, np.einsum("ij,ij->i", X, X), np.ones(len(X), X.dtype)])

    def inner(self, other: Points, out: np.ndarray | None = None) -> np.ndarray:
        if sparse.issparse(self.X):
            product = (self.X @ other.X.T).toarray()
            return product if out is None else _copied(product, out)
        return np.matmul(self.X, other.X.T, out=out)

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


def _copied(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    out[:] = source
    return out


class Kernel:
    """K(x, z) and its derivatives with respect to `hyperparameters`."""

    hyperparameters: ClassVar[tuple[str, ...]] = ()

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return K(rows, cols), written to `out` if that is given."""
        raise NotImplementedError

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        raise NotImplementedError

    def single_error(self, points: Points, params: Params) -> float:
        """Return the rounding error of K in single precision, relative to what tells rows apart.

        Of rows far from the origin, kernel values are large numbers that hardly differ.
        """
        few = points.take(np.linspace(0, len(points) - 1, min(len(points), 50)).astype(int))
        diagonal = np.abs(self.diagonal(few, params))
        varying = float(diagonal.mean() - self.block(few, few, params).mean())
        eps = float(np.finfo(np.float32).eps)
        return eps * float(diagonal.max()) / varying if varying > 0.0 else np.inf

    def with_bias(self) -> Kernel:
        """Return a kernel whose machines are the same up to their bias, and that rounds less."""
        return self

    def bias_back(self, points: Points, beta: np.ndarray) -> float:
        """Return what a bias lacks that was found with the kernel `with_bias`.

        `points` are those that have the coefficients, which have to add up to zero.
        """
        return 0.0

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        """Return sum_ij M_ij dK_ij/dtheta for each hyperparameter; `block` is K(rows, cols)."""
        return {}

    def dimension(self, name: str, points: Points) -> Dimension:
        """Return a sensible range of a hyperparameter for these data."""
        raise NotImplementedError


class Linear(Kernel):
    """K = x'z."""

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        return rows.inner(cols, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return points.square_norms

    def with_bias(self) -> Kernel:
        return CentredLinear()


class CentredLinear(Linear):
    """K = (x - c)'(z - c): where coefficients add up to zero, x'z and a change of the bias."""

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        return rows.centred_inner(cols, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return points.square_norms if sparse.issparse(points.X) else points.lifted[:, -2]

    def with_bias(self) -> Kernel:
        return self

    def bias_back(self, points: Points, beta: np.ndarray) -> float:
        if sparse.issparse(points.X) or not np.ndim(points.centre):
            return 0.0
        return -float(points.centre @ (points.lifted[:, :-2].T @ beta))


class RBF(Kernel):
    """K = exp(-gamma |x - z|^2), eq. (2) of keerthi-2006."""

    hyperparameters = ("gamma",)

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        exponent = rows.square_distances(cols, out, -params["gamma"])
        if exponent.dtype == np.float32 and exponent.flags.c_contiguous:
            exp_below_zero(exponent)
            return exponent
        np.minimum(exponent, 0.0, out=exponent)  # rounding may pass zero
        return np.exp(exponent, out=exponent)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.ones(len(points))

    def single_error(self, points: Points, params: Params) -> float:
        # distances are differences of norms; far-out rows count little, as they are few
        mean, largest = points.spread
        return float(np.finfo(np.float32).eps) * params["gamma"] * (mean + 0.01 * largest)

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        if block.dtype == np.float32:  # gamma |x - z|^2 = -log K, without another product
            return {"gamma": sum_of_logs(M, block) / params["gamma"]}
        distances = rows.square_distances(cols)
        distances *= block
        return {"gamma": -total(M, distances)}

    def dimension(self, name: str, points: Points) -> Dimension:
        # The width follows the distances between the data; the best one shrinks as points become
        # dense, hence the drift (measured: 0.4 to 0.9 on ijcnn1, magic04 and covtype).
        centre = 1.0 / typical_square_distance(points)
        usual = (centre / 10, centre * 30)
        return Dimension(1e-3 * centre, 1e2 * centre, "log", drift=0.4, usual=usual)


class _Affine(Kernel):
    """Kernels of the form g(gamma x'z + coef0)."""

    hyperparameters = ("gamma", "coef0")
    coef0_range: ClassVar[tuple[float, float]]

    def link(self, t: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        raise NotImplementedError

    def slope(self, t: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        t = rows.inner(cols, out)
        t *= params["gamma"]
        t += params["coef0"]
        return self.link(t, out=t)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return self.link(params["gamma"] * points.square_norms + params["coef0"])

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        inner = rows.inner(cols)
        weighted = M * self.slope(params["gamma"] * inner + params["coef0"])
        return {"gamma": total(weighted, inner), "coef0": float(weighted.sum(dtype=float))}

    def dimension(self, name: str, points: Points) -> Dimension:
        if name == "coef0":
            return Dimension(*self.coef0_range, "linear")
        mean = float(points.square_norms.mean())
        centre = 1.0 / mean if mean > 1e-150 else 1.0  # rows of zeros have no unit
        return Dimension(1e-2 * centre, 1e2 * centre, "log")


@dataclass(frozen=True)
class Polynomial(_Affine):
    """K = (gamma x'z + coef0)^degree."""

    degree: float = 3
    coef0_range: ClassVar[tuple[float, float]] = (0.0, 10.0)

    def link(self, t: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.power(t, self.degree, out=out)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return self.degree * t ** (self.degree - 1) if self.degree else np.zeros_like(t)


class Sigmoid(_Affine):
    """K = tanh(gamma x'z + coef0); not positive definite in general."""

    coef0_range = (-2.0, 2.0)

    def link(self, t: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.tanh(t, out=out)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return 1.0 - np.tanh(t) ** 2


class Precomputed(Kernel):
    """X is the kernel matrix itself."""

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        block = rows.X[:, cols.index]
        return block if out is None else _copied(block, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.asarray(points.X[np.arange(len(points)), points.index]).ravel().astype(float)


KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "rbf": RBF,
    "poly": Polynomial,
    "sigmoid": Sigmoid,
    "precomputed": Precomputed,
}


def total(A: np.ndarray, B: np.ndarray) -> float:
    """Return sum_ij A_ij B_ij; rows in their own precision, their sum in double."""
    return float(np.einsum("ij,ij->i", A, B).sum(dtype=float))


def make_kernel(name: Any, degree: float) -> Kernel:
    """Return the kernel of that scikit-learn name, or say which names there are."""
    if not isinstance(name, str) or name not in KERNELS:
        raise ValueError(f"kernel={name!r} cannot be differentiated; use one of {sorted(KERNELS)}.")
    return Polynomial(degree) if name == "poly" else KERNELS[name]()


def typical_square_distance(points: Points, most: int = 400) -> float:
    """Return the median squared distance between at most `most` of the points."""
    few = points.take(np.linspace(0, len(points) - 1, min(len(points), most)).astype(int))
    distances = few.square_distances(few)[np.triu_indices(len(few), 1)]
    positive = distances[distances > 1e-12 * max(float(few.square_norms.mean()), 1e-300)]
    return float(np.median(positive)) if positive.size else 1.0
