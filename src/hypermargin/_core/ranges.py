"""Reading a user's space: values to go through, and ranges."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from .space import Dimension


def read_space(space: Any, defaults: Iterable[str]) -> list[tuple[dict, dict]]:
    """Split what the user gave into (listed values, ranges), one pair per combination of values.

    `defaults` names the hyperparameters that can be differentiated and is what `None` stands for.
    """
    if space is None:
        return [({}, dict.fromkeys(defaults))]
    if isinstance(space, Mapping):
        space = [space]
    if not isinstance(space, Sequence) or not all(isinstance(s, Mapping) for s in space):
        raise TypeError(f"space must be None, a dict or a list of dicts; got {space!r}.")
    if not space:
        raise ValueError("space is an empty list; give at least one dict, or None.")
    combinations = []
    for part in space:
        for name in part:
            if not isinstance(name, str):
                raise TypeError(f"space has the key {name!r}; keys must be names of parameters.")
        # in the order of their names, as ParameterGrid goes through them
        listed = {name: _values(name, v) for name, v in sorted(part.items()) if _is_list(v)}
        ranges = {name: v for name, v in part.items() if name not in listed}
        for values in itertools.product(*listed.values()):
            combinations.append((dict(zip(listed, values, strict=True)), ranges))
    return combinations


def entries(name: str, spec: Any, by_part: bool) -> dict[str, Any]:
    """Return the ranges of a parameter by where they are in the space.

    One that has a value for each class or group may have a range for each that is named.
    """
    place = f"space[{name!r}]"
    if not by_part or not isinstance(spec, Mapping):
        return {place: spec}
    for label, each in spec.items():
        if _is_list(each):
            raise ValueError(
                f"{place}[{label!r}]={each!r} is a list, which is for whole parameters; give "
                f"{place}=[{{{label!r}: ...}}, ...] or a range."
            )
    return {f"{place}[{label!r}]": each for label, each in spec.items()}


def _is_list(value: Any) -> bool:
    """Whether something is values to go through, as sequences are but for strings and ranges.

    A tuple is a range if it has numbers for bounds, and no more than a scale beside them.
    """
    if not isinstance(value, tuple):
        return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    bounds, rest = value[:2], value[2:]
    if len(bounds) < 2 or any(isinstance(bound, str) for bound in bounds):
        return True
    if not any(isinstance(bound, Real) and not isinstance(bound, bool) for bound in bounds):
        return True
    return bool(rest) and all(isinstance(each, Real) for each in rest)


def _values(name: str, values: Any) -> list:
    if len(values) == 0:
        raise ValueError(f"space[{name!r}] is an empty list; give at least one value.")
    if isinstance(values, np.ndarray) and values.ndim > 1:
        raise ValueError(f"space[{name!r}] is an array of {values.ndim} dimensions; give one of 1.")
    return list(values)


def read_range(place: str, spec: Any, default: Dimension, sign: str) -> Dimension:
    """Turn one entry of the user's space into a Dimension, or say what is wrong with it.

    `place` is what messages call it, such as ``space['C']``; `sign` tells what the estimator
    accepts: "positive", "non-negative" or "any" numbers, or a "fraction" between 0 and 1.
    """
    if spec is None:
        return default
    if hasattr(spec, "support"):
        low, high, scale = _support(spec, sign)
    elif isinstance(spec, tuple) and len(spec) in (2, 3):
        low, high, scale = (*spec, None)[:3]
    else:
        error = ValueError if isinstance(spec, tuple) else TypeError  # as GridSearchCV says
        raise error(
            f"{place}={spec!r} is not understood; give (low, high), "
            "(low, high, 'log' or 'linear'), a frozen scipy.stats distribution "
            "or a list of values."
        )
    if scale is None:  # a range that reaches zero cannot be logarithmic
        scale = default.scale if isinstance(low, Real) and low > 0 else "linear"
    if scale not in ("log", "linear"):
        raise ValueError(f"{place} has scale {scale!r}; it must be 'log' or 'linear'.")
    for bound in (low, high):
        if not isinstance(bound, Real) or isinstance(bound, bool) or not np.isfinite(bound):
            raise ValueError(f"{place} has bound {bound!r}; it must be a finite number.")
    if not low < high:
        raise ValueError(
            f"{place}=({low!r}, {high!r}) is empty; the lower bound must be "
            "less than the upper bound."
        )
    if (sign == "positive" and low <= 0) or (sign == "non-negative" and low < 0):
        raise ValueError(f"{place} has lower bound {low!r}; it must be {sign}.")
    if sign == "fraction" and not 0 < low < high < 1:
        raise ValueError(f"{place}=({low!r}, {high!r}) must be between 0 and 1.")
    if scale == "log" and low <= 0:
        raise ValueError(f"{place} has lower bound {low!r}; a logarithmic scale needs one above 0.")
    return replace(default, low=float(low), high=float(high), scale=scale, together=None)


def _support(distribution: Any, sign: str) -> tuple[float, float, str]:
    """Return the range of a distribution, cut at 0.1 % tails where an end cannot be used."""
    quantile = getattr(distribution, "ppf", None) or distribution.icdf
    low, high = distribution.support()
    if not np.isfinite(low) or (sign == "positive" and low <= 0):
        low = quantile(1e-3)
    high = high if np.isfinite(high) else quantile(1 - 1e-3)
    name = getattr(getattr(distribution, "dist", distribution), "name", None)
    name = name or type(distribution).__name__
    scale = "log" if name.lower() in ("loguniform", "reciprocal") else "linear"
    return float(low), float(high), scale
