"""Criteria of single classes, and their means: F, precision, recall, Jaccard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn import metrics

from .base import Criterion, Valued, check_positive
from .confusion import ConfusionCriterion


@dataclass(frozen=True, kw_only=True)
class ByClass(ConfusionCriterion):
    """One minus a measure of true positives, positives and predicted positives of a class.

    `average` is scikit-learn's: "binary" takes the class number `positive`, "macro" the mean over
    classes, "weighted" the mean weighted by the classes' sizes, "micro" the sum of all counts.
    A measure that is 0 / 0 counts as 0, as with ``zero_division=0``.
    """

    average: str = "binary"
    positive: int = 1
    averages: ClassVar[tuple[str, ...]] = ("binary", "macro", "weighted", "micro")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average not in self.averages:
            raise ValueError(f"average={self.average!r} must be one of {self.averages}.")
        if self.positive not in (0, 1):
            raise ValueError(f"positive={self.positive!r} must be 0 or 1, the number of a class.")

    def check(self, n_classes: int | None) -> None:
        super().check(n_classes)
        if self.average == "binary" and n_classes != 2:
            raise ValueError(
                f"criterion={self!r} is for two classes, y has {n_classes}; use average='macro', "
                "'micro' or 'weighted'."
            )

    def missing(self, present: np.ndarray) -> int | None:
        if self.average == "binary" and not present[self.positive]:
            return self.positive
        return None

    def of_class(self, tp: np.ndarray, true: np.ndarray, put: np.ndarray) -> tuple:
        """Return the measure of each class, and its derivatives by `tp` and `put`."""
        raise NotImplementedError

    def measure(self, M: np.ndarray) -> Valued:
        tp, true, put = np.diagonal(M), M.sum(axis=1), M.sum(axis=0)
        if self.average == "micro":  # every error is a false positive of one class
            value, d_tp, d_put = self.of_class(tp.sum(), true.sum(), put.sum())
            return 1.0 - float(value), -(d_tp * np.eye(len(M)) + d_put)
        value, d_tp, d_put = self.of_class(tp, true, put)
        share = self._shares(true)
        dM = np.diag(share * d_tp) + share * d_put
        return 1.0 - float(share @ value), -dM

    def _shares(self, true: np.ndarray) -> np.ndarray:
        if self.average == "binary":
            return np.eye(len(true))[self.positive]
        if self.average == "weighted":
            return true / true.sum()
        return np.full(len(true), 1.0 / len(true))

    @classmethod
    def read(cls, arguments: Mapping[str, Any], classes: np.ndarray) -> Criterion | None:
        arguments = dict(arguments)
        average, pos_label = arguments.pop("average", "binary"), arguments.pop("pos_label", 1)
        arguments.pop("zero_division", None)
        if average not in cls.averages:
            return None
        positive = 1
        if average == "binary":
            name = cls.score_func.__name__
            if len(classes) > 2:
                raise ValueError(
                    f"scoring by {name} with average='binary' is for two classes, y has "
                    f"{len(classes)}; use average='macro', 'micro' or 'weighted'."
                )
            if pos_label not in classes.tolist():
                raise ValueError(
                    f"pos_label={pos_label!r} of scoring by {name} is none of the classes "
                    f"{classes.tolist()}; name one with make_scorer({name}, pos_label=...)."
                )
            positive = classes.tolist().index(pos_label)
        own = cls.read_own(arguments)
        return None if own is None else cls(average=average, positive=positive, **own)

    @classmethod
    def read_own(cls, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return fields of the criterion that a scorer's other arguments stand for."""
        return None if arguments else {}


def _ratio(top: Any, bottom: np.ndarray) -> np.ndarray:
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), 0.0)


class _F(ByClass):
    """One minus F-beta."""

    beta = 1.0
    label = "one minus the smooth F"

    def of_class(self, tp: np.ndarray, true: np.ndarray, put: np.ndarray) -> tuple:
        square = self.beta**2
        bottom = square * true + put
        value = _ratio((1.0 + square) * tp, bottom)
        return value, _ratio(1.0 + square, bottom), _ratio(-value, bottom)


@dataclass(frozen=True, kw_only=True)
class SmoothF1(_F):
    """One minus F1: the harmonic mean of precision and recall.

    Parameters
    ----------
    average : {"binary", "macro", "weighted", "micro"}, default="binary"
        As in scikit-learn; "binary" is for two classes.
    positive : int, default=1
        With "binary", the number of the class that is meant, in the order of the sorted labels.
    t : float, default=10.0
        Steepness of the smoothing, as in :class:`SmoothError`.

    Notes
    -----
    What is 0 / 0 counts as 0, as with ``zero_division=0``.  With "binary" it is undefined where the
    positive class has no rows; a class of another average that has none counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothF1
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothF1()(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    score_func = staticmethod(metrics.f1_score)


@dataclass(frozen=True, kw_only=True)
class SmoothFBeta(_F):
    """One minus F-beta: the weighted harmonic mean of precision and recall.

    Parameters
    ----------
    beta : float, default=1.0
        How many times as much recall counts as precision; 0 is precision alone.
    average, positive, t
        As in :class:`SmoothF1`, and so are what is 0 / 0 and what is undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothFBeta
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothFBeta(beta=2.0)(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    beta: float = 1.0
    score_func = staticmethod(metrics.fbeta_score)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta != 0:
            check_positive(beta=self.beta)

    @classmethod
    def read_own(cls, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        return dict(arguments) if set(arguments) == {"beta"} else None


@dataclass(frozen=True, kw_only=True)
class SmoothPrecision(ByClass):
    """One minus precision.

    Parameters
    ----------
    average, positive, t
        As in :class:`SmoothF1`, and so are what is 0 / 0 and what is undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothPrecision
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothPrecision()(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    score_func = staticmethod(metrics.precision_score)
    label = "one minus the smooth precision"

    def of_class(self, tp: np.ndarray, true: np.ndarray, put: np.ndarray) -> tuple:
        value = _ratio(tp, put)
        return value, _ratio(1.0, put), _ratio(-value, put)


@dataclass(frozen=True, kw_only=True)
class SmoothRecall(ByClass):
    """One minus recall.

    Parameters
    ----------
    average, positive, t
        As in :class:`SmoothF1`, and so are what is 0 / 0 and what is undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothRecall
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothRecall()(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.5
    """

    score_func = staticmethod(metrics.recall_score)
    label = "one minus the smooth recall"

    def of_class(self, tp: np.ndarray, true: np.ndarray, put: np.ndarray) -> tuple:
        return _ratio(tp, true), _ratio(1.0, true), np.zeros_like(put)


@dataclass(frozen=True, kw_only=True)
class SmoothJaccard(ByClass):
    """One minus Jaccard's coefficient.

    Parameters
    ----------
    average, positive, t
        As in :class:`SmoothF1`, and so are what is 0 / 0 and what is undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.criteria import SmoothJaccard
    >>> outputs, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> value, gradient = SmoothJaccard()(outputs, y, np.ones(4))
    >>> round(value, 1)
    0.7
    """

    score_func = staticmethod(metrics.jaccard_score)
    label = "one minus the smooth coefficient of Jaccard"

    def of_class(self, tp: np.ndarray, true: np.ndarray, put: np.ndarray) -> tuple:
        bottom = true + put - tp
        value = _ratio(tp, bottom)
        return value, _ratio(1.0 + value, bottom), _ratio(-value, bottom)
