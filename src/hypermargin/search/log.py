"""What a search has seen: its records, with the problems that they came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.budget import Budget
from .._core.space import Params, Space
from ..adapters.prepare import Prepared
from ..methods.base import Curve
from ..methods.objective import Objective, Rate, SearchEnded, Visit
from .checkpoint import NoCheckpoint
from .records import Record, Scores, Selection, comparable
from .scoring import Scoring

NOTHING = Space()  # to be searched, where all values are listed


@dataclass(eq=False)
class Run:
    """The search of one combination of listed values: what points of its space are evaluated with.

    `prepared` is None where the combination could not be fitted.
    """

    listed: Mapping[str, Any]
    prepared: Prepared | None = None
    space: Space = NOTHING
    objective: Objective | None = None
    curve: Curve | None = None

    def point(self, record: Record) -> Params:
        """Return the hyperparameters of a record, by the names that the problem has."""
        return self.space.params(record.theta)

    def params(self, record: Record) -> dict[str, Any]:
        """Return the parameters of the estimator at a record."""
        return {**self.listed, **self.space.settings(self.point(record))}

    def public(self, record: Record) -> dict[str, Any]:
        """Return what `history_` says of a record."""
        gradient = record.gradient
        return {
            "params": self.params(record),
            "objective": record.objective,
            "gradient": None if gradient is None else self.space.derivatives(gradient),
            "score": record.score,
            "seconds": record.seconds,
            "n_samples": record.n_samples,
            "tol": record.tol,
            "look": record.look,
        }


class Log:
    """Scores and keeps every visit.

    `leading` is the name of the metric that `score` in the records shows, None for a single one.
    `saved` is the file that visits are kept in, `tasks` are told of them.
    """

    ending = ""  # how the search has ended
    early = False  # whether it was made to: by the clock, a callback or Ctrl-C
    latest: tuple[Record, dict[str, Any]] | None = None  # what predicts with a record

    def __init__(
        self,
        scoring: Scoring,
        leading: str | None,
        selection: Selection,
        saved: NoCheckpoint,
        tasks: Any,
    ):
        self.scoring, self.saved, self.tasks = scoring, saved, tasks
        self.leading = leading
        self.selection = selection
        self.runs: list[Run] = []
        self.records: list[Record] = []

    def begin(self, run: Run) -> Callable[[Visit], None]:
        """Return a function that records the visits of one combination of listed values."""
        number = len(self.runs)
        self.runs.append(run)

        def record(visit: Visit) -> None:
            self._append(self._record(number, visit))

        return record

    def run_of(self, record: Record) -> Run:
        return self.runs[record.combination]

    def params(self, record: Record) -> dict[str, Any]:
        """Return the parameters of the estimator at a record."""
        return self.run_of(record).params(record)

    def _append(self, record: Record) -> None:
        self.records.append(record)
        self._forget()
        self.tasks.progress.seen(record, partial(self.params, record), len(self.records))

    def _record(self, number: int, visit: Visit) -> Record:
        """Return the record of a visit."""
        run, scoring = self.runs[number], self.scoring
        assert run.prepared is not None
        gradient, norm = None, np.nan
        if visit.gradient is not None:
            gradient = run.space.slopes(visit.params, visit.gradient)
            norm = float(np.linalg.norm(run.space.pull(visit.params, visit.gradient)))
        record = Record(
            number, visit.theta, visit.value, gradient, norm, visit.n_rows, visit.seconds,
            visit.tol, visit.rough, visit.final,
        )  # fmt: skip
        on_all, evaluation = visit.n_rows == run.prepared.n_rows, visit.evaluation
        if visit.error is not None:
            record.fault, record.error = "failed", str(visit.error)
        elif evaluation is not None:
            record.fault = None if evaluation.converged else "did not converge"
            record.outputs = evaluation.outputs_only()
            record.state = evaluation.state if on_all else None
        # looks are many and cheap; scoring them would cost more than they do.  Scores on training
        # rows cannot be made later: what the outputs there come from is gone by then
        if not visit.rough and (on_all or scoring.return_train_score):
            self._score(record, visit)
        if not visit.rough:  # scores that can be read off the outputs are read again
            fits = not scoring.reads_outputs or scoring.return_train_score
            state = not visit.spare or self._leads(record)
            visit.memo.keep(visit, record.folds if fits else None, state)
        return record

    def _score(self, record: Record, visit: Visit | None = None) -> None:
        """Score a record, by its visit while that is there."""
        run, scoring = self.run_of(record), self.scoring
        assert run.prepared is not None
        evaluation = record.outputs if visit is None else visit.evaluation
        if visit is None and scoring.return_train_score:
            evaluation = None
        error = None
        if record.error is not None:
            error = FloatingPointError(record.error) if visit is None else visit.error
        settings = run.space.settings(run.point(record))
        record.folds = None if visit is None else visit.memo.folds
        if record.folds is None:
            record.folds = scoring.score(run.prepared, settings, evaluation, record.seconds, error)
        record.score = self._mean_score(record.folds)

    def _leads(self, record: Record) -> bool:
        """Whether a refit would begin with a new record, as far as is known."""
        if record.state is None:
            return False
        known = [other for other in self.records if other.state is not None]
        return self.selection.best_record([*known, record]) is record

    def _forget(self) -> None:
        """Keep the coefficients of the best record only."""
        stateful = [record for record in self.records if record.state is not None]
        best = self.selection.best_record(self._current(stateful)) if stateful else None
        for record in stateful:
            if record is not best:
                record.state = None

    def kept(self) -> list[Record]:
        """Return the records that can be compared with each other.

        Of evaluations whose scores need fits that were not made, only the best is kept.
        """
        kept = self._current(comparable(self.records))
        fits = not self.scoring.reads_outputs or self.scoring.return_train_score
        if fits and any(record.folds is None for record in kept):
            return [min(kept, key=lambda record: record.objective)]
        return kept

    def _current(self, records: list[Record]) -> list[Record]:
        """Return those that may be chosen; all of a combination, if none could be evaluated."""

        def is_current(record: Record) -> bool:
            objective = self.run_of(record).objective
            return objective is None or record.theta.tobytes() not in objective.outdated

        renewed = {r.combination for r in records if r.succeeded and is_current(r)}
        return [r for r in records if is_current(r) or r.combination not in renewed]

    def complete(self) -> list[Record]:
        """Score those that can be compared, if they are not; return them."""
        kept = self.kept()
        for record in kept:
            if record.folds is None:
                self._score(record)
        return kept

    def best(self) -> Record:
        """Return the best of all that can be compared."""
        return self.selection.best_record(self.complete())

    def is_settled(self, record: Record) -> bool:
        """Whether nothing is gained by evaluating a point again."""
        return record.final or not self.scoring.reads_outputs

    def settle(self, record: Record, budget: Budget) -> None:
        """Evaluate a point again at the final tolerance, and put that in its place."""
        objective = self.run_of(record).objective
        if self.is_settled(record) or objective is None:
            return
        self.tasks.settle()
        try:
            visit = objective.settle(record.theta, record.n_samples, budget)
        except SearchEnded:
            return
        exact = self._record(record.combination, visit)
        # the gradient is good enough as it is
        exact.gradient, exact.gradient_norm = record.gradient, record.gradient_norm
        self.records[self.records.index(record)] = exact
        self.tasks.progress.replaced(record, exact)

    def release(self) -> None:
        """Give the memory and the threads of all problems back."""
        for run in self.runs:
            if run.prepared is not None:
                if run.objective is not None and run.objective.apart is not None:
                    run.objective.apart.release()
                run.prepared.problem.release()
                run.prepared.problem.workers.release()

    @property
    def succeeded(self) -> bool:
        """Whether there is a point that could be evaluated."""
        return any(record.succeeded for record in self.records)

    def rater(self, prepared: Prepared) -> Rate | None:
        """Return a function that gives the score of outputs and its standard error over folds.

        None if scores cannot be read off the outputs, or do not count.
        """
        scoring = self.scoring
        if self.selection.by_loss or not scoring.reads_outputs:
            return None

        def rate(outputs: list[np.ndarray]) -> tuple[float, float]:
            scores = self.scores(scoring.read(prepared, outputs))
            return float(np.mean(scores)), float(np.std(scores) / np.sqrt(max(len(scores) - 1, 1)))

        return rate

    def fail(self, listed: Mapping[str, Any], n_folds: int, error: Exception) -> None:
        """Record that a combination of listed values could not be fitted."""
        folds, n_rows = self.scoring.failures(error, n_folds), len(self.scoring.y)
        record = Record(
            len(self.runs), np.empty(0), np.nan, None, np.nan, n_rows, 0.0, np.nan, False, True,
            "failed", str(error), self._mean_score(folds), folds,
        )  # fmt: skip
        self.runs.append(Run(listed))
        self._append(record)

    def _mean_score(self, folds: Scores) -> float:
        return float(np.mean(self.scores(folds)))

    def scores(self, out: Scores) -> list[float]:
        """Return the leading score of every fold."""
        scores = [fold["test_scores"] for fold in out]
        named = next((score for score in scores if isinstance(score, dict)), None)
        if named is None:
            return scores
        leading = self.leading if self.leading in named else next(iter(named))
        # of a fit that failed, a function's names are not known
        return [s.get(leading, np.nan) if isinstance(s, dict) else s for s in scores]
