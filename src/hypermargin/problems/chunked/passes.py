"""Passes over a chunk: functions of a chunk and small arrays that return sums over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.budget import one_blas_thread
from ..._core.space import Params
from ...criteria.sums import Moments, Reduction
from .chunk import Block, Chunk, Machines, blocks, parts_of
from .places import Sums, add


def look(
    chunk: Chunk,
    machines: Machines,
    params: Params,
    W: np.ndarray,
    curvature: str | None,
    lanes: np.ndarray | None = None,
) -> Sums:
    """Return losses and gradients without the penalty at weights W, and moments of outputs.

    `curvature` may be "shared", X' D X of the rows that each fold leaves out, D being the mean of
    the folds that do not; "own", X' D X of every lane, or of some `lanes`; or "diagonal", the
    diagonals of these.
    """
    n, width, folds = machines.n_lanes, len(W), machines.n_folds
    found: Sums = {"value": np.zeros(n), "gradient": np.zeros((width, n))}
    if curvature in ("shared", "own"):
        found[curvature] = np.zeros((machines.n_columns, folds + 1, width, width))
    if curvature == "diagonal":
        found["diagonal"] = np.zeros((width, n))
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            Z = block.times(W)
            A, D, value = block.slopes(Z)
            found["value"] += value
            found["gradient"] -= block.matrix.transposed(A)
            if curvature == "shared":
                _add_shared(found["shared"], block, D)
            if curvature == "own":
                _add_own(found["own"], block, D, lanes)
            if curvature == "diagonal":
                found["diagonal"] += block.matrix.sums_of_squares(D)
            found = add(found, {"moments": _moments(block, Z)})
    return found


def _moments(block: Block, Z: np.ndarray) -> Moments:
    rows, outputs = block.left_out(Z)
    return Moments.of(block.read(outputs)[0], block.y[rows], block.counts[rows])


def _add_shared(grams: np.ndarray, block: Block, D: np.ndarray) -> None:
    """Add X' D X of the rows by the fold that leaves them out, the last being none."""
    folds = block.machines.n_folds
    others = folds - (block.fold >= 0)
    for c, of_column in enumerate(grams):
        mean = D[:, block.lanes(c)].sum(axis=1) / np.maximum(others, 1)
        for f in np.unique(block.fold):
            of_column[f] += block.gram(np.where(block.fold == f, mean, 0.0))


def _add_own(grams: np.ndarray, block: Block, D: np.ndarray, lanes: np.ndarray | None) -> None:
    """Add X' D X of every lane, or of some."""
    for lane in range(D.shape[1]) if lanes is None else np.flatnonzero(lanes):
        grams[divmod(lane, block.machines.n_folds)] += block.gram(D[:, lane])


def bend(chunk: Chunk, machines: Machines, params: Params, W: np.ndarray, V: np.ndarray) -> Sums:
    """Return X' D X V, D being the curvatures at weights W."""
    found = np.zeros_like(V)
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            Z, U = parts_of(block.times(np.hstack([W, V])), [W.shape[1], V.shape[1]])
            found += block.matrix.transposed(block.slopes(Z)[1] * U)
    return {"product": found}


def along(
    chunk: Chunk, machines: Machines, params: Params, W: np.ndarray, S: np.ndarray, sizes: Any
) -> Sums:
    """Return the losses at W plus every one of some sizes times S."""
    found = np.zeros((len(sizes), machines.n_lanes))
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            Z, U = parts_of(block.times(np.hstack([W, S])), [W.shape[1]] * 2)
            for value, size in zip(found, sizes, strict=True):
                value += block.slopes(Z + size * U)[2]
    return {"value": found}


def measure(
    chunk: Chunk,
    machines: Machines,
    params: Params,
    W: np.ndarray,
    reduction: Reduction | None,
    tally: Any,
    moments: Moments,
) -> Sums:
    """Return the sums of a criterion, and those that scores of folds are made of."""
    found: Sums = {}
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            rows, outputs = block.left_out(block.times(W))
            y, counts = block.y[rows], block.counts[rows]
            new: Sums = {}
            if reduction is not None:
                new["sums"] = reduction.sums(block.read(outputs)[0], y, counts, moments)
            if tally is not None:
                new |= tally(outputs, y, counts, block.fold[rows], moments)
            found = add(found, new)
    return found


def right_hand(
    chunk: Chunk,
    machines: Machines,
    params: Params,
    W: np.ndarray,
    reduction: Reduction,
    moments: Moments,
    numbers: np.ndarray,
) -> Sums:
    """Return X' of every direction of the criterion's gradient, side by side, and their sums."""
    n = reduction.n_directions
    found: Sums = {"sides": np.zeros((len(W), n * machines.n_lanes)), "dots": np.zeros(1)}
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            directions, sums = _directions(block, W, reduction, moments, numbers)
            found["sides"] += block.matrix.transposed(np.hstack(directions))
            found["dots"] += sums
    return found


def _directions(
    block: Block, W: np.ndarray, reduction: Reduction, moments: Moments, numbers: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the directions of the gradient by the outputs of all lanes."""
    rows, outputs = block.left_out(block.times(W))
    read, T = block.read(outputs)
    found, sums = reduction.directions(read, block.y[rows], block.counts[rows], moments, numbers)
    return [block.put_back(rows, d if T is None else d @ T.T) for d in found], sums


def pull(chunk: Chunk, machines: Machines, params: Params, W: np.ndarray, P: np.ndarray) -> Sums:
    """Return the derivatives by the hyperparameters of the loss, P being the adjoint."""
    found: Sums = {}
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            Z, Q = parts_of(block.times(np.hstack([W, P])), [W.shape[1]] * 2)
            for c in range(machines.n_columns):
                found = add(found, block.pullback(c, Z, Q))
    return found


def pull_features(
    chunk: Chunk,
    machines: Machines,
    params: Params,
    W: np.ndarray,
    P: np.ndarray,
    reduction: Reduction,
    moments: Moments,
    numbers: np.ndarray,
    shares: np.ndarray,
) -> Sums:
    """Return the derivatives by the hyperparameters of the kernel; see `landmarks`."""
    found: Sums = {}
    with one_blas_thread():
        for block in blocks(chunk, machines, params):
            Z, Q = parts_of(block.times(np.hstack([W, P])), [W.shape[1]] * 2)
            A, D, _ = block.slopes(Z)
            directions, _ = _directions(block, W, reduction, moments, numbers)
            E = sum(share * one for share, one in zip(shares, directions, strict=True))
            left, right = np.hstack([E - D * Q, A]), np.hstack([W, P])
            found = add(found, block.pull_kernel(left, right))
    return found
