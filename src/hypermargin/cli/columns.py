"""What the columns of a table are: numbers, dates, categories or texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..adapters.input import LARGEST
from ..files import Mistake, Table

NUMBER, DATE, CATEGORY, TEXT = "number", "date", "category", "text"
LONG_NUMBER = 2.0**53  # from here on, not every whole number is a double
SHOWN = 20  # letters of a word that is shown
LONG_TEXT = 5  # words; texts that have more on average are long
ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
OTHER_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}([T ]\d{1,2}:\d{2}.*)?")
A_DAY = 86_400.0


def find(table: Table, word: str, option: str) -> str:
    """Return the name of the column that an option means, by its name or its number."""
    if word in table.names:
        return word
    if re.fullmatch(r"-?\d+", word):
        number, n = int(word), len(table.names)
        if 1 <= number <= n or -n <= number <= -1:
            return table.names[number - 1 if number > 0 else number]
    some = ", ".join(map(repr, table.names[:8])) + (", ..." if len(table.names) > 8 else "")
    raise Mistake(f"{option} {word!r} is no column; there are {some}.")


def column(table: Table, name: str) -> np.ndarray:
    """Return a column by its name."""
    return table.columns[table.names.index(name)]


def is_missing(values: np.ndarray) -> np.ndarray:
    """Return where values are missing."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def kind_of(name: str, values: np.ndarray) -> str | None:
    """Return what a column is; None if there is nothing to learn from it."""
    if values.dtype.kind == "M":
        return DATE
    if values.dtype != object:
        refuse_huge(f"Column {name!r}", values)
        there = values[~np.isnan(values)]
        return NUMBER if (there != there[:1]).any() else None
    words = [value for value in values if value is not None]
    if not words:
        return None
    if all(map(OTHER_DATE.fullmatch, words)):
        if all(map(ISO.fullmatch, words)):
            return DATE
        raise Mistake(
            f"Column {name!r} has dates such as {words[0]!r}; write them as 2024-12-31, or leave "
            f"the column out with --ignore {name!r}."
        )
    different = len(set(words)) + (len(words) < len(values))
    if different == 1:
        return None
    if sum(len(word.split()) for word in words) > LONG_TEXT * len(words):
        return TEXT
    return CATEGORY if len(set(words)) < len(words) else None


def refuse_huge(what: str, values: np.ndarray) -> None:
    """Refuse numbers that are infinite, or so large that products of them would be."""
    huge = np.abs(np.asarray(values, dtype=float)) > LARGEST
    if huge.any():
        raise Mistake(f"{what} has {values[huge][0]:g}; numbers should be below {LARGEST:g}.")


def has_long_numbers(values: np.ndarray) -> bool:
    """Whether there are whole numbers of so many digits that doubles are too coarse for them."""
    if values.dtype != float or np.abs(values).max(initial=0.0) < LONG_NUMBER:
        return False
    there = values[~np.isnan(values)]
    return bool((np.abs(there) >= LONG_NUMBER).any() and (there == np.round(there)).all())


def names_rows(values: np.ndarray) -> bool:
    """Whether the numbers of a column are names of its rows: they count them, or are long."""
    counts = len(values) > 2 and values[1] - values[0] == 1 and bool((np.diff(values) == 1).all())
    return counts or has_long_numbers(values)


def by_name(table: Table) -> dict[str, np.ndarray]:
    """Return all columns by their names."""
    return dict(zip(table.names, table.columns))


def described(table: Table, names: Sequence[str]) -> list[str]:
    """Return the names of columns, with the first word of those that are text."""
    there = by_name(table)
    return [_described(name, there[name]) for name in names]


def _described(name: str, values: np.ndarray) -> str:
    word = next((value for value in values if value is not None), None)
    if values.dtype != object or word is None:
        return repr(name)
    return f"{name!r} (such as {word if len(word) <= SHOWN else word[:SHOWN] + '...'!r})"


def days(name: str, values: np.ndarray) -> np.ndarray:
    """Return dates as days since 1970."""
    if values.dtype.kind == "M":
        since = (values - np.datetime64(0, "s")) / np.timedelta64(1, "us")
        return np.where(np.isnat(values), np.nan, since / (1e6 * A_DAY))
    return np.array([np.nan if value is None else _day(name, value) for value in values])


def _day(name: str, word: str) -> float:
    try:
        when = datetime.fromisoformat(word)
    except ValueError:
        raise Mistake(f"Column {name!r} has {word!r}, which is no date.") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return when.timestamp() / A_DAY


def features(table: Table, wanted: Sequence[dict[str, str]]) -> np.ndarray:
    """Return the columns that a model takes: floats if all are numbers, else objects."""
    there = by_name(table)
    missing = [repr(one["name"]) for one in wanted if one["name"] not in there]
    if missing:
        raise Mistake(f"The data lack the column{'s' * (len(missing) > 1)} {listed(missing)}.")
    made = [_feature(one["name"], one["kind"], there[one["name"]]) for one in wanted]
    dtype: Any = object if any(values.dtype == object for values in made) else float
    X = np.empty((table.n_rows, len(made)), dtype=dtype)
    for place, values in enumerate(made):
        X[:, place] = values
    return X


def _feature(name: str, kind: str, values: np.ndarray) -> np.ndarray:
    if kind == DATE:
        return days(name, values)
    if kind == NUMBER:
        if values.dtype == object:
            word = next((value for value in values if value is not None), None)
            if word is None:
                return np.full(len(values), np.nan)
            raise Mistake(f"Column {name!r} should have numbers; it has {word!r}.")
        refuse_huge(f"Column {name!r}", values)
        return values
    if values.dtype != object:  # all missing, or numbers of a Parquet file
        words = np.empty(len(values), dtype=object)
        words[:] = [None if np.isnan(value) else f"{value:g}" for value in values]
        values = words
    return np.where(is_missing(values), "", values) if kind == TEXT else values


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return names side by side, the first of them if they are many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))
