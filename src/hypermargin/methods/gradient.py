"""The method, whole: look around on few rows, descend from the best places, finish on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._core.space import lattice
from ..adapters.prepare import Prepared
from ..problems.base import MANY
from .objective import Objective, SearchEnded, Visit
from .optimisers import Found, Optimiser

LOOK_ROWS = 500  # rows of the first look; 250 to 1,000 do equally well
FEW_OF_A_CLASS = 25  # rows of the rarest class that a look should have
RIVAL = 1.03  # places within this factor of the best one are descended from, too
DEAR = 4000  # rows from which evaluations on all of them are to be few
TOL = 5e-3  # the usual tolerance; who asks for a finer one wants more than few evaluations
WIDE = 16_000  # rows times places of a look at the whole space, where there is one level only
FEW_STEPS = 4  # evaluations of a level, where there are to be few; more if they gain much
WORTH = 6  # resolutions (of an error half a row each) that one of the last level is to gain
STARTS = 2  # places from which the first level descends; twice as many if hyperparameters are many,
# or if it is the only level, three times if that has the minima of a smooth error or tol is finer


def tune(
    objective: Objective,
    levels: Sequence[np.ndarray | None],
    optimise: Optimiser,
    tol: float,
) -> Visit | None:
    """Minimise the objective over its space; return the best visit on the last level reached.

    `levels` are growing, nested sets of rows, the last one being all of them (None).  One start is
    not enough, because smooth errors have local minima; a look on few rows costs almost nothing.
    """
    space, bounds = objective.space, objective.space.bounds
    several = len(levels) > 1 and len(space) > 0
    # noise of training must stay below the changes that are to be seen
    finer = min(1.0, tol / TOL)
    work = objective.prepared.problem.work * finer if several else None
    level = objective.on(levels[0] if several else None, tol=work, leans=several)
    try:
        if not len(space):  # nothing but listed values: a point of a grid
            level(np.empty(0))
            return level.best
        n_starts = STARTS if several and len(space) <= 3 else 2 * STARTS
        if finer < 1.0 or (not several and objective.prepared.targets.classes is not None):
            n_starts = 3 * STARTS
        places = list(lattice(space, n_looks(objective)))
        if not several and len(places) < objective.max_evals:
            # cheap enough to look for minima in unusual places, too
            wide = min(objective.prepared.problem.most_looks, WIDE // objective.prepared.n_rows)
            places += lattice(space, wide, whole=True)
        looks = list(zip(level.looks(places), places, strict=True))
        starts = spread(looks, n_starts) or [bounds.mean(axis=1)]
        # on subsets evaluations are inexact; where all levels are small they are cheap
        dear = objective.prepared.n_rows >= DEAR
        few = dear and finer == 1.0
        most = FEW_STEPS if few else None
        # with many rows it is mostly the worth of a step that ends the last level
        coarse_tol, last_tol = 2.0 * tol, (0.4 if dear else 0.5) * tol
        if not several:
            coarse_tol = 0.2 * tol
        ends = [optimise(level, start, bounds, coarse_tol, None, None) for start in starts]
        for rows in levels[1:]:
            coarse, level = level, objective.on(rows, level.state, work)
            ratio = level.n_rows / coarse.n_rows
            # which of several minima is the best one often shows only on more rows
            ends = [replace(end, theta=space.drift(end.theta, ratio)) for end in apart(ends)]
            least = min(level(end.theta)[0] for end in ends)
            near = 1.0 if few and rows is None else RIVAL
            rivals = [end for end in ends if level(end.theta)[0] <= near * least]
            fine, worth = (last_tol, WORTH) if rows is None else (coarse_tol, 1)
            if dear:
                fine = max(fine, finer * worth * level.resolution / least)
            ends = [optimise(level, e.theta, bounds, fine, e.curvature, most) for e in rivals]
            if finer == 1.0:
                ends = [min(ends, key=lambda end: end.value)]
    except SearchEnded:
        pass
    return level.best


def glance(objective: Objective, rows: np.ndarray | None) -> None:
    """Evaluate one usual place on few rows, however late it is, so that there is a score at all."""
    usual = [np.mean(d.first_look) for d in objective.space.dimensions.values()]
    objective.on(rows).finish(np.array(usual))


def apart(ends: Sequence[Found], distance: float = 1.0) -> list[Found]:
    """Return the ends without those that are near a better one: one minimum, found twice."""
    chosen: list[Found] = []
    for end in sorted(ends, key=lambda end: end.value):
        if all(np.abs(end.theta - other.theta).max() > distance for other in chosen):
            chosen.append(end)
    return chosen


def n_looks(objective: Objective) -> int:
    """Return how many places to look at: more in more dimensions, fewer if machines are many.

    Then looks are dear, and the mean of so many machines is smoother than one.
    """
    usual = {1: 8, 2: 24, 3: 32}.get(len(objective.space), 12 * len(objective.space))
    if objective.prepared.n_rows >= DEAR and len(objective.prepared.problem.columns) > MANY:
        usual = 2 * usual // 3
    return int(min(usual, objective.max_evals))


def spread(looks: Sequence[tuple[float, np.ndarray]], most: int, apart: float = 1.5) -> list:
    """Return the best places that are at least `apart` units from each other."""
    chosen: list[np.ndarray] = []
    for value, theta in sorted(looks, key=lambda look: look[0]):
        far = all(np.abs(theta - other).max(initial=0.0) > apart for other in chosen)
        if len(chosen) < most and np.isfinite(value) and (far or not chosen):
            chosen.append(theta)
    return chosen


def look_rows(prepared: Prepared) -> int:
    """Return the rows of the first look: more where one of two classes is rare, to meet some of it.

    A look at five rows of a class may be far off, and the search then ends far off, too.
    """
    classes = prepared.targets.classes
    if classes is None or len(classes) > 2:
        return LOOK_ROWS
    counts = np.bincount(prepared.targets.y, minlength=2)
    wanted = int(FEW_OF_A_CLASS * prepared.n_rows / counts.min())
    return max(LOOK_ROWS, min(wanted, 4 * LOOK_ROWS, prepared.n_rows // 2))


def nested_rows(prepared: Prepared, rng: np.random.RandomState) -> list[np.ndarray | None]:
    """Return growing subsets of rows, stratified by fold and class, ending with all rows.

    Row sets are nested, and a row keeps its folds, so that a machine trained on few rows never
    has met a validation row of the same fold on more rows: its solution may start the next one.
    """
    n = prepared.n_rows
    if n <= 1.5 * LOOK_ROWS:
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
    # a quarter of the rows, a quarter of that and so on, but no small steps after the first look
    first = look_rows(prepared)
    sizes = [n // 4] if n >= 8 * first else []
    while sizes and sizes[0] >= 64 * first // 2:
        sizes.insert(0, sizes[0] // 4)
    sizes.insert(0, first)
    levels: list[np.ndarray | None] = []
    for size in sizes:
        rows = np.zeros(n, dtype=bool)
        rows[order[:size]] = True
        rows[priority <= 0] = True
        levels.append(rows)
    return [*levels, None]
