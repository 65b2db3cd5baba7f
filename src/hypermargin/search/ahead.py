"""Combinations of listed values and starts searched side by side, wherever joblib sends them.

Within ``joblib.parallel_config("dask")``, or any other of its backends, each combination is
searched by a worker, which sends back what it has trained: the lines of a checkpoint.  The search
itself then goes through all combinations as ever, and finds them trained.  So its result is the
same to the last bit, and what a worker could not foresee is trained here.

Of one combination workers descend from one start each, in the same way, if that takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from .._core.budget import Budget, Workers, one_blas_thread
from .._core.constraints import constrained
from .._core.warn import warn
from ..adapters.folds import Split
from ..adapters.prepare import Prepared
from ..methods.gradient import Descent, Schedule, nested_rows
from ..methods.objective import Level, Objective, SearchEnded, Visit
from ..problems.apart import Apart
from .checkpoint import Checkpoint, NoCheckpoint
from .combinations import Refused
from .log import Log
from .plans import Plan
from .records import Selection
from .scoring import Scoring

DEAR_LOOK = 1.0  # seconds of a look for starts, from which on it pays to send these to workers
ARGUMENTS = (
    "constraints", "method", "optimiser", "max_evals", "pooled", "tol", "memory_limit", "rank",
)  # fmt: skip


def goes_ahead(asked: Any, plans: Sequence[Plan], scoring: Scoring) -> bool:
    """Whether joblib was told to do things side by side, and there are some."""
    if not scoring.travels:
        return False
    several = sum(not isinstance(plan, Refused) for plan in plans) > 1
    return several and n_workers(asked) > 1


def n_workers(asked: Any) -> int:
    """Return how many workers joblib was told of."""
    return int(effective_n_jobs(None)) if asked.n_jobs is None else 1


def apart(asked: Any, plans: Sequence[Plan], prepared: Prepared, scoring: Scoring) -> Apart | None:
    """Return what evaluates one combination side by side, if there is only one.

    Rows so few that a search looks at all of them at once are not worth it; outputs on training
    rows would be computed here once more.
    """
    if goes_ahead(asked, plans, scoring) or not scoring.travels or scoring.return_train_score:
        return None
    if n_workers(asked) == 1 or prepared.n_rows <= Schedule.few_rows:
        return None
    found = Apart(prepared.problem, n_workers(asked))
    return found if found.pays else None


@contextmanager
def path_of(asked: Any, plans: Sequence[Plan], scoring: Scoring) -> Iterator[Any]:
    """Give the path of the checkpoint: a file for the time being, where one is needed."""
    needed = goes_ahead(asked, plans, scoring) or descends_ahead(asked, plans, scoring)
    if asked.checkpoint is not None or not needed:
        yield asked.checkpoint
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / "ahead"


@dataclass(frozen=True)
class Given:
    """What all combinations are given: the arguments of the search, its data and its folds.

    With Dask joblib sends what several tasks are given once, and not with each of them, if it knows
    that it is large.
    """

    arguments: Any
    weight: np.ndarray
    splits: list[Split]
    scoring: Scoring
    leading: str | None
    selection: Selection
    seconds: float | None
    seed: int

    def __sizeof__(self) -> int:
        """Return the bytes of the folds: the least that there is of any data."""
        return sum(rows.nbytes for split in self.splits for rows in split)

    def prepared(self, plan: Any) -> Any:
        """Return the problem of a combination."""
        memory = self.arguments.memory_limit * 2**20
        return self.scoring.prepared(
            plan[0].model, self.splits, memory, Workers(1), self.arguments.rank, self.seed
        )


class OneStart(Descent):
    """The descent of another from one of its starts, on the fewest rows, and no more."""

    def __init__(self, of: Descent, start: np.ndarray):
        super().__init__(of.schedule, of.optimiser)
        self.start = start

    def look(self, level: Level, several: bool) -> list[np.ndarray]:
        """Return the start."""
        return [self.start]

    def on_more(self, *_: Any) -> Any:
        """End."""
        raise SearchEnded


def descends_ahead(asked: Any, plans: Sequence[Plan], scoring: Scoring) -> bool:
    """Whether joblib's workers may descend from the starts of the only combination."""
    if goes_ahead(asked, plans, scoring) or not scoring.travels or len(plans) > 1:
        return False
    return n_workers(asked) > 1


