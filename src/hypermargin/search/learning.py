"""What a model gains by the rows that its folds were not trained on.

Folds are trained on fewer rows than the refitted model, so that their scores are too low.  By how
much shows at fewer rows still: the folds are made five parts, of which every two and every three
are left out and scored.  The score changes as one over the number of rows, and what it changes by
from the ones to the others tells what it will change by from the folds to all rows.

The scores of the folds themselves have no part in it.  The point was chosen by them, so they are
too high beside any others, and that would pass for a gain.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from .._core.budget import Effort, Workers, one_blas_thread
from ..adapters.folds import Split
from ..adapters.prepare import Prepared
from ..problems.landmarks.problem import LowRankCrossValidation
from .log import Log
from .records import Record

PARTS = 5  # of the folds; with three left out two are trained on


def gain(log: Log, best: Record, asked: Any) -> float:
    """Return by how much the score of a point grows from its folds to all rows.

    It is zero where that cannot be told.  `asked` has the arguments of the search.
    """
    prepared = log.run_of(best).prepared
    assert prepared is not None
    parts = parts_of(prepared.splits, prepared.n_rows)
    if log.early or best.n_samples < prepared.n_rows or len(parts) < 4:
        return 0.0
    folds = float(np.mean([len(train) for train, _ in prepared.splits]))
    try:
        with warnings.catch_warnings(action="ignore"), one_blas_thread():
            (more, high), (fewer, low) = (_without(n, parts, log, best, asked) for n in (2, 3))
    except (ValueError, FloatingPointError):  # so few rows cannot be trained on, or scored
        return 0.0
    found = (high - low) * (1 / folds - 1 / prepared.n_rows) / (1 / fewer - 1 / more)
    return float(found) if np.isfinite(found) else 0.0


Part = tuple[np.ndarray, np.ndarray]  # rows that are left out; which ones are trained on without it


def parts_of(splits: list[Split], n_rows: int) -> list[Part]:
    """Return what is left out together: the first folds that have no rows in common, in parts.

    There is nothing where folds are not trained on each other's rows.
    """
    seen, disjoint = np.zeros(n_rows, dtype=bool), list[Split]()
    for train, test in splits:
        if seen[test].any():
            break
        seen[test] = True
        disjoint.append((train, test))
    parts = []
    for numbers in np.array_split(np.arange(len(disjoint)), min(PARTS, len(disjoint))):
        trained = np.ones(n_rows, dtype=bool)
        for train, test in (disjoint[number] for number in numbers):
            in_fold, in_test = np.zeros((2, n_rows), dtype=bool)
            in_fold[train] = in_test[test] = True
            if not np.array_equal(in_fold & seen, seen & ~in_test):
                return []
            trained &= in_fold
        parts.append((np.concatenate([disjoint[number][1] for number in numbers]), trained))
    return parts


def _without(
    number: int, parts: list[Part], log: Log, best: Record, asked: Any
) -> tuple[float, float]:
    """Return the rows that are trained on without some of the parts, and the score on these."""
    run = log.run_of(best)
    left_out = [[parts[k] for k in some] for some in combinations(range(len(parts)), number)]
    trains = [np.flatnonzero(np.logical_and.reduce([t for _, t in some])) for some in left_out]
    splits = [
        (train, np.concatenate([rows for rows, _ in some])) for train, some in zip(trains, left_out)
    ]
    prepared = _prepared(log, run.prepared, splits, asked)
    found = prepared.problem.evaluate(run.point(best), Effort(best.tol))
    scores = []
    for place in range(number):  # parts are scored one by one: r2 of more rows is another score
        tests = [some[place][0] for some in left_out]
        first = [sum(len(rows) for rows, _ in some[:place]) for some in left_out]
        outputs = [
            all_of[begin : begin + len(test)]
            for all_of, begin, test in zip(found.outputs, first, tests)
        ]
        view = replace(prepared, splits=list(zip(trains, tests)))
        scores += log.scores(log.scoring.read(view, outputs))
    prepared.problem.release()
    prepared.problem.workers.release()
    return float(np.mean([len(train) for train in trains])), float(np.mean(scores))


def _prepared(log: Log, like: Any, splits: list[Split], asked: Any) -> Prepared:
    """Return the problem of other folds."""
    whole, memory = like.problem, asked.memory_limit * 2**20
    seed = whole.seed if isinstance(whole, LowRankCrossValidation) else 0
    prepared = log.scoring.prepared(
        like.model, splits, memory, Workers(asked.n_jobs), asked.rank, seed
    )
    if prepared.foreign:
        raise ValueError("a fold cannot be trained here.")
    return prepared
