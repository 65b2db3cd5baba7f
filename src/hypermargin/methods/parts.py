"""Rows to learn widths from, and rows to ask what they are worth, as the user's folds have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..adapters.base import Targets
from ..problems.base import Design
from .objective import Objective

PARTS = 5  # most parts that are held out in turn
LEAST_PARTS = 4  # parts of which two can be left out, so that enough rows to learn from are left
ROWS = 500, 1250, 2.5  # to learn from: at least, at most, and for each width
MOST_HELD_OUT = 4000  # rows to hold out


@dataclass(frozen=True)
class Held:
    """Rows that are held out together, and those that are learned from.

    `whole` has for each row of the data the weight that it may have in learning, zero for none;
    `train` are as many of them as are to be learned from.
    """

    design: Design
    whole: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @property
    def weight(self) -> np.ndarray:
        """The weights of the rows that are learned from."""
        return self.whole[self.train]


def rows_to_learn(n_widths: int) -> int:
    """Return from how many rows so many widths are learned."""
    return int(np.clip(ROWS[2] * n_widths, *ROWS[:2]))


def held_out(objective: Objective, n_widths: int) -> list[Held]:
    """Return some parts of the data to hold out, as the user's folds have them.

    What a fold is validated on never has a part in its training, nor do rows that the fold leaves
    out of it, such as those of the same group.  Folds with the same design are put together if they
    are many.
    """
    problem, found = objective.prepared.problem, []
    for design in problem.designs:
        n_parts = min(len(design.folds), PARTS)
        for folds in np.array_split(np.array(design.folds), n_parts):
            part = _part(objective, design, [problem.folds[f] for f in folds], n_widths)
            if part is not None:
                found.append(part)
    found.sort(key=lambda part: -len(part.train))
    return found[:PARTS]


def without(objective: Objective, part: Held, other: Held, n_widths: int) -> Held | None:
    """Return a part that learns from nothing that either of two holds out; None if too little."""
    whole = np.minimum(part.whole, other.whole)
    train = _to_learn(objective, part.design, whole, n_widths)
    if not _is_enough(objective, train):
        return None
    return replace(part, whole=whole, train=train)


def _part(objective: Objective, design: Design, folds: Sequence, n_widths: int) -> Held | None:
    """Return the validation rows of some folds and what all of them train on; None if too few."""
    whole = np.min([fold.weight for fold in folds], axis=0)
    test = np.unique(np.concatenate([fold.test for fold in folds]))
    test = test[(whole[test] == 0.0) & (objective.weight[test] > 0.0)]
    test = _some(test, objective.prepared.targets, MOST_HELD_OUT)
    train = _to_learn(objective, design, whole, n_widths)
    if not _is_enough(objective, train) or not _is_enough(objective, test):
        return None
    return Held(design, whole, train, test)


def _to_learn(objective: Objective, design: Design, whole: np.ndarray, n_widths: int) -> np.ndarray:
    rows = np.intersect1d(np.flatnonzero(whole), design.rows)
    return _some(rows, objective.prepared.targets, rows_to_learn(n_widths))


def _is_enough(objective: Objective, rows: np.ndarray) -> bool:
    """Whether the loss is defined on rows, and says something."""
    if len(rows) < 2 or not objective.weight[rows].any():
        return False
    targets = objective.prepared.targets
    if targets.classes is None:
        return True
    present = np.isin(np.arange(len(targets.classes)), targets.y[rows])
    return present.sum() > 1 and objective.criterion.missing(present) is None


def _some(rows: np.ndarray, targets: Targets, most: int) -> np.ndarray:
    """Return at most so many of the rows, with classes in their proportions."""
    if len(rows) <= most:
        return rows
    rows, place = np.random.RandomState(0).permutation(rows), np.arange(len(rows)) / len(rows)
    if targets.classes is not None:
        for number in np.unique(targets.y[rows]):
            members = np.flatnonzero(targets.y[rows] == number)
            place[members] = np.arange(len(members)) / len(members)
    return np.sort(rows[np.argsort(place, kind="stable")[:most]])