def from_starts(
    asked: Any,
    plans: Sequence[Plan],
    weight: np.ndarray,
    splits: list[Split],
    log: Log,
    budget: Budget,
    state: Any,
    seed: int,
) -> Callable[[Sequence[np.ndarray], float], None]:
    """Return a function that lets workers descend from starts, and keeps what they have trained.

    `state` is that of the random numbers before the search.  Descents take about as long as the
    look for their starts, and where that takes no time there is nothing to gain.
    """
    saved = log.saved

    def descend(starts: Sequence[np.ndarray], seconds: float) -> None:
        if len(starts) < 2 or seconds < DEAR_LOOK or not isinstance(saved, Checkpoint):
            return
        given = _given(asked, weight, splits, log, budget, seed)
        tasks = [delayed(trained)(0, plans[0], state, given, start) for start in starts]
        try:
            found = Parallel(n_jobs=None)(tasks)
        except Exception as error:  # whatever joblib, a scheduler or pickle may raise
            warn(
                "joblib's workers could not descend from starts "
                f"({type(error).__name__}: {error}); the search does that itself."
            )
            return
        for lines in found:
            saved.take(lines)

    return descend if descends_ahead(asked, plans, log.scoring) else lambda starts, seconds: None


def _given(
    asked: Any, weight: np.ndarray, splits: list[Split], log: Log, budget: Budget, seed: int
) -> Given:
    arguments = SimpleNamespace(**{name: getattr(asked, name) for name in ARGUMENTS})
    return Given(
        arguments, weight, splits, log.scoring, log.leading, log.selection, budget.left, seed
    )


def look_ahead(
    asked: Any,
    plans: Sequence[Plan],
    weight: np.ndarray,
    splits: list[Split],
    log: Log,
    budget: Budget,
    rng: np.random.RandomState,
    seed: int,
) -> None:
    """Let joblib's workers search all combinations, and keep what they have trained."""
    if not goes_ahead(asked, plans, log.scoring) or not isinstance(log.saved, Checkpoint):
        return
    given = _given(asked, weight, splits, log, budget, seed)
    state, tasks = rng.get_state(), []
    for number, plan in enumerate(plans):
        if not isinstance(plan, Refused):
            tasks.append(delayed(trained)(number, plan, state, given))
            state = _after(plan, state, given)
    for lines in Parallel(n_jobs=None)(tasks):
        log.saved.take(lines)


def _after(plan: Any, state: Any, given: Given) -> Any:
    """Return the state of the random numbers after a combination, as far as that is foreseeable."""
    rng = np.random.RandomState()
    rng.set_state(state)
    with suppress(ValueError, TypeError):
        prepared = given.prepared(plan)
        if isinstance(plan[0].method(given.arguments, prepared.targets), Descent):
            nested_rows(prepared, Schedule(), rng)
    return rng.get_state()


def trained(
    number: int, plan: Any, state: Any, given: Given, start: np.ndarray | None = None
) -> list[bytes]:
    """Search a combination, or descend from a start; return what was trained, as a checkpoint's.

    What goes wrong is for the search itself to say, which will come to the same place.
    """
    rng, arguments = np.random.RandomState(), given.arguments
    rng.set_state(state)
    with TemporaryDirectory() as folder, one_blas_thread():
        path = Path(folder) / "trained"
        saved = Checkpoint(path, {})
        try:
            with suppress(SearchEnded, ValueError, TypeError):
                one, criterion = plan
                prepared = given.prepared(plan)
                log = Log(given.scoring, given.leading, given.selection, NoCheckpoint(), None)
                objective = Objective(
                    prepared,
                    criterion,
                    constrained(one.space(prepared), arguments.constraints),
                    given.weight,
                    train_tol=one.train_tol(arguments.tol),
                    budget=Budget(given.seconds),
                    record=_keep,
                    max_evals=arguments.max_evals,
                    pooled=arguments.pooled,
                    tol=arguments.tol,
                    rng=rng,
                    rate=log.rater(prepared),
                    memory=saved.memory(number),
                )
                method = one.method(arguments, prepared.targets)
                if start is not None:
                    method = OneStart(method, start)
                method.search(objective)
        finally:
            saved.close()
        return path.read_bytes().splitlines(keepends=True)[1:]


def _keep(visit: Visit) -> None:
    if not visit.rough:  # looks keep themselves
        visit.memo.keep(visit, None, True)
