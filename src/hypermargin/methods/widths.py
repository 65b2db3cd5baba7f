"""A width for each feature: first one for all of them, then each its own.

Many widths overfit the labels.  What is minimised is therefore

    f(theta) + se mean_j (log w_j - mean log w)^2,

se being the standard error of the loss at the best common width: widths that differ by a factor e
have to gain as much as could be luck.  (A mean and not a sum: with hundreds of features a sum would
hold them all in place.)
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from .._core.space import FeatureArray, Tied
from .objective import Level, Objective
from .optimisers import Optimiser

# both as field measurements on splice, ijcnn1 and madelon had them; not varied since
TRIAL = 12  # evaluations from every start, before the best is followed to the end
BOLD = 10.0  # the cost of a start that fits the labels closely, in units of its usual one


class Shared:
    """An objective, or a level of one, while its space has few coordinates."""

    def __init__(self, of: Any, objective: Objective | None = None):
        self._of = of
        self._whole = objective or of
        tied = self._whole.space.tied
        assert isinstance(tied, Tied)
        self._tied = tied
        self.space = self._tied.space

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    @property
    def objective(self) -> Shared:
        return Shared(self._whole)

    def on(self, *args: Any, **kwargs: Any) -> Shared:
        return Shared(self._of.on(*args, **kwargs), self._whole)

    def looks(self, thetas: Iterable[np.ndarray]) -> list[float]:
        return self._of.looks([self.full(theta) for theta in thetas])

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._of(self.full(theta))
        return value, self._tied.pull(gradient)

    def full(self, theta: np.ndarray) -> np.ndarray:
        """Return the point of the whole space."""
        return self._tied.full(np.asarray(theta))


class Enough(Exception):
    """A start was followed for as long as it is to be at first."""


def widths_of(objective: Objective) -> list[np.ndarray]:
    """Return the coordinates of the widths of features, array by array."""
    found, first = [], 0
    for h in objective.space.hyperparameters:
        if isinstance(h, FeatureArray):
            found.append(np.arange(first, first + len(h.ranges)))
        first += len(h.ranges)
    return found


def standard_error(objective: Objective, value: float, n_rows: int) -> float:
    """Return that of a loss: of an error as a share of the rows, else as a mean of squares."""
    if objective.prepared.targets.classes is None:
        return value * np.sqrt(2.0 / n_rows)
    share = np.clip(value, 1.0 / n_rows, 0.5)
    return float(np.sqrt(share * (1.0 - share) / n_rows))


class Penalised:
    """A level with the penalty on widths that differ; may end after some evaluations."""

    def __init__(self, level: Level, weight: float):
        self.level, self.weight = level, weight
        self.widths = widths_of(level.objective)
        self.most: float = np.inf
        self.best: tuple[float, np.ndarray] = (np.inf, np.empty(0))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self.most <= 0:
            raise Enough
        self.most -= 1
        value, gradient = self.level(theta)
        gradient = gradient.copy()
        for part in self.widths:
            off = theta[part] - theta[part].mean()
            value += self.weight * float(np.mean(off**2))
            gradient[part] += 2.0 * self.weight * off / len(part)
        if value < self.best[0]:
            self.best = value, theta.copy()
        return value, gradient


def free(
    level: Level, start: np.ndarray, optimise: Optimiser, most: int | None = None
) -> np.ndarray:
    """Give every feature its own width, beginning where one for all was best; return the end.

    Where few of many features matter, no common width shows it: a second start has the usual
    width and a cost that fits the labels closely.  If `most` evaluations are to be made, the start
    is known to be good.
    """
    objective = level.objective
    space, value = objective.space, level(start)[0]
    penalised = Penalised(level, standard_error(objective, value, level.n_rows))
    if most is not None:
        penalised.most = most
        return _followed(penalised, start, optimise, objective.tol)[1]
    bold = space.first_look.mean(axis=1)
    for k, name in enumerate(n for h in space.hyperparameters for n in [h.own] * len(h.ranges)):
        bold[k] += np.log(BOLD) if name == "C" else 0.0
    ends = []
    for begin in (start, np.clip(bold, *space.bounds.T)):
        penalised.most, penalised.best = TRIAL, (np.inf, begin)
        ends.append(_followed(penalised, begin, optimise, objective.tol))
    penalised.most, penalised.best = np.inf, min(ends, key=lambda end: end[0])
    return _followed(penalised, penalised.best[1], optimise, 0.5 * objective.tol)[1]


def _followed(
    penalised: Penalised, begin: np.ndarray, optimise: Optimiser, tol: float
) -> tuple[float, np.ndarray]:
    with suppress(Enough):
        optimise(penalised, begin, penalised.level.objective.space.bounds, tol, None, None)
    return penalised.best
