"""Grids and random points, for comparisons: no gradients, but warm starts from a neighbour.

A grid is gone through in lines along which the cost grows and the kernel stays, each beginning
where the line before began; the lines follow each other as a snake does.  Random points come in
batches, each as large as all before it and ordered by nearest neighbours: where the time is up,
what was seen is spread over the whole space.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from .._core.space import MORE_PLACES, Space
from .arguments import check_whole
from .base import Curve, Method
from .objective import Level, Objective

FIRST_BATCH = 8  # random points; more than one, for an order to be worth something


def few_coordinates(objective: Objective) -> Space:
    """Return the space that is gone through: with what moves together as one coordinate."""
    tied = objective.space.tied
    return objective.space if tied is None else tied.space


def visit(level: Level, theta: np.ndarray, warm: Any) -> Any:
    """Evaluate a point of the few coordinates; return where another one may start.

    Points that do not meet constraints are left out.
    """
    tied, region = level.objective.space.tied, level.objective.space.region
    if region is not None and not region.holds(theta):
        return warm
    found = level.visit(theta if tied is None else tied.full(theta), level.tol, warm, None)
    return warm if found.evaluation is None else found.evaluation.state


class Grid(Method):
    """Evaluate a grid of the ranges, both ends included, in equal steps of their scales.

    Parameters
    ----------
    points : int, optional
        Points of every coordinate; by default as many as `max_evals` of the search allows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import Grid
    >>> space = {"C": (0.01, 100.0), "gamma": (1e-3, 10.0)}
    >>> search = GradientSearchCV(SVC(), space, method=Grid(points=3))
    >>> len(search.fit(*load_iris(return_X_y=True)).cv_results_["params"])
    9
    """

    constrained: ClassVar[bool] = True
    levels: ClassVar[int | None] = 1
    uses_all: ClassVar[bool] = True

    def __init__(self, points: int | None = None):
        check_whole("points", points)
        self.points = points

    def search(self, objective: Objective) -> Curve | None:
        space = few_coordinates(objective)
        if not len(space):  # nothing but listed values
            objective(np.empty(0))
            return None
        counts = self._counts(space, objective.max_evals)
        axes = [
            np.linspace(low, high, n) if n > 1 else np.array([0.5 * (low + high)])
            for (low, high), n in zip(space.bounds, counts, strict=True)
        ]
        first, *others = cheapest_first(objective, space)
        level, warm = objective.on(None), None
        for place in snake([axes[k] for k in others]):
            theta, state = np.empty(len(space)), warm
            theta[others] = place
            for number, at in enumerate(axes[first]):
                theta[first] = at
                state = visit(level, theta.copy(), state)
                warm = state if number == 0 else warm
        if not objective.evaluations_on_all:
            raise ValueError(
                f"no point of the grid, {' x '.join(map(str, counts))}, meets the constraints; "
                "give more points, or use method='gradient'."
            )
        return None

    def _counts(self, space: Space, most: float) -> list[int]:
        """Return the points of every coordinate."""
        if self.points is None:
            return as_many(np.ptp(space.bounds, axis=1), most)
        asked = self.points ** len(space)
        if asked > most:
            raise ValueError(
                f"Grid(points={self.points}) has {asked} points in {len(space)} coordinates, but "
                f"max_evals={most}; give max_evals={asked} or fewer points."
            )
        return [self.points] * len(space)


def as_many(widths: np.ndarray, most: float) -> list[int]:
    """Return equal numbers of points with at most this product, and one more if there is room.

    The widest coordinates, which have the longest steps, are the first to get one more.
    """
    counts = np.full(len(widths), max(1, int(most ** (1.0 / max(len(widths), 1)) + 1e-9)))
    for k in np.argsort(-widths, kind="stable"):
        counts[k] += 1
        if np.prod(counts.astype(float)) > most:
            counts[k] -= 1
            break
    return counts.tolist()


def cheapest_first(objective: Objective, space: Space) -> list[int]:
    """Return the coordinates, those first whose change leaves the kernel as it is."""
    loss, names = objective.prepared.problem.loss, coordinate_names(objective.space)
    if space is not objective.space:  # the few coordinates are known by their numbers
        names = [names[int(h.own)] for h in space.hyperparameters]
    of_loss = (*loss.hyperparameters, *loss.by_part)
    return sorted(range(len(names)), key=lambda k: names[k] not in of_loss)


def coordinate_names(space: Space) -> list[str]:
    """Return what the problem calls each coordinate."""
    return [h.own for h in space.hyperparameters for _ in h.ranges]


def snake(axes: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield all points of a grid, each a neighbour of the one before; the first axis is fastest."""
    counts = [len(axis) for axis in axes]
    for number in range(int(np.prod(counts))):
        theta, ahead = np.empty(len(axes)), number
        for k, axis in enumerate(axes):
            ahead, at = divmod(ahead, counts[k])
            theta[k] = axis[at] if ahead % 2 == 0 else axis[-1 - at]
        yield theta


class RandomPoints(Method):
    """Evaluate points that are drawn evenly from the ranges, in their scales.

    `random_state` of the search decides which, and `max_evals` how many.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import RandomPoints
    >>> search = GradientSearchCV(SVC(), method=RandomPoints(), max_evals=10, random_state=0)
    >>> len(search.fit(*load_iris(return_X_y=True)).cv_results_["params"])
    10
    """

    constrained: ClassVar[bool] = True
    levels: ClassVar[int | None] = 1
    uses_all: ClassVar[bool] = True

    def search(self, objective: Objective) -> Curve | None:
        level, warm = objective.on(None), None
        for theta in self._points(objective):
            warm = visit(level, theta, warm)
        return None

    def _points(self, objective: Objective) -> Iterator[np.ndarray]:
        space, rng = few_coordinates(objective), objective.rng
        if not len(space):
            yield np.empty(0)
            return
        low, high = space.bounds.T
        at, seen = low, 0
        while seen < objective.max_evals:
            size = int(min(max(FIRST_BATCH, seen), objective.max_evals - seen))
            drawn = rng.uniform(low, high, size=(size, len(low)))
            if space.region is not None:
                more = rng.uniform(low, high, size=(MORE_PLACES * size, len(low)))
                drawn = space.region.spread(np.vstack([drawn, more]), size)
            for theta in by_neighbours(drawn, at):
                yield theta
                at = theta
            seen += size


def by_neighbours(points: np.ndarray, start: np.ndarray) -> Iterator[np.ndarray]:
    """Yield points so that each is the nearest to the one before of those that are left."""
    left = list(points)
    while left:
        start = left.pop(int(np.argmin([np.sum((one - start) ** 2) for one in left])))
        yield start
