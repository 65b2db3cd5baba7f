"""LIBSVM (SVMlight) text: `label qid:3 1:0.5 7:1e-3 # comment`, a row on each line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from .._core.compiled import compiled
from .decimal import number, powers
from .mistake import Mistake
from .opening import contents
from .table import Matrix

LINE, HASH, COLON = 10, 35, 58
MOST_FEATURES = 2**31 - 2
NO_LABEL, NO_FEATURE, NOT_SORTED, TOO_LARGE, LATE_QID = 1, 2, 3, 4, 5
WHY = {
    NO_LABEL: "the label {token!r} is not one number",
    NO_FEATURE: "{token!r} is not of the form number:value",
    NOT_SORTED: "the feature of {token!r} does not come after the one before it; numbers of "
    "features must rise",
    TOO_LARGE: f"the feature of {{token!r}} is larger than {MOST_FEATURES}",
    LATE_QID: "{token!r} does not come right after the label",
}


def read_svmlight(path: str | Path, *, zero_based: bool | None = None) -> Matrix:
    r"""Read LIBSVM text, also packed by gzip or bzip2.

    Parameters
    ----------
    path : str or Path
        The file.
    zero_based : bool, default=None
        Whether the first feature has the number 0, not 1.  None: it has if any feature of the file
        has that number, as in :func:`sklearn.datasets.load_svmlight_file`.

    Returns
    -------
    matrix : Matrix
        A CSR matrix with the labels; ``others["qid"]`` if lines have query ids.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> from hypermargin.files import read_svmlight
    >>> with NamedTemporaryFile("w", suffix=".libsvm") as file:
    ...     _ = file.write("1 1:0.5 3:2\n-1 2:1.5  # a comment\n")
    ...     file.flush()
    ...     matrix = read_svmlight(file.name)
    >>> matrix.X.toarray(), matrix.y
    (array([[0.5, 0. , 2. ],
           [0. , 1.5, 0. ]]), array([ 1., -1.]))
    """
    text = contents(path)
    small, bits = powers()
    n_lines, n_colons = _count(text)
    y, values = np.empty(n_lines), np.empty(n_colons)
    indices, indptr = np.empty(n_colons, np.int32), np.zeros(n_lines + 1, np.int64)
    qid = np.zeros(n_lines, np.int64)
    odd = np.empty((n_lines + n_colons, 3), np.int64)  # a page that is not touched takes no memory
    found = _parse(text, small, bits, y, values, indices, indptr, qid, odd)
    n_rows, n_values, n_qids, fault, at, n_odd = found
    if fault:
        raise _malformed(path, text, at, WHY[fault])
    _ask_python(path, text, odd[:n_odd], y, values)
    if n_rows == 0:
        raise Mistake(f"{path} has no rows.")
    values, indices = values[:n_values].copy(), indices[:n_values].copy()
    least = int(indices.min()) if n_values else 0
    based = least == 0 if zero_based is None else zero_based
    if not based:
        if n_values and least == 0:
            raise Mistake(f"{path} has a feature with the number 0, but the first should be 1.")
        indices -= 1
    n_features = int(indices.max()) + 1 if n_values else 0
    X = sparse.csr_matrix((values, indices, indptr[: n_rows + 1]), (n_rows, n_features))
    others = {"qid": qid[:n_rows].copy()} if n_qids == n_rows else {}
    told = [] if n_qids in (0, n_rows) else ["qid is left out, as some lines have none"]
    return Matrix(X, y[:n_rows].copy(), others, based, told)


@compiled
def _count(text):
    """Return the number of lines, and of colons."""
    lines, colons = 1, 0
    for c in text:
        lines += c == LINE
        colons += c == COLON
    return lines, colons


@compiled
def _is_blank(c):
    return c == 32 or c == 9 or 11 <= c <= 13


@compiled
def _next(text, at):
    """Return where the next character is that is not blank."""
    while at < text.shape[0] and _is_blank(text[at]):
        at += 1
    return at


@compiled
def _end(text, at):
    """Return where a word ends."""
    while not _word_ends(text, at):
        at += 1
    return at


@compiled(inner=True)
def _line_ends(text, at):
    return at >= text.shape[0] or text[at] == LINE or text[at] == HASH


@compiled(inner=True)
def _word_ends(text, at):
    return _line_ends(text, at) or _is_blank(text[at])


@compiled(inner=True)
def _skip_line(text, at):
    while at < text.shape[0] and text[at] != LINE:
        at += 1
    return at + 1


@compiled
def _whole(text, at):
    """Return the whole number at a place, and where it ends; the place itself if there is none."""
    value = 0
    while at < text.shape[0] and 48 <= text[at] <= 57 and value <= MOST_FEATURES:
        value, at = 10 * value + text[at] - 48, at + 1
    return value, at


@compiled(inner=True)
def _is_qid(text, at):
    return (
        at + 3 < text.shape[0]
        and text[at] == 113
        and text[at + 1] == 105
        and text[at + 2] == 100
        and text[at + 3] == COLON
    )


@compiled
def _features(text, at, n_values, n_odd, small, bits, values, indices, odd):
    """Read number:value up to the end of a line.

    Returns where that is, the numbers of values and of those for Python, and a fault.
    """
    last = -1
    while not _line_ends(text, at):
        feature, colon = _whole(text, at)
        if colon == at or colon >= text.shape[0] or text[colon] != COLON:
            if feature > MOST_FEATURES:
                return at, n_values, n_odd, TOO_LARGE
            return at, n_values, n_odd, LATE_QID if _is_qid(text, at) else NO_FEATURE
        if feature <= last or feature > MOST_FEATURES:
            return at, n_values, n_odd, NOT_SORTED if feature <= last else TOO_LARGE
        last = feature
        values[n_values], stop, sure = number(text, colon + 1, small, bits)
        if not sure or not _word_ends(text, stop):
            stop = _end(text, colon + 1)
            odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2] = colon + 1, stop, n_values
            n_odd += 1
        indices[n_values] = feature
        n_values, at = n_values + 1, _next(text, stop)
    return at, n_values, n_odd, 0


@compiled
def _parse(text, small, bits, y, values, indices, indptr, qid, odd):
    """Fill y, values, indices, indptr and qid.

    Returns the numbers of rows, values and query ids, a fault and its place, and how many numbers
    Python must look at: `odd` has start, end and place of each (that of a label is -1 - row).
    """
    at, n_rows, n_values, n_qids, n_odd, fault = 0, 0, 0, 0, 0, 0
    while at < text.shape[0]:
        at = _next(text, at)
        if _line_ends(text, at):
            at = _skip_line(text, at)
            continue
        y[n_rows], stop, sure = number(text, at, small, bits)
        if not sure or not _word_ends(text, stop):
            stop = _end(text, at)
            odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2] = at, stop, -1 - n_rows
            n_odd += 1
        at = _next(text, stop)
        if _is_qid(text, at):
            qid[n_rows], stop = _whole(text, at + 4)
            if stop == at + 4 or not _word_ends(text, stop):
                fault = NO_FEATURE
                break
            n_qids, at = n_qids + 1, _next(text, stop)
        at, n_values, n_odd, fault = _features(
            text, at, n_values, n_odd, small, bits, values, indices, odd
        )
        if fault:
            break
        n_rows += 1
        indptr[n_rows] = n_values
        at = _skip_line(text, at)
    return n_rows, n_values, n_qids, fault, at, n_odd


def _ask_python(
    path: str | Path, text: np.ndarray, odd: np.ndarray, y: np.ndarray, values: np.ndarray
) -> None:
    """Let Python read the numbers that compiled code is not sure of."""
    for start, stop, place in odd:
        word = text[start:stop].tobytes()
        try:
            value = float(word)
        except ValueError:
            if place >= 0:
                while start > 0 and not _is_blank(text[start - 1]):
                    start -= 1
            why = WHY[NO_FEATURE if place >= 0 else NO_LABEL]
            if place < 0 and b"," in word:
                why += " (several labels in a row are not supported)"
            raise _malformed(path, text, start, why) from None
        if place >= 0:
            values[place] = value
        else:
            y[-1 - place] = value


def _malformed(path: str | Path, text: np.ndarray, at: int, why: str) -> Mistake:
    word = text[at : min(_end(text, at), at + 40)].tobytes().decode("utf-8", "replace")
    line = 1 + int(np.count_nonzero(text[:at] == LINE))
    return Mistake(f"{path}, line {line}: {why.format(token=word)}.")
