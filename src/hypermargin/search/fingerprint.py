"""What makes a search the one that it is: its data, folds, estimator, space and settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType
from typing import Any
from zlib import crc32

import joblib
import numpy as np
from scipy import sparse

from .._core.version import __version__
from ..adapters.folds import Split
from .scoring import Scoring

# they limit the effort, or tell of it, or are about what comes after the search
FREE = (
    "time_budget", "max_evals", "n_jobs", "verbose", "pre_dispatch", "memory_limit", "exact_refit",
    "checkpoint",
)  # fmt: skip
ELSEWHERE = "cv", "space", "param_grid", "refit"  # are told in other words
DEEP = 8  # objects within objects that are looked at
SHORT_VALUE = 60  # characters of a value that a sentence can hold


def fingerprint(asked: Any, space: Any, splits: Sequence[Split], scoring: Scoring) -> dict:
    """Return all that a search depends on, as values that JSON has; `asked` has its arguments."""
    arguments = asked.get_params(deep=False)
    settings = {n: v for n, v in arguments.items() if n not in (*FREE, *ELSEWHERE)}
    if not isinstance(asked.random_state, (int, np.integer)):
        settings["random_state"] = "drawn"
    return {
        "version": __version__,
        "X": digest(scoring.X),
        "y": digest(scoring.y),
        "parameters of fit": {n: digest(v) for n, v in scoring.fit_params.items()},
        "parameters of the scorer": {n: digest(v) for n, v in scoring.score_params.items()},
        "folds": [crc32(np.ascontiguousarray(part).data) for split in splits for part in split],
        "space": described(space),
        # others only choose among what was evaluated
        "refit": asked.refit if isinstance(asked.refit, str) else None,
        **{name: described(value) for name, value in sorted(settings.items())},
    }


def digest(value: Any) -> str:
    """Return some letters that stand for data."""
    found = 0  # other data are to be noticed, nobody is to be kept from making them: crc32 will do
    if isinstance(value, list) and all(isinstance(one, np.ndarray) for one in value):
        parts: list[Any] = value
    elif sparse.issparse(value) and value.format in ("csr", "csc"):
        parts = [np.array(value.shape), value.data, value.indices, value.indptr]
    else:
        parts = [value]
    for part in parts:
        if isinstance(part, np.ndarray) and not part.dtype.hasobject:
            found = crc32(f"{part.shape} {part.dtype.str} ".encode(), found)
            found = crc32(np.ascontiguousarray(part).view(np.uint8).data, found)
        else:
            found = crc32(joblib.hash(part).encode(), found)
    return f"{found:08x}"


def described(value: Any, depth: int = 0) -> Any:
    """Return an argument as values that JSON has, the same in every process."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.generic)):
        return repr(value.item() if isinstance(value, np.generic) else float(value))
    if isinstance(value, Mapping):
        return {_name(name): described(one, depth + 1) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(described(one, depth + 1) for one in value)]
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return digest(value)
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "__code__"):
        return _function(value, depth)
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return type(value).__name__
    return _object(value, depth)


def _function(value: Any, depth: int) -> str:
    """Describe a function by its name, what it does, and the values that it was made with."""
    held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items()]
    for cell in value.__closure__ or ():
        with suppress(ValueError):  # of a name that has no value yet
            held.append(cell.cell_contents)
    made_with = [] if depth > DEEP else [described(one, depth + 1) for one in held]
    words = json.dumps([_steps(value.__code__), made_with]).encode()
    return f"{value.__qualname__} {digest(np.frombuffer(words, np.uint8))}"


def _steps(code: CodeType) -> list[Any]:
    """Return what code does; sets are sorted, as every process has an order of its own."""
    values = [
        _steps(one) if isinstance(one, CodeType)
        else sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one)
        for one in code.co_consts
    ]  # fmt: skip
    return [code.co_code.hex(), *code.co_names, *values]


def _object(value: Any, depth: int) -> dict[str, Any]:
    """Describe an object by its class and what it holds."""
    if hasattr(value, "get_params"):
        held = value.get_params(deep=False)
    elif isinstance(value, partial):
        held = {"func": value.func, "args": value.args, "keywords": value.keywords}
    elif hasattr(value, "dist") and hasattr(value, "kwds"):  # a frozen distribution
        held = {"dist": value.dist.name, "args": value.args, "kwds": value.kwds}
    else:
        held = getattr(value, "__dict__", {})
    parts = {} if depth > DEEP else {n: described(v, depth + 1) for n, v in held.items()}
    return {"class": type(value).__qualname__, **parts}


def _name(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield what differs between two fingerprints, in words."""
    if before == now:
        return
    same_kind = isinstance(before, dict) and isinstance(now, dict)
    if same_kind and before.get("class") == now.get("class") and (name or "X" in now):
        for part in dict.fromkeys([*before, *now]):
            inner = f"{name}[{part!r}]" if name == "space" else f"{name}.{part}" if name else part
            yield from differences(before.get(part), now.get(part), inner)
        return
    was, is_now = _shown(before), _shown(now)
    if name in ("X", "y", "folds") or max(len(was), len(is_now)) > SHORT_VALUE:
        yield f"{name} differs" if name != "folds" else "folds differ"
    else:
        yield f"{name} was {was} and is {is_now}"


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "class" in value:
        return str(value["class"])
    if isinstance(value, list) and value and value[0] in ("list", "tuple"):
        inner = ", ".join(map(_shown, value[1:]))
        return f"[{inner}]" if value[0] == "list" else f"({inner})"
    return repr(value)
