"""Dask arrays and data frames as chunks: the one file that knows Dask.

Nothing is computed when they are read.  Chunks stay where Dask keeps them: on the workers of a
cluster, which hold them from the first pass on, or wherever they come from, if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..problems.chunked.places import Sums, add

FAN_IN = 8  # sums that are added by one task


def is_dask(data: Any) -> bool:
    """Whether data are a collection of Dask's, which need not be installed."""
    return type(data).__module__.split(".")[0] in ("dask", "dask_expr")


def is_frame(data: Any) -> bool:
    """Whether a collection has partitions of data frames or series in place of arrays."""
    return hasattr(data, "npartitions") and hasattr(data, "map_partitions")


def check_here(given: Mapping[str, Any]) -> None:
    """Say so if something is a collection of Dask's, which would be gathered here as a whole."""
    for name, data in given.items():
        if is_dask(data):
            raise ValueError(
                f"{name} is a Dask collection, whose rows stay where they are; give an array, as "
                f"{name}.compute() does if it fits into memory, or use GradientSearchCV."
            )


@dataclass(frozen=True)
class Parts:
    """A collection in parts along its rows: a task for each, and their numbers of rows if known."""

    name: str
    tasks: list[Any]
    sizes: tuple[int, ...] | None


def parts_of(name: str, data: Any, like: tuple[int, ...] | None = None) -> Parts:
    """Return the parts of a collection; those of an array are cut `like` others."""
    if is_frame(data):
        # an optimised graph of a file's few columns may have fewer partitions than another one's
        return Parts(name, list(data.to_delayed(optimize_graph=False)), None)
    if data.ndim == 2 and data.numblocks[1] > 1:  # within the rows of a chunk, which stay together
        data = data.rechunk({1: -1})
    sizes = tuple(data.chunks[0])
    if any(np.isnan(size) for size in sizes):
        return Parts(name, list(data.to_delayed().ravel()), None)
    if like is not None and sizes != like and sum(sizes) == sum(like):
        data, sizes = data.rechunk({0: like}), like
    return Parts(name, list(data.to_delayed().ravel()), tuple(map(int, sizes)))


def aligned(X: Any, others: dict[str, Any]) -> tuple[Parts, dict[str, Parts]]:
    """Return the parts of X and of what goes with it, row by row, or say why they do not fit."""
    first = parts_of("X", X)
    found = {name: parts_of(name, data, first.sizes) for name, data in others.items()}
    for part in found.values():
        if first.sizes is not None and part.sizes is not None:
            if sum(first.sizes) != sum(part.sizes):
                raise ValueError(
                    f"X has {sum(first.sizes)} rows and {part.name} has {sum(part.sizes)}; give "
                    "one for each row."
                )
        elif len(part.tasks) != len(first.tasks):
            raise ValueError(
                f"X has {len(first.tasks)} chunks and {part.name} has {len(part.tasks)}, whose "
                "numbers of rows are not known; call compute_chunk_sizes() on the arrays, or give "
                "both the same partitions."
            )
    return first, found


class DaskPlaces:
    """Chunks as tasks of Dask, computed by whatever scheduler is in charge."""

    def __init__(self, chunks: Sequence[Any]):
        self.chunks = list(chunks)

    @classmethod
    def of(cls, parts: Parts, others: dict[str, Parts], keep: bool = True) -> DaskPlaces:
        """Return places of which each has a dict of the same rows of all collections."""
        from dask import delayed

        gathered = delayed(_gathered, pure=False)
        names = ["X", *others]
        tasks = zip(parts.tasks, *(other.tasks for other in others.values()), strict=True)
        found = cls([gathered(names, *task) for task in tasks])
        return found.kept() if keep else found

    def kept(self) -> DaskPlaces:
        """Return the same places; a cluster keeps chunks in the memory of its workers from here on.

        It makes them again if one of these is lost.  Other schedulers have no memory but ours: they
        make chunks every time.
        """
        import dask

        client = getattr(dask.base.get_scheduler() or dask.threaded.get, "__self__", None)
        if hasattr(client, "persist"):
            return type(self)(dask.persist(*self.chunks, optimize_graph=False))
        return self

    def made(self, function: Callable, *args: Any, own: Sequence[Any] | None = None) -> DaskPlaces:
        """Return places with what a function makes of each chunk."""
        return type(self)(self._tasks(function, args, own)).kept()

    def _tasks(self, function: Callable, args: Sequence[Any], own: Sequence[Any] | None) -> list:
        from dask import delayed

        # one node of the graph for all tasks: workers pass it on to each other
        shared = delayed(tuple(args), pure=False, traverse=any(map(is_dask, args)))
        task = delayed(_call, pure=False)
        if own is None:
            return [task(function, chunk, shared) for chunk in self.chunks]
        return [
            task(function, chunk, shared, (of,)) for chunk, of in zip(self.chunks, own, strict=True)
        ]

    def later(self, function: Callable[..., Sums], *args: Any) -> Any:
        """Return the task that applies a function to all chunks, and adds up as a tree."""
        from dask import delayed

        level, together = self._tasks(function, args, None), delayed(_add_all, pure=False)
        while len(level) > 1:
            level = [together(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
        return level[0]

    def sum(self, function: Callable[..., Sums], *args: Any) -> Sums:
        """Apply a function to all chunks, and add what it returns."""
        import dask

        return dask.compute(self.later(function, *args), optimize_graph=False)[0]

    def each(self, function: Callable, *args: Any, own: Sequence[Any] | None = None) -> list:
        """Apply a function to all chunks, each with an argument of its `own` if there are some."""
        import dask

        return list(dask.compute(*self._tasks(function, args, own), optimize_graph=False))


def of_blocks(X: Any, function: Callable, args: tuple, example: np.ndarray) -> Any:
    """Return a collection of what a function makes of the blocks of X, whole rows each.

    `example` is what it makes of a row.
    """
    if is_frame(X):
        made = type(X._meta) if example.ndim > 1 else type(X._meta.iloc[:, 0])
        return X.map_partitions(_as_frame, function, args, made, meta=made(example[:0]))
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    how: dict[str, Any] = {"drop_axis": 1}
    if example.ndim > 1:
        how = {"chunks": (X.chunks[0], (example.shape[1],))}
    return X.map_blocks(_as_array, function, args, dtype=example.dtype, meta=example[:0], **how)


def _as_array(rows: Any, function: Callable, args: tuple) -> Any:
    return function(rows, *args)


def _as_frame(rows: Any, function: Callable, args: tuple, made: type) -> Any:
    return made(function(rows, *args), index=rows.index)


def lazily(function: Callable, task: Any, *args: Any) -> Any:
    """Return the number that a function makes of a task, as an array without dimensions."""
    from dask import array, delayed

    found = delayed(function, pure=False)(task, *args)
    return array.from_delayed(found, (), dtype=float)


def _gathered(names: Sequence[str], *parts: Any) -> dict[str, Any]:
    return dict(zip(names, parts, strict=True))


def _call(function: Callable, chunk: Any, args: tuple, own: tuple = ()) -> Any:
    return function(chunk, *own, *args)


def _add_all(found: list[Sums]) -> Sums:
    total = found[0]
    for one in found[1:]:
        total = add(total, one)
    return total
