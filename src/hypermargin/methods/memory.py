"""What a search remembers of an earlier run of itself: nothing, unless it has a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..problems.base import Evaluation, Problem

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What is asked of a problem: a point, on which rows, how exactly, with a gradient or not."""

    theta: np.ndarray
    rows: str
    tol: float
    gradient: bool
    how: str


class Memo:
    """One evaluation: it is trained, and not kept.

    `seconds` and `folds`, the scores of folds, are known of what is remembered.
    """

    seconds: float | None = None
    folds: list[dict[str, Any]] | None = None

    def evaluation(self, train: Callable[[], Evaluation]) -> Evaluation:
        """Return the evaluation, as it is remembered or else as it is trained."""
        return train()

    def keep(
        self, visit: Any, folds: list[dict[str, Any]] | None = None, state: bool = False
    ) -> None:
        """Remember a visit, with the scores of its folds and where machines ended, or without."""


class Memory:
    """What evaluations of one combination of listed values are looked up in, and kept in."""

    def memo(self, question: Question, problem: Problem, rows: np.ndarray | None) -> Memo:
        """Return what is known of an evaluation on some rows of a problem."""
        return NOT_KEPT

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what a function makes, or has made: arrays, numbers, and what holds them.

        For long work beside evaluations; work of one name must always come in the same order.
        """
        return make()


NOT_KEPT = Memo()
