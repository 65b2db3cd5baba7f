"""What a search has seen: one entry per evaluated point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._core.budget import Budget
from .._core.space import Space
from ..adapters.prepare import Prepared
from ..methods.objective import SearchEnded, Visit
from ..problems.base import Evaluation
from .scoring import Scoring

Scores = list[dict[str, Any]]


Rate = Callable[[list[np.ndarray]], tuple[float, float]]


@dataclass(eq=False)
class Entry:
    """An evaluated point: the public record and the scores of its folds.

    `out` is None where nobody may ask for the scores, or they need fits; `score` makes them.
    `again` evaluates the point at the final tolerance, `look` tells a rough look from an
    evaluation, `fault` what went wrong.
    """

    record: dict[str, Any]
    out: Scores | None
    score: Callable[[], Scores]
    again: Callable[[Budget], Entry] | None
    look: bool
    fault: str | None
    gradient_norm: float
    space: Space
    point: Mapping[str, float]
    prepared: Prepared | None = None
    state: Any = None  # where training ended, for the best entry only
    evaluation: Evaluation | None = None  # its outputs

    def spell(self, flat: str) -> str:
        """Return what the user calls a hyperparameter: ``class_weight['spam']``."""
        if self.prepared is None:
            return flat
        ((name, value),) = self.prepared.nested({flat: 0.0}).items()
        return f"{name}[{next(iter(value))!r}]" if isinstance(value, dict) else name


class Log:
    """Scores and keeps every visit.

    `leading` is the name of the metric that `score` in the records shows, None for a single one.
    With `by_loss` the least loss is the best, whatever the scores are; with `first`, the first one
    of equal scores, else that with the least loss.
    """

    def __init__(
        self,
        scoring: Scoring,
        leading: str | None,
        verbose: int,
        by_loss: bool = False,
        first: bool = False,
    ):
        self.by_loss, self.first = by_loss, first
        self.scoring = scoring
        self.leading = leading
        self.verbose = verbose
        self.entries: list[Entry] = []
        self.curves: dict[int, dict[str, np.ndarray]] = {}  # by the problem that they are of

    def recorder(
        self, prepared: Prepared, listed: Mapping[str, Any], space: Space
    ) -> Callable[[Visit], None]:
        """Return a function that logs the visits of one combination of listed values."""

        def record(visit: Visit) -> None:
            self.entries.append(self._entry(prepared, listed, space, visit))
            self._forget()
            self._print()

        return record

    def _entry(
        self, prepared: Prepared, listed: Mapping[str, Any], space: Space, visit: Visit
    ) -> Entry:
        scoring, out = self.scoring, None
        on_all = visit.n_rows == prepared.n_rows
        # looks are many and cheap; scoring them would cost more than they do.  Scores on training
        # rows cannot be made later: what the outputs there come from is gone by then
        if not visit.rough and (on_all or scoring.return_train_score):
            out = scoring.score(prepared, visit)
        fault = None if visit.error is None else "failed"
        outputs = kept = None
        if visit.evaluation is not None:
            fault = None if visit.evaluation.converged else "did not converge"
            kept = visit.evaluation.outputs_only()
            if scoring.reads_outputs and not scoring.return_train_score:
                outputs = kept
        norm = np.nan
        if visit.gradient is not None:
            norm = float(np.linalg.norm(space.pull(visit.params, visit.gradient)))
        record = {
            "params": {**listed, **prepared.assembled(visit.params)},
            "objective": visit.value,
            "gradient": visit.gradient
            and prepared.nested({name: visit.gradient[name] for name in space.names}),
            "score": np.nan if out is None else self._mean_score(out),
            "seconds": visit.seconds,
            "n_samples": visit.n_rows,
            "tol": visit.tol,
        }
        score = partial(scoring.score, prepared, replace(visit, evaluation=outputs, again=None))
        again = None
        if (evaluate_again := visit.again) is not None and scoring.reads_outputs:

            def again(budget: Budget) -> Entry:
                return self._entry(prepared, listed, space, evaluate_again(budget))

        state = None if visit.evaluation is None or not on_all else visit.evaluation.state
        return Entry(
            record,
            out,
            score,
            again,
            visit.rough,
            fault,
            norm,
            space,
            visit.params,
            prepared,
            state,
            kept,
        )

    def _forget(self) -> None:
        """Keep the coefficients of the best entry only."""
        stateful = [entry for entry in self.entries if entry.state is not None]
        scores, losses = (
            np.array([e.record[key] for e in stateful]) for key in ("score", "objective")
        )
        best = self.choose(scores, losses)
        for k, entry in enumerate(stateful):
            if k != best:
                entry.state = None

    def choose(self, scores: np.ndarray, losses: np.ndarray) -> int:
        """Return the number of the best of some evaluations."""
        if self.by_loss:
            return best_index(np.zeros(len(losses)), losses)
        return best_index(scores, np.arange(float(len(losses))) if self.first else losses)

    def best(self) -> Entry:
        """Return the best entry of all that are kept."""
        kept = self.kept()
        records = [entry.record for entry in kept]
        scores, losses = (np.array([r[key] for r in records]) for key in ("score", "objective"))
        return kept[self.choose(scores, losses)]

    def settle(self, entry: Entry, budget: Budget) -> None:
        """Evaluate a point again at the final tolerance, and put that in its place."""
        if entry.again is None:
            return
        try:
            exact = entry.again(budget)
        except SearchEnded:
            return
        self.entries[self.entries.index(entry)] = exact

    def release(self) -> None:
        """Give the memory of all problems back."""
        for entry in self.entries:
            if entry.prepared is not None:
                entry.prepared.problem.release()

    @property
    def succeeded(self) -> bool:
        """Whether there is a point that could be evaluated."""
        return any(np.isfinite(entry.record["objective"]) for entry in self.entries)

    def kept(self) -> list[Entry]:
        """Return the evaluations on the most rows on which any succeeded, failures included.

        If the time was up before any, the looks on the most rows.  Of evaluations whose scores
        need fits that were not made, only the best is kept.
        """
        good = [entry for entry in self.entries if np.isfinite(entry.record["objective"])]
        chosen = [entry for entry in good if not entry.look] or good or self.entries
        best = max(chosen, key=lambda entry: (not entry.look, entry.record["n_samples"]))
        most, look = best.record["n_samples"], best.look
        kept = [e for e in self.entries if e.look == look and e.record["n_samples"] == most]
        fits = not self.scoring.reads_outputs or self.scoring.return_train_score
        if fits and any(entry.out is None for entry in kept):
            kept = [min(kept, key=lambda entry: entry.record["objective"])]
        for entry in kept:
            if entry.out is None:
                entry.out = entry.score()
                entry.record["score"] = self._mean_score(entry.out)
        return kept

    def rater(self, prepared: Prepared) -> Rate | None:
        """Return a function that gives the score of outputs and its standard error over folds.

        None if scores cannot be read off the outputs, or do not count.
        """
        scoring = self.scoring
        if self.by_loss or not scoring.reads_outputs:
            return None

        def rate(outputs: list[np.ndarray]) -> tuple[float, float]:
            scores = self._scores(scoring.read(prepared, outputs))
            return float(np.mean(scores)), float(np.std(scores) / np.sqrt(max(len(scores) - 1, 1)))

        return rate

    def fail(self, listed: Mapping[str, Any], n_folds: int, error: Exception) -> None:
        """Log that a combination of listed values could not be fitted."""
        out = self.scoring.failures(error, n_folds)
        record = {
            "params": dict(listed),
            "objective": np.nan,
            "gradient": None,
            "score": self._mean_score(out),
            "seconds": 0.0,
            "n_samples": len(self.scoring.y),
            "tol": np.nan,
        }
        entry = Entry(record, out, lambda: out, None, False, "failed", np.nan, Space({}), {})
        self.entries.append(entry)
        self._print()

    def _mean_score(self, out: list[dict[str, Any]]) -> float:
        return float(np.mean(self._scores(out)))

    def _scores(self, out: list[dict[str, Any]]) -> list[float]:
        """Return the leading score of every fold."""
        scores = [fold["test_scores"] for fold in out]
        named = next((score for score in scores if isinstance(score, dict)), None)
        if named is None:
            return scores
        leading = self.leading if self.leading in named else next(iter(named))
        # of a fit that failed, a function's names are not known
        return [s.get(leading, np.nan) if isinstance(s, dict) else s for s in scores]

    def _print(self) -> None:
        """Print a line on the last entry, and at `verbose` above 2 one for each of its folds."""
        if self.verbose <= 0:
            return
        record, out = self.entries[-1].record, self.entries[-1].out
        params = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in record["params"].items()
        )
        score = "" if out is None else f"mean score {record['score']:.5g}, "
        print(
            f"[{len(self.entries):3d}] n={record['n_samples']}: {params}; "
            f"objective={record['objective']:.5g}, {score}{record['seconds']:.2f} s"
        )
        for number, fold in enumerate((out or []) if self.verbose > 2 else [], start=1):
            seconds = fold["fit_time"] + fold["score_time"]
            print(f"[CV {number}/{len(out or [])}] END {params};{_spelt(fold)} {seconds:.2f} s")


def _spelt(fold: Mapping[str, Any]) -> str:
    """Return the scores of a fold as GridSearchCV prints them."""
    test, train = fold["test_scores"], fold.get("train_scores")
    if not isinstance(test, dict):
        both = f"{test:.3f}" if train is None else f"(train={train:.3f}, test={test:.3f})"
        return f" score={both}"
    parts = {name: f"test={test[name]:.3f}" for name in sorted(test)}
    if train is not None:
        parts = {name: f"train={train[name]:.3f}, {part}" for name, part in parts.items()}
    return "".join(f" {name}: ({part})" for name, part in parts.items())


def best_index(scores: np.ndarray, losses: np.ndarray) -> int:
    """Return the number of the best score; of equal ones that with the least loss.

    What has no loss could not be evaluated, and is the best only if all is like that.
    """
    if not np.isnan(losses).all():
        scores = np.where(np.isnan(losses), np.nan, scores)
    if np.isnan(scores).all():
        return 0 if np.isnan(losses).all() else int(np.nanargmin(losses))
    best = np.nanmax(scores)
    tied = scores >= best - 1e-12 * (1.0 + abs(best))
    return int(np.where(tied & ~np.isnan(losses), losses, np.inf).argmin())
