"""What a search has seen: one entry per evaluated point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ._objective import Visit
from ._prepare import Prepared
from ._scoring import Scoring
from ._space import Space

Scores = list[dict[str, Any]]


@dataclass
class Entry:
    """An evaluated point: the public record and the scores of its folds.

    `out` is None where scoring would have meant fitting; `score` does that.  `look` tells a rough
    look from an evaluation, `fault` what went wrong.
    """

    record: dict[str, Any]
    out: Scores | None
    score: Callable[[], Scores]
    look: bool
    fault: str | None
    gradient_norm: float
    space: Space


class Log:
    """Scores and keeps every visit.

    `leading` is the name of the metric that `score` in the records shows, None for a single one.
    """

    def __init__(self, scoring: Scoring, leading: str | None, verbose: int):
        self.scoring = scoring
        self.leading = leading
        self.verbose = verbose
        self.entries: list[Entry] = []

    def recorder(
        self, prepared: Prepared, listed: Mapping[str, Any], space: Space
    ) -> Callable[[Visit], None]:
        """Return a function that logs the visits of one combination of listed values."""

        def record(visit: Visit) -> None:
            out = None
            if self.scoring.reads_outputs or (not visit.rough and visit.n_rows == prepared.n_rows):
                out = self.scoring.score(prepared, visit)
            fault = visit.error
            if visit.evaluation is not None and not visit.evaluation.converged:
                fault = "did not converge"
            norm = np.nan
            if visit.gradient is not None:
                norm = float(np.linalg.norm(space.pull(visit.params, visit.gradient)))
            gradient = visit.gradient and {n: visit.gradient[n] for n in space.names}
            self.entries.append(
                Entry(
                    {
                        "params": {**listed, **visit.params},
                        "objective": visit.value,
                        "gradient": gradient,
                        "score": np.nan if out is None else self._mean_score(out),
                        "seconds": visit.seconds,
                        "n_samples": visit.n_rows,
                    },
                    out,
                    partial(self.scoring.score, prepared, replace(visit, evaluation=None)),
                    visit.rough,
                    fault,
                    norm,
                    space,
                )
            )
            if self.verbose > 0:
                self._print()

        return record

    def kept(self) -> list[Entry]:
        """Return the evaluations on the most rows on which any succeeded, failures included.

        If the time was up before any, the looks on the most rows; of those that were not scored,
        because their scores need fits, only the best.
        """
        good = [entry for entry in self.entries if np.isfinite(entry.record["objective"])]
        chosen = [entry for entry in good if not entry.look] or good or self.entries
        best = max(chosen, key=lambda entry: (not entry.look, entry.record["n_samples"]))
        most, look = best.record["n_samples"], best.look
        kept = [e for e in self.entries if e.look == look and e.record["n_samples"] == most]
        if any(entry.out is None for entry in kept):
            kept = [min(kept, key=lambda entry: entry.record["objective"])]
            kept[0].out = kept[0].out or kept[0].score()
        return kept

    def fail(self, listed: Mapping[str, Any], n_folds: int, error: Exception) -> None:
        """Log that a combination of listed values could not be fitted."""
        out = self.scoring.failures(str(error), n_folds)
        record = {
            "params": dict(listed),
            "objective": np.nan,
            "gradient": None,
            "score": self._mean_score(out),
            "seconds": 0.0,
            "n_samples": len(self.scoring.y),
        }
        self.entries.append(Entry(record, out, lambda: out, False, str(error), np.nan, Space({})))

    def _mean_score(self, out: list[dict[str, Any]]) -> float:
        scores = [fold["test_scores"] for fold in out]
        if isinstance(scores[0], dict):
            leading = self.leading if self.leading in scores[0] else next(iter(scores[0]))
            scores = [score[leading] for score in scores]
        return float(np.mean(scores))

    def _print(self) -> None:
        record = self.entries[-1].record
        params = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in record["params"].items()
        )
        print(
            f"[{len(self.entries):3d}] n={record['n_samples']}: {params}; "
            f"objective={record['objective']:.5g}, score={record['score']:.5g}, "
            f"{record['seconds']:.2f} s"
        )
