"""Checks of the arguments of methods, each with one sentence of what would be right."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def check_whole(name: str, value: Any) -> None:
    """Say so if an argument is neither a whole number from 1 nor None."""
    if value is None:
        return
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number from 1, or None.")


def check_positive(name: str, value: Any, optional: bool = False) -> None:
    """Say so if an argument is no positive number; None is one that may be left out."""
    if optional and value is None:
        return
    right = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    if not right or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r} must be a positive number{', or None' * optional}.")


def check_flag(name: str, value: Any) -> None:
    """Say so if an argument is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r} must be True or False.")
