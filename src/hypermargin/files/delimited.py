"""Tables of text: CSV, TSV and their kin.

Python's own csv module splits the lines, and NumPy keeps the numbers.  pandas would be faster, but
it is large, the package does not need it otherwise, and it fills short rows up without a word:
here a row that is too short or too long is refused with its line.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .mistake import Mistake
from .opening import beginning, cannot_be_read, refuse_binary, text_lines
from .table import Table, distinct

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "blanks"}
MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
LINES_SEEN = 100  # lines that are looked at before reading,
LETTERS_SEEN, LEAST_SEEN = 10_000_000, 3  # or so many letters, but not fewer lines than that
CELLS = 1_000_000  # that are held as text at a time, where rows are not wide
BLOCK_ROWS = 8  # that are, however wide they are: columns grow by so many values at least
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
Rows = list[list[str]]


@dataclass(frozen=True)
class Layout:
    """How a table is written."""

    separator: str
    header: bool
    comma: bool  # whether numbers have a decimal comma


def read_delimited(
    path: str | Path, *, header: bool | None = None, text: Iterable[str] = ()
) -> Table:
    """Read a table of text; the separator, and with None the header, are found out.

    Columns that are named in `text` are text, whatever is in them.
    """
    layout, told = _layout(path, header)
    forced = set(text)
    while True:
        reader = _Reader(path, layout, forced)
        table = reader.read()
        if not reader.changed:  # a column that became text late is read again from its beginning
            table.told = told
            return table
        forced |= reader.changed


def _layout(path: str | Path, header: bool | None) -> tuple[Layout, list[str]]:
    start = beginning(path)
    refuse_binary(path, start)
    if not start.strip():
        raise Mistake(f"{path} is empty.")
    with _text(path) as lines:
        separator, rows = _separated(_sample(lines))
    cells = [cell.strip() for row in rows for cell in row]
    comma = separator in ";\t|" and any(map(DECIMAL_COMMA.fullmatch, cells))
    comma = comma and not any(map(DECIMAL_POINT.fullmatch, cells))
    told = [f"separated by {SEPARATORS[separator]}"]
    if comma:
        told.append("decimal commas")
    if header is None:
        header = _has_header(rows, comma)
        told.append("the first line has the names" if header else "no line of names")
    return Layout(separator, header, comma), told


def _sample(lines: Iterable[str]) -> list[str]:
    """Return the first lines, fewer if they are very long."""
    found, size = list[str](), 0
    for line in islice((line for line in lines if line.strip()), LINES_SEEN):
        found.append(line)
        size += len(line)
        if size > LETTERS_SEEN and len(found) >= LEAST_SEEN:
            break
    return found


def _separated(sample: list[str]) -> tuple[str, Rows]:
    """Return the separator that cuts most lines into equally many fields, and the most.

    Blanks must cut all of them so, and nothing else may, as there are blanks between words.  Where
    nothing does, there is one column.
    """
    found: dict[str, Rows] = {}
    for separator in SEPARATORS:
        try:
            found[separator] = list(_cut(sample, separator))
        except csv.Error:  # a quote that is left open, maybe by the end of the sample
            rows = list(_cut(sample, separator, strict=False))
            found[separator] = rows[:-1] or rows
    widths = {s: Counter(map(len, rows)).most_common(1)[0] for s, rows in found.items() if rows}
    many = {s: (count / len(found[s]), width) for s, (width, count) in widths.items() if width > 1}
    shares = {separator: share for separator, (share, _) in many.items()}
    if shares.pop(" ", 0) < 1 or 1 in shares.values():
        many.pop(" ", None)
    best = max(many, key=lambda separator: many[separator], default=",")
    return best, found[best]


def _cut(lines: Iterable[str], separator: str, strict: bool = True) -> Iterator[list[str]]:
    return (row for row in _splitter(lines, separator, strict) if row)


def _splitter(lines: Iterable[str], separator: str, strict: bool = True) -> Any:
    if separator == " ":
        lines = (line.strip() + "\n" for line in lines)
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=strict)


def _has_header(rows: Rows, comma: bool) -> bool:
    """Whether the first row has names: no numbers, none twice, none that its column has again.

    A word above numbers is a name in any case, so that names twice are told, not taken for data.
    """
    first, rest = rows[0], rows[1:]
    if any(_is_number(cell, comma) for cell in first):
        return False
    below = list(zip(*rest)) if len({len(row) for row in rows}) == 1 else []
    if any(map(_is_name_of_numbers, first, below, [comma] * len(below))):
        return True
    names = [name for name in first if name]
    if len(set(names)) < len(names):
        return False
    return not any(name and name in column for name, column in zip(first, below))


def _is_name_of_numbers(cell: str, below: Sequence[str], comma: bool) -> bool:
    numbers = _numbers(below, comma)
    return not _is_missing(cell) and numbers is not None and not bool(np.isnan(numbers).all())


def _is_number(cell: str, comma: bool) -> bool:
    try:
        float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        return False
    return True


@contextmanager
def _text(path: str | Path) -> Iterator[Iterable[str]]:
    """Open a file; what goes wrong in it is said in one sentence."""
    limit = csv.field_size_limit(2**31 - 1)  # a wide table is one field to the wrong separator
    try:
        with text_lines(path) as lines:
            yield lines
    except csv.Error as error:
        raise Mistake(f"{path} is no proper CSV: {error}.") from None
    except UnicodeDecodeError:
        raise Mistake(f"{path} is not UTF-8 text; save it as that.") from None
    except (EOFError, zlib.error):
        raise Mistake(f"{path} is truncated: it ends in the middle.") from None
    except OSError as error:
        raise cannot_be_read(path, error) from None
    finally:
        csv.field_size_limit(limit)


@dataclass
class _Reader:
    """One pass over a file.

    `changed` are columns that were numbers in the first rows, and text in later ones.
    """

    path: str | Path
    layout: Layout
    text: set[str]
    changed: set[str] = field(default_factory=set)

    def read(self) -> Table:
        with _text(self.path) as lines:
            return self._read(lines)

    def _read(self, lines: Iterable[str]) -> Table:
        reader = _splitter(lines, self.layout.separator)
        rows = ((reader.line_num, row) for row in reader if row)
        _, first = next(rows)
        names = distinct(self.path, first) if self.layout.header else _numbered(len(first))
        parts: list[list[np.ndarray]] = [[] for _ in names]
        pending: Rows = [] if self.layout.header else [first]
        most = max(BLOCK_ROWS, CELLS // len(names))
        for line, row in rows:
            if len(row) != len(names):
                hint = ""
                if first[0].startswith("#"):
                    hint = " and begins with #; lines of comments should be left out"
                raise Mistake(
                    f"{self.path}, line {line}: {_fields(len(row))}; the first line has "
                    f"{len(names)}{hint}."
                )
            pending.append(row)
            if len(pending) >= most:
                self._convert(names, pending, parts)
                pending = []
        self._convert(names, pending, parts)
        if not parts[0]:
            raise Mistake(f"{self.path} has names, but no rows.")
        return Table(names, [part[0] if len(part) == 1 else np.concatenate(part) for part in parts])

    def _convert(self, names: Sequence[str], rows: Rows, parts: list[list[np.ndarray]]) -> None:
        """Append a block of rows to the columns."""
        if not rows:
            return
        if len(rows) < len(names) and self._convert_rows(names, rows, parts):
            return
        for name, cells, before in zip(names, zip(*rows), parts):
            values = None if name in self.text else _numbers(cells, self.layout.comma)
            if values is None and name not in self.text:
                if any(part.dtype != object for part in before):
                    self.changed.add(name)
                self.text.add(name)
            before.append(self._words(cells) if values is None else values)

    def _convert_rows(
        self, names: Sequence[str], rows: Rows, parts: list[list[np.ndarray]]
    ) -> bool:
        """Append rows that are longer than they are many; return whether all numbers are numbers.

        A row at a time is read far faster than many columns of few values.
        """
        is_text = [name in self.text for name in names]
        numbers = [k for k, text in enumerate(is_text) if not text]
        if self.layout.comma or not numbers:
            return False
        table = np.empty((len(numbers), len(rows)))
        try:
            for place, row in enumerate(rows):
                cells = map(row.__getitem__, numbers)
                table[:, place] = np.fromiter(map(float, cells), float, len(numbers))
        except ValueError:
            return False
        for k, values in zip(numbers, table):
            parts[k].append(values)
        for k, text in enumerate(is_text):
            if text:
                parts[k].append(self._words([row[k] for row in rows]))
        return True

    def _words(self, cells: Sequence[str]) -> np.ndarray:
        if "\0" in "".join(cells):
            refuse_binary(self.path, b"\0")
        words = np.empty(len(cells), dtype=object)
        words[:] = [None if _is_missing(cell) else cell for cell in cells]
        return words


def _numbers(cells: Sequence[str], comma: bool) -> np.ndarray | None:
    """Return cells as numbers, missing ones as NaN; None if some are no numbers."""
    if comma:
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        return np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        pass
    try:
        filled = ("nan" if _is_missing(cell) else cell for cell in cells)
        return np.fromiter(map(float, filled), float, len(cells))
    except ValueError:
        return None


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _fields(number: int) -> str:
    return f"{number} field{'s' * (number != 1)}"


def _numbered(n: int) -> list[str]:
    """Return the names of columns that have none: their numbers, from 1."""
    return [str(k) for k in range(1, n + 1)]
