"""Fits in a process of its own, which is ended when their time is up.

A fit of scikit-learn cannot be stopped, and one at a large C may take hours.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from .problem import Problem

__all__ = ["Fits", "Late", "Task"]


@dataclass
class Task:
    """Rows to fit on and to score on, and the score."""

    train: Problem
    test: Problem
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    scoring: Any  # a name of scikit-learn, or a scorer

    def fold(self, model: Any, prefix: str, number: int) -> float:
        """Return the score of a model on one of the folds, after a fit on the others."""
        of, (rows, held) = self.train, self.splits[number]
        model.fit(_safe_indexing(of.X, rows), of.y[rows], **weights(of, prefix, rows))
        weighted = {} if of.weights is None else {"sample_weight": of.weights[held]}
        return get_scorer(self.scoring)(model, _safe_indexing(of.X, held), of.y[held], **weighted)

    def final(self, model: Any, prefix: str) -> float:
        """Return the score of a model on the rows to test on, after a fit on all others."""
        model.fit(self.train.X, self.train.y, **weights(self.train, prefix))
        return get_scorer(self.scoring)(model, self.test.X, self.test.y)


def weights(problem: Problem, prefix: str, rows: Any = slice(None)) -> dict[str, Any]:
    """Return what `fit` takes beside rows and targets."""
    return {} if problem.weights is None else {f"{prefix}sample_weight": problem.weights[rows]}


class Fits:
    """A process that does a task step by step."""

    def __init__(self, task: Task, jobs: int):
        self.task = task
        self._process: ProcessPoolExecutor | None = None
        # threads that wait without end would keep each other from the cores
        self._settings = {"OMP_WAIT_POLICY": "PASSIVE"}
        if jobs > 0:
            self._settings["OMP_NUM_THREADS"] = str(jobs)

    def begin(self) -> None:
        """Start the process, if it does not run, and wait until it is ready."""
        if self._process is None:
            self._process = ProcessPoolExecutor(
                1, initializer=_take, initargs=(self.task,), env=self._settings
            )
            self._process.submit(_step, "", ()).result()

    def ask(self, step: str, *args: Any, seconds: float) -> float:
        """Return the result of a step; end the process if that takes too long, or has died.

        Then Late is raised, or MemoryError: what else ends a process is a lack of memory.
        """
        self.begin()
        assert self._process is not None
        try:
            return float(self._process.submit(_step, step, args).result(max(seconds, 0.0)))
        except Late:
            self.close()
            raise
        except BrokenProcessPool:
            self.close()
            raise MemoryError("its process has died") from None

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.shutdown(wait=True, kill_workers=True)
            self._process = None


_task: Task


def _take(task: Task) -> None:
    """Keep the task in the process that is to do it; Ctrl-C is for the one that waits."""
    global _task
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _task = task


def _step(step: str, args: Sequence[Any]) -> Any:
    return getattr(_task, step)(*args) if step else None
