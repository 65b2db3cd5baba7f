"""Files opened, whatever they are packed by; what is no text is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from .mistake import Mistake

PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
MARK = b"\xef\xbb\xbf"  # that some programs put before UTF-8
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the marks of either order of bytes


def _opened(path: str | Path) -> IO[bytes]:
    """Open a file, unpacked by what its first bytes say."""
    try:
        if Path(path).is_fifo():  # files are read twice, first to find out what they are
            raise Mistake(f"{path} is a pipe; it should be a file, which can be read twice.")
        with open(path, "rb") as file:
            start = file.read(4)
        for magic, unpack in PACKED.items():
            if start.startswith(magic):
                return unpack(path, "rb")
        return open(path, "rb")
    except FileNotFoundError:
        raise Mistake(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise Mistake(f"{path} is a folder, not a file.") from None
    except OSError as error:
        raise cannot_be_read(path, error) from None


def cannot_be_read(path: str | Path, error: OSError) -> Mistake:
    """Return what is said of a file that the system, or what it is packed by, does not give."""
    return Mistake(f"{path} cannot be read: {error.strerror or error}.")


def beginning(path: str | Path, size: int = 1 << 16) -> bytes:
    """Return the first bytes of a file, unpacked."""
    with _opened(path) as file:
        return _read(path, file, size)


def contents(path: str | Path) -> np.ndarray:
    """Return all bytes of a text file, unpacked; refuse a file that is empty or binary."""
    with _opened(path) as file:
        data = _read(path, file)
    data = data.removeprefix(MARK)
    refuse_binary(path, data[: 1 << 16])
    if not data.strip():
        raise Mistake(f"{path} is empty.")
    return np.frombuffer(data, dtype=np.uint8)


def text_lines(path: str | Path) -> io.TextIOWrapper:
    """Open a text file for reading line by line, unpacked."""
    return io.TextIOWrapper(_opened(path), encoding="utf-8-sig", newline="")


def refuse_binary(path: str | Path, start: bytes) -> None:
    """Refuse what holds bytes that no text has."""
    if start.startswith(UTF_16):
        raise Mistake(f"{path} is UTF-16 text; save it as UTF-8.")
    if b"\0" in start:
        raise Mistake(
            f"{path} is binary, not text; it should be CSV, TSV, Parquet, LIBSVM text or .npz."
        )


def _read(path: str | Path, file: IO[bytes], size: int = -1) -> bytes:
    try:
        return file.read(size)
    except (EOFError, zlib.error):
        raise Mistake(f"{path} is truncated or damaged: it ends in the middle.") from None
    except OSError as error:
        raise cannot_be_read(path, error) from None
