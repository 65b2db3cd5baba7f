"""What widths say of the features: how much each of them matters, and which can be dropped."""

from __future__ import annotations

import numpy as np

from .._core.budget import OutOfTime, one_blas_thread
from .asking import Answer
from .features import exchanged, features_of, said_by_kernels
from .objective import Objective

DROP_DRAWS = 30  # of the rows, for a standard error that some features more or less depend on


def relevance(objective: Objective) -> dict[str, np.ndarray] | None:
    """Return the relevance of every feature, with its standard error, and which can be dropped.

    It is the mean over the parts of the data that were held out in turn, of machines with the
    widths that were learned beside each; if those gained nothing, with one width.  Errors are
    those of a jackknife: of leaving out one part after the other.
    """
    answer: Answer | None = objective.widths
    if answer is None or not answer.proxies or objective.budget.expired():
        return None
    if not features_of(answer.proxies[0]):
        return None
    with one_blas_thread():
        return _relevance(objective, answer)


def _relevance(objective: Objective, answer: Answer) -> dict[str, np.ndarray]:
    parts = shares(objective, answer) if answer.pays or not answer.shares else answer.shares
    found = np.mean(parts, axis=0)
    error = np.full(len(found), np.nan)
    if len(parts) > 1:
        error = np.sqrt((answer.n_parts - 1) * np.var(parts, axis=0))
    dropped = np.zeros(len(found), dtype=bool)
    if answer.selects:
        dropped = ~answer.matter
    elif answer.kept:
        count = n_droppable(objective, answer, parts)
        dropped[np.argsort(found, kind="stable")[:count]] = True
    names = np.empty(len(found), dtype=object)
    names[:] = [feature.name for feature in features_of(answer.proxies[0])]
    what = "feature" if answer.n_widths else "kernel"
    return {what: names, "relevance": found, "std_error": error, "droppable": dropped}


def shares(objective: Objective, answer: Answer) -> list[np.ndarray]:
    """Return how much outputs depend on every feature, part by part."""
    points = answer.each.points if answer.kept else answer.ones
    change = exchanged if answer.n_widths else said_by_kernels
    return objective.side_by_side(lambda part: change(*part), zip(answer.proxies, points))


def n_droppable(objective: Objective, answer: Answer, parts: list[np.ndarray]) -> int:
    """Return of how many features the widths can be as small as they may be at no loss.

    Those are the features that each part finds least relevant.  On the rows that it holds out the
    loss must not rise by more than its standard error; that is taken to hold for all fewer, too.
    No answer in time counts as none.
    """
    proxies, points = answer.proxies, answer.each.points
    every = [feature.widths for feature in features_of(proxies[0])]
    orders = [[every[k] for k in np.argsort(part, kind="stable")] for part in parts]
    before = objective.side_by_side(lambda part: part[0].outputs(part[1]), zip(proxies, points))

    def at_no_loss(count: int) -> bool:
        def gain(part: int) -> tuple[float, float]:
            objective.budget.check()
            proxy, less = proxies[part], points[part].copy()
            dropped = [k for widths in orders[part][:count] for k in widths]
            less[dropped] = proxy.bounds[dropped, 0]
            return proxy.gain(before[part], proxy.outputs(less), DROP_DRAWS)

        gains, errors = zip(*objective.side_by_side(gain, range(len(before))))
        all_gain, error = answer.pooled(list(gains), list(errors))
        return all_gain >= -error

    low, high = 0, len(every)  # none can be dropped at no loss, and not all of them
    try:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if at_no_loss(middle) else (low, middle)
    except OutOfTime:
        return 0
    return low
