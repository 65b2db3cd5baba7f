"""Hyperparameters: named numbers and labelled arrays, and the space of them as one vector.

A hyperparameter is a number, or an array with an entry for each class, machine or group.  Problems
read numbers and whole arrays, by names of their own.  Users give and see numbers and dicts by
label, by the names that their estimator has.  An optimiser sees one vector of all that is tuned.
The three forms meet here, and nowhere else.

The vector is in scaled coordinates: one unit is a factor e of a logarithmic hyperparameter
and an eighth of the range of a linear one, so that a step of one is a sensible step everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from .budget import cached
from .region import Region

# Values of hyperparameters by the problem's names: floats, and arrays over all entries.
Params = dict[str, Any]

MORE_PLACES = 8  # times as many places are drawn where some of them do not meet constraints


def same(one: Params, other: Params) -> bool:
    """Whether two points have the same values."""
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


@dataclass(frozen=True)
class Dimension:
    """Range and scale of one number.

    `drift` is the power of the sample size with which the best value is known to move; a search
    that passes from a subsample to more rows shifts its start by it.  `noise` is the best value for
    targets with normal noise, in standard deviations of that.  `lean` is the relative loss
    per unit that a smaller value is worth on the smallest subsample, where large ones look better
    than they are and cost time.  `usual` is where the best value mostly is, and where a search
    looks first.  `first` is what becomes of it while a search with many hyperparameters still has
    few: it is "free", "tied" to others of its kind, which move together, or "held" where it
    usually is.  `together` is the range that tied ones have then: less than that of each, which
    may be of no account.  `whole` says that nothing different lies beyond its ends.
    """

    low: float
    high: float
    scale: str = "log"
    drift: float = 0.0
    lean: float = 0.0
    usual: tuple[float, float] | None = None
    first: str = "free"
    together: tuple[float, float] | None = None
    whole: bool = False
    noise: float | None = None

    @property
    def unit(self) -> float:
        return 1.0 if self.scale == "log" else (self.high - self.low) / 8.0

    @property
    def middle(self) -> float:
        """The middle of the range in scaled coordinates."""
        return 0.5 * (self.to_scaled(self.low) + self.to_scaled(self.high))

    @property
    def first_look(self) -> tuple[float, float]:
        """Where to look first, in scaled coordinates: the usual part of the range, or all of it."""
        low, high = self.to_scaled(self.low), self.to_scaled(self.high)
        if self.usual is not None:
            usual_low = max(low, self.to_scaled(max(self.usual[0], self.low)))
            usual_high = min(high, self.to_scaled(min(self.usual[1], self.high)))
            if usual_high - usual_low > 0.2 * min(high - low, 5.0):
                return usual_low, usual_high
        margin = 0.1 * (high - low)
        return low + margin, high - margin

    def to_scaled(self, value: float) -> float:
        return float(np.log(value)) if self.scale == "log" else value / self.unit

    def from_scaled(self, scaled: float) -> float:
        value = np.exp(scaled) if self.scale == "log" else scaled * self.unit
        # exp(log(high)) may exceed high by a rounding error
        return float(np.clip(value, self.low, self.high))

    @property
    def tied(self) -> Dimension:
        """The same while it moves with others."""
        low, high = self.together or (self.low, self.high)
        return replace(self, low=low, high=high)

    def over(self, unit: float) -> Dimension:
        """Return the same range for values that are given in units."""
        usual = None if self.usual is None else (self.usual[0] / unit, self.usual[1] / unit)
        noise = None if self.noise is None else self.noise / unit
        return replace(self, low=self.low / unit, high=self.high / unit, usual=usual, noise=noise)


@dataclass(frozen=True)
class Labels:
    """What the entries of an array are called: the labels of the classes or of the groups."""

    kind: str  # "classes", "groups", "features" or "kernels"
    names: Sequence[Any]

    def __len__(self) -> int:
        return len(self.names)

    @cached
    def numbers(self) -> dict[Any, int]:
        return {label: k for k, label in enumerate(self.names)}

    def check(self, name: str, given: Mapping) -> None:
        """Say so if what is given by label names none, or one that there is not."""
        known = f"of the {self.kind} {list(self.names)}"
        if not given:
            raise ValueError(f"{name} is an empty dict; name at least one {known}.")
        for label in given:
            if label not in self.numbers:
                raise ValueError(f"{name} names {label!r}, which is none {known}.")

    def check_number_of(self, name: str, given: Any) -> None:
        """Say so if a sequence does not have one value for each label."""
        if len(given) != len(self):
            raise ValueError(
                f"{name}={given!r} has {len(given)} values, but there are {len(self)} {self.kind}."
            )

    def picked(self, name: str, given: Any) -> tuple[np.ndarray, list]:
        """Return the numbers of the entries that something is given for, and what that is.

        A dict by label is for the entries that it names, anything else for every one.
        """
        if not isinstance(given, Mapping):
            return np.arange(len(self)), [given] * len(self)
        self.check(name, given)
        order = sorted(given, key=self.numbers.__getitem__)
        return np.array([self.numbers[label] for label in order]), [given[k] for k in order]

    def values(self, name: str, given: Any) -> np.ndarray:
        """Read a parameter of an estimator that is an array, or say what is wrong with it."""
        values: list[Any]
        if isinstance(given, Real):
            values = [given] * len(self)
        elif hasattr(given, "items"):  # a dict, or a series of pandas
            given = dict(given.items())
            # some of the rows, as in a fold, need not be of all groups or classes that are named
            named = self.numbers.keys() & given.keys()
            if not named or (self.kind != "groups" and len(named) < len(self)):
                self.check(name, given)
            values = [given.get(label, 1.0) for label in self.names]
        else:
            values = list(given)
            self.check_number_of(name, given)
        for value in values:
            if not isinstance(value, Real) or not np.isfinite(float(value)) or value <= 0:
                raise ValueError(f"{name}={given!r} has the value {value!r}; it must be positive.")
        return np.array(values, dtype=float)


@dataclass(frozen=True, eq=False)
class Hyperparameter:
    """A number that is set or tuned.

    `name` is what the user's estimator calls it, `own` what the problem does.  `ranges` has one for
    each number that is tuned.
    """

    name: str
    own: str
    ranges: tuple[Dimension, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every entry is set or tuned."""
        return True

    def value(self, entries: np.ndarray) -> Any:
        """Return what the problem is given: the number, or the whole array."""
        return float(entries[0])

    def entries(self, value: Any) -> np.ndarray:
        """Undo `value`."""
        return np.array([value])

    def pulled(self, value: Any, gradient: Any) -> np.ndarray:
        """Return derivatives by the entries of those by the value."""
        return self.entries(gradient)

    def setting(self, value: Any) -> Any:
        """Return what the user's estimator is given: the number, or values by label."""
        return value

    def derivatives(self, entries: np.ndarray) -> Any:
        """Return derivatives as users see them: one, or a dict by label of what is tuned."""
        return float(entries[0])

    @property
    def spelled(self) -> list[str]:
        """What people call each number that is tuned: ``class_weight['spam']``."""
        return [self.name]


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledArray(Hyperparameter):
    """An array of which some entries, those with the numbers `chosen`, are set or tuned.

    The others have their values in `rest`.
    """

    labels: Labels
    chosen: np.ndarray
    rest: np.ndarray

    @property
    def is_whole(self) -> bool:
        return len(self.chosen) == len(self.labels)

    def value(self, entries: np.ndarray) -> np.ndarray:
        value = self.rest.copy()
        value[self.chosen] = entries
        return value

    def entries(self, value: np.ndarray) -> np.ndarray:
        return np.broadcast_to(value, len(self.labels))[self.chosen]

    def setting(self, value: np.ndarray) -> dict[Any, float]:
        return dict(zip(self.labels.names, value.tolist(), strict=True))

    def derivatives(self, entries: np.ndarray) -> dict[Any, float]:
        return dict(zip(self._chosen_labels, entries.tolist(), strict=True))

    @property
    def spelled(self) -> list[str]:
        return [f"{self.name}[{label!r}]" for label in self._chosen_labels]

    @property
    def _chosen_labels(self) -> list[Any]:
        return [self.labels.names[k] for k in self.chosen]


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureArray(LabelledArray):
    """An array with an entry for each feature, which estimators take as it is.

    `asks` tells whether the search is to ask first if that pays.
    """

    asks: bool = False

    def setting(self, value: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return value.copy()


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedArray(FeatureArray):
    """An array with an entry for each feature, those of a group being equal.

    `labels` are those of the groups, `group` is the number of every feature's.
    """

    group: np.ndarray

    def value(self, entries: np.ndarray) -> np.ndarray:
        return entries[self.group]

    def entries(self, value: np.ndarray) -> np.ndarray:
        first = np.unique(self.group, return_index=True)[1]
        return np.broadcast_to(value, len(self.group))[first]

    def pulled(self, value: Any, gradient: Any) -> np.ndarray:
        return np.bincount(self.group, gradient)


class Shares(LabelledArray):
    """An array whose entries add up to one, in proportion to the coordinates."""

    def value(self, entries: np.ndarray) -> np.ndarray:
        return super().value(entries / entries.sum())

    def pulled(self, value: Any, gradient: Any) -> np.ndarray:
        return gradient - float(gradient @ value)


@dataclass(frozen=True, eq=False)
class Tied:
    """A space with many coordinates at its first stage, when it has few.

    `space` has the coordinate `owner` for each of the whole, -1 where that is held; `base` is where
    all of them are when those of the few are at zero.
    """

    space: Space
    owner: np.ndarray
    base: np.ndarray
    bounds: np.ndarray

    def full(self, theta: np.ndarray) -> np.ndarray:
        """Return the point of the whole space."""
        moved = np.append(theta, 0.0)[self.owner]
        return np.clip(self.base + moved, *self.bounds.T)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient by the few coordinates of that by all."""
        moves = self.owner >= 0
        return np.bincount(self.owner[moves], gradient[moves], minlength=len(self.space))


@dataclass(frozen=True, eq=False)
class Space:
    """The continuous hyperparameters of one search, in a fixed order.

    `region` is what linear constraints leave of it, None if there are none.
    """

    hyperparameters: tuple[Hyperparameter, ...] = ()
    region: Region | None = None

    def __len__(self) -> int:
        return len(self.dimensions)

    @cached
    def dimensions(self) -> tuple[Dimension, ...]:
        """The range of every coordinate."""
        return tuple(d for h in self.hyperparameters for d in h.ranges)

    @cached
    def bounds(self) -> np.ndarray:
        """The bounds in scaled coordinates, one row (low, high) for each."""
        return self._scaled(self._ends.T).T

    @cached
    def first_look(self) -> np.ndarray:
        """Where to look first, in the form of bounds."""
        return np.array([d.first_look for d in self.dimensions]).reshape(-1, 2)

    @cached
    def lean(self) -> np.ndarray:
        return np.array([d.lean for d in self.dimensions])

    @cached
    def _ends(self) -> np.ndarray:
        return np.array([(d.low, d.high) for d in self.dimensions]).reshape(-1, 2)

    @cached
    def _is_log(self) -> np.ndarray:
        return np.array([d.scale == "log" for d in self.dimensions], dtype=bool)

    @cached
    def _unit(self) -> np.ndarray:
        return np.array([d.unit for d in self.dimensions])

    def _scaled(self, flat: np.ndarray) -> np.ndarray:
        return np.where(self._is_log, np.log(np.where(self._is_log, flat, 1.0)), flat / self._unit)

    def flat(self, values: Params) -> np.ndarray:
        """Return those of what is tuned, in the order of the coordinates."""
        parts = [h.entries(values[h.own]) for h in self.hyperparameters]
        return np.concatenate(parts) if parts else np.empty(0)

    @cached
    def tied(self) -> Tied | None:
        """The space with few coordinates to begin with, if this one has many.

        What is tied moves together, everything from the middle of where it usually is.
        """
        ties = [d.first for d in self.dimensions]
        if ties.count("tied") < 2 and "held" not in ties:
            return None
        middle = self.first_look.mean(axis=1)
        owner, found, common = np.full(len(self), -1), list[Hyperparameter](), -1
        for k, tie in enumerate(ties):
            if tie == "tied" and common >= 0:
                owner[k] = owner[common]
            elif tie != "held":
                common = k if tie == "tied" else common
                owner[k] = len(found)
                found.append(Hyperparameter(str(k), str(k), (self.dimensions[k].tied,)))
        leader = middle[common] if common >= 0 else 0.0
        base = np.where(owner >= 0, 0.0, middle)
        tied = np.array(ties) == "tied"
        base[tied] = middle[tied] - leader
        return Tied(Space(tuple(found)), owner, base, self.bounds)

    def _parts(self, flat: np.ndarray) -> Iterator[tuple[Hyperparameter, np.ndarray]]:
        """Undo `flat`: yield every hyperparameter, with the numbers of it that are tuned."""
        start = 0
        for h in self.hyperparameters:
            yield h, flat[start : start + len(h.ranges)]
            start += len(h.ranges)

    def params(self, theta: np.ndarray, clip: bool = True) -> Params:
        """Return the hyperparameters at a point of scaled coordinates."""
        powers = np.exp(np.where(self._is_log, theta, 0.0))
        flat = np.where(self._is_log, powers, theta * self._unit)
        if clip:  # exp(log(high)) may exceed high by a rounding error
            flat = np.clip(flat, *self._ends.T)
        return {h.own: h.value(entries) for h, entries in self._parts(flat)}

    def theta(self, params: Params) -> np.ndarray:
        """Undo `params`."""
        return self._scaled(self.flat(params))

    def pull(self, params: Params, gradient: Params) -> np.ndarray:
        """Return the gradient in scaled coordinates."""
        slopes = self.slopes(params, gradient)
        return slopes * np.where(self._is_log, self.flat(params), self._unit)

    def slopes(self, params: Params, gradient: Params) -> np.ndarray:
        """Return the derivatives by what is tuned, in the order of the coordinates."""
        parts = [h.pulled(params[h.own], gradient[h.own]) for h in self.hyperparameters]
        return np.concatenate(parts) if parts else np.empty(0)

    def settings(self, params: Params) -> dict[str, Any]:
        """Return a point as parameters of the user's estimator."""
        return {h.name: h.setting(params[h.own]) for h in self.hyperparameters}

    def derivatives(self, flat: np.ndarray) -> dict[str, Any]:
        """Return a gradient by the names of the user's estimator."""
        return {h.name: h.derivatives(entries) for h, entries in self._parts(flat)}

    def drift(self, theta: np.ndarray, ratio: float, left: float = 0.0) -> np.ndarray:
        """Move a point found on few rows to where it should be on `ratio` times as many.

        `left` is the standard deviation of what outputs leave of targets.  What is best for so much
        noise counts as much as what was found: few rows say little of it.
        """
        moved = theta + np.array([d.drift for d in self.dimensions]) * np.log(ratio)
        for k, dimension in enumerate(self.dimensions):
            if dimension.noise is not None and left > 0.0:
                moved[k] = 0.5 * (moved[k] + dimension.to_scaled(dimension.noise * left))
        return self.nearest(moved)

    def nearest(self, theta: np.ndarray) -> np.ndarray:
        """Return the nearest point within the bounds that meets the constraints."""
        return np.clip(theta, *self.bounds.T) if self.region is None else self.region.nearest(theta)

    def on_bound(self, params: Params) -> list[tuple[str, float, float]]:
        """Return what sits on its bound, to within a thousandth of a unit: name, value, bound.

        Only bounds count beyond which there may be better values.
        """
        flat = self.flat(params)
        near = np.abs(self._scaled(flat)[:, None] - self.bounds) < 1e-3
        near[[d.whole for d in self.dimensions]] = False
        near[[d.together is not None for d in self.dimensions], 0] = False  # of no account at all
        names = [name for h in self.hyperparameters for name in h.spelled]
        return [
            (names[k], float(flat[k]), float(self._ends[k, int(near[k, 1])]))
            for k in np.flatnonzero(near.any(axis=1))
        ]


def lattice(space: Space, n_points: int, whole: bool = False) -> Iterator[np.ndarray]:
    """Yield spread points, those with the least of the first coordinate first.

    They are where minima usually are, or with `whole` anywhere in the space.

    Halton points: low-discrepancy in any dimension and the same on every run, so that two searches
    on the same data look at the same places.
    """
    from scipy.stats import qmc

    if not len(space):
        yield np.empty(0)
        return
    low, high = (space.bounds if whole else space.first_look).T
    drawn = n_points if space.region is None else MORE_PLACES * n_points
    places = low + qmc.Halton(len(space), scramble=False).random(drawn + 1)[1:] * (high - low)
    if space.region is not None:
        places = space.region.spread(places, n_points)
    yield from places[np.argsort(places[:, 0], kind="stable")]
