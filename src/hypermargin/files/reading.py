"""One door to all files of data: what a file is, is read off its first bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .arrays import read_npz, read_parquet
from .delimited import read_delimited
from .opening import MARK, beginning
from .svmlight import read_svmlight
from .table import Matrix, Table

FEATURE = re.compile(rb"\s(?:qid|\d+):\S+")  # of a line of LIBSVM text, after its label
LINE = re.compile(rb"\A[-+.\de]+(?:\s+(?:qid|\d+):[-+.\de]+)+\Z")  # a whole one, no CSV
NAMED = {".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm", ".csv": "delimited",
         ".tsv": "delimited", ".tab": "delimited"}  # fmt: skip


def read(
    path: str | Path,
    *,
    header: bool | None = None,
    text: Iterable[str] = (),
    zero_based: bool | None = None,
) -> Table | Matrix:
    r"""Read a file of data.

    Parameters
    ----------
    path : str or Path
        CSV or TSV, LIBSVM (SVMlight) text, both also packed by gzip or bzip2; Parquet; .npz.
    header : bool, default=None
        Whether the first line of a CSV has names; None finds out.
    text : iterable of str, default=()
        Columns that are text: of a CSV whatever is in them, of a Parquet file whole numbers.
    zero_based : bool, default=None
        Whether features of LIBSVM text are counted from 0; None finds out.

    Returns
    -------
    data : Table or Matrix
        A table of named columns, or the matrix and the targets of the other formats.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> from hypermargin.files import read
    >>> with NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("age,sex\n31,f\n,m\n")
    ...     file.flush()
    ...     table = read(file.name)
    >>> table.names, table.columns
    (['age', 'sex'], [array([31., nan]), array(['f', 'm'], dtype=object)])
    """
    kind = kind_of(path)
    if kind == "parquet":
        return read_parquet(path, text)
    if kind == "npz":
        return read_npz(path)
    if kind == "libsvm":
        return read_svmlight(path, zero_based=zero_based)
    return read_delimited(path, header=header, text=text)


def kind_of(path: str | Path) -> str:
    """Return what a file is: "parquet", "npz", "libsvm" or "delimited"."""
    start = beginning(path)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK"):
        return "npz"
    name = Path(path).name.lower().removesuffix(".gz").removesuffix(".bz2")
    by_name = NAMED.get(Path(name).suffix)
    lines = [line for line in start.removeprefix(MARK).splitlines() if _body(line)]
    features = LINE if by_name == "delimited" else FEATURE
    if by_name != "libsvm" and lines and features.search(_body(lines[0])):
        return "libsvm"
    return by_name or "delimited"


def _body(line: bytes) -> bytes:
    """Return a line without its comment."""
    return line.partition(b"#")[0].rstrip()
