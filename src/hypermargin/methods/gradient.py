"""The method, whole: look around on few rows, descend from the best places, finish on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from .._core.space import lattice
from ..adapters.prepare import Prepared
from ..problems.base import MANY
from .asking import ask
from .base import Curve, Method
from .objective import Level, Objective
from .optimisers import Asked, Found, Optimiser, choose_optimiser
from .widths import Shared, asks, free, settle


@dataclass(frozen=True)
class Schedule:
    """What is done on which rows, and how far: the numbers of the method, each with its reason.

    They were chosen while watching few sets, none of which was held back, so they may suit others
    less well.  Where a number was varied, that stands beside it.
    """

    look_rows: int = 250  # rows of the first look; 250 to 1,000 do equally well
    few_rows: int = 750  # rows up to which all of them are looked at
    few_of_a_class: int = 25  # rows of the rarest class that a look should have
    starts: int = 2  # places from which the first level descends; see `n_starts`
    apart: float = 1.5  # units between two of them; one minimum is not to be found twice
    rival: float = 1.03  # ends within this factor of the best one are followed to more rows
    dear: int = 4000  # rows from which evaluations on all of them are to be few
    few_steps: int = 4  # evaluations of a level, where there are to be few; more if they gain much
    mostly: float = 3.5  # evaluations on all rows, the first being dear; for forecasts
    worth: int = 6  # resolutions (of an error half a row each) that one of the last level gains
    wide: int = 4_000  # rows times places of a look at the whole space, if there is one level only
    share: float = 0.8  # of the evaluations that one width for all features may take
    tol: float = 5e-3  # the usual tolerance; who asks for a finer one wants more evaluations

    def finer(self, objective: Objective) -> float:
        """Return how much finer than usual the search is to be, 1 if it is not."""
        return min(1.0, objective.tol / self.tol)

    def thrifty(self, objective: Objective) -> bool:
        """Whether evaluations are to be few."""
        return objective.prepared.n_rows >= self.dear and self.finer(objective) == 1.0

    def work(self, objective: Objective) -> float:
        """Return how exactly to train: noise must stay below the changes that are to be seen."""
        return objective.prepared.problem.work * self.finer(objective)

    def n_starts(self, objective: Objective, several: bool) -> int:
        """Return from how many places to descend at first.

        One more if there is one level only; twice as many if hyperparameters are many; three times
        if that level has all the minima of a smooth error, or if tol is finer.
        """
        smooth_error = objective.prepared.targets.classes is not None
        if self.finer(objective) < 1.0 or (not several and smooth_error):
            return 3 * self.starts
        if len(objective.space) > 3:
            return 2 * self.starts
        return self.starts if several else self.starts + 1

    def places(self, objective: Objective, several: bool) -> list[np.ndarray]:
        """Return where to look."""
        prepared, space = objective.prepared, objective.space
        places = list(lattice(space, n_looks(objective, self.dear)))
        if not several and len(places) < objective.max_evals:
            # cheap enough to look for minima in unusual places, too
            wide = min(prepared.problem.most_looks, self.wide // prepared.n_rows)
            places += lattice(space, wide, whole=True)
        return places

    def last_tol(self, objective: Objective, level: Level, least: float) -> float:
        """Return when to stop on more rows than the first; least is the loss to begin with.

        With many rows it is mostly the worth of a step that ends the last level.
        """
        dear = objective.prepared.n_rows >= self.dear
        tol, worth = 2.0 * objective.tol, 1
        if level.rows is None:
            tol, worth = (0.4 if dear else 0.5) * objective.tol, self.worth
        if not dear or least <= 0.0:
            return tol
        return max(tol, self.finer(objective) * worth * level.resolution / least)


class Descent(Method):
    """Look around on few rows, descend from the best places, finish on all rows.

    One start is not enough, because smooth errors have local minima; a look on few rows costs
    almost nothing.
    """

    constrained: ClassVar[bool] = True

    def __init__(self, schedule: Schedule | None = None, optimiser: Asked = "auto"):
        self.schedule, self.optimiser = schedule or Schedule(), optimiser

    def using(self, optimiser: Asked) -> Descent:
        return Descent(self.schedule, optimiser)

    def most_levels(self, objective: Objective) -> int | None:
        asks, sample = objective.space.tied is not None, objective.prepared.sample
        more = 1 if sample is None else 2
        sizes = level_sizes(sample or objective.prepared, self.schedule)
        return None if asks else more + len(sizes)

    def search(self, objective: Objective) -> Curve | None:
        levels = nested_rows(objective.prepared, self.schedule, objective.rng)
        if not len(objective.space):  # nothing but listed values: a point of a grid
            objective(np.empty(0))
        elif objective.space.tied is None:
            self.descend(objective, levels)
        else:
            self.optimise(objective, "lbfgs")  # says at once if it is not for so many
            self.ask_and_descend(objective, levels)
        return None

    def ask_and_descend(self, objective: Objective, levels: Sequence[np.ndarray | None]) -> None:
        """Descend with one width for all features; go on with one for each, if that pays.

        Where rows are many one width is carried to all of them only if it is kept; but if time is
        limited there is to be something on all rows before the question takes its part of it.
        """
        schedule, shared = self.schedule, Shared(objective)
        few = schedule.thrifty(objective) and len(levels) > 1
        later = few and objective.budget.seconds is None
        reached: Any = None  # unless as many evaluations as may be were made
        with objective.at_most(int(schedule.share * objective.max_evals)):
            reached = self.descend(shared, levels[:-1] if later else levels)
        kept = self.free(objective, levels)
        if later and not kept:
            level, ends = reached
            self.on_more(shared, level, ends, levels[-1:])

    def descend(
        self, objective: Any, levels: Sequence[np.ndarray | None]
    ) -> tuple[Any, list[Found]]:
        """Look, descend on few rows and then on more.

        Returned are the last level, and where it ended, the best first.
        """
        schedule, optimise = self.schedule, self.optimise(objective)
        first, *more = levels
        # rows in many places may all be here, too: then the first level is as good as the last
        several = first is not None and first.sum() < objective.prepared.n_rows
        bounds = objective.space.bounds
        work = schedule.work(objective) if several else None
        level = objective.on(first, tol=work, leans=several)
        # on subsets evaluations are inexact; where all levels are small they are cheap
        tol = (2.0 if several else 0.2) * objective.tol
        begun = perf_counter()
        starts = self.look(level, several)
        objective.ahead(starts, perf_counter() - begun)
        ends = [optimise(level, start, bounds, tol, None, None) for start in starts]
        return self.on_more(objective, level, ends, more)

    def on_more(
        self,
        objective: Any,
        level: Any,
        ends: list[Found],
        more: Sequence[np.ndarray | None],
    ) -> tuple[Any, list[Found]]:
        """Go on where a level has ended, on more rows, and on more again."""
        schedule, optimise = self.schedule, self.optimise(objective)
        several = level.n_rows < objective.prepared.n_rows
        work = schedule.work(objective) if several else None
        for rows in more:
            if rows is None:
                objective.expect(level, schedule.mostly)
            last_of_few = rows is None and schedule.thrifty(objective)
            coarse = level
            level = objective.on(rows, level.state, work, thrifty=last_of_few)
            ends = self.finish(level, self.carry(ends, coarse, level), optimise)
        return level, sorted(ends, key=lambda end: end.value)

    def optimise(self, objective: Any, default: Asked = "auto") -> Optimiser:
        """Return what descends: the optimiser that was asked for, or else the default."""
        asked = default if self.optimiser == "auto" else self.optimiser
        space = objective.space
        return choose_optimiser(asked, len(space), objective.max_evals, space.region)

    def free(self, objective: Objective, levels: Sequence[np.ndarray | None]) -> bool:
        """Give every feature its own width, if that pays; return whether it does.

        What was learned beside the rows that were held out is refined if it clearly pays: on all
        rows; where they are many first on the fewer.
        """
        schedule, one, n_one = self.schedule, objective.best, objective.n_best
        work = schedule.work(objective) if len(levels) > 1 else None
        if one is None:  # no point could be evaluated
            return False
        objective.widths = answer = ask(objective, one, asks(objective))
        if not answer.kept:
            return False
        if answer.n_widths and answer.learned:
            objective.outdate()  # that was decided on other rows; scores in folds must not undo it
        few = schedule.thrifty(objective) and len(levels) > 1
        level = objective.on(levels[-2] if few else None, tol=work)
        optimise, drift = self.optimise(objective, "lbfgs"), objective.space.drift
        start = answer.start(drift(one, level.n_rows / n_one))
        end = settle(level, start, schedule.few_steps)
        if answer.clearly:
            end = free(level, end, optimise)
        if few:
            objective.expect(level, schedule.mostly)
            whole = objective.on(None, tol=work)
            whole.state = level.state
            begin = drift(end, objective.prepared.n_rows / level.n_rows)
            if answer.clearly:
                free(whole, begin, optimise)
            else:
                settle(whole, begin, schedule.few_steps)
        return True

    def look(self, level: Level, several: bool) -> list[np.ndarray]:
        """Look at many places; return the best ones that are apart from each other."""
        objective, schedule, space = level.objective, self.schedule, level.objective.space
        places = schedule.places(objective, several)
        looks = list(zip(level.looks(places), places, strict=True))
        chosen: list[np.ndarray] = []
        for value, theta in sorted(looks, key=lambda look: look[0]):
            far = all(np.abs(theta - c).max(initial=0.0) > schedule.apart for c in chosen)
            if np.isfinite(value) and (far or not chosen):
                chosen.append(theta)
        most = schedule.n_starts(objective, several)
        return chosen[:most] or [space.nearest(space.bounds.mean(axis=1))]

    def carry(self, ends: Sequence[Found], coarse: Level, level: Level) -> list[Found]:
        """Return where to begin on more rows: ends that are about as good as the best there.

        Which of several minima is the best one often shows only on more rows.
        """
        ratio, space = level.n_rows / coarse.n_rows, level.objective.space
        ends = [
            replace(end, theta=space.drift(end.theta, ratio, coarse.left)) for end in apart(ends)
        ]
        values = [level(end.theta)[0] for end in ends]
        last_of_few = self.schedule.thrifty(level.objective) and level.rows is None
        most = (1.0 if last_of_few else self.schedule.rival) * min(values)
        return [
            replace(end, value=value)
            for end, value in zip(ends, values, strict=True)
            if value <= most
        ]

    def finish(self, level: Level, ends: Sequence[Found], optimise: Optimiser) -> list[Found]:
        """Descend on more rows; if that is to take few evaluations, return the best end only."""
        objective, schedule = level.objective, self.schedule
        tol = schedule.last_tol(objective, level, min(end.value for end in ends))
        most = schedule.few_steps if schedule.thrifty(objective) else None
        bounds = objective.space.bounds
        found = [optimise(level, e.theta, bounds, tol, e.curvature, most) for e in ends]
        if schedule.finer(objective) < 1.0:
            return found
        return [min(found, key=lambda end: end.value)]


def glance(objective: Objective) -> None:
    """Evaluate one usual place on few rows, however late it is, so that there is a score at all."""
    rows = nested_rows(objective.prepared, Schedule(), objective.rng)[0]
    space = objective.space
    objective.on(rows).finish(space.nearest(space.first_look.mean(axis=1)))


def apart(ends: Sequence[Found], distance: float = 1.0) -> list[Found]:
    """Return the ends without those that are near a better one: one minimum, found twice."""
    chosen: list[Found] = []
    for end in sorted(ends, key=lambda end: end.value):
        if all(np.abs(end.theta - other.theta).max() > distance for other in chosen):
            chosen.append(end)
    return chosen


def n_looks(objective: Objective, dear: int) -> int:
    """Return how many places to look at: more in more dimensions, fewer if machines are many.

    Then looks are dear, and the mean of so many machines is smoother than one.
    """
    usual = {1: 8, 2: 24, 3: 32}.get(len(objective.space), 12 * len(objective.space))
    if objective.prepared.n_rows >= dear and len(objective.prepared.problem.columns) > MANY:
        usual = 2 * usual // 3
    return int(min(usual, objective.max_evals))


def look_rows(prepared: Prepared, schedule: Schedule) -> int:
    """Return the rows of the first look: more where one of two classes is rare, to meet some of it.

    A look at five rows of a class may be far off, and the search then ends far off, too.
    """
    classes = prepared.targets.classes
    if classes is None or len(classes) > 2:
        return schedule.look_rows
    counts = np.bincount(prepared.targets.y, minlength=2)
    wanted = int(schedule.few_of_a_class * prepared.n_rows / counts.min())
    least = schedule.look_rows
    return max(least, min(wanted, 8 * least, prepared.n_rows // 2))


def level_sizes(prepared: Prepared, schedule: Schedule) -> list[int]:
    """Return how many rows there are before all of them: none, where all are few.

    A quarter of the rows, a quarter of that and so on, but no small steps after the first look.
    """
    n, first = prepared.n_rows, look_rows(prepared, schedule)
    if n <= schedule.few_rows:
        return []
    sizes = [n // 4] if n >= 8 * first else []
    while sizes and sizes[0] >= 64 * first // 2:
        sizes.insert(0, sizes[0] // 4)
    return [first, *sizes]


def nested_rows(
    prepared: Prepared, schedule: Schedule, rng: np.random.RandomState
) -> list[np.ndarray | None]:
    """Return growing subsets of rows, stratified by fold and class, ending with all rows.

    Row sets are nested, and a row keeps its folds, so that a machine trained on few rows never
    has met a validation row of the same fold on more rows: its solution may start the next one.
    Of rows in many places those that are here come first.
    """
    if prepared.sample is not None:
        here = nested_rows(prepared.sample, schedule, rng)[:-1]
        return [*here, np.ones(prepared.sample.n_rows, dtype=bool), None]
    n, sizes = prepared.n_rows, level_sizes(prepared, schedule)
    if not sizes:
        return [None]
    stratum = np.zeros(n, dtype=int)
    if prepared.targets.classes is not None:
        stratum[:] = prepared.targets.y
    for fold, (_, test) in zip(prepared.problem.folds, prepared.splits, strict=True):
        part = (fold.weight > 0).astype(int)
        part[test] += 2
        stratum = np.unique(4 * stratum + part, return_inverse=True)[1]
    priority = np.empty(n)
    for s in range(stratum.max() + 1):
        members = rng.permutation(np.flatnonzero(stratum == s))
        priority[members] = (np.arange(len(members)) - 1.0) / len(members)  # two of each come first
    order = np.argsort(priority + 1e-9 * rng.uniform(size=n), kind="stable")
    levels: list[np.ndarray | None] = []
    for size in sizes:
        rows = np.zeros(n, dtype=bool)
        rows[order[:size]] = True
        rows[priority <= 0] = True
        levels.append(rows)
    return [*levels, None]
