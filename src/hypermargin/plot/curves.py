"""Scores along a search, and along one hyperparameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .reading import (
    best_params,
    check_name,
    expected,
    fitted,
    flat,
    is_log,
    score_name,
    standard_errors,
    tuned,
)
from .style import BEST, BLACK, BLUE, Display, line


def so_far(search: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number, the seconds since the beginning and the score of every scored point."""
    rows = search.history_
    score = np.array([row["score"] for row in rows], dtype=float)
    seconds = np.cumsum([row["seconds"] for row in rows])
    known = np.isfinite(score)
    return np.arange(1, len(rows) + 1)[known], seconds[known], score[known]


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Scores in the order of evaluations, the best so far, and what to expect on new data.

    Parameters
    ----------
    steps : ndarray
        Numbers of evaluations, rough looks included, or seconds.
    scores : ndarray
        Mean scores of the folds there.
    estimate : ScoreEstimate or None
        What to expect on new data.
    xlabel, ylabel : str
        What axes are called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import ConvergenceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GradientSearchCV(SVC(), cv=5).fit(X, y)
    >>> ConvergenceDisplay.from_estimator(search).ax_.get_ylabel()
    'accuracy'
    """

    steps: np.ndarray
    scores: np.ndarray
    estimate: Any
    xlabel: str
    ylabel: str

    @classmethod
    def from_estimator(cls, search: Any, *, x: str = "evaluation", ax: Any = None) -> Self:
        """Draw how a fitted search has converged.

        Parameters
        ----------
        search : GradientSearchCV
            A search that was fitted.
        x : {"evaluation", "seconds"}, default="evaluation"
            What the horizontal axis counts.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : ConvergenceDisplay
        """
        if x not in ("evaluation", "seconds"):
            raise ValueError(f"x={x!r} is unknown; use 'evaluation' or 'seconds'.")
        number, seconds, scores = so_far(fitted(search))
        steps = number if x == "evaluation" else seconds
        label = "evaluation, looks included" if x == "evaluation" else "seconds"
        return cls(steps, scores, expected(search), label, score_name(search)).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        ax.plot(self.steps, self.scores, "o", color=BLUE, markersize=4, label="evaluations")
        ax.step(self.steps, np.maximum.accumulate(self.scores), where="post", color=BLACK,
                linewidth=1.2, label="best so far")  # fmt: skip
        if self.estimate is not None:
            low, high, level = self.estimate.low, self.estimate.high, self.estimate.level
            ax.axhspan(low, high, color="0.5", alpha=0.2, label=f"{100 * level:.0f} % interval")
            ax.axhline(
                self.estimate.score, color="0.3", linestyle="--", label="expected on new data"
            )
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend(loc="best", fontsize="small")


@dataclass(eq=False, repr=False)
class HyperparameterDisplay(Display):
    """Mean score of the folds against one hyperparameter, with its standard error.

    Linear models have the whole curve (`curve_`); of others the evaluated points are shown.

    Parameters
    ----------
    name : str
        The hyperparameter.
    values, scores, errors : ndarray
        Its values, the mean scores of the folds there, and their standard errors.
    is_curve : bool
        Whether they are a whole curve.
    best : tuple of float or None
        Value and score of the best point.
    ylabel : str
        What the score is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import HyperparameterDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GradientSearchCV(LogisticRegression(), cv=5).fit(X / X.max(axis=0), y)
    >>> HyperparameterDisplay.from_estimator(search, "C").is_curve
    True
    """

    name: str
    values: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    is_curve: bool
    best: tuple[float, float] | None
    ylabel: str

    @classmethod
    def from_estimator(cls, search: Any, name: str | None = None, *, ax: Any = None) -> Self:
        """Draw the score against a hyperparameter of a fitted search.

        Parameters
        ----------
        search : GradientSearchCV
            A search that was fitted.
        name : str, default=None
            The hyperparameter, as in `best_params_`; None for the first.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : HyperparameterDisplay
        """
        names = tuned(fitted(search))
        if not names:
            raise ValueError("this search has varied no number.")
        name = names[0] if name is None else check_name(search, name)
        best, label = flat(best_params(search)).get(name), score_name(search)
        curve = getattr(search, "curve_", {})
        if name in curve:
            values, scores, errors = (np.asarray(curve[k]) for k in (name, "score", "std_error"))
        else:
            means, deviations = standard_errors(search)
            rows = [flat(params) for params in search.cv_results_["params"]]
            there = [k for k, row in enumerate(rows) if name in row and np.isfinite(means[k])]
            there.sort(key=lambda k: rows[k][name])
            values = np.array([rows[k][name] for k in there])
            scores, errors = means[there], deviations[there]
        score = getattr(search, "best_score_", None)
        at = None if best is None or score is None else (best, float(score))
        return cls(name, values, scores, errors, name in curve, at, label).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        if is_log(self.values):
            ax.set_xscale("log")
        if self.is_curve:
            ax.plot(self.values, self.scores, color=BLUE, label="mean of the folds")
            ax.fill_between(self.values, self.scores - self.errors, self.scores + self.errors,
                            color=BLUE, alpha=0.2, label="standard error")  # fmt: skip
        else:
            ax.errorbar(self.values, self.scores, self.errors, fmt="o", color=BLUE, markersize=4,
                        linewidth=0.8, capsize=2, label="mean and standard error")  # fmt: skip
        if self.best is not None:
            ax.plot(*self.best, linestyle="none", label="best", **BEST)
        every = ax.scatter(self.values, self.scores, s=60, alpha=0.0, zorder=6)
        every.set_gid("points-of-curve")
        ax.set(xlabel=self.name, ylabel=self.ylabel)
        ax.legend(loc="best", fontsize="small")


@dataclass(eq=False, repr=False)
class SearchesDisplay(Display):
    """Several searches side by side: the best score so far against time, and what to expect.

    Parameters
    ----------
    curves : dict of str to (seconds, scores)
        Of every search, by its name.
    estimates : dict of str to ScoreEstimate or None
        What to expect of each on new data.
    ylabel : str
        What the score is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import SearchesDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> searches = {m: GradientSearchCV(SVC(), method=m).fit(X, y) for m in ("gradient", "random")}
    >>> list(SearchesDisplay.from_estimators(searches).curves)
    ['gradient', 'random']
    """

    curves: Mapping[str, tuple[np.ndarray, np.ndarray]]
    estimates: Mapping[str, Any]
    ylabel: str

    @classmethod
    def from_estimators(cls, searches: Mapping[str, Any], *, ax: Any = None) -> Self:
        """Draw several fitted searches.

        Parameters
        ----------
        searches : dict of str to GradientSearchCV
            Fitted searches by name.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : SearchesDisplay
        """
        if not isinstance(searches, Mapping):
            kind = type(searches).__name__
            raise TypeError(f"searches={kind}(...) must be a dict of fitted searches by name.")
        if not searches:
            raise ValueError("searches={} is empty; give at least one fitted search by its name.")
        curves, labels = {}, set()
        for name, search in searches.items():
            _, seconds, scores = so_far(fitted(search))
            curves[name] = seconds, np.maximum.accumulate(scores)
            labels.add(score_name(search))
        if len(labels) > 1:
            raise ValueError(f"searches have different scores, {sorted(labels)}.")
        found = {name: expected(search) for name, search in searches.items()}
        return cls(curves, found, labels.pop()).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        last = max(seconds[-1] for seconds, _ in self.curves.values())
        for number, (name, (seconds, best)) in enumerate(self.curves.items()):
            style = line(number)
            ax.step([*seconds, last], [*best, best[-1]], where="post", label=name,
                    markevery=list(range(len(seconds))), markersize=4, **style)  # fmt: skip
            estimate = self.estimates[name]
            if estimate is not None:
                ends = [[estimate.score - estimate.low], [estimate.high - estimate.score]]
                ax.errorbar([last * 1.15**(number + 1)], [estimate.score], ends, capsize=3,
                            color=style["color"], marker=style["marker"], markersize=5)  # fmt: skip
        ax.set(xlabel="seconds; at the right, what to expect on new data", ylabel=self.ylabel)
        ax.set_xscale("log")
        # what was poor at first is not what they are compared for
        known = [one for one in self.estimates.values() if one is not None]
        if known:
            low, high = min(one.low for one in known), max(one.high for one in known)
            ax.set_ylim(max(ax.get_ylim()[0], low - (high - low)), None)
        ax.legend(loc="lower left", fontsize="small")
