"""Combinations of listed values searched side by side, wherever joblib sends them.

Within ``joblib.parallel_config("dask")``, or any other of its backends, each combination is
searched by a worker, which sends back what it has trained: the lines of a checkpoint.  The search
itself then goes through all combinations as ever, and finds them trained.  So its result is the
same to the last bit, and what a worker could not foresee is trained here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from .._core.budget import Budget, Workers, one_blas_thread
from .._core.constraints import constrained
from ..adapters.folds import Split
from ..methods.gradient import Descent, Schedule, nested_rows
from ..methods.objective import Objective, SearchEnded, Visit
from .checkpoint import Checkpoint, NoCheckpoint
from .combinations import Refused
from .log import Log
from .plans import Plan
from .records import Selection
from .scoring import Scoring

ARGUMENTS = (
    "constraints", "method", "optimiser", "max_evals", "pooled", "tol", "memory_limit", "rank",
)  # fmt: skip


def goes_ahead(asked: Any, plans: Sequence[Plan]) -> bool:
    """Whether joblib was told to do things side by side, and there are some."""
    several = sum(not isinstance(plan, Refused) for plan in plans) > 1
    return several and asked.n_jobs is None and effective_n_jobs(None) > 1


@contextmanager
def path_of(asked: Any, plans: Sequence[Plan]) -> Iterator[Any]:
    """Give the path of the checkpoint: a file for the time being, where one is needed."""
    if asked.checkpoint is not None or not goes_ahead(asked, plans):
        yield asked.checkpoint
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / "ahead"


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
    if not goes_ahead(asked, plans) or not isinstance(log.saved, Checkpoint):
        return
    arguments = SimpleNamespace(**{name: getattr(asked, name) for name in ARGUMENTS})
    given = arguments, weight, splits, log.scoring, log.leading, log.selection, budget.left, seed
    state, tasks = rng.get_state(), []
    for number, plan in enumerate(plans):
        if not isinstance(plan, Refused):
            tasks.append(delayed(trained)(number, plan, state, *given))
            state = _after(plan, state, *given)
    for lines in Parallel(n_jobs=None)(tasks):
        log.saved.take(lines)


def _after(plan: Any, state: Any, arguments: Any, *given: Any) -> Any:
    """Return the state of the random numbers after a combination, as far as that is foreseeable."""
    rng = np.random.RandomState()
    rng.set_state(state)
    with suppress(ValueError, TypeError):
        prepared = _prepared(plan, arguments, given[1], given[2], given[-1])
        if isinstance(plan[0].method(arguments, prepared.targets), Descent):
            nested_rows(prepared, Schedule(), rng)
    return rng.get_state()


def _prepared(plan: Any, arguments: Any, splits: list[Split], scoring: Scoring, seed: int) -> Any:
    memory = arguments.memory_limit * 2**20
    return scoring.prepared(plan[0].model, splits, memory, Workers(1), arguments.rank, seed)


def trained(
    number: int,
    plan: Any,
    state: Any,
    arguments: Any,
    weight: np.ndarray,
    splits: list[Split],
    scoring: Scoring,
    leading: str | None,
    selection: Selection,
    seconds: float | None,
    seed: int,
) -> list[bytes]:
    """Search a combination; return what was trained, as lines of a checkpoint.

    What goes wrong is for the search itself to say, which will come to the same place.
    """
    rng = np.random.RandomState()
    rng.set_state(state)
    with TemporaryDirectory() as folder, one_blas_thread():
        path = Path(folder) / "trained"
        saved = Checkpoint(path, {})
        try:
            with suppress(SearchEnded, ValueError, TypeError):
                one, criterion = plan
                prepared = _prepared(plan, arguments, splits, scoring, seed)
                objective = Objective(
                    prepared,
                    criterion,
                    constrained(one.space(prepared), arguments.constraints),
                    weight,
                    train_tol=one.train_tol(arguments.tol),
                    budget=Budget(seconds),
                    record=_keep,
                    max_evals=arguments.max_evals,
                    pooled=arguments.pooled,
                    tol=arguments.tol,
                    rng=rng,
                    rate=Log(scoring, leading, selection, NoCheckpoint(), None).rater(prepared),
                    memory=saved.memory(number),
                )
                one.method(arguments, prepared.targets).search(objective)
        finally:
            saved.close()
        return path.read_bytes().splitlines(keepends=True)[1:]


def _keep(visit: Visit) -> None:
    if not visit.rough:  # looks keep themselves
        visit.memo.keep(visit, None, True)
