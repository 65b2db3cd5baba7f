"""How far a search is: what callbacks may read, and what is printed of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..methods.base import Method
from ..methods.objective import Level, Objective
from .display import Display
from .records import Record, Selection


class Progress:
    """Counts evaluations, knows the best point so far, and guesses how long the rest will take.

    `told` is what users see, `progress_` of the search.
    """

    def __init__(self, display: Display, selection: Selection, n_combinations: int):
        self.display, self.selection = display, selection
        self.told: dict[str, Any] = {
            "stage": "", "n_looks": 0, "n_evaluations": 0, "best_score": np.nan,
            "best_objective": np.nan, "best_params": None, "seconds": 0.0, "seconds_left": None,
        }  # fmt: skip
        self._begun = time.perf_counter()
        self._n_combinations, self._number = n_combinations, 0
        self._combination_begun = self._begun
        self._best: Record | None = None
        self._settles = False
        self._method: Method | None = None
        self._objective: Objective | None = None
        self._foreseen: tuple[Any, float] = (None, 0.0)

    def combination(self, number: int) -> None:
        """Begin a combination of listed values."""
        self._number, self._combination_begun = number, time.perf_counter()
        self._objective = None

    def expect(self, method: Method, objective: Objective) -> None:
        """Know how a combination is searched."""
        self._method, self._objective = method, objective

    def begin(self, level: Level, rough: bool) -> None:
        """Begin an evaluation."""
        whole = level.objective.prepared.n_rows
        rows = f"all {whole} rows" if level.rows is None else f"{level.n_rows} of {whole} rows"
        if not self._settles:
            self._enter(self._of_combination(f"look at {rows}" if rough else rows))

    def settle(self) -> None:
        """Begin what is trained to the end."""
        self._settles = True
        self._enter("final tolerance")

    def refit(self) -> None:
        """Begin the refit."""
        self._enter("refit")

    def end(self, rough: bool) -> None:
        """End an evaluation."""
        self.told["n_looks" if rough else "n_evaluations"] += 1
        self._tick()
        self.display.update(self.told)

    def seen(self, record: Record, params: Callable[[], Mapping[str, Any]], number: int) -> None:
        """Know a new record, the number-th one."""
        if self._best is None or self._is_better(record, self._best):
            self._best = record
            self.told |= {"best_score": record.score, "best_objective": record.objective}
            self.told["best_params"] = dict(params())
        self.display.record(record, params, number)

    def replaced(self, old: Record, new: Record) -> None:
        """Know a record that stands in the place of an old one."""
        if old is self._best:
            self._best = new
            self.told |= {"best_score": new.score, "best_objective": new.objective}

    def end_all(self, lines: Callable[[], list[str]]) -> None:
        """Say how it has ended."""
        self._enter("")
        self.told["seconds_left"] = 0.0
        self.display.close()
        self.display.say(lines)

    def _of_combination(self, stage: str) -> str:
        if self._n_combinations == 1:
            return stage
        return f"combination {self._number + 1} of {self._n_combinations}, {stage}"

    def _enter(self, stage: str) -> None:
        if stage == self.told["stage"]:
            return
        self._tick()
        self.display.stage(self.told, stage)
        self.told["stage"] = stage

    def _is_better(self, record: Record, best: Record) -> bool:
        """Whether a record would be chosen instead of the best one so far."""
        if not record.succeeded:
            return False
        ranks = [(not r.look, r.n_samples) for r in (record, best)]
        if ranks[0] != ranks[1] or not best.succeeded:
            return ranks[0] > ranks[1] or not best.succeeded
        known = not (np.isnan(record.score) or np.isnan(best.score))
        if known and not self.selection.by_loss and record.score != best.score:
            return record.score > best.score
        return record.objective < best.objective and not (known and self.selection.first)

    def _tick(self) -> None:
        now = time.perf_counter()
        self.told["seconds"] = now - self._begun
        self.told["seconds_left"] = self._left(now)

    def _left(self, now: float) -> float | None:
        """Return the seconds that the search may take from now on, if that can be said."""
        objective = self._objective
        if objective is None:
            return None
        left = self._left_here(objective, now)
        others = self._n_combinations - self._number - 1
        if others and self._number:
            each = (self._combination_begun - self._begun) / self._number
            here = each - (now - self._combination_begun) if left is None else left
            left = max(0.0, here) + others * each
        elif others:
            left = None
        most = objective.budget.left
        return most if left is None else left if most is None else min(left, most)

    def _left_here(self, objective: Objective, now: float) -> float | None:
        """Return the seconds that the present combination may take."""
        if objective.forecast is not None:
            if self._foreseen[0] is not objective.forecast:
                self._foreseen = objective.forecast, now
            return max(0.0, objective.forecast.seconds - (now - self._foreseen[1]))
        made = objective.evaluations_on_all
        if self._method is not None and self._method.uses_all and made:
            return (now - self._combination_begun) / made * (objective.max_evals - made)
        return None
