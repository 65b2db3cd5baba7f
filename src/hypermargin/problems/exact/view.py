"""A design restricted to some rows, with all that does not change with the hyperparameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.budget import cached
from ...kernels.gram import Columns
from ...losses.base import Rows
from ..base import Design, KernelProblem
from .small import Roster
from .state import WarmStart


class View:
    """A design restricted to the rows that take part, with all that does not change with theta.

    `position` finds a row of the user's data among the rows here, -1 if it is not.  `test` are the
    validation rows of a fold in the order of the rows here, which `order` makes of the order of
    `test_rows`, that of the user's.  `groups` are the rows that belong to the same columns, which
    with one machine per pair of classes are a class each; their columns; and where they are in the
    roster, (rows, columns).
    """

    def __init__(self, problem: KernelProblem, design: Design, rows: np.ndarray | None):
        kept: Any = slice(None)
        if rows is not None and not rows[design.rows].all():
            kept = np.flatnonzero(rows[design.rows])
        self.points = design.points if rows is None else design.points.take(kept)
        self.rows = design.rows[kept]
        self.folds, self.fixed = design.folds, design.fixed
        n_total = len(problem.columns[0].target)
        self.position = np.full(n_total, -1)
        self.position[self.rows] = np.arange(len(self.rows))
        self.test_rows, self.test, self.order = {}, {}, {}
        for f in self.folds:  # a row may be listed twice, and may be in the training part too
            test = problem.folds[f].test
            self.test_rows[f] = test[self.position[test] >= 0]
            self.order[f] = np.argsort(self.position[self.test_rows[f]], kind="stable")
            self.test[f] = self.position[self.test_rows[f]][self.order[f]]
        self.members = [np.flatnonzero(c.members[self.rows]) for c in problem.columns]
        self.roster = Roster.of(self.members)
        targets = [c.target[self.rows[m]] for c, m in zip(problem.columns, self.members)]
        self.y = np.concatenate(targets)
        parts = {
            kind: np.concatenate(
                [c.parts[kind][self.rows[m]] for c, m in zip(problem.columns, self.members)]
            )
            for kind in problem.columns[0].parts
        }
        weight = np.stack([problem.folds[f].weight[self.rows] for f in self.folds])
        weight = np.ascontiguousarray(weight[:, self.roster.rows])
        for i, f in enumerate(self.folds):
            for c, column in enumerate(problem.columns):
                if not problem.folds[f].trains(column):
                    weight[i, self.roster.part(c)] = 0.0
        self.of_loss = Rows(self.y, weight, parts)
        self.groups = [
            (rows, columns, np.stack([self._places(rows, c) for c in columns], axis=1))
            for rows, columns in self._groups(problem)
            if len(columns)
        ]

    def _places(self, rows: np.ndarray, c: int) -> np.ndarray:
        """Return where members of a column are in the roster."""
        return self.roster.edges[c] + np.searchsorted(self.members[c], rows)

    def without_twins(self, rows: np.ndarray, ridge: np.ndarray) -> tuple[Any, Any, Any, Any]:
        """Return one of each equal rows, which one each row is, its share of that, and the ridge.

        Equal rows have equal equations: only the sum of their unknowns is determined, unless they
        have a ridge.  In a system for the sums none is singular for the sake of the other.
        """
        if self.points.twins is None:
            return slice(None), slice(None), 1.0, ridge
        _, one, each = np.unique(self.points.twins[rows], return_index=True, return_inverse=True)
        firm = ridge > 0.0
        weight = np.where(firm, 1.0 / np.where(firm, ridge, 1.0), 1.0)
        total = np.bincount(each, weight)
        return one, each, weight / total[each], np.where(firm[one], 1.0 / total, 0.0)

    def place(self, start: WarmStart) -> np.ndarray:
        """Return where in the roster the rows of an earlier evaluation are, -1 if nowhere."""
        if len(start.rows) == len(self.y) and np.array_equal(start.rows, self.user_rows):
            return np.arange(len(self.y))
        at = np.full(len(start.rows), -1)
        for c, members in enumerate(self.members):
            part = slice(start.edges[c], start.edges[c + 1])
            place = np.full(len(self.rows) + 1, -1)  # the last one is for rows that are not here
            place[members] = self.roster.edges[c] + np.arange(len(members))
            at[part] = place[self.position[start.rows[part]]]
        return at

    @cached
    def user_rows(self) -> np.ndarray:
        """The numbers of the members in the user's data."""
        return self.rows[self.roster.rows]

    def _groups(self, problem: KernelProblem) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs (rows, columns)."""
        if len(problem.columns) == 1:
            return [(self.members[0], np.array([0]))]
        belongs = np.stack([column.members[self.rows] for column in problem.columns], axis=1)
        bits = np.packbits(belongs, axis=1)
        _, first, of_row = np.unique(
            bits.view(f"V{bits.shape[1]}").ravel(), return_index=True, return_inverse=True
        )
        return [
            (np.flatnonzero(of_row == k), np.flatnonzero(belongs[row]))
            for k, row in enumerate(first)
        ]

    @cached
    def test_edges(self) -> np.ndarray | None:
        """Where the validation rows of each fold begin and end, if they follow each other."""
        ends = [0]
        for f in self.folds:
            part = self.test_columns[f]
            if not isinstance(part, slice) or part.start != ends[-1]:
                return None
            ends.append(part.stop)
        return np.array(ends)

    @cached
    def test_columns(self) -> dict[int, Columns]:
        """The validation rows of each fold, as a slice where they are neighbours."""
        return {f: _as_slice(test) for f, test in self.test.items()}


def _as_slice(index: np.ndarray) -> Columns:
    if len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
