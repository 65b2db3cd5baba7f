"""The part of a space that linear constraints leave, in scaled coordinates.

There a hyperparameter on a logarithmic scale is the exponential of its coordinate, so that what is
linear for users is not linear here.  Problems over the region are small and cost no training;
SciPy's SLSQP solves them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import NonlinearConstraint, linprog, minimize

from .budget import cached

TOL = 1e-6  # by how much a constraint may be missed, relative to its terms
DRAWN_IN = 1e-7  # by how much bounds are drawn in, so that rounding does not miss them
STARTS = 64  # places from which a feasible point is looked for


@dataclass(frozen=True, eq=False)
class Region:
    """Where  low <= plain @ values + logs @ log(values) <= high,  within bounds.

    Values are those of users; a coordinate is the logarithm of one, or the value in units.
    """

    plain: np.ndarray
    logs: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_log: np.ndarray
    unit: np.ndarray
    bounds: np.ndarray

    def flat(self, theta: np.ndarray) -> np.ndarray:
        """Return the values at a point."""
        return np.where(self.is_log, np.exp(np.where(self.is_log, theta, 0.0)), theta * self.unit)

    def rows(self, theta: np.ndarray) -> np.ndarray:
        """Return what the constraints bound."""
        return self.plain @ self.flat(theta) + self.logs @ self._log(self.flat(theta))

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """Return its derivatives by the coordinates."""
        flat = self.flat(theta)
        move = np.where(self.is_log, flat, self.unit)
        return (self.plain + self.logs / np.where(flat > 0.0, flat, 1.0)) * move

    def _log(self, flat: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(flat, 1e-300))

    def holds(self, theta: np.ndarray) -> bool:
        """Whether a point meets all constraints."""
        flat, rows = self.flat(theta), self.rows(theta)
        terms = np.abs(self.plain) @ np.abs(flat) + np.abs(self.logs) @ np.abs(self._log(flat))
        may = TOL * (terms + np.where(np.isfinite(self.low), np.abs(self.low), 0.0))
        return bool(np.all(rows >= self.low - may) and np.all(rows <= self.high + may))

    def as_scipy(self) -> list[NonlinearConstraint]:
        """Return the constraints on coordinates, as optimisers of SciPy take them."""
        equal = self.low == self.high
        drawn_in = [
            bound + sign * DRAWN_IN * np.where(np.isfinite(bound), np.abs(bound), 0.0)
            for bound, sign in ((self.low, 1.0), (self.high, -1.0))
        ]
        wide = drawn_in[0] <= drawn_in[1]
        low, high = np.where(wide, drawn_in, [self.low, self.high])
        return [
            NonlinearConstraint(
                lambda theta, which=which: self.rows(theta)[which],
                np.where(equal, self.low, low)[which],
                np.where(equal, self.high, high)[which],
                jac=lambda theta, which=which: self.slopes(theta)[which],
            )
            for which in (equal, ~equal)
            if which.any()
        ]

    def least(self, fun: Callable, start: np.ndarray, box: np.ndarray) -> np.ndarray:
        """Return where SLSQP finds the least of a function, with its gradient, in box and region.

        It may find no point of the region: ask `holds`.
        """
        with warnings.catch_warnings():
            # SLSQP tells of rounding beyond bounds, which is clipped
            warnings.simplefilter("ignore", RuntimeWarning)
            found = minimize(
                fun, np.clip(start, *box.T), jac=True, method="SLSQP", bounds=box,
                constraints=self.as_scipy(), options={"maxiter": 200, "ftol": 1e-12},
            )  # fmt: skip
        return np.clip(np.where(np.isfinite(found.x), found.x, start), *box.T)

    def nearest(self, theta: np.ndarray) -> np.ndarray:
        """Return the nearest point of the region, or one that is near."""
        theta = np.clip(theta, *self.bounds.T)
        if self.holds(theta):
            return theta
        assert self.anchor is not None
        found = self._pulled_in(theta, theta)
        if not self.holds(found):
            found = self._pulled_in(theta, self.anchor)
        return found if self.holds(found) else self.anchor

    def _pulled_in(self, theta: np.ndarray, start: np.ndarray) -> np.ndarray:
        def distance(x: np.ndarray) -> tuple[float, np.ndarray]:
            return 0.5 * float((x - theta) @ (x - theta)), x - theta

        return self.least(distance, start, self.bounds)

    def spread(self, points: np.ndarray, number: int) -> np.ndarray:
        """Return so many of the points that are in the region, or if they are fewer near others."""
        inside = np.array([self.holds(theta) for theta in points], dtype=bool)
        found = list(points[inside][:number])
        for theta in points[~inside][: number - len(found)]:
            near = self.nearest(theta)
            if not any(np.abs(near - other).max() < 1e-6 for other in found):
                found.append(near)
        return np.array(found)

    @cached
    def anchor(self) -> np.ndarray | None:
        """A point of the region, None if there seems to be none.

        Where all constraints are in values, or all in logarithms, a linear programme decides.
        """
        start = self.bounds.mean(axis=1)
        if not self.logs.any() or not self.plain.any():
            found = self._vertex()
            if found is None:
                return None
            start = np.clip(found, *self.bounds.T)
        low, high = self.bounds.T
        draws = np.random.RandomState(0).uniform(low, high, size=(STARTS, len(start)))
        for theta in [start, *draws]:
            if self.holds(theta) or self.holds(theta := self._pulled_in(theta, theta)):
                return theta
        return None

    def _vertex(self) -> np.ndarray | None:
        """Return a point with much room on all sides, of constraints of one kind."""
        ends = np.array([self.flat(end) for end in self.bounds.T])
        A = self.plain if self.plain.any() else self.logs
        ends = ends if self.plain.any() else self._log(ends)
        width = np.where(ends[1] > ends[0], ends[1] - ends[0], 1.0)
        scaled, right = A * width, A @ ends[0]
        lengths = np.linalg.norm(scaled, axis=1)
        less, more = np.isfinite(self.high), np.isfinite(self.low)
        room = np.where(self.low == self.high, 0.0, lengths)[:, None]
        sides = np.hstack([np.vstack([scaled[less], -scaled[more]]),
                           np.vstack([room[less], room[more]])])  # fmt: skip
        limits = np.append((self.high - right)[less], (right - self.low)[more])
        cost = np.append(np.zeros(len(width)), -1.0)
        found: Any = linprog(cost, sides, limits, bounds=[(0.0, 1.0)] * len(cost))
        if found.x is None:
            return None
        values = ends[0] + found.x[:-1] * width
        flat = values if self.plain.any() else np.exp(values)
        return np.where(self.is_log, self._log(flat), flat / self.unit)
