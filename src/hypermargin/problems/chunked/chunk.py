"""A chunk of rows, and what the machines of all folds make of it: plain arrays, no scheduler.

Machines are lanes, side by side: those of the first column for all folds, then those of the second
and so on.  Rows pass in blocks that stay in the cache, in double precision whatever they are kept
in, and everything that is asked of a block is made while it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._core.budget import Workers
from ..._core.space import Params
from ...kernels.base import Kernel
from ...kernels.points import Points
from ...losses.base import Loss, Rows, unbounded_dual
from ...losses.lanes import LaneLoss
from ..base import Column
from ..linear.lanes import Matrix, as_matrix
from .places import in_blocks

BLOCK_BYTES = 2**21  # of rows that pass together, in double precision
NOT_TESTED = -1  # the fold of rows that no fold validates on


@dataclass(frozen=True)
class Chunk:
    """Some rows: X dense or CSR, targets (numbers of classes, or floats), folds, weights.

    `fold` is the number of the fold that validates on a row; `weight` is that of training,
    `counts` that of criteria and scores.
    """

    X: Any
    y: np.ndarray
    fold: np.ndarray
    weight: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return self.X.shape[0]

    def __sizeof__(self) -> int:
        # schedulers weigh by it whether to move rows or to wait for the worker that has them
        rows = self.X
        parts = [rows.data, rows.indices, rows.indptr] if sparse.issparse(rows) else [rows]
        return sum(a.nbytes for a in (*parts, self.y, self.fold, self.weight, self.counts))


@dataclass(frozen=True)
class Landmarks:
    """Rows that kernel machines are expansions on, in place of features: K(x, Z), and a bias.

    `widths` are those that corners of the loss are rounded over, by fold.
    """

    kernel: Kernel
    X: Any
    centre: Any
    widths: np.ndarray

    def points(self, params: Params) -> Points:
        """Return the landmarks as the kernel wants them."""
        return self.placed(self.X, params)

    def placed(self, X: Any, params: Params) -> Points:
        """Return rows as the kernel wants them."""
        X = X.astype(np.float64, copy=False)
        return self.kernel.at(Points(X, np.arange(X.shape[0]), self.centre), params)


@dataclass(frozen=True)
class Machines:
    """What is the same for all chunks: the loss, the folds, and how targets become columns.

    adapter : object with ``columns_of(numbers, n_classes)`` and ``contrasted(outputs)``
    n_classes : 0 for numbers
    factors : weight of every class in every fold, (folds, classes); None if all are one
    plain_others : whether, in a column of one class against the rest, these have plain weights
    intercept : the constant that stands for the bias among the features
    centre : what a free bias takes off the targets before machines are trained on them
    whole : whether there is one machine for each column, trained on all rows
    landmarks : of kernel machines
    """

    loss: Loss
    adapter: Any
    n_folds: int
    n_columns: int
    n_classes: int
    intercept: float
    centre: float = 0.0
    factors: np.ndarray | None = None
    plain_others: bool = False
    whole: bool = False
    landmarks: Landmarks | None = None

    def folds(self, chunk: Chunk, rows: slice) -> np.ndarray:
        """Return the numbers of the folds that validate on rows."""
        fold = chunk.fold[rows]
        return np.full_like(fold, NOT_TESTED) if self.whole else fold

    @property
    def n_lanes(self) -> int:
        return self.n_folds * self.n_columns

    def columns(self, y: np.ndarray) -> list[Column]:
        """Return the columns of some rows."""
        if self.n_classes:
            return self.adapter.columns_of(y, self.n_classes)
        return [Column(np.ones(len(y), dtype=bool), y - self.centre, {})]

    def weights(self, chunk: Chunk, rows: slice, column: Column) -> np.ndarray:
        """Return the weights of rows in the training of all folds, (rows, folds)."""
        fold, y = self.folds(chunk, rows), chunk.y[rows]
        weight = np.repeat(chunk.weight[rows, None], self.n_folds, axis=1)
        if self.factors is not None:
            factors = self.factors[:, y].T
            if self.plain_others and self.n_columns > 1:
                factors = np.where(column.target[:, None] > 0, factors, 1.0)
            weight *= factors
        tested = fold != NOT_TESTED
        weight[np.flatnonzero(tested), fold[tested]] = 0.0
        return weight


class Room:
    """Memory that one block after the other uses.

    Dask's workers give large arrays back to the system at once; to get them anew for every block
    takes as long as what is done with them.
    """

    def __init__(self) -> None:
        self.kept = dict[str, np.ndarray]()

    def array(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        """Return an array of this name, to be filled; the last one of this name is overwritten."""
        size = shape[0] * shape[1]
        if name not in self.kept or len(self.kept[name]) < size:
            self.kept[name] = np.empty(size)
        return self.kept[name][:size].reshape(shape)

    def doubled(self, X: Any) -> Any:
        """Return rows in double precision, if they are dense and are not kept so."""
        if sparse.issparse(X) or X.dtype == np.float64:
            return X
        found = self.array("rows", X.shape)
        found[:] = X
        return found


class Block:
    """Some rows of a chunk, with the losses of all machines at some hyperparameters."""

    def __init__(self, chunk: Chunk, rows: slice, machines: Machines, params: Params, room: Room):
        self.machines, self.rows, self.room = machines, rows, room
        X, self.params, self.points, landmarks = chunk.X[rows], params, None, machines.landmarks
        if landmarks is not None:
            self.points, self.cols = landmarks.placed(X, params), landmarks.points(params)
            X = landmarks.kernel.block(self.points, self.cols, params)
            if not np.isfinite(X.sum()):
                raise FloatingPointError(
                    f"the kernel matrix is not finite at {params}; scale the data or narrow the "
                    "space."
                )
        self.matrix = as_matrix(room.doubled(X), np.float64, Workers(1), machines.intercept)
        self.y, self.fold = chunk.y[rows], machines.folds(chunk, rows)
        self.counts = chunk.counts[rows]
        self.columns = machines.columns(self.y)
        self.losses, self.of_loss, n = list[LaneLoss](), list[Rows](), len(self.y)
        for column in self.columns:
            of_loss = Rows(column.target, np.ones(n), column.parts)
            dual = unbounded_dual(machines.loss, of_loss, params)
            weight = machines.weights(chunk, rows, column)
            loss = LaneLoss.of(dual, weight, np.dtype(np.float64))
            self.losses.append(loss if landmarks is None else loss.rounded(landmarks.widths))
            self.of_loss.append(of_loss)

    @property
    def n_rows(self) -> int:
        return len(self.y)

    def times(self, W: np.ndarray) -> np.ndarray:
        """Return X W for any number of lanes."""
        return times(self.matrix, W)

    def lanes(self, column: int) -> slice:
        """Return the lanes of a column."""
        n = self.machines.n_folds
        return slice(column * n, (column + 1) * n)

    def slopes(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return minus the slopes and the curvatures at outputs, and sums of losses by lane."""
        A, D, values = np.empty_like(Z), np.empty_like(Z), []
        for c, loss in enumerate(self.losses):
            lanes = self.lanes(c)
            a, d = np.empty((2, self.n_rows, self.machines.n_folds))
            values.append(loss.slopes(np.ascontiguousarray(Z[:, lanes]), a, d))
            A[:, lanes], D[:, lanes] = a, d
        return A, D, np.concatenate(values)

    def pullback(self, column: int, Z: np.ndarray, Q: np.ndarray) -> Params:
        """Pull cotangents Q on the coefficients of a column back to the hyperparameters."""
        lanes, loss = self.lanes(column), self.losses[column]
        cotangent = loss.cotangent(*(np.ascontiguousarray(part[:, lanes]) for part in (Z, Q)))
        if loss.width is not None:  # the ridge of rounded corners is one over the room for beta
            room = np.square(loss.dual.upper - loss.dual.lower)
            on_room = np.divide(cotangent.ridge, room, out=np.zeros_like(room), where=room > 0)
            cotangent = replace(
                cotangent, lower=cotangent.lower + on_room, upper=cotangent.upper - on_room
            )
        return self.machines.loss.pullback(self.of_loss[column], self.params, cotangent)

    def pull_kernel(self, left: np.ndarray, right: np.ndarray) -> Params:
        """Pull a cotangent  left right'  on K(x, Z) back to the kernel's hyperparameters."""
        landmarks, m = self.machines.landmarks, len(self.matrix.X.T)
        assert landmarks is not None and self.points is not None
        M = left @ right[:m].T
        return landmarks.kernel.pullback(self.points, self.cols, self.matrix.X, M, self.params)

    def left_out(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that some fold validates on, and their outputs there by column."""
        rows = np.flatnonzero(self.fold != NOT_TESTED)
        n = self.machines.n_folds
        found = [Z[rows, c * n + self.fold[rows]] for c in range(self.machines.n_columns)]
        return rows, np.column_stack(found) + self.machines.centre

    def put_back(self, rows: np.ndarray, delta: np.ndarray) -> np.ndarray:
        """Return what `left_out` has taken out, in its place among zeros."""
        E = np.zeros((self.n_rows, self.machines.n_lanes))
        for c in range(self.machines.n_columns):
            E[rows, c * self.machines.n_folds + self.fold[rows]] = delta[:, c]
        return E

    def read(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return what criteria read of outputs, and T if that is outputs @ T."""
        if not self.machines.n_classes:
            return outputs, None
        return self.machines.adapter.contrasted(outputs)

    def gram(self, weight: np.ndarray) -> np.ndarray:
        """Return X' diag(weight) X, the constant included."""
        rows = np.flatnonzero(weight)
        roots, X = np.sqrt(weight[rows]), self.matrix.X
        if sparse.issparse(X):
            B = self.matrix.dense(rows) * roots[:, None]
            return B.T @ B
        d, scale = X.shape[1], self.machines.intercept
        B = np.take(X, rows, axis=0, out=self.room.array("gram", (len(rows), d)), mode="clip")
        B *= roots[:, None]
        found = np.empty((d + 1, d + 1))
        found[:d, :d] = B.T @ B
        found[d, :d] = found[:d, d] = scale * (roots @ B)
        found[d, d] = scale**2 * (roots @ roots)
        return found


def blocks(chunk: Chunk, machines: Machines, params: Params) -> Iterator[Block]:
    """Yield all rows, some at a time."""
    X, n_lanes = chunk.X, machines.n_lanes
    entries = X.nnz / max(len(chunk), 1) if sparse.issparse(X) else X.shape[1]
    if machines.landmarks is not None:
        entries += 2.0 * machines.landmarks.X.shape[0]
    # sums of as many features as there are should not outweigh the rows that they are made of
    most = max(BLOCK_BYTES, 32.0 * X.shape[1] * n_lanes)
    room = Room()
    for rows in in_blocks(len(chunk), 8.0 * (entries + 4.0 * n_lanes), most):
        yield Block(chunk, rows, machines, params, room)


def times(matrix: Matrix, W: np.ndarray) -> np.ndarray:
    """Return X W for any number of lanes."""
    return matrix.times(W, np.empty((matrix.n_rows, W.shape[1])))


def parts_of(lanes: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Split lanes that went through X together."""
    return np.split(lanes, np.cumsum(sizes)[:-1], axis=1)
