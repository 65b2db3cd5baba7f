"""Whether a width for each feature pays, asked on rows whose labels the widths have not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.space import GroupedArray
from .objective import Objective
from .parts import ENOUGH, ROWS, Held, held_out, without
from .proxy import Proxy, coordinates_of, widths_in

CLEARLY = 3.0  # deviations from chance
TRIAL, MOST = 10, 40  # evaluations from each start, and in all from the better one
WIDTHS = "a width for each feature", "one for all features"
GROUPS = "a width for each group of features", "one for all features"
WEIGHTS = "a weight for each kernel", "the average kernel"
OTHERS = "what each kernel has of its own", "what kernels have in common"


@dataclass
class Answer:
    """What widths gained on rows that were held out, part by part.

    `ones` and `points` are the best on the parts' training rows with one width, and with the ratios
    of widths that were learned without the part: coordinates `which` of the space and log(ridge).
    `learned` are all widths that were learned, `n_parts` is how many parts there are, asked or not.
    """

    asked: bool
    which: np.ndarray
    n_widths: int
    n_parts: int
    # what is compared: the model with more hyperparameters, and that with fewer
    names: tuple[str, str] = WIDTHS
    proxies: list[Proxy] = field(default_factory=list)
    ones: list[np.ndarray] = field(default_factory=list)
    points: list[np.ndarray] = field(default_factory=list)
    learned: list[np.ndarray] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    over_chance: list[tuple[float, float]] = field(default_factory=list)

    @property
    def about(self) -> str | None:
        """What the answer is about, if users are told: widths, or weights of kernels."""
        return "widths" if self.n_widths else "weights" if self.names == WEIGHTS else None

    @property
    def n_held(self) -> int:
        """The number of rows that were held out."""
        return sum(len(proxy.held.test) for proxy in self.proxies)

    def pooled(self, gains: list[float], errors: list[float]) -> tuple[float, float]:
        """Return the mean over all rows of what parts gain, and its standard error."""
        share = np.array([len(proxy.held.test) for proxy in self.proxies]) / max(1, self.n_held)
        if not len(share):
            return np.nan, np.nan
        return float(share @ gains), float(np.linalg.norm(share * errors))

    @property
    def kept(self) -> bool:
        """Whether each feature gets its own width: it gains, and says something of new rows.

        Weights of kernels have to gain a standard error.
        """
        gain, error = self.pooled(self.gains, self.errors)
        enough = gain > 0.0 if self.n_widths else gain > error
        return not self.asked or (enough and self.tells)

    @property
    def clearly(self) -> bool:
        """Whether widths gain a standard error, so that more may be made of them."""
        gain, error = self.pooled(self.gains, self.errors)
        return not self.asked or gain > error

    @property
    def tells(self) -> bool:
        """Whether machines with widths are clearly better than chance on rows held out."""
        found = np.reshape(self.over_chance, (-1, 2)).T.tolist()
        less, deviation = self.pooled(*found)
        return less > CLEARLY * deviation

    @property
    def hopeless(self) -> bool:
        """Whether widths lose so much that other parts need not be asked."""
        gain, error = self.pooled(self.gains, self.errors)
        return self.asked and len(self.gains) > 1 and gain < -2.0 * error

    def start(self, one: np.ndarray) -> np.ndarray:
        """Return a point with the mean of the widths that were learned, in place of one width."""
        start = one.copy()
        if self.learned:
            start[self.which] = np.mean(self.learned, axis=0)[:-1]
        return start

    def as_dict(self) -> dict[str, Any]:
        """Return what users see of it."""
        gain, error = self.pooled(self.gains, self.errors)
        found = {"kept": self.kept, "asked": self.asked, "gain": gain, "std_error": error}
        return {**found, "n_held": self.n_held, "n_parts": len(self.gains), "why": self.why}

    @property
    def why(self) -> str:
        gain, error = self.pooled(self.gains, self.errors)
        many, one = self.names
        what = f"{many if self.kept else one} is kept"
        if not self.proxies:
            asked = "" if self.asked else ", as was asked"
            return f"no rows could be held out to compare on; {what}{asked}."
        if not self.asked:
            what += ", as was asked"
        elif not self.kept and gain > 0.0 and not self.tells:
            what += ", as neither is clearly better than chance"
        elif self.kept and not self.clearly:
            what += ", with the ratios that were learned there"
        return (
            f"with {many} the smooth loss on {self.n_held} rows that were held out is "
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
    answer = Answer(asked, which, n_widths, len(parts), names)
    lessons = Lessons(objective, one, parts, n_widths)
    for number, held in enumerate(parts):
        proxy = Proxy(objective, held, one)
        try:
            best = proxy.one_width()[1]
            each = proxy.settled(lessons.of_part(number))[1]
            before, after = proxy.outputs(best), proxy.outputs(each)
        except FloatingPointError:  # a kernel that is not positive definite has no such machine
            continue
        gain, error = proxy.gain(before, after)
        answer.over_chance.append(proxy.over_chance(after))
        answer.proxies.append(proxy)
        answer.ones.append(best)
        answer.points.append(each)
        answer.gains.append(gain)
        answer.errors.append(error)
        if answer.hopeless:
            break
    answer.learned = list(lessons.learned.values())
    return answer


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
        self.learned: dict[tuple[int, int], np.ndarray] = {}

    def others(self, number: int) -> list[int]:
        """Return the parts that are left out with a part."""
        n_parts = len(self.parts)
        if n_parts < ENOUGH:
            return [number]
        if max(len(part.train) for part in self.parts) >= ROWS[0]:  # lessons are dear
            return [(number - 1) % n_parts, (number + 1) % n_parts]
        return [other for other in range(n_parts) if other != number]

    def of_part(self, number: int) -> np.ndarray:
        """Return the mean of what was learned without a part."""
        found = [self.lesson(number, other) for other in self.others(number)]
        return np.mean(found, axis=0)

    def lesson(self, number: int, other: int) -> np.ndarray:
        """Return widths learned without two parts; without one, if that leaves too few rows."""
        part, left_out = self.parts[number], self.parts[other]
        # rows that were transformed by what another part may not know are of no use to it
        shared = part.design is left_out.design
        key = (min(number, other), max(number, other)) if shared else (number, other)
        if key not in self.learned:
            held = without(self.objective, part, left_out, self.n_widths)
            if held is None:
                return self.lesson(number, number)
            self.learned[key] = learn(Proxy(self.objective, held, self.one))
        return self.learned[key]


def learn(proxy: Proxy) -> np.ndarray:
    """Return where a descent ends that gives each feature its own width."""
    loss, best = proxy.one_width()
    proxy.penalty = standard_error(proxy.objective, loss, len(proxy.held.train))
    return proxy.each_width([best, proxy.bold()], TRIAL, MOST)


def standard_error(objective: Objective, value: float, n_rows: int) -> float:
    """Return that of a loss: of an error as a share of the rows, else as a mean of squares."""
    if objective.prepared.targets.classes is None:
        return value * np.sqrt(2.0 / n_rows)
    share = np.clip(value, 1.0 / n_rows, 0.5)
    return float(np.sqrt(share * (1.0 - share) / n_rows))
