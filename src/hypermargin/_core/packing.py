"""Arrays, and what holds them, as values that JSON has; every number is kept to its last bit."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

SAMPLE = 256  # entries of an array that show whether some values are common in it
COMMON = 8  # values that are coded, at most
OTHER = 255  # the code of an entry that is none of them


class Packer:
    """Packs values; an array that is met twice is written once."""

    def __init__(self) -> None:
        self.arrays: list[dict[str, Any]] = []
        self._known: dict[int, tuple[int, np.ndarray]] = {}  # holds them, so that ids stay theirs

    def pack(self, value: Any) -> Any:
        """Return what `unpack` reads."""
        if isinstance(value, np.ndarray):
            return {"array": self._number(value)}
        if isinstance(value, np.generic):
            return {"scalar": self._number(np.asarray(value))}
        if is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: self.pack(getattr(value, f.name)) for f in fields(value)}
            return {"kind": type(value).__name__, "fields": parts}
        if isinstance(value, Mapping):
            return {"dict": [[self.pack(name), self.pack(one)] for name, one in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [self.pack(one) for one in value]}
        if isinstance(value, list):
            return [self.pack(one) for one in value]
        if isinstance(value, float) and not np.isfinite(value):
            return {"number": str(value)}
        return value

    def _number(self, array: np.ndarray) -> int:
        if id(array) not in self._known:
            self._known[id(array)] = len(self.arrays), array
            self.arrays.append(encoded(array))
        return self._known[id(array)][0]


def unpack(
    value: Any, arrays: list[dict[str, Any]], kinds: Mapping[str, Callable[..., Any]]
) -> Any:
    """Return what was packed; `kinds` are the dataclasses that may be among it, by name."""
    known: dict[int, np.ndarray] = {}

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(one) for one in value]
        if not isinstance(value, dict):
            return value
        match list(value):
            case ["array"]:
                number = value["array"]
                if number not in known:
                    known[number] = decoded(arrays[number])
                return known[number]
            case ["scalar"]:
                return decoded(arrays[value["scalar"]])[()]
            case ["kind", "fields"]:
                parts = {name: read(one) for name, one in value["fields"].items()}
                return kinds[value["kind"]](**parts)
            case ["dict"]:
                return {read(name): read(one) for name, one in value["dict"]}
            case ["tuple"]:
                return tuple(read(one) for one in value["tuple"])
            case _:
                return float(value["number"])

    return read(value)


def encoded(array: np.ndarray) -> dict[str, Any]:
    """Return an array as text.

    Coefficients of machines are mostly zero or at a bound, and bounds are few: where some values
    are common, entries are codes of one byte, and the others follow.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    found: dict[str, Any] = {"shape": list(array.shape), "dtype": array.dtype.str}
    bits = flat.view(f"u{flat.itemsize}") if flat.itemsize in (4, 8) else flat
    common = _common(bits) if flat.itemsize in (4, 8) else bits[:0]
    if not len(common):
        return {**found, "data": _text(flat)}
    codes = np.full(len(bits), OTHER, dtype=np.uint8)
    for code, value in enumerate(common):
        codes[bits == value] = code
    others = flat[codes == OTHER]
    return {**found, "codes": _text(codes), "common": _text(common), "data": _text(others)}


def decoded(found: Mapping[str, Any]) -> np.ndarray:
    """Return the array of a text."""
    dtype = np.dtype(found["dtype"])
    data = np.frombuffer(a2b_base64(found["data"]), dtype=dtype)
    if "codes" in found:
        codes = np.frombuffer(a2b_base64(found["codes"]), dtype=np.uint8)
        values = np.zeros(OTHER + 1, dtype=dtype)
        common = np.frombuffer(a2b_base64(found["common"]), dtype=dtype)
        values[: len(common)] = common
        rest, data = data, values[codes]
        data[codes == OTHER] = rest
    return data.reshape(found["shape"]).copy()


def _common(bits: np.ndarray) -> np.ndarray:
    """Return values that half of the entries have, as far as a sample tells; none if there are."""
    if len(bits) < SAMPLE:
        return bits[:0]
    sample = bits[:: len(bits) // SAMPLE]
    values, counts = np.unique(sample, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:COMMON]
    most = most[counts[most] > len(sample) // 32]
    return values[most] if 2 * counts[most].sum() > len(sample) else bits[:0]


def _text(array: np.ndarray) -> str:
    return b2a_base64(array.tobytes(), newline=False).decode("ascii")
