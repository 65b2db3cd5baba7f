"""What is worth a warning before a search begins: hyperparameters that the data cannot tell of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._core.space import LabelledArray, Space
from ..adapters.prepare import Prepared
from ..losses.base import Rows
from ..problems.base import Problem
from ..problems.linear.problem import LinearCrossValidation


def doubts(prepared: Prepared, space: Space) -> Iterator[str]:
    """Yield a sentence on each thing that cannot be what was meant."""
    loss = prepared.problem.loss
    by_group = [
        h for h in space.hyperparameters
        if isinstance(h, LabelledArray) and loss.by_part.get(h.own) == "group"
    ]  # fmt: skip
    if by_group and (told := _groups_without_rows(prepared, by_group)):
        yield told
    if "epsilon" in loss.hyperparameters and (told := _wide_tube(prepared, space)):
        yield told


def _groups_without_rows(prepared: Prepared, tuned: list[LabelledArray]) -> str | None:
    """Say which groups have no training row in a fold: it tells nothing of what is theirs."""
    column = prepared.problem.columns[0]
    labels, chosen = tuned[0].labels.names, np.unique(np.concatenate([h.chosen for h in tuned]))
    lacking: dict[int, list[int]] = {}
    for number, fold in enumerate(prepared.problem.folds):
        trained = column.parts["group"][fold.of_column(column) > 0.0]
        for k in np.setdiff1d(chosen, trained):
            lacking.setdefault(int(k), []).append(number)
    if not lacking:
        return None
    first, folds = next(iter(lacking.items()))
    others = f", and {len(lacking) - 1} more groups in others" if len(lacking) > 1 else ""
    return (
        f"Group {labels[first]!r} of cost_groups has no training row in fold {folds[0]}{others}; "
        f"such folds tell nothing of its {' and '.join(h.name for h in tuned)}, and those that "
        "train on every group are better."
    )


def _wide_tube(prepared: Prepared, space: Space) -> str | None:
    """Say so if all rows are in the tube wherever the search may go."""
    problem, y = prepared.problem, prepared.targets.y
    if np.ptp(y) == 0.0:  # then there is nothing to learn
        return None
    params = {**problem.values, **space.params(space.bounds[:, 0])}
    for column in problem.columns:
        weight = np.ones(len(column.target))
        dual = problem.loss.dual(Rows(column.target, weight, column.parts), params)
        low, high = column.target - dual.kink, column.target + dual.kink
        at = high.min() if _has_free_bias(problem) else 0.0  # a constant that may be in all tubes
        if not low.max() <= at <= high.min():
            return None
    own = next((h for h in space.hyperparameters if h.own == "epsilon"), None)
    told = f"epsilon={float(params['epsilon']):.4g}"
    if own is not None:
        told = f"space[{own.name!r}]=({own.ranges[0].low:.4g}, {own.ranges[0].high:.4g})"
    return (
        f"{told} is too wide a tube for y, which goes from {y.min():.4g} to {y.max():.4g}: all "
        "rows are within it, and nothing is learnt; use a smaller epsilon."
    )


def _has_free_bias(problem: Problem) -> bool:
    if isinstance(problem, LinearCrossValidation):
        return bool(problem.intercept) and not problem.bias_penalty
    return problem.loss.bias
