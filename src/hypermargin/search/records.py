"""What a search has seen, as plain data: one record per evaluated point, and which is the best.

A record can be written as a line of JSON and read back.  It says where the point is, in the space
of which combination; what must be trained again is trained again from that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..problems.base import Evaluation

Scores = list[dict[str, Any]]


@dataclass(eq=False)
class Record:
    """An evaluated point, and the scores of its folds.

    `theta` is where it is in the space of a combination, `gradient` is by the hyperparameters as
    they are.  `folds` is None where nobody may ask for the scores, or they need fits.
    """

    combination: int
    theta: np.ndarray
    objective: float
    gradient: np.ndarray | None
    gradient_norm: float  # in the coordinates of the space
    n_samples: int
    seconds: float
    tol: float
    look: bool  # a rough look, not an evaluation
    final: bool  # whether machines are trained as far as they ever will be
    fault: str | None = None  # what went wrong
    error: str | None = None  # how it was said
    score: float = np.nan
    folds: Scores | None = None
    # caches, which are not written: where training ended, for the best record, and the outputs
    state: Any = field(default=None, repr=False)
    outputs: Evaluation | None = field(default=None, repr=False)

    @property
    def succeeded(self) -> bool:
        """Whether the point could be evaluated."""
        return bool(np.isfinite(self.objective))

    def to_json(self) -> str:
        """Return one line that `from_json` reads."""
        return json.dumps({name: plain(getattr(self, name)) for name in WRITTEN}, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Return what was written; caches are empty."""
        found = {name: read(value) for name, value in json.loads(line).items()}
        for name in ("theta", "gradient"):
            if found[name] is not None:
                found[name] = np.array(found[name], dtype=float)
        return cls(**found)


WRITTEN = [f.name for f in fields(Record) if f.name not in ("state", "outputs")]


def plain(value: Any) -> Any:
    """Return a value as JSON has it; numbers that it does not have, by their names."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": str(value)}
    return value


def read(value: Any) -> Any:
    """Return what `plain` was made of, arrays as lists."""
    if isinstance(value, list):
        return [read(one) for one in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["number"]:
        return float(value["number"])
    return {name: read(one) for name, one in value.items()}


@dataclass(frozen=True)
class Selection:
    """Which of several points is the best.

    With `by_loss` the least loss is, whatever the scores are; with `first`, the first one of equal
    scores, else that with the least loss.
    """

    by_loss: bool = False
    first: bool = False

    def best(self, scores: Sequence[float], losses: Sequence[float]) -> int:
        """Return the number of the best of some evaluations."""
        loss = np.asarray(losses, dtype=float)
        if self.by_loss:
            return best_index(np.zeros(len(loss)), loss)
        order = np.arange(float(len(loss))) if self.first else loss
        return best_index(np.asarray(scores, dtype=float), order)

    def best_record(self, records: Sequence[Record]) -> Record:
        """Return the best of some records."""
        return records[self.best([r.score for r in records], [r.objective for r in records])]


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


def comparable(records: Iterable[Record]) -> list[Record]:
    """Return the evaluations on the most rows on which any succeeded, failures included.

    If the time was up before any, the looks on the most rows.
    """
    records = list(records)
    good = [record for record in records if record.succeeded]
    chosen = [record for record in good if not record.look] or good or records
    best = max(chosen, key=lambda record: (not record.look, record.n_samples))
    return [r for r in records if r.look == best.look and r.n_samples == best.n_samples]
