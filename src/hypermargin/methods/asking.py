"""Whether a width for each feature pays, asked on rows whose labels the widths have not seen."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .._core.space import GroupedArray
from .features import exchanged, features_of
from .objective import Objective
from .parts import LEAST_PARTS, ROWS, Held, held_out, without
from .proxy import Proxy, coordinates_of, widths_in, worth

CLEARLY = 3.0  # deviations from chance
TRIAL, MOST = 5, 40  # evaluations from each start, and in all from the better one
WIDTHS = "a width for each feature", "one for all features"
GROUPS = "a width for each group of features", "one for all features"
SOME = "one width for some of the features"
WEIGHTS = "a weight for each kernel", "the average kernel"
# what parts are compared by: of classes, and of other targets
LOSSES = "the variance of labels that is left unexplained", "the smooth loss"
OTHERS = "what each kernel has of its own", "what kernels have in common"


@dataclass
class Tried:
    """Widths that were learned without a part: the best point with their ratios, and its gain.

    Points are the parts' own: coordinates `which` of the space and log(ridge).
    """

    points: list[np.ndarray] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def note(self, point: np.ndarray, gain: float, error: float) -> None:
        self.points.append(point)
        self.gains.append(gain)
        self.errors.append(error)


@dataclass(frozen=True)
class Outcome:
    """What came of a part: the best point with one width, and what widths gain over it there."""

    proxy: Proxy
    one: np.ndarray
    each: tuple[np.ndarray, float, float] | None = None
    over_chance: tuple[float, float] = (0.0, 0.0)


@dataclass
class Answer:
    """What widths gained on rows that were held out, part by part.

    `ones` are the best points on the parts' training rows with one width, `each` those with the
    widths that were learned without the part.  `some` are those with one width for the features
    that matter more, by their `shares` in what outputs depend on; it is asked about them if `each`
    gains nothing, or not clearly.  `learned` are all widths that
    were learned, `n_parts` is how many parts there are, asked or not.
    """

    asked: bool
    which: np.ndarray
    n_widths: int
    n_parts: int
    # what is compared: the model with more hyperparameters, and that with fewer
    names: tuple[str, str] = WIDTHS
    loss: str = LOSSES[0]
    proxies: list[Proxy] = field(default_factory=list)
    ones: list[np.ndarray] = field(default_factory=list)
    each: Tried = field(default_factory=Tried)
    some: Tried = field(default_factory=Tried)
    shares: list[np.ndarray] = field(default_factory=list)
    learned: list[np.ndarray] = field(default_factory=list)
    over_chance: list[tuple[float, float]] = field(default_factory=list)

    @property
    def about(self) -> str | None:
        """What the answer is about, if users are told: widths, or weights of kernels."""
        return "widths" if self.n_widths else "weights" if self.names == WEIGHTS else None

    @property
    def n_held(self) -> int:
        """The number of rows that were held out and asked about."""
        return sum(len(proxy.held.test) for proxy in self.proxies[: len(self.told.gains)])

    @property
    def told(self) -> Tried:
        """What is kept, or would be: a width for each."""
        return self.some if self.selects else self.each

    def note(self, found: Outcome | None) -> None:
        """Take up what came of a part; None, if it has no such machines."""
        if found is None:
            return
        self.proxies.append(found.proxy)
        self.ones.append(found.one)
        if found.each is not None:
            self.each.note(*found.each)
            self.over_chance.append(found.over_chance)

    def pooled(self, gains: list[float], errors: list[float]) -> tuple[float, float]:
        """Return the mean over all rows of what parts gain, and its standard error.

        If the last parts were not asked, it is the mean over the others.
        """
        share = np.array([len(proxy.held.test) for proxy in self.proxies[: len(gains)]], float)
        if not len(share):
            return np.nan, np.nan
        share /= share.sum()
        return float(share @ gains), float(np.linalg.norm(share * errors))

    @property
    def gain(self) -> tuple[float, float]:
        """What that gains, and its standard error."""
        return self.pooled(self.told.gains, self.told.errors)

    @property
    def pays(self) -> bool:
        """Whether a width for each gains, and machines with them say something of new rows.

        Weights of kernels have to gain a standard error.
        """
        gain, error = self.pooled(self.each.gains, self.each.errors)
        enough = gain > max(0.0, self.by_some) if self.n_widths else gain > error
        return not self.asked or (enough and self.tells)

    @property
    def by_some(self) -> float:
        """What one width for some of the features gains."""
        return self.pooled(self.some.gains, self.some.errors)[0] if self.some.gains else -np.inf

    @property
    def selects(self) -> bool:
        """Whether some of the features have one width, and the others no part in distances."""
        return not self.pays and self.by_some > 0.0 and self.tells

    @property
    def kept(self) -> bool:
        """Whether features are told apart."""
        return self.pays or self.selects

    @property
    def clearly(self) -> bool:
        """Whether a width for each gains a standard error, so that more may be made of them."""
        gain, error = self.pooled(self.each.gains, self.each.errors)
        return self.pays and (not self.asked or gain > error)

    @property
    def tells(self) -> bool:
        """Whether machines with widths are clearly better than chance on rows held out."""
        found = np.reshape(self.over_chance, (-1, 2)).T.tolist()
        less, deviation = self.pooled(*found)
        return less > CLEARLY * deviation

    @property
    def hopeless(self) -> bool:
        """Whether widths lose so much that other parts need not be asked."""
        gain, error = self.pooled(self.each.gains, self.each.errors)
        return self.asked and len(self.each.gains) > 1 and gain < -2.0 * error

    @property
    def matter(self) -> np.ndarray:
        """Which features are among those that matter more."""
        return upper(logs(np.mean(self.shares, axis=0)))

    def start(self, one: np.ndarray) -> np.ndarray:
        """Return a point with what was learned of the features, in place of one width."""
        start = one.copy()
        if self.selects:
            start[self.which] = only(self.matter, self.proxies[0], one[self.which])
        elif self.learned:
            start[self.which] = np.mean(self.learned, axis=0)[:-1]
        return start

    def as_dict(self) -> dict[str, Any]:
        """Return what users see of it."""
        gain, error = self.gain
        found = {"kept": self.kept, "asked": self.asked, "gain": gain, "std_error": error}
        return {**found, "n_held": self.n_held, "n_parts": len(self.told.gains), "why": self.why}

    @property
    def why(self) -> str:
        gain, error = self.gain
        many, one = (SOME if self.selects else self.names[0]), self.names[1]
        what = f"{many if self.kept else one} is kept"
        if not self.proxies:
            asked = "" if self.asked else ", as was asked"
            return f"no rows could be held out to compare on; {what}{asked}."
        if not self.asked:
            what += ", as was asked"
        elif not self.kept and gain > 0.0 and not self.tells:
            what += ", as neither is clearly better than chance"
        elif self.pays and not self.clearly:
            what += ", with the ratios that were learned there"
        return (
            f"with {many} {self.loss} on {self.n_held} rows that were held out is "
            f"{np.exp(-gain):.3g} times that with {one} (the logarithm has a standard error of "
            f"{error:.2g}); {what}."
        )


def ask(objective: Objective, one: np.ndarray, asked: bool) -> Answer:
    """Learn widths from parts of the data, and compare them with one width on the rest of each."""
    which = coordinates_of(objective.space, objective.prepared.problem)
    n_widths = sum(len(part) for part in widths_in(objective.space, which))
    parts = held_out(objective, n_widths)
    grouped = any(isinstance(h, GroupedArray) for h in objective.space.hyperparameters)
    weighted = any(h.own == "weights" for h in objective.space.hyperparameters)
    names = GROUPS if grouped else WIDTHS if n_widths else WEIGHTS if weighted else OTHERS
    loss = LOSSES[objective.prepared.targets.classes is None]
    answer = Answer(asked, which, n_widths, len(parts), names, loss)
    lessons = Lessons(objective, one, parts, n_widths)
    lessons.begin()
    for some in (range(len(parts))[:2], range(len(parts))[2:]):  # two may show that it is hopeless
        teaches = not answer.hopeless
        if teaches:
            lessons.prepare(some)
        for found in objective.side_by_side(partial(outcome, lessons, teaches), some):
            answer.note(found)
    answer.learned = list(lessons.learned.values())
    if n_widths > 1 and asked and answer.tells and not answer.clearly:
        with suppress(FloatingPointError):
            select(answer, lessons)
    return answer


def outcome(lessons: Lessons, teaches: bool, number: int) -> Outcome | None:
    """Return what came of a part; without widths, if lessons teach none."""
    proxy, (_, one) = lessons.proxy(lessons.parts[number]), lessons.ones[number]
    if not teaches:
        return Outcome(proxy, one)
    try:
        learned = partial(proxy.settled, lessons.of_part(number))
        each = lessons.objective.memory.once(f"ratios of widths, part {number}", learned)[1]
        chance = proxy.over_chance(proxy.outputs(each))
        return Outcome(proxy, one, (each, *gain(proxy, one, each)), chance)
    except FloatingPointError:  # a kernel that is not positive definite has no such machine
        return None


def select(answer: Answer, lessons: Lessons) -> None:
    """Compare one width for the features that matter more with one for all of them."""

    def selected(part: tuple[Proxy, np.ndarray]) -> tuple[np.ndarray, Any]:
        proxy, one = part
        share = exchanged(proxy, one)
        point = proxy.settled(only(upper(logs(share)), proxy, one))[1]
        return share, (point, *gain(proxy, one, point))

    some, parts = Tried(), list(zip(answer.proxies, answer.ones, strict=True))
    found = lessons.objective.side_by_side(selected, parts)
    for _, tried in found:
        some.note(*tried)
    answer.some, answer.shares = some, [share for share, _ in found]


def gain(proxy: Proxy, one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return what a point gains over one width on the rows of a part, and its standard error."""
    return proxy.gain(proxy.outputs(one), proxy.outputs(other))


