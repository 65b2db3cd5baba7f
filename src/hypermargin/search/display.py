"""What is printed of a search: a live line, a line for each stage or for each evaluation.

A terminal has one line that is written anew, by rich if that is installed.  Anything else, a file
or a notebook, gets whole lines without control characters.  What goes wrong here is nobody's
business: it ends the printing, not the search.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, TextIO

import numpy as np

from .._core.spelling import spelt_value
from .records import Record

EVERY = 0.1  # seconds between two drawings of a line
TICK = 0.5  # the same by rich, which takes longer
_terminal = threading.Lock()  # has one live line at a time


def harmless(draw: Callable[..., None]) -> Callable[..., None]:
    """Return a method that after an error does nothing, now and ever."""

    @wraps(draw)
    def method(self: Any, *args: Any) -> None:
        if self.broken:
            return
        try:
            draw(self, *args)
        except Exception:
            self.broken = True

    return method


class Display:
    """Prints nothing."""

    broken = False

    def update(self, told: Mapping[str, Any]) -> None:
        """Say how far the search is."""

    def stage(self, told: Mapping[str, Any], stage: str) -> None:
        """Begin a stage; what is told is of the one before."""

    def record(self, record: Record, params: Callable[[], Mapping[str, Any]], number: int) -> None:
        """Tell of an evaluation."""

    def close(self) -> None:
        """Give the terminal free."""

    def say(self, lines: Callable[[], list[str]]) -> None:
        """Print some lines."""


class Printed(Display):
    """Prints whole lines."""

    @harmless
    def say(self, lines: Callable[[], list[str]]) -> None:
        print("\n".join(lines()), flush=True)


class Stages(Printed):
    """A line for each stage, at its end."""

    def __init__(self) -> None:
        self._before = (0, 0)

    @harmless
    def stage(self, told: Mapping[str, Any], stage: str) -> None:
        count = told["n_looks"], told["n_evaluations"]
        made = sum(count) - sum(self._before)
        if made:
            parts = [evaluations(made), *times(told), *best_of(told)]
            print(f"[{told['stage']}] {', '.join(parts)}", flush=True)
        self._before = count


class Evaluations(Printed):
    """A line for each evaluation, and one for each of its folds if they are asked for."""

    def __init__(self, folds: bool):
        self.folds = folds

    @harmless
    def record(self, record: Record, params: Callable[[], Mapping[str, Any]], number: int) -> None:
        at, folds = spelt(params()), record.folds
        score = "" if folds is None else f"mean score {record.score:.5g}, "
        print(
            f"[{number:3d}] n={record.n_samples}: {at}; "
            f"objective={record.objective:.5g}, {score}{record.seconds:.2f} s"
        )
        for fold_number, fold in enumerate((folds or []) if self.folds else [], start=1):
            seconds = fold["fit_time"] + fold["score_time"]
            of_fold = f"[CV {fold_number}/{len(folds or [])}] END {at};"
            print(f"{of_fold}{_scores(fold)} {seconds:.2f} s")


class Live(Printed):
    """One line that is written anew, in plain text; until it closes the terminal is its own."""

    def __init__(self, stream: TextIO):
        self.stream, self._last, self._width, self._closed = stream, 0.0, 0, False

    @harmless
    def update(self, told: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if now - self._last >= EVERY:
            self._last = now
            self.show(told, told["stage"])

    @harmless
    def stage(self, told: Mapping[str, Any], stage: str) -> None:
        if stage:
            self.show(told, stage)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            _terminal.release()
            with suppress(Exception):
                self.end()

    def show(self, told: Mapping[str, Any], stage: str) -> None:
        """Write the line in the place of the last one."""
        line = line_of(told, stage)
        room = max(20, shutil.get_terminal_size().columns - 1)
        line = line if len(line) <= room else line[: room - 3] + "..."
        self.stream.write("\r" + line.ljust(min(room, self._width)))
        self.stream.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Leave an empty line."""
        self.stream.write("\r" + " " * self._width + "\r")

    def end(self) -> None:
        """Draw nothing more."""
        self.clear()

    @harmless
    def say(self, lines: Callable[[], list[str]]) -> None:
        if not self._closed:
            self.clear()
        print("\n".join(lines()), flush=True)


