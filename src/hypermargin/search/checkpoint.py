"""A file that a search writes every evaluation to, and goes on from.

The first line says what is searched; every other one is an evaluation, or other long work, in the
order in which they were finished.  A search is deterministic, so it is not its place that is kept:
it is run from its beginning, and what the file knows is not trained again.  With outputs,
derivatives and the places where machines ended, all to their last bit, it comes by the same steps
to where it was.
"""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from .._core.packing import Packer, Unpacker
from .._core.warn import warn
from ..methods.memory import Memo, Memory, Question
from ..problems.base import Evaluation, Problem
from .fingerprint import differences
from .records import plain, read
from .stored import KINDS, Answers, pack_evaluation, unpack_evaluation

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

FORMAT = 2
MARK = {"hypermargin": "checkpoint", "format": FORMAT}
BEGINNING = b'{"hypermargin": "checkpoint", '  # of every such file
ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False)
SAME_POINT = 1e-9  # relative difference of points that are the same, but for rounding


class NoCheckpoint:
    """A search that keeps nothing."""

    def memory(self, combination: int) -> Memory:
        """Return what a combination of listed values looks evaluations up in."""
        return Memory()

    def generator(self, random_state: Any) -> np.random.RandomState:
        """Return where all that is random is drawn from."""
        return check_random_state(random_state)


class Checkpoint(NoCheckpoint):
    """The file of a search, which no other process has open.

    Parameters
    ----------
    path : str or path
    parts : dict
        The fingerprint of the search.
    """

    def __init__(self, path: str | os.PathLike, parts: dict[str, Any]):
        self.path, self.parts = path, parts
        self._lock = threading.Lock()
        self._known: dict[tuple[str, bytes], deque[int]] = defaultdict(deque)
        self._points: dict[str, list[np.ndarray]] = defaultdict(list)
        self._random: Any = None
        self._end, self._torn = 0, False
        self._file: int | None = self._open()
        try:
            self._hold()
            self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the file free."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None

    def memory(self, combination: int) -> Memory:
        """Return the evaluations of one combination of listed values."""
        return _Kept(self, combination)

    def generator(self, random_state: Any) -> np.random.RandomState:
        """Return where all that is random is drawn from: as it was when the file was begun."""
        rng = check_random_state(random_state)
        if isinstance(random_state, (int, np.integer)):
            return rng
        if self._random is None:
            packer = Packer()
            self._random = {"random": packer.pack(rng.get_state())}
            self.append(self._random, packer)
            return rng
        found = np.random.RandomState()
        found.set_state(unpacker_of(self._random).read(self._random["random"]))
        return found

    def append(self, line: dict[str, Any], packer: Packer | None = None) -> None:
        """Write a line, with what was packed; a kill after that does not lose it.

        A full disk ends no search.
        """
        if packer is not None:
            line = {**line, "arrays": packer.arrays}
        text = ENCODER.encode(line).encode()
        if packer is None:
            data = text + b"\n"
        else:
            data = b"".join([text[:-1], b', "data": "', packer.text, b'"}\n'])
        with self._lock:
            if self._file is None:
                return
            try:
                self._write(data)
            except OSError as error:
                os.close(self._file)
                self._file = None
                warn(
                    f"checkpoint={str(self.path)!r} can no longer be written ({error.strerror}); "
                    "the search goes on without it."
                )

    def take(self, lines: list[bytes]) -> None:
        """Write lines of another checkpoint, whose evaluations are then known here, too."""
        with self._lock:
            for line in lines:
                if self._file is None:
                    return
                start = self._end
                self._write(line)
                self._note(start, json.loads(line))

    def recall(self, key: str, theta: bytes = b"", near: bool = False) -> dict[str, Any] | None:
        """Return the next line of a question, None if there is none."""
        with self._lock:
            found = self._known.get((key, theta))
            if not found and near:
                theta = self._nearest(key, np.frombuffer(theta))
                found = self._known.get((key, theta))
            if not found or self._file is None:
                return None
            os.lseek(self._file, found.popleft(), os.SEEK_SET)
            with os.fdopen(os.dup(self._file), "rb") as reader:
                return json.loads(reader.readline())

    def _nearest(self, key: str, theta: np.ndarray) -> bytes:
        """Return a point of the file that is the same but for rounding."""
        for point in self._points.get(key, []):
            if self._known[key, point.tobytes()] and np.allclose(
                point, theta, SAME_POINT, SAME_POINT
            ):
                return point.tobytes()
        return b""

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} cannot be written ({error.strerror}); give the "
                "path of a file in a folder that exists and may be written to."
            ) from None

    def _hold(self) -> None:
        """Lock the file, for as long as this process lives."""
        assert self._file is not None
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                import msvcrt

                os.lseek(self._file, 1 << 40, os.SEEK_SET)  # a place that is never read
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
        except (BlockingIOError, PermissionError):
            raise ValueError(
                f"checkpoint={str(self.path)!r} is in use by another search; wait until that has "
                "ended, or give another path."
            ) from None

    def _read(self) -> None:
        """Find all that is known, as far as lines are whole; begin the file if nothing is."""
        assert self._file is not None
        head = _beginning(self._file)
        if not BEGINNING.startswith(head):
            raise self._refusal("is not a file that a search has written; it is left as it is")
        lines = whole_lines(self._file)
        _, end, first = next(lines, (0, 0, {}))
        for start, last, line in lines:
            end = last
            self._note(start, line)
        if not self._known:  # what was asked for may have been another thing, without any harm
            self._random = None
            os.ftruncate(self._file, 0)
            self.append({**MARK, "search": self.parts})
            return
        if first.get("format") != FORMAT:
            raise self._refusal("was written by another version of hypermargin")
        if found := list(differences(first["search"], json.loads(json.dumps(self.parts)))):
            raise self._refusal(f"is of another search: {', '.join(found)}")
        self._end, self._torn = end, True

    def _refusal(self, why: str) -> ValueError:
        return ValueError(f"checkpoint={str(self.path)!r} {why}; give another path.")

    def _note(self, start: int, line: dict[str, Any]) -> None:
        """Note where a line is, by what it answers."""
        if "random" in line:
            self._random = line
            return
        theta = np.array(line.get("theta", []), dtype=float)
        self._known[line["at"], theta.tobytes()].append(start)
        self._points[line["at"]].append(theta)

    def _write(self, data: bytes) -> None:
        """Write behind the last whole line; what an interrupt has left there is cut off."""
        assert self._file is not None
        if self._torn:
            os.ftruncate(self._file, self._end)
        self._torn, done = True, 0
        os.lseek(self._file, self._end, os.SEEK_SET)
        while done < len(data):
            done += os.write(self._file, data[done:] if done else data)
        self._end, self._torn = self._end + len(data), False


