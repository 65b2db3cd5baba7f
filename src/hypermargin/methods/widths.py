"""A width for each feature: first one for all of them, then each its own.

Many widths overfit the labels.  What is minimised is therefore

    f(theta) + se mean_j (d_j - mean d)^2,   d_j = log w_j - log w0_j,

se being the standard error of the loss where they begin: widths that differ from w0 by a factor e
have to gain as much as could be luck.  (A mean and not a sum: with hundreds of features a
sum would hold them all in place.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from .._core.space import FeatureArray, Tied
from .objective import Level, Objective
from .optimisers import Enough, Optimiser
from .proxy import Few, minimise_tied, standard_error, widths_in, worth


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

    def unless(
        self, theta: np.ndarray, enough: Callable[[float], bool]
    ) -> tuple[float, np.ndarray | None]:
        value, gradient = self._of.unless(self.full(theta), enough)
        return value, None if gradient is None else self._tied.pull(gradient)

    def full(self, theta: np.ndarray) -> np.ndarray:
        """Return the point of the whole space."""
        return self._tied.full(np.asarray(theta))


def widths_of(objective: Objective) -> list[np.ndarray]:
    """Return the coordinates of the widths of features, array by array."""
    return widths_in(objective.space, np.arange(len(objective.space)))


def asks(objective: Objective) -> bool:
    """Whether a search is to ask if widths, or weights of kernels, pay."""
    arrays = [h for h in objective.space.hyperparameters if isinstance(h, FeatureArray)]
    kernel = getattr(objective.prepared.problem, "kernel", None)
    return any(h.asks for h in arrays) or getattr(kernel, "ask", False)


class Penalised:
    """A level with the penalty on widths whose ratios are not those of a centre."""

    def __init__(self, level: Level, weight: float, centre: np.ndarray):
        self.level, self.weight, self.centre = level, weight, centre
        self.widths = widths_of(level.objective)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.level(theta)
        gradient = gradient.copy()
        for part in self.widths:
            off = theta[part] - self.centre[part]
            off -= off.mean()
            value += self.weight * float(np.mean(off**2))
            gradient[part] += 2.0 * self.weight * off / len(part)
        return value, gradient


def settle(level: Level, start: np.ndarray, most: int) -> np.ndarray:
    """Tune what is tuned together, while widths keep the ratios that they have at a start.

    That takes so many evaluations, or more if they gain much.
    """
    objective = level.objective
    tied = objective.space.tied
    assert tied is not None
    bounds = objective.space.bounds
    return minimise_tied(level, tied.owner, start, bounds, objective.tol, most)[1]


def free(level: Level, start: np.ndarray, optimise: Optimiser, most: float = np.inf) -> np.ndarray:
    """Give every feature its own width, beginning at a start; return the end."""
    objective, value = level.objective, level(start)[0]
    weight, few = 0.0, Few(level, most, start)
    if widths_of(objective):
        weight = standard_error(objective, value, level.n_rows)
        few = Few(Penalised(level, weight, start), most, start)
    tol = max(0.5 * objective.tol, worth(weight, value))
    with suppress(Enough):
        optimise(few, start, objective.space.bounds, tol, None, None)
    return few.best[1]
