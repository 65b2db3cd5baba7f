"""What widths say of the features: how much each of them matters, and which can be dropped.

The relevance of a feature is how much outputs change when it has the value that it has in another
row: the root mean square over rows that the machine was not trained on, as a share of the sum over
all features.  That has no unit, and means the same for numbers and for codes.  Of a sum without
widths of features it is the relevance of its kernels: how much outputs change when a kernel says
what it says of another row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.budget import OutOfTime
from .._core.space import FeatureArray, GroupedArray, LabelledArray
from .asking import Answer
from .objective import Objective
from .proxy import Proxy

DROP_DRAWS = 30  # of the rows, for a standard error that some features more or less depend on
PAIRS = 300  # most rows that a feature is exchanged in, or between which kernels are compared
WORK = 2e9  # operations that exchanging all features may take in a part; fewer rows take less
MANY_FEATURES = 2000  # features that are too many to exchange one by one


def relevance(objective: Objective) -> dict[str, np.ndarray] | None:
    """Return the relevance of every feature, with its standard error, and which can be dropped.

    It is the mean over the parts of the data that were held out in turn, of machines with the
    widths that were learned beside each; if one width was kept, with that.  Errors are those of a
    jackknife: of leaving out one part after the other.
    """
    answer: Answer | None = objective.widths
    if answer is None or not answer.proxies or objective.budget.expired():
        return None
    points = answer.points if answer.kept else answer.ones
    if not features_of(answer.proxies[0]):
        return None
    change = exchanged if answer.n_widths else said_by_kernels
    parts = [change(proxy, z) for proxy, z in zip(answer.proxies, points)]
    found = np.mean(parts, axis=0)
    error = np.full(len(found), np.nan)
    if len(parts) > 1:
        error = np.sqrt((answer.n_parts - 1) * np.var(parts, axis=0))
    dropped = np.zeros(len(found), dtype=bool)
    if answer.kept:
        dropped[np.argsort(found, kind="stable")[: n_droppable(answer, parts)]] = True
    names = np.empty(len(found), dtype=object)
    names[:] = [feature.name for feature in features_of(answer.proxies[0])]
    what = "feature" if answer.n_widths else "kernel"
    return {what: names, "relevance": found, "std_error": error, "droppable": dropped}


@dataclass(frozen=True)
class Feature:
    """A feature or a group of them: its columns of the data, and the places of its widths.

    It has several widths if several kernels read it.
    """

    name: Any
    columns: np.ndarray
    widths: list[int]


def features_of(proxy: Proxy) -> list[Feature]:
    """Return what has widths of its own; where nothing has, the kernels of a sum."""
    found: dict[tuple[int, ...], Feature] = {}
    arrays = [h for h in proxy.space.hyperparameters if isinstance(h, FeatureArray)]
    if not arrays:
        return kernels_of(proxy)
    for h, places in zip(arrays, proxy.widths, strict=True):
        columns = proxy.kernel.columns_of(h.own, proxy.machine.points.X.shape[1])
        for number, place in zip(h.chosen, places, strict=True):
            own = columns[h.group == number] if isinstance(h, GroupedArray) else columns[[number]]
            new = Feature(h.labels.names[number], own, [])
            found.setdefault(tuple(own.tolist()), new).widths.append(int(place))
    return list(found.values())


def kernels_of(proxy: Proxy) -> list[Feature]:
    """Return the kernels of a sum whose weights are tuned."""
    first = 0
    for h in proxy.space.hyperparameters:
        if h.own == "weights" and isinstance(h, LabelledArray):
            places = np.flatnonzero(np.isin(proxy.which, np.arange(first, first + len(h.ranges))))
            pairs = zip(h.chosen, places, strict=True)
            return [Feature(h.labels.names[k], np.array([k]), [int(at)]) for k, at in pairs]
        first += len(h.ranges)
    return []


def said_by_kernels(proxy: Proxy, z: np.ndarray) -> np.ndarray:
    """Return how much outputs change with what every kernel says, as a share of all of them."""
    left, own = proxy.left_out(z), proxy.own(proxy.params(z))
    others, found = np.random.RandomState(0).permutation(len(proxy.points)), []
    for kernel in kernels_of(proxy):
        alone = np.zeros_like(own["weights"])
        alone[kernel.columns] = own["weights"][kernel.columns]
        said = left.predict(proxy.points, {**own, "weights": alone})
        found.append(np.sqrt(np.mean((said - said[others]) ** 2)))
    return as_share(np.array(found))


def exchanged(proxy: Proxy, z: np.ndarray) -> np.ndarray:
    """Return how much outputs change with every feature, as a share of all of them."""
    X, columns = proxy.points.X, [feature.columns for feature in features_of(proxy)]
    if sparse.issparse(X) or len(columns) > MANY_FEATURES:
        return as_share(slopes(proxy, z))
    most = WORK / (len(columns) * len(proxy.machine.points) * X.shape[1])
    at = np.linspace(0, len(X) - 1, int(np.clip(most, 20, min(PAIRS, len(X))))).astype(int)
    few, predict = proxy.points.take(at), proxy.left_out(z).predict
    others = np.random.RandomState(0).permutation(len(X))[: len(at)]
    before, found = predict(few), np.empty(len(columns))
    for k, of_width in enumerate(columns):
        moved = few.X.copy()
        moved[:, of_width] = X[np.ix_(others, of_width)]
        after = predict(replace(few, X=moved))
        found[k] = np.sqrt(np.mean((after - before) ** 2))
    return as_share(found)


def slopes(proxy: Proxy, z: np.ndarray) -> np.ndarray:
    """Return how much the kernel depends on every width: mean of -dK / dlog w over pairs of rows.

    For a Gaussian that is about the width times the variance of the feature.
    """
    kernel, machine = proxy.kernel, proxy.machine
    at = np.linspace(0, len(machine.points) - 1, min(len(machine.points), PAIRS)).astype(int)
    params = proxy.params(z)
    own = proxy.own(params)
    points = kernel.at(machine.points.take(at), own)
    K = kernel.block(points, points, own)
    found = proxy.pull(params, kernel.pullback(points, points, K, -np.ones_like(K), own))
    found = np.array([found[feature.widths].sum() for feature in features_of(proxy)])
    return np.maximum(found, 0.0)


def as_share(found: np.ndarray) -> np.ndarray:
    total = found.sum()
    return found / total if total > 0.0 else np.full(len(found), 1.0 / len(found))


def n_droppable(answer: Answer, parts: list[np.ndarray]) -> int:
    """Return of how many features the widths can be as small as they may be at no loss.

    Those are the features that each part finds least relevant.  On the rows that it holds out the
    loss must not rise by more than its standard error; that is taken to hold for all fewer, too.
    No answer in time counts as none.
    """
    proxies, points = answer.proxies, answer.points
    every = [feature.widths for feature in features_of(proxies[0])]
    orders = [[every[k] for k in np.argsort(part, kind="stable")] for part in parts]
    before = [p.outputs(z) for p, z in zip(proxies, points)]

    def at_no_loss(count: int) -> bool:
        gains, errors = [], []
        for proxy, point, order, full in zip(proxies, points, orders, before):
            proxy.objective.budget.check()
            less, dropped = point.copy(), [k for widths in order[:count] for k in widths]
            less[dropped] = proxy.bounds[dropped, 0]
            gain, error = proxy.gain(full, proxy.outputs(less), DROP_DRAWS)
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
