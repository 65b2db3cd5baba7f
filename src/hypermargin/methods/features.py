"""How much outputs depend on every feature, or on every kernel of a sum.

That is how much they change when a feature has the value that it has in another row: the root mean
square over rows that the machine was not trained on, as a share of the sum over all features.  It
has no unit, and means the same for numbers and for codes.  Of a kernel of a sum it is how much they
change when it says what it says of another row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.space import FeatureArray, GroupedArray, LabelledArray
from .proxy import Proxy

PAIRS = 300  # most rows that a feature is exchanged in, or between which kernels are compared
WORK = 1e9  # operations that exchanging all features may take in a part; fewer rows take less
MANY_FEATURES = 2000  # features that are too many to exchange one by one


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
    machine, own = proxy.trained(z), proxy.own(proxy.params(z))
    others, found = np.random.RandomState(0).permutation(len(proxy.points)), []
    for kernel in kernels_of(proxy):
        alone = np.zeros_like(own["weights"])
        alone[kernel.columns] = own["weights"][kernel.columns]
        said = machine.predict(proxy.points, {**own, "weights": alone})
        found.append(np.sqrt(np.mean((said - said[others]) ** 2)))
    return as_share(np.array(found))


def exchanged(proxy: Proxy, z: np.ndarray) -> np.ndarray:
    """Return how much outputs change with every feature, as a share of all of them."""
    X, columns = proxy.points.X, [feature.columns for feature in features_of(proxy)]
    if sparse.issparse(X) or len(columns) > MANY_FEATURES:
        return as_share(slopes(proxy, z))
    most = WORK / (len(columns) * len(proxy.machine.points) * X.shape[1])
    at = np.linspace(0, len(X) - 1, int(np.clip(most, 20, min(PAIRS, len(X))))).astype(int)
    few, predict = proxy.points.take(at), proxy.trained(z).predict
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
