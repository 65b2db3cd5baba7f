"""Whether a width for each feature pays, asked on rows whose labels the widths have not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.space import GroupedArray
from .objective import Objective
from .proxy import Proxy, coordinates_of, held_out, widths_in

CLEARLY = 3.0  # deviations from chance
TRIAL, MOST = 10, 40  # evaluations from each start, and in all from the better one
WIDTHS = "a width for each feature", "one for all features"
GROUPS = "a width for each group of features", "one for all features"
WEIGHTS = "a weight for each kernel", "the average kernel"
OTHERS = "what each kernel has of its own", "what kernels have in common"


@dataclass
class Answer:
    """What widths gained on rows that were held out, part by part.

    `ones` and `points` are where the descents on the parts' training rows have ended, with one
    width and with one for each, coordinates `which` of the space and log(ridge); `n_parts` is how
    many parts there are, asked or not.
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

    @property
    def n_learned(self) -> int:
        """The number of rows that widths were learned from at a time."""
        return max((len(proxy.held.train) for proxy in self.proxies), default=0)

    def pooled(self, gains: list[float], errors: list[float]) -> tuple[float, float]:
        """Return the mean over all rows of what parts gain, and its standard error."""
        share = np.array([len(proxy.held.test) for proxy in self.proxies]) / max(1, self.n_held)
        if not len(share):
            return np.nan, np.nan
        return float(share @ gains), float(np.linalg.norm(share * errors))

    @property
    def kept(self) -> bool:
        """Whether each feature gets its own width: it gains, and says something of new rows."""
        gain, error = self.pooled(self.gains, self.errors)
        return not self.asked or (gain > error and self.tells)

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
        if self.points:
            start[self.which] = np.mean(self.points, axis=0)[:-1]
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
        elif gain > error and not self.tells:
            what += ", as neither is clearly better than chance"
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
    for held in parts:
        proxy = Proxy(objective, held, one)
        loss, best = proxy.one_width()
        proxy.penalty = standard_error(objective, loss, len(held.train))
        each = proxy.each_width([best, proxy.bold()], TRIAL, MOST)
        try:
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
    return answer


def standard_error(objective: Objective, value: float, n_rows: int) -> float:
    """Return that of a loss: of an error as a share of the rows, else as a mean of squares."""
    if objective.prepared.targets.classes is None:
        return value * np.sqrt(2.0 / n_rows)
    share = np.clip(value, 1.0 / n_rows, 0.5)
    return float(np.sqrt(share * (1.0 - share) / n_rows))
