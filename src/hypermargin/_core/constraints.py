"""Reading a user's constraints: SciPy's LinearConstraint, by names of hyperparameters.

A dict maps a name, or a tuple of names, to a `LinearConstraint` (or a list of them) whose columns
they are; without names the columns are all hyperparameters, in the order of the space.  Values are
in the user's own units, whatever the scale of the search; ``"log C"`` is the logarithm of C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint

from .region import Region
from .space import Shares, Space

LOG = "log "
Part = tuple[tuple[str, ...] | None, LinearConstraint]  # names, None for all


def read_constraints(given: Any) -> list[Part]:
    """Return every constraint and the names of its columns, or say what is wrong with it."""
    parts = list(_parts(given))
    for names, one in parts:
        A, low, high = _sides(one)
        if not np.isfinite(A).all() or np.isnan(low).any() or np.isnan(high).any():
            raise ValueError(f"constraints has {_spelled(names, one)}, which is not finite.")
        if (low > high).any():
            raise ValueError(f"constraints has {_spelled(names, one)}, whose lb is above its ub.")
    return parts


def _parts(given: Any) -> Iterator[Part]:
    if given is None:
        return
    named = given if isinstance(given, Mapping) else {None: given}
    for key, value in named.items():
        names = (key,) if isinstance(key, str) else key
        right = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
        if names is not None and not right:
            raise TypeError(f"constraints has the key {key!r}; give a name, or a tuple of names.")
        for one in value if isinstance(value, Sequence) else (value,):
            if not isinstance(one, LinearConstraint):
                raise TypeError(
                    f"constraints has {one!r}; it must be a scipy.optimize.LinearConstraint, a "
                    "list of them, or a dict of them by names of hyperparameters."
                )
            yield names, one


def _sides(one: LinearConstraint) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    A = one.A.toarray() if hasattr(one.A, "toarray") else np.asarray(one.A, dtype=float)
    low, high = (np.broadcast_to(side, len(A)).astype(float) for side in (one.lb, one.ub))
    return A, low, high


def _spelled(names: tuple[str, ...] | None, one: LinearConstraint) -> str:
    A, low, high = _sides(one)
    of = "" if names is None else f"{names!r}: "
    return f"{of}LinearConstraint({A.tolist()}, {low.tolist()}, {high.tolist()})"


def check_names(
    parts: Sequence[Part], tuned: Sequence[str], listed: Mapping[str, Any] | None = None
) -> None:
    """Say so if a constraint names what is not tuned; entries of arrays have theirs in brackets.

    `listed` are the values of the combination whose ranges are tuned.
    """
    listed = listed or {}
    if parts and not tuned:
        raise ValueError(
            "constraints are for ranges, and space has listed values only; leave out the values "
            "that do not meet them."
        )
    for names, _ in parts:
        for name in names or ():
            bare = name.removeprefix(LOG).partition("[")[0]
            if bare not in tuned:
                beside = ", ".join(f"{key}={value!r}" for key, value in listed.items())
                lacks = f"no range in space{f' with {beside}' * bool(listed)}"
                raise ValueError(
                    f"constraints names {name!r}, which has "
                    f"{'listed values in space' if bare in listed else lacks}; names are "
                    f"{list(tuned)}, and {LOG + tuned[0]!r} is a logarithm."
                )


def constrained(space: Space, given: Any) -> Space:
    """Return the space with constraints, or say why there can be none or no point meets them."""
    parts = read_constraints(given)
    if not parts or not len(space):
        return space
    if space.tied is not None or any(isinstance(h, Shares) for h in space.hyperparameters):
        raise ValueError(
            "constraints are not for searches in which each feature has its own width, or with "
            "weights of kernels; leave constraints out."
        )
    columns = _columns(space)
    rows = [_rows(names, one, columns, len(space)) for names, one in parts]
    plain, logs, low, high = _scaled(*(np.concatenate(each) for each in zip(*rows, strict=True)))
    if not len(plain):
        return space
    d = space.dimensions
    for k in np.flatnonzero(logs.any(axis=0)):
        if d[k].low <= 0.0:
            raise ValueError(
                f"constraints has the logarithm of a hyperparameter with the range ({d[k].low:g}, "
                f"{d[k].high:g}); give a positive range."
            )
    is_log, unit = np.array([one.scale == "log" for one in d]), np.array([one.unit for one in d])
    region = Region(plain, logs, low, high, is_log, unit, space.bounds)
    if region.anchor is None:
        ranges = {name: (d[at[0]].low, d[at[0]].high) for name, at in columns.items()}
        told = ", ".join(f"{n} in ({low:.4g}, {high:.4g})" for n, (low, high) in ranges.items())
        raise ValueError(f"constraints cannot be met: no point of the space does, with {told}.")
    return replace(space, region=region)


def _scaled(
    plain: np.ndarray, logs: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return rows whose largest coefficient is one; without those that bound nothing."""
    some = (low > -np.inf) | (high < np.inf)
    size = np.abs(np.hstack([plain, logs])).max(axis=1)[some]
    size = np.where(size > 0.0, size, 1.0)
    return (
        plain[some] / size[:, None],
        logs[some] / size[:, None],
        low[some] / size,
        high[some] / size,
    )


def _columns(space: Space) -> dict[str, np.ndarray]:
    """Return which coordinates a name stands for: a hyperparameter, or an entry of one."""
    found, start = dict[str, np.ndarray](), 0
    for h in space.hyperparameters:
        found[h.name] = np.arange(start, start + len(h.ranges))
        for k, name in enumerate(h.spelled):
            found.setdefault(name, np.array([start + k]))
        start += len(h.ranges)
    return found


def _rows(
    names: tuple[str, ...] | None,
    one: LinearConstraint,
    columns: dict[str, np.ndarray],
    size: int,
) -> tuple[np.ndarray, ...]:
    """Return the rows of a constraint over all coordinates: values, logarithms, low and high."""
    A, low, high = _sides(one)
    at, is_log = list(range(size)), [False] * size
    if names is not None:
        at, is_log = [], []
        for name in names:
            own = name.removeprefix(LOG)
            if own not in columns:
                raise ValueError(
                    f"constraints names {name!r}, which is not tuned; what is tuned is "
                    f"{list(columns)}."
                )
            at += columns[own].tolist()
            is_log += [own != name] * len(columns[own])
    if A.shape[1] != len(at):
        raise ValueError(
            f"constraints has {_spelled(names, one)} with {A.shape[1]} columns, which stand for "
            f"{len(at)} hyperparameters{'' if names is None else f', {list(names)}'}."
        )
    plain, logs = np.zeros((2, len(A), size))
    for k, (place, log) in enumerate(zip(at, is_log, strict=True)):
        (logs if log else plain)[:, place] += A[:, k]
    return plain, logs, low, high
