"""What widths say of the features: how much each of them matters, and which can be dropped.

The relevance of a feature is how much the kernel would change if its width did: the mean over all
pairs of rows of  -dK / dlog w_j,  as a share of the sum over all features.  For a Gaussian that is
about the width times the variance of the feature, whatever its unit.
"""

from __future__ import annotations

import numpy as np

from .._core.budget import OutOfTime
from .asking import Answer
from .objective import Objective
from .proxy import Proxy

PAIRS = 300  # rows between which kernels are compared


def relevance(objective: Objective, best: np.ndarray) -> dict[str, np.ndarray] | None:
    """Return the relevance of every feature at the best point, with its standard error.

    If one width was kept, it is that of the widths which were learned to compare it with.  Errors
    are those of leaving out parts of the rows in turn (a jackknife).
    """
    answer: Answer | None = objective.widths
    if answer is None or not answer.proxies:
        return None
    proxy, names = answer.proxies[0], names_of(objective, answer.proxies[0])
    if not answer.kept:
        best = answer.start(answer.one)
    found = shares(proxy, best[answer.which])
    parts = [shares(proxy, point[:-1]) for point in answer.points]
    error = np.full(len(found), np.nan)
    if len(parts) > 1:
        error = np.sqrt((answer.n_parts - 1) * np.var(parts, axis=0))
    dropped = np.zeros(len(found), dtype=bool)
    if answer.kept:
        dropped[np.argsort(found, kind="stable")[: n_droppable(answer)]] = True
    return {"feature": names, "relevance": found, "std_error": error, "droppable": dropped}


def names_of(objective: Objective, proxy: Proxy) -> np.ndarray:
    """Return the labels of the widths; of several kernels with the names of their parameters."""
    space = objective.space
    if len(proxy.widths) == 1:
        h = next(h for h in space.hyperparameters if hasattr(h, "asks"))
        names = [h.labels.names[k] for k in h.chosen]  # type: ignore[attr-defined]
    else:
        spelled = [name for h in space.hyperparameters for name in h.spelled]
        names = [spelled[proxy.which[k]] for part in proxy.widths for k in part]
    found = np.empty(len(names), dtype=object)
    found[:] = names
    return found


def shares(proxy: Proxy, point: np.ndarray) -> np.ndarray:
    """Return how much the kernel depends on every width, as a share of all of them."""
    kernel, machine = proxy.kernel, proxy.machine
    at = np.linspace(0, len(machine.points) - 1, min(len(machine.points), PAIRS)).astype(int)
    params = proxy.params(np.append(point, 0.0))
    own = proxy.own(params)
    points = kernel.at(machine.points.take(at), own)
    K = kernel.block(points, points, own)
    slopes = proxy.pull(params, kernel.pullback(points, points, K, -np.ones_like(K), own))
    found = np.maximum(np.concatenate([slopes[part] for part in proxy.widths]), 0.0)
    total = found.sum()
    return found / total if total > 0.0 else np.full(len(found), 1.0 / len(found))


def n_droppable(answer: Answer) -> int:
    """Return of how many features the widths can be as small as they may be at no loss.

    On the rows that each part holds out the loss must not rise by more than its standard error.
    That is taken to hold for all fewer, too.  No answer in time counts as none.
    """
    proxies, points = answer.proxies, answer.points
    every = np.concatenate(proxies[0].widths)
    orders = [every[np.argsort(shares(p, z[:-1]))] for p, z in zip(proxies, points)]
    before = [p.outputs(z) for p, z in zip(proxies, points)]

    def at_no_loss(count: int) -> bool:
        gains, errors = [], []
        for proxy, point, order, full in zip(proxies, points, orders, before):
            proxy.objective.budget.check()
            less = point.copy()
            less[order[:count]] = proxy.bounds[order[:count], 0]
            gain, error = proxy.gain(full, proxy.outputs(less))
            gains.append(gain)
            errors.append(error)
        gain, error = answer.pooled(gains, errors)
        return gain >= -error

    low, high = 0, len(every)  # none can be dropped at no loss, and not all of them
    try:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if at_no_loss(middle) else (low, middle)
    except OutOfTime:
        return 0
    return low
