"""Bars: what features or kernels are worth, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .reading import fitted, flat
from .style import BLUE, ORANGE, Display

MOST_BARS = 20  # bars


@dataclass(eq=False, repr=False)
class RelevanceDisplay(Display):
    """What features or kernels are worth, with standard errors, and the weights of kernels.

    Bars that can be dropped at no more than a standard error of the loss are hatched.

    Parameters
    ----------
    labels : list of str
        Features or kernels, from the most relevant on.
    relevance, std_error : ndarray
        Shares of the change of outputs when each is exchanged between rows, and their errors.
    droppable : ndarray of bool
        What can be dropped.
    weights : ndarray or None
        Weights of the kernels at the best point.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import GradientSearchCV, KernelSVC
    >>> from hypermargin.kernels import RBF, Linear
    >>> from hypermargin.plot import RelevanceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GradientSearchCV(KernelSVC(kernel=0.5 * RBF() + Linear()), cv=3).fit(X, y)
    >>> sorted(RelevanceDisplay.from_estimator(search).labels)
    ['linear', 'rbf']
    """

    labels: list[str]
    relevance: np.ndarray
    std_error: np.ndarray
    droppable: np.ndarray
    weights: np.ndarray | None

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> Self:
        """Draw what features or kernels are worth.

        Parameters
        ----------
        search : GradientSearchCV
            A fitted search that has `relevance_`.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : RelevanceDisplay
        """
        found = getattr(fitted(search), "relevance_", None)
        if found is None:
            raise ValueError(
                "this search has no relevance_; tune a width for each feature, "
                "space={'gamma': 'per_feature'}, or a sum of kernels."
            )
        names = [str(name) for name in found["feature" if "feature" in found else "kernel"]]
        order = np.argsort(-np.asarray(found["relevance"]), kind="stable")[:MOST_BARS]
        weights = None
        for name, value in search.best_params_.items():
            if name.endswith("weights") and isinstance(value, Mapping) and set(names) <= set(value):
                weights = np.array(list(flat({n: value[n] for n in names}).values()))[order]
        each = [np.asarray(found[key])[order] for key in ("relevance", "std_error", "droppable")]
        return cls([names[k] for k in order], each[0], each[1], each[2], weights).plot(ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 5.6, 1.4 + 0.28 * len(self.labels)

    def _draw(self, ax: Any) -> None:
        at = np.arange(len(self.labels))
        bars = ax.barh(at, self.relevance, height=0.6, xerr=self.std_error, color=BLUE,
                       edgecolor="black", linewidth=0.5, capsize=2)  # fmt: skip
        for bar, drop in zip(bars, self.droppable):
            if drop:
                bar.set(hatch="///", facecolor="white")
        marks = [("relevance", {"facecolor": BLUE}), ("can be dropped", {"hatch": "///"})]
        handles = [_patch(label, style) for label, style in marks]
        if self.weights is not None:
            handles += ax.plot(self.weights, at, "D", color=ORANGE, markeredgecolor="black",
                               label="weight of the kernel")  # fmt: skip
        ax.set_yticks(at, self.labels)
        ax.invert_yaxis()
        ax.set_xlabel("share of the change of outputs")
        ax.legend(handles=handles, loc="lower right", fontsize="small")


def _patch(label: str, style: dict[str, str]) -> Any:
    from matplotlib.patches import Patch

    looks: dict[str, Any] = {"facecolor": "white", "edgecolor": "black", "label": label, **style}
    return Patch(**looks)


@dataclass(eq=False, repr=False)
class TimeDisplay(Display):
    """Where the time of a search went.

    Parameters
    ----------
    seconds : dict of str to float
        Seconds by what was done, `seconds_` of the search, and the refit.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import TimeDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> shown = TimeDisplay.from_estimator(GradientSearchCV(SVC()).fit(X, y))
    >>> "train" in shown.seconds
    True
    """

    seconds: dict[str, float]

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> Self:
        """Draw where the time of a fitted search went.

        Parameters
        ----------
        search : GradientSearchCV
            A search that was fitted.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : TimeDisplay
        """
        seconds = dict(fitted(search).seconds_)
        if hasattr(search, "refit_time_"):
            seconds["refit"] = search.refit_time_
        return cls(seconds).plot(ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 5.6, 1.2 + 0.3 * len(self.seconds)

    def _draw(self, ax: Any) -> None:
        names = sorted(self.seconds, key=lambda name: -self.seconds[name])
        values = [self.seconds[name] for name in names]
        bars = ax.barh(names, values, height=0.6, color=BLUE, edgecolor="black", linewidth=0.5)
        ax.bar_label(bars, labels=[f" {value:.2g} s" for value in values], fontsize="small")
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set_xlabel("seconds")