def _beginning(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, len(BEGINNING))


def whole_lines(file: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield where lines begin and end, and what they hold, up to the first that is torn."""
    with os.fdopen(os.dup(file), "rb") as reader:
        reader.seek(0)
        end = 0
        for raw in reader:
            start, end = end, end + len(raw)
            try:
                line = json.loads(raw) if raw.endswith(b"\n") else None
            except ValueError:
                line = None
            if not isinstance(line, dict):
                return
            yield start, end, line


class _Kept(Memory):
    """The evaluations of one combination of listed values."""

    def __init__(self, checkpoint: Checkpoint, combination: int):
        self.checkpoint, self.combination = checkpoint, combination

    def memo(self, question: Question, problem: Problem, rows: np.ndarray | None) -> Memo:
        key = (
            f"{self.combination}, rows {question.rows}, tol {question.tol!r}, "
            f"gradient {question.gradient}, {question.how}"
        )
        theta = question.theta
        found = self.checkpoint.recall(key, theta.tobytes(), near=True)
        if found is None:
            return _New(self.checkpoint, {"at": key, "theta": theta.tolist()})
        return _Recalled(found, problem, rows)

    def once(self, name: str, make: Callable[[], T]) -> T:
        key = f"{self.combination}, {name}"
        found = self.checkpoint.recall(key)
        if found is not None:
            return unpacker_of(found).read(found["value"])
        value, packer = make(), Packer()
        self.checkpoint.append({"at": key, "value": packer.pack(value)}, packer)
        return value


class _Recalled(Memo):
    """An evaluation that the file knows."""

    def __init__(self, found: dict[str, Any], problem: Problem, rows: np.ndarray | None):
        self.seconds, self.folds = found["seconds"], read(found["folds"])
        self._found, self._problem, self._rows = found, problem, rows

    def evaluation(self, train: Callable[[], Evaluation]) -> Evaluation:
        found, error = self._found, self._found["error"]
        if found["evaluation"] is None:
            raise FloatingPointError(error)
        kept = unpack_evaluation(
            found["evaluation"], unpacker_of(found), self._problem, self._rows, error
        )
        self._found = {}  # it holds all arrays as text
        return kept


class _New(Memo):
    """An evaluation that the file is to know."""

    def __init__(self, checkpoint: Checkpoint, line: dict[str, Any]):
        self._checkpoint, self._line, self._answers = checkpoint, line, Answers()

    def evaluation(self, train: Callable[[], Evaluation]) -> Evaluation:
        return self._answers.of(train())

    def keep(
        self, visit: Any, folds: list[dict[str, Any]] | None = None, state: bool = False
    ) -> None:
        packed, packer = None, Packer()
        if visit.evaluation is not None:
            packed = pack_evaluation(visit.evaluation, self._answers, state, packer)
        self._answers = Answers()
        line = {
            **self._line,
            "params": plain(visit.params),
            "objective": plain(visit.value),
            "seconds": visit.seconds,
            "error": None if visit.error is None else str(visit.error),
            "folds": plain(folds),
            "evaluation": packed,
        }
        self._checkpoint.append(line, packer)


def unpacker_of(line: dict[str, Any]) -> Unpacker:
    """Return what reads the arrays of a line."""
    return Unpacker(line["arrays"], line["data"], KINDS)


@contextmanager
def opened(
    path: str | os.PathLike | None, parts: Callable[[], dict[str, Any]]
) -> Iterator[NoCheckpoint]:
    """Open the checkpoint of a search, if there is to be one; `parts` makes its fingerprint."""
    if path is None:
        yield NoCheckpoint()
        return
    checkpoint = Checkpoint(path, parts())
    try:
        yield checkpoint
    finally:
        checkpoint.close()