class Rich(Live):
    """The same with times that go on while nothing else does."""

    def __init__(self, stream: TextIO):
        from rich.console import Console
        from rich.live import Live as RichLive
        from rich.text import Text

        super().__init__(stream)
        self._shown: tuple[dict[str, Any], str, float] | None = None

        def text() -> Any:
            return Text(self._line(), no_wrap=True, overflow="ellipsis")

        self.live = RichLive(
            console=Console(file=stream), refresh_per_second=1.0 / TICK, transient=True,
            get_renderable=text,
        )  # fmt: skip
        self.live.start()

    def show(self, told: Mapping[str, Any], stage: str) -> None:
        self._shown = dict(told), stage, time.perf_counter()

    def _line(self) -> str:
        if self._shown is None:
            return ""
        told, stage, then = self._shown
        since, left = time.perf_counter() - then, told["seconds_left"]
        left = None if left is None else left - since
        return line_of({**told, "seconds": told["seconds"] + since, "seconds_left": left}, stage)

    def clear(self) -> None:
        pass  # rich prints above its line

    def end(self) -> None:
        self.live.stop()


def make_display(verbose: int) -> Display:
    """Return what prints as much as was asked for, where it goes."""
    if verbose <= 0:
        return Display()
    if verbose >= 2:
        return Evaluations(folds=verbose > 2)
    return _live() or Stages()


def _live() -> Display | None:
    """Return a live line, if there is a terminal that has none."""
    stream = sys.stdout
    try:
        if not stream.isatty() or os.environ.get("TERM") == "dumb":
            return None
    except Exception:
        return None
    if not _terminal.acquire(blocking=False):
        return None
    for kind in (Rich, Live):
        try:
            return kind(stream)
        except Exception:  # rich is not there, or cannot draw
            continue
    _terminal.release()
    return None


def line_of(told: Mapping[str, Any], stage: str) -> str:
    """Return the live line; what a narrow terminal cuts off comes last."""
    made = told["n_looks"] + told["n_evaluations"]
    return ", ".join([stage, evaluations(made), *times(told), *best_of(told)])


def evaluations(count: int) -> str:
    """Return a number of evaluations in words."""
    return f"{count} evaluation" if count == 1 else f"{count} evaluations"


def times(told: Mapping[str, Any]) -> list[str]:
    """Return the time spent, and that left if it can be told: one that is over was wrong."""
    left = told["seconds_left"]
    spent = in_seconds(told["seconds"])
    return [spent] if left is None or left <= 0.0 else [spent, f"about {in_seconds(left)} left"]


def best_of(told: Mapping[str, Any]) -> list[str]:
    """Return the best point so far, if there is one."""
    if told["best_params"] is None:
        return []
    what = "objective" if np.isnan(told["best_score"]) else "score"
    return [f"best {what} {told[f'best_{what}']:.5g} at {spelt(told['best_params'])}"]


def spelt(params: Mapping[str, Any] | None) -> str:
    """Return hyperparameters as a line has them."""
    return ", ".join(f"{name}={spelt_value(value)}" for name, value in (params or {}).items())


def in_seconds(seconds: float) -> str:
    """Return a time as people read it."""
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _scores(fold: Mapping[str, Any]) -> str:
    """Return the scores of a fold as GridSearchCV prints them."""
    test, train = fold["test_scores"], fold.get("train_scores")
    if not isinstance(test, dict):
        both = f"{test:.3f}" if train is None else f"(train={train:.3f}, test={test:.3f})"
        return f" score={both}"
    parts = {name: f"test={test[name]:.3f}" for name in sorted(test)}
    if train is not None:
        parts = {name: f"train={train[name]:.3f}, {part}" for name, part in parts.items()}
    return "".join(f" {name}: ({part})" for name, part in parts.items())
