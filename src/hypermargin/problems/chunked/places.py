"""Where chunks are: what is done with each of them, and how sums come together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

Sums = dict[str, Any]  # arrays, or whatever can be added, by name


def add(left: Sums, right: Sums) -> Sums:
    """Return the sums of two places together; one without rows may have none."""
    found = left | right
    return found | {name: left[name] + right[name] for name in left if name in right}


class Places(Protocol):
    """Chunks in many places: all that a problem wants of a scheduler.

    A function takes a chunk and the arguments, and is to be found by its name in a module.
    """

    def made(self, function: Callable, *args: Any, own: Sequence[Any] | None = None) -> Any:
        """Return places with what a function makes of each chunk."""

    def sum(self, function: Callable[..., Sums], *args: Any) -> Sums:
        """Apply a function to all chunks, and add what it returns."""

    def each(self, function: Callable, *args: Any, own: Sequence[Any] | None = None) -> list:
        """Apply a function to all chunks, each with an argument of its `own` if there are some."""


class Here:
    """Chunks in this process, one after the other."""

    def __init__(self, chunks: Sequence[Any]):
        self.chunks = chunks

    def made(self, function: Callable, *args: Any, own: Sequence[Any] | None = None) -> Here:
        """Return places with what a function makes of each chunk."""
        return Here(self.each(function, *args, own=own))

    def sum(self, function: Callable[..., Sums], *args: Any) -> Sums:
        """Apply a function to all chunks, and add what it returns."""
        return reduce(add, self.each(function, *args))

    def each(self, function: Callable, *args: Any, own: Sequence[Any] | None = None) -> list:
        """Apply a function to all chunks, each with an argument of its `own` if there are some."""
        if own is None:
            return [function(chunk, *args) for chunk in self.chunks]
        return [function(chunk, of, *args) for chunk, of in zip(self.chunks, own, strict=True)]


def in_blocks(n_rows: int, row_bytes: float, most: float) -> list[slice]:
    """Return slices of so few rows that they stay in the cache, but enough to be worth a call."""
    size = int(max(256, most // max(row_bytes, 1)))
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]
