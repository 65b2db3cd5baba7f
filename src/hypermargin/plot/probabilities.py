"""Thresholds and probabilities, by the out-of-fold outputs of the best point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..criteria.probability import calibrated
from .reading import fitted
from .style import BLACK, Display, line

BINS = 10


def best_outputs(search: Any) -> Any:
    """Return the out-of-fold outputs of the best point of a classifier, or say why not."""
    found = getattr(fitted(search), "_best_outputs", None)
    if found is None:
        raise ValueError(
            "this picture is made of the out-of-fold outputs of a classifier's best point, and "
            "this search has none."
        )
    return found


@dataclass(eq=False, repr=False)
class ThresholdDisplay(Display):
    """Precision and recall, or the cost of errors, against the threshold on the decision.

    Parameters
    ----------
    thresholds : ndarray
        Decisions from which on the second class is said.
    curves : dict of str to ndarray
        What is shown, by its name, at every threshold.
    chosen : float
        The threshold of the model.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import LinearSVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import ThresholdDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GradientSearchCV(LinearSVC(), cv=5).fit(X / X.max(axis=0), y)
    >>> list(ThresholdDisplay.from_estimator(search).curves)
    ['precision', 'recall', 'F1']
    """

    thresholds: np.ndarray
    curves: dict[str, np.ndarray]
    chosen: float

    @classmethod
    def from_estimator(
        cls, search: Any, *, costs: Sequence[float] | None = None, ax: Any = None
    ) -> Self:
        """Draw what thresholds would do, on out-of-fold outputs.

        Parameters
        ----------
        search : GradientSearchCV
            A fitted search of a classifier of two classes.
        costs : tuple of two floats, default=None
            The cost of a false alarm, and of a row of the second class that is missed.  If given,
            their mean over rows is shown, else precision, recall and F1 of the second class.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : ThresholdDisplay
        """
        found = best_outputs(search)
        if len(found.classes) != 2:
            raise ValueError(f"thresholds are for two classes; y has {len(found.classes)}.")
        if costs is not None and (np.shape(costs) != (2,) or min(costs) < 0):
            raise ValueError(f"costs={costs!r} must be two numbers from 0 on.")
        decision, weight, y = found.decisions[:, 0], found.weight, found.y
        order = np.argsort(-decision, kind="stable")
        last = np.flatnonzero(np.r_[np.diff(decision[order]) != 0, True])
        hits = np.cumsum(weight[order] * (y[order] == 1))[last]
        alarms = np.cumsum(weight[order] * (y[order] == 0))[last]
        thresholds, positives = decision[order][last], (weight * (y == 1)).sum()
        if costs is not None:
            missed = positives - hits
            mean = (costs[0] * alarms + costs[1] * missed) / weight.sum()
            curves = {"mean cost": mean}
        else:
            precision, recall = hits / (hits + alarms), hits / positives
            f1 = 2 * hits / (hits + alarms + positives)
            curves = {"precision": precision, "recall": recall, "F1": f1}
        return cls(thresholds, curves, found.threshold).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        for number, (name, values) in enumerate(self.curves.items()):
            style = {**line(number), "marker": None}
            ax.plot(self.thresholds, values, label=name, **style)
        ax.axvline(self.chosen, color=BLACK, linewidth=0.8)
        ax.annotate("model", (self.chosen, 0.02), xycoords=("data", "axes fraction"), rotation=90,
                    ha="right", va="bottom", fontsize="small")  # fmt: skip
        ax.set(xlabel="threshold on the decision", ylabel=" / ".join(self.curves))
        ax.legend(loc="best", fontsize="small")


@dataclass(eq=False, repr=False)
class CalibrationDisplay(Display):
    """How often rows are of a class, against the probability that they were given.

    Probabilities of a fold come from a sigmoid of the other folds' outputs.  With more than two
    classes those of all classes are pooled.

    Parameters
    ----------
    predicted, observed, std_error : ndarray
        Means of probabilities in bins of equally many rows, the shares of rows that are of the
        class, and the standard errors of these.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import CalibrationDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GradientSearchCV(SVC(), cv=3).fit(X / X.max(axis=0), y)
    >>> len(CalibrationDisplay.from_estimator(search).predicted) <= 10
    True
    """

    predicted: np.ndarray
    observed: np.ndarray
    std_error: np.ndarray

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> Self:
        """Draw how well probabilities are calibrated, on out-of-fold outputs.

        Parameters
        ----------
        search : GradientSearchCV
            A fitted search of a classifier.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : CalibrationDisplay
        """
        found = best_outputs(search)
        P, truth, weight = _probabilities(found)
        edges = np.unique(np.quantile(P, np.linspace(0, 1, BINS + 1)))
        place = np.clip(np.searchsorted(edges, P, side="right") - 1, 0, max(len(edges) - 2, 0))
        total = np.bincount(place, weight)
        kept = total > 0
        predicted = np.bincount(place, weight * P)[kept] / total[kept]
        observed = np.bincount(place, weight * truth)[kept] / total[kept]
        rows = np.bincount(place)[kept]
        # a row more of each kind, so that bins of one kind have an error, too
        share = (observed * rows + 1) / (rows + 2)
        return cls(predicted, observed, np.sqrt(share * (1 - share) / rows)).plot(ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 4.4, 4.0

    def _draw(self, ax: Any) -> None:
        ax.plot([0, 1], [0, 1], ":", color="0.4", label="perfect")
        style = line(0)
        ax.errorbar(self.predicted, self.observed, self.std_error, capsize=2, markersize=5,
                    label="out-of-fold, standard error", **style)  # fmt: skip
        ax.set(xlabel="probability", ylabel="share of rows of the class")
        ax.legend(loc="upper left", fontsize="small")


def _probabilities(found: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities, what is true of them (0 or 1) and weights, classes pooled."""
    every = np.full((len(found.y), len(found.classes)), np.nan)
    for fold in np.unique(found.fold):
        here = found.fold == fold
        others = ~here
        if len(np.unique(found.y[others & (found.weight > 0)])) < len(found.classes):
            others = np.ones(len(here), dtype=bool)
        sigmoid = calibrated(found.decisions[others], found.y[others], found.weight[others])
        every[here] = sigmoid.probabilities(found.decisions[here])
    if len(found.classes) == 2:
        return every[:, 1], (found.y == 1).astype(float), found.weight
    truth = np.eye(len(found.classes))[found.y]
    return every.ravel(), truth.ravel(), np.repeat(found.weight, len(found.classes))
