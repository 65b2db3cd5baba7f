"""Files are written beside their place and moved there when they are whole."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .mistake import Mistake


def check_outputs(
    paths: Iterable[str | Path | None],
    overwrite: bool,
    reads: Iterable[str | Path | None] = (),
    goes_on: str | Path | None = None,
) -> None:
    """Refuse, before any work is done, files that could not or should not be written.

    None of `reads` may be written, as these are read.  `goes_on` is a file that is written to,
    too, but may exist, as what it holds is kept.
    """
    outputs = [Path(path) for path in paths if path is not None]
    _refuse_same([*outputs, *_given(goes_on)], [path for one in reads for path in _given(one)])
    for path in outputs:
        if path.is_dir():
            raise Mistake(f"{path} is a folder, not a file.")
        if path.exists() and not overwrite:
            raise Mistake(f"{path} exists already; --overwrite replaces it.")
        folder = path.parent
        if not folder.is_dir():
            raise Mistake(f"{path} cannot be written: there is no folder {folder}.")
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise Mistake(f"{path} cannot be written: {error.strerror or error}.") from None


def _given(path: str | Path | None) -> list[Path]:
    return [] if path is None else [Path(path)]


def _refuse_same(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse an output that is another one, or a file that is read, by whatever name."""
    for place, path in enumerate(outputs):
        if any(_same(path, other) for other in outputs[:place]):
            raise Mistake(f"{path} is named for two different files.")
        if any(_same(path, other) for other in inputs):
            raise Mistake(f"{path} is read, so nothing can be written there; give another name.")


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file: links, or other spellings of its path."""
    with suppress(OSError):
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)  # at least one is not there yet


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """Yield a place for a file beside `path`, of the same ending; move it there if all went well.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hypermargin.files.writing import beside
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     goal = pathlib.Path(folder, "note.txt")
    ...     with beside(goal) as place:
    ...         _ = place.write_text("whole")
    ...     goal.read_text(), len(list(pathlib.Path(folder).iterdir()))
    ('whole', 1)
    """
    path = Path(path)
    try:
        number, name = tempfile.mkstemp(path.suffix, f".{path.stem}-", path.parent)
        os.close(number)
        place = Path(name)
        umask = os.umask(0)
        os.umask(umask)
        place.chmod(0o666 & ~umask)
    except OSError as error:
        raise Mistake(f"{path} cannot be written: {error.strerror or error}.") from None
    try:
        yield place
        place.replace(path)
    except OSError as error:
        raise Mistake(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        with suppress(FileNotFoundError):
            place.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a whole file of text."""
    with beside(path) as place:
        place.write_text(text, encoding="utf-8", newline="")


def as_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([plain(cell) for cell in row] for row in rows)
    return text.getvalue()


def plain(value: Any) -> Any:
    """Return a value as JSON has it: Python's own types, numbers that it does not have as None."""
    if isinstance(value, dict):
        return {str(plain(name)): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def write_history(path: str | Path, history: Sequence[dict[str, Any]]) -> None:
    """Write what a search has seen: CSV if the file is named so, else a line of JSON for each."""
    if Path(path).suffix.lower() != ".csv":
        lines = [json.dumps(plain(step), allow_nan=False) + "\n" for step in history]
        return write_text(path, "".join(lines))
    params = list(dict.fromkeys(name for step in history for name in step["params"]))
    rest = [name for name in history[0] if name not in ("params", "gradient")]
    rows = [
        [step["params"].get(name) for name in params] + [step[name] for name in rest]
        for step in history
    ]
    write_text(path, as_csv([*params, *rest], rows))
