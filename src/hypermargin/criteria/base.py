"""What a criterion is: a number and its gradient, made of out-of-fold outputs.

A criterion is minimised.  It is called with the pooled outputs (rows, columns), the targets and the
weights of the same rows, and returns the value and its gradient with respect to the outputs.  For
classifiers the targets are class numbers and the columns are the one-vs-one machines in the order
(0, 1), (0, 2), ..., an output above zero speaking for the second class of its pair; for two classes
that is the one output of a usual SVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar

import numpy as np

Valued = tuple[Any, np.ndarray]


class Criterion:
    """A smooth stand-in for a score, to be minimised; the base class of all criteria.

    A criterion is called with outputs of shape (rows, columns), targets and weights of the same
    rows, and returns a value and its gradient by the outputs.  For classifiers the targets are
    class numbers, in the order of the sorted labels, and an output above zero speaks for the second
    class of its pair; the pairs are (0, 1), (0, 2), ..., (1, 2), ...  For regressors targets have
    the shape of the outputs.

    Attributes
    ----------
    score_func : callable or None
        The function of the scikit-learn scorer that the criterion stands for.
    sign : int
        1 if greater values of that score are better, else -1.
    stands_in_for : dict
        Functions of other scorers, without a smooth form, to which it is the nearest one, and their
        signs.
    for_classifiers : bool
        Whether it is for classifiers or for regressors.
    two_classes : bool
        Whether it is for two classes only.
    label : str
        What messages call it.
    resolution : float
        The least change of the value that means anything, in rows.
    mean_of_rows : bool
        Whether it is a weighted mean over rows of what depends on each row alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.criteria import Criterion
    >>> class ExponentialLoss(Criterion):
    ...     two_classes = True
    ...     def __call__(self, outputs, y, weight):
    ...         sign = np.where(y == 1, 1.0, -1.0)[:, None]
    ...         loss = (weight / weight.sum())[:, None] * np.exp(-sign * outputs)
    ...         return loss.sum(), -sign * loss
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GradientSearchCV(SVC(), criterion=ExponentialLoss(), max_evals=2)
    >>> search = search.fit(X[::4], y[::4])
    >>> search.best_score_ > 0.8
    np.True_
    """

    score_func: ClassVar[Any] = None
    sign: ClassVar[int] = 1
    stands_in_for: ClassVar[Mapping[Any, int]] = {}
    for_classifiers: ClassVar[bool] = True
    two_classes: ClassVar[bool] = False
    label: ClassVar[str] = "the given criterion"
    resolution: ClassVar[float] = 0.0
    mean_of_rows: ClassVar[bool] = False

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        raise NotImplementedError

    @classmethod
    def read(cls, arguments: Mapping[str, Any], classes: np.ndarray) -> Criterion | None:
        """Return the criterion of a scorer with these arguments; None if there is none."""
        return None if arguments else cls()

    def check(self, n_classes: int | None) -> None:
        """Say what is wrong if it cannot be used with so many classes (None: with regressors)."""
        if self.for_classifiers != (n_classes is not None):
            kind = "classifiers" if self.for_classifiers else "regressors"
            raise ValueError(f"criterion={self!r} is for {kind}.")
        if self.two_classes and n_classes != 2:
            raise ValueError(f"criterion={self!r} is for two classes, y has {n_classes}.")

    def missing(self, present: np.ndarray) -> int | None:
        """Return a class that is not present and without which it is undefined; None if none is.

        `present` tells of every class whether the rows that it would be applied to have it.
        """
        return None


def check_positive(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name}={value!r} must be a positive number.")


def check_fraction(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, Real) or not 0 < float(value) < 1:
            raise ValueError(f"{name}={value!r} must be a number between 0 and 1.")


def first_missing(present: np.ndarray) -> int | None:
    """Return the number of the first class that is not present."""
    return None if present.all() else int(present.argmin())


def n_classes_of(n_pairs: int) -> int:
    """Return how many classes have so many pairs."""
    return round((1 + (1 + 8 * n_pairs) ** 0.5) / 2)


def tally_matrix(n_pairs: int) -> np.ndarray:
    """Return T (pairs, classes): outputs @ T adds each to its second class, minus to its first."""
    n_classes = n_classes_of(n_pairs)
    T = np.zeros((n_pairs, n_classes))
    for p, (i, j) in enumerate(combinations(range(n_classes), 2)):
        T[p, i], T[p, j] = -1.0, 1.0
    return T


def spread_of(
    outputs: np.ndarray, weight: np.ndarray
) -> tuple[float, Callable[[np.ndarray], np.ndarray]]:
    """Return the standard deviation rho of all outputs, and what its derivative adds to a gradient.

    A function of outputs / rho has the derivative -(gradient . outputs) / rho by rho.
    """
    share = weight / (weight.sum() * outputs.shape[1])
    slope = outputs - float(share @ outputs.sum(axis=1))
    rho = float(np.sqrt(share @ np.einsum("ij,ij->i", slope, slope)))
    slope *= share[:, None] / max(rho, 1e-300)
    # outputs that differ by rounding only say nothing, and must not be blown up
    least = 1e-9 * float(max(outputs.max(), -outputs.min()))
    if rho < max(least, 1e-10):
        rho = max(least, 1e-10)
        slope[:] = 0.0
        if rho == least:
            largest = np.unravel_index(np.abs(outputs).argmax(), outputs.shape)
            slope[largest] = 1e-9 * np.sign(outputs[largest])

    def add_rho(gradient: np.ndarray) -> np.ndarray:
        d_rho = -float(np.einsum("ij,ij->", gradient, outputs)) / rho
        return gradient + d_rho * slope

    return rho, add_rho


class UserCriterion(Criterion):
    """A user's function of (outputs, y) that returns a value to be minimised and its gradient.

    It is given outputs of shape (rows,) for one column, else (rows, columns), and the user's own
    labels or targets.
    """

    def __init__(self, function: Callable, classes: np.ndarray | None):
        self.function, self.classes = function, classes
        self.for_classifiers = classes is not None  # type: ignore[misc]

    def __call__(self, outputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Valued:
        if not (weight == weight[0]).all():
            raise ValueError(
                f"criterion={self.function!r} is a function of (outputs, y), which cannot take "
                "sample_weight; derive a class from hypermargin.criteria.Criterion, which can."
            )
        flat = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        targets = y.reshape(flat.shape) if self.classes is None else self.classes[y]
        found = self.function(flat, targets)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                f"criterion={self.function!r} returned {type(found).__name__}; it must return a "
                "value and a gradient."
            )
        if np.ndim(found[0]) != 0 or not np.isfinite(found[0]):
            raise ValueError(
                f"criterion={self.function!r} returned the value {found[0]!r}; it must be a finite "
                "number."
            )
        gradient = np.asarray(found[1], dtype=float)
        if gradient.shape != flat.shape or not np.isfinite(gradient).all():
            raise ValueError(
                f"criterion={self.function!r} returned a gradient of shape {gradient.shape} or one "
                f"that is not finite; it must be finite and of the outputs' shape {flat.shape}."
            )
        return float(found[0]), gradient.reshape(outputs.shape)


def check_gradient(
    criterion: Callable, outputs: np.ndarray, y: np.ndarray, *, step: float = 1e-6
) -> float:
    """Compare the gradient of a criterion with central differences.

    Parameters
    ----------
    criterion : callable or Criterion
        A function of (outputs, y) that returns a value and its gradient by the outputs, or a
        criterion, which is given equal weights.
    outputs : ndarray of shape (n_rows,) or (n_rows, n_columns)
        Where to compare.
    y : ndarray of shape (n_rows,)
        Labels or targets.
    step : float, default=1e-6
        Of the differences, in units of the outputs' standard deviation.

    Returns
    -------
    error : float
        The largest difference, relative to the largest component of the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import check_gradient
    >>> def squares(outputs, y):
    ...     return np.mean((outputs - y) ** 2), 2 * (outputs - y) / len(y)
    >>> rng = np.random.default_rng(0)
    >>> check_gradient(squares, rng.normal(size=20), rng.normal(size=20)) < 1e-6
    True
    """
    outputs = np.asarray(outputs, dtype=float)
    if isinstance(criterion, Criterion):
        criterion = partial(_equally_weighted, criterion)
    gradient = np.asarray(criterion(outputs, y)[1], dtype=float)
    unit = step * (float(outputs.std()) or 1.0)
    found = np.empty_like(outputs)
    for index in np.ndindex(outputs.shape):
        moved = outputs.copy()
        moved[index] += unit
        above = criterion(moved, y)[0]
        moved[index] -= 2.0 * unit
        found[index] = (above - criterion(moved, y)[0]) / (2.0 * unit)
    largest = max(float(np.abs(found).max()), float(np.abs(gradient).max()), 1e-300)
    return float(np.abs(found - gradient).max() / largest)


def _equally_weighted(criterion: Criterion, outputs: np.ndarray, y: np.ndarray) -> Valued:
    """Call a criterion as a function of outputs and labels, or targets."""
    table = outputs.reshape(len(outputs), -1)
    targets = np.unique(y, return_inverse=True)[1] if criterion.for_classifiers else np.asarray(y)
    value, gradient = criterion(table, targets, np.ones(len(table)))
    return value, gradient.reshape(outputs.shape)
