"""What a command says: guesses and notes on stderr, the result on stdout, as text or as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from .._core.spelling import spelt_value
from ..files.writing import plain


class Teller:
    """Says things in the way that was asked for."""

    def __init__(self, options: Any):
        self.as_json, self.quiet = options.json, options.quiet or options.json
        self.notes: list[str] = []

    def aside(self, *lines: str) -> None:
        """Say something that is not the result."""
        if not self.quiet:
            for line in lines:
                print(line, file=sys.stderr, flush=True)

    def note(self, message: str) -> None:
        """Say what should not be overlooked; it is kept for the result."""
        if message not in self.notes:
            self.notes.append(message)
            self.aside(f"note: {message}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Make notes of warnings, and let nothing but the result go to stdout."""
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(sys.stderr):
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", category=RuntimeWarning)  # of single operations
            yield
        for one in caught:
            self.note(" ".join(str(one.message).split()))

    def result(self, result: dict[str, Any], lines: Sequence[str]) -> None:
        """Print the result."""
        if self.as_json:
            print(json.dumps(plain({**result, "notes": self.notes}), allow_nan=False, indent=2))
        else:
            print("\n".join(lines))


def counted(number: int, what: str) -> str:
    """Return a number of things in words: 1 row, 2 rows."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def params(found: dict[str, Any], prefix: str = "") -> str:
    """Return hyperparameters as words, without the name of their step."""
    return ", ".join(f"{k.removeprefix(prefix)} = {spelt_value(v)}" for k, v in found.items())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: words, first and last, to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    return [
        "  ".join(
            cell.ljust(width) if k in (0, len(head) - 1) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in (head, *rows)
    ]
