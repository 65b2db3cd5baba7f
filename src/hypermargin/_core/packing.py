"""Arrays, and what holds them, as values that JSON has; every number is kept to its last bit."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

import numpy as np

LONG_ARRAY = 4096  # entries of an array that is worth a closer look
ENTRIES_SEEN = 64  # of them, which show whether some values are common
COMMON = 8  # values that are coded, at most
OTHER = 255  # the code of an entry that is none of them


class Packer:
    """Packs values; an array that is met twice is written once.

    Arrays follow each other in one text, and `arrays` says what they are: type, shape, and of those
    that are coded the numbers of common values and of other entries.
    """

    def __init__(self) -> None:
        self.arrays: list[list[Any]] = []
        self._known: dict[int, tuple[int, np.ndarray]] = {}  # holds them, so that ids stay theirs
        self._parts: list[bytes] = []

    def pack(self, value: Any) -> Any:
        """Return what an `Unpacker` reads."""
        if isinstance(value, np.ndarray):
            return {"array": self._number(value)}
        if value is None or isinstance(value, (str, int)):
            return value
        if type(value) is float:
            return value if isfinite(value) else {"number": str(value)}
        if isinstance(value, np.generic):
            return {"scalar": self._number(np.asarray(value))}
        if is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: self.pack(getattr(value, f.name)) for f in fields(value)}
            return {"kind": type(value).__name__, "fields": parts}
        if isinstance(value, Mapping):
            return {"dict": [[self.pack(name), self.pack(one)] for name, one in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [self.pack(one) for one in value]}
        assert isinstance(value, list), type(value)
        return [self.pack(one) for one in value]

    @property
    def text(self) -> bytes:
        """All arrays, in letters that JSON takes as they are."""
        return b2a_base64(b"".join(self._parts), newline=False)

    def _number(self, array: np.ndarray) -> int:
        if id(array) not in self._known:
            self._known[id(array)] = len(self.arrays), array
            self._add(array)
        return self._known[id(array)][0]

    def _add(self, array: np.ndarray) -> None:
        """Add an array.

        Coefficients of machines are mostly zero or at a bound, and bounds are few: where some
        values are common, entries are codes of one byte, and the others follow.
        """
        about: list[Any] = [array.dtype.str, list(array.shape)]
        self.arrays.append(about)
        if array.size < LONG_ARRAY or array.itemsize not in (4, 8):
            self._parts.append(array.tobytes())
            return
        flat = np.ascontiguousarray(array).reshape(-1)
        bits = flat.view(f"u{flat.itemsize}")
        common = _common(bits)
        if not common:
            self._parts.append(flat.tobytes())
            return
        codes = np.full(len(bits), OTHER, dtype=np.uint8)
        for code, value in enumerate(common):  # no masks: these take three times as long
            codes -= (bits == bits.dtype.type(value)).view(np.uint8) * np.uint8(OTHER - code)
        others = flat[codes == OTHER]
        about += [len(common), len(others)]
        self._parts += [np.array(common, bits.dtype).tobytes(), codes.tobytes(), others.tobytes()]


class Unpacker:
    """Reads what was packed; `kinds` are the dataclasses that may be among it, by name."""

    def __init__(
        self, arrays: list[list[Any]], text: str | bytes, kinds: Mapping[str, Callable[..., Any]]
    ):
        self.kinds, self._arrays = kinds, []
        data, at = a2b_base64(text), 0

        def take(dtype: Any, count: int) -> np.ndarray:
            nonlocal at
            start, at = at, at + count * np.dtype(dtype).itemsize
            return np.frombuffer(data, dtype, count, start)

        for dtype, shape, *coded in arrays:
            count = int(np.prod(shape))
            if not coded:
                found = take(dtype, count).copy()
            else:
                values = np.zeros(OTHER + 1, dtype)
                values[: coded[0]] = take(dtype, coded[0])
                codes = take(np.uint8, count)
                found = values[codes]
                found[codes == OTHER] = take(dtype, coded[1])
            self._arrays.append(found.reshape(shape))

    def read(self, value: Any) -> Any:
        """Return what was packed."""
        if isinstance(value, list):
            return [self.read(one) for one in value]
        if not isinstance(value, dict):
            return value
        match list(value):
            case ["array"]:
                return self._arrays[value["array"]]
            case ["scalar"]:
                return self._arrays[value["scalar"]][()]
            case ["kind", "fields"]:
                parts = {name: self.read(one) for name, one in value["fields"].items()}
                return self.kinds[value["kind"]](**parts)
            case ["dict"]:
                return {self.read(name): self.read(one) for name, one in value["dict"]}
            case ["tuple"]:
                return tuple(self.read(one) for one in value["tuple"])
            case _:
                return float(value["number"])


def _common(bits: np.ndarray) -> list[int]:
    """Return values that half of the entries have, as far as a sample tells; none if there are."""
    sample = bits[:: len(bits) // ENTRIES_SEEN].tolist()
    most = [pair for pair in Counter(sample).most_common(COMMON) if pair[1] > len(sample) // 32]
    return [value for value, _ in most] if 2 * sum(n for _, n in most) > len(sample) else []
