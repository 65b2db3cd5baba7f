"""A search from its first look to its last: every combination tuned, until the time is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.budget import Budget, Workers
from .._core.constraints import constrained
from .._core.warn import warn
from ..adapters.folds import FitFailed, Split
from ..adapters.prepare import Prepared
from ..criteria.base import Criterion
from ..methods.gradient import glance
from ..methods.objective import Objective, SearchEnded, Visit
from ..problems.apart import Apart
from .ahead import apart, from_starts, look_ahead
from .combinations import Combination, Refused, own_error
from .doubts import doubts
from .log import Log, Run
from .plans import Plan
from .records import Record


def run(
    asked: Any, plans: list[Plan], weight: np.ndarray, splits: list[Split], log: Log
) -> tuple[Budget, dict[str, float]]:
    """Tune every combination of listed values, until the time is up or Ctrl-C is pressed.

    `asked` has the arguments of the search.  Returns the budget, and where the time went.
    """
    budget, workers = Budget(asked.time_budget), Workers(asked.n_jobs)
    rng = log.saved.generator(asked.random_state)
    seed = rng.randint(np.iinfo(np.int32).max)
    log.tasks.begin(budget, len(plans))
    try:
        look_ahead(asked, plans, weight, splits, log, budget, rng, seed)
        for number, plan in enumerate(plans):
            if log.succeeded and budget.expired():
                break
            with log.tasks.combination(number):
                prepared = _prepared(asked, plan, splits, log, workers, seed)
                if prepared is not None and not isinstance(plan, Refused):
                    place = apart(asked, plans, prepared, log.scoring)
                    state = rng.get_state()
                    ahead = from_starts(asked, plans, weight, splits, log, budget, state, seed)
                    _tune(asked, plan, prepared, weight, budget, log, rng, place, ahead)
                    if len(plans) > 1:
                        prepared.problem.release()
        while not log.is_settled(best := log.best()) and not budget.expired():
            log.settle(best, budget)
        early = f"reached time_budget={asked.time_budget}" if budget.expired() else None
        early = "was stopped by a callback" if log.tasks.stopped else early
    except KeyboardInterrupt:
        if not log.records:
            raise
        early = "was interrupted"
    if (best := log.best()).look:  # nothing was trained to the end: one point is, all the same
        log.settle(best, Budget())
    log.ending, log.early = early or _ending(asked, log), early is not None
    if early is not None and not log.tasks.stopped:  # who has asked for it need not be warned
        _warn_early(early, log.best(), len(log.scoring.y))
    return budget, workers.clock.seconds


def _prepared(
    asked: Any, plan: Plan, splits: list[Split], log: Log, workers: Workers, seed: int
) -> Prepared | None:
    """Return the problem of a combination, or log why there is none."""
    if isinstance(plan, Refused):
        log.fail(plan.listed, len(splits), plan.error)
        return None
    (one, _), scoring = plan, log.scoring
    try:
        memory = asked.memory_limit * 2**20
        return scoring.prepared(one.model, splits, memory, workers, asked.rank, seed)
    except FitFailed as error:
        log.fail(one.listed, len(splits), error.cause)
    except (ValueError, TypeError) as error:
        theirs = own_error(one.model.whole, one.listed, scoring.y, error)
        log.fail(one.listed, len(splits), theirs)
    return None


def _tune(
    asked: Any,
    plan: tuple[Combination, Criterion],
    prepared: Prepared,
    weight: np.ndarray,
    budget: Budget,
    log: Log,
    rng: np.random.RandomState,
    place: Apart | None,
    ahead: Callable[[Sequence[np.ndarray], float], None],
) -> None:
    """Search the space of one combination, in the way that suits it or that was asked for."""
    one, criterion = plan
    found = Run(one.listed, prepared, constrained(one.space(prepared), asked.constraints))
    for doubt in doubts(prepared, found.space):
        warn(doubt)
    keep = log.begin(found)
    found.objective = objective = Objective(
        prepared,
        criterion,
        found.space,
        weight,
        train_tol=one.train_tol(asked.tol),
        budget=budget,
        record=_record(keep, prepared, budget) if asked.refit else keep,
        max_evals=asked.max_evals,
        pooled=asked.pooled,
        tol=asked.tol,
        rng=rng,
        rate=log.rater(prepared),
        memory=log.saved.memory(len(log.runs) - 1),
        watch=log.tasks,
        apart=place,
        ahead=ahead,
    )
    method = one.method(asked, prepared.targets)
    log.tasks.expect(method, objective)
    with suppress(SearchEnded):
        found.curve = method.search(objective)
    if not log.succeeded and budget.expired():
        glance(objective)
    if not budget.expired() and not any(log.run_of(r) is found for r in log.records):
        raise ValueError(f"method={asked.method!r} has evaluated no point; it must evaluate one.")


def _record(
    keep: Callable[[Visit], None], prepared: Prepared, budget: Budget
) -> Callable[[Visit], None]:
    """Return a function that keeps a visit, and the time that a refit may take after it."""

    def record(visit: Visit) -> None:
        keep(visit)
        if not visit.rough:
            more = prepared.n_rows / visit.n_rows
            a_fold = visit.seconds / len(prepared.splits)
            budget.reserve(a_fold * more**prepared.problem.growth)

    return record


def _ending(asked: Any, log: Log) -> str:
    """Return how a search has ended that nobody has stopped."""
    made = [run.objective.evaluations_on_all for run in log.runs if run.objective is not None]
    if any(count >= asked.max_evals for count in made):
        return f"made max_evals={asked.max_evals} evaluations"
    return "came to its end"


def _warn_early(why: str, best: Record, n_rows: int) -> None:
    message = f"The search {why} before it converged; the best point so far is returned"
    if (n_samples := best.n_samples) < n_rows:
        message += f", with its score on {n_samples} of the {n_rows} rows"
    warn(f"{message}.", ConvergenceWarning)