def only(features: np.ndarray, proxy: Proxy, z: np.ndarray) -> np.ndarray:
    """Return a point at which all but some features have the least widths that they may have."""
    found = z.copy()
    for feature, stays in zip(features_of(proxy), features, strict=True):
        if not stays:
            found[feature.widths] = proxy.bounds[feature.widths, 0]
    return found


def logs(shares: np.ndarray) -> np.ndarray:
    """Return logarithms, of zeros that of the least share which is none."""
    return np.log(np.maximum(shares, shares[shares > 0.0].min()))


def upper(values: np.ndarray) -> np.ndarray:
    """Return which values are in the upper one of the two groups that differ most from each other.

    No other cut leaves less variance within the groups.
    """
    order = np.argsort(values, kind="stable")
    n_below = np.arange(1, len(values))
    above = np.cumsum(values[order][::-1])[::-1]
    mean_above = above[1:] / n_below[::-1]
    mean_below = (above[0] - above[1:]) / n_below
    between = n_below * n_below[::-1] * (mean_above - mean_below) ** 2
    found = np.ones(len(values), dtype=bool)
    if len(values) > 1:
        found[order[: n_below[between.argmax()]]] = False
    return found


class Lessons:
    """Widths that were learned from the rows which none of two parts holds out.

    Widths learned once are noisy, and their mean is much less so.  What is asked about a part is
    therefore the mean of what was learned without it and without each of the others: each lesson
    serves two parts.  Where rows are many, two lessons for each part have to do; where parts are
    few, one, from all that the part does not hold out.
    """

    def __init__(self, objective: Objective, one: np.ndarray, parts: list[Held], n_widths: int):
        self.objective, self.one = objective, one
        self.parts, self.n_widths = parts, n_widths
        # the least losses of the parts with one width for all features, and where they are
        self.ones: list[tuple[float, np.ndarray]] = []
        self.held: dict[tuple[int, int], Held] = {}  # what each lesson is learned from
        self.learned: dict[tuple[int, int], np.ndarray] = {}

    def proxy(self, held: Held) -> Proxy:
        return Proxy(self.objective, held, self.one)

    def begin(self) -> None:
        """Find the best point of each part with one width."""
        self.ones = self.objective.side_by_side(self.one_width, range(len(self.parts)))

    def one_width(self, number: int) -> tuple[float, np.ndarray]:
        proxy = self.proxy(self.parts[number])
        return self.objective.memory.once(f"one width, part {number}", proxy.one_width)

    def others(self, number: int) -> list[int]:
        """Return the parts that are left out with a part."""
        n_parts = len(self.parts)
        if n_parts < LEAST_PARTS:
            return [number]
        if max(len(part.train) for part in self.parts) >= ROWS[0]:  # lessons are dear
            return [(number - 1) % n_parts, (number + 1) % n_parts]
        return [other for other in range(n_parts) if other != number]

    def prepare(self, numbers: Iterable[int]) -> None:
        """Learn what has to be learned for some of the parts, several lessons at a time."""
        keys = dict.fromkeys(key for number in numbers for key in self.keys(number))
        new = [key for key in keys if key not in self.learned]
        self.learned.update(zip(new, self.objective.side_by_side(self.lesson, new), strict=True))

    def of_part(self, number: int) -> np.ndarray:
        """Return the mean of what was learned without a part."""
        return np.mean([self.learned[key] for key in self.keys(number)], axis=0)

    def keys(self, number: int) -> list[tuple[int, int]]:
        """Return the lessons that leave out a part, by the parts that they leave out."""
        return [self.key(number, other) for other in self.others(number)]

    def key(self, number: int, other: int) -> tuple[int, int]:
        """Return the lesson without two parts; that without one, if that leaves too few rows."""
        part, left_out = self.parts[number], self.parts[other]
        # rows that were transformed by what another part may not know are of no use to it
        shared = part.design is left_out.design
        key = (min(number, other), max(number, other)) if shared else (number, other)
        if key not in self.held:
            held = without(self.objective, part, left_out, self.n_widths)
            if held is None:
                return self.key(number, number)
            self.held[key] = held
        return key

    def lesson(self, key: tuple[int, int]) -> np.ndarray:
        """Return the widths that are learned without two parts.

        What is best with one width for all features, where the descent begins, is looked for from
        where the two parts have it, as closely as the descent itself.
        """
        return self.objective.memory.once(f"widths without parts {key}", partial(self.learn, key))

    def learn(self, key: tuple[int, int]) -> np.ndarray:
        losses, starts = zip(*(self.ones[number] for number in key), strict=True)
        proxy, loss = self.proxy(self.held[key]), float(np.mean(losses))
        tol = max(self.objective.tol, worth(proxy.error(loss), loss))
        loss, one = proxy.settled(np.mean(starts, axis=0), tol)
        proxy.penalty = proxy.error(loss)
        return proxy.each_width([one, proxy.bold()], TRIAL, MOST)
