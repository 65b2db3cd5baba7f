"""Kernels: a block of the kernel matrix, and the pullback of a cotangent on that block.

A kernel is a small class with two formulas.  `block` gives K(rows, cols); `pullback` gives, for a
matrix M of the block's shape, the sums  sum_ij M_ij dK_ij / dtheta  for each hyperparameter theta,
which is all that eq. (13) of Keerthi et al. asks of a kernel.

Kernels are objects with parameters in scikit-learn's way, so that they can be cloned, changed and
printed.  Hyperparameters that a search tunes are parameters as well, but all methods are given
their values: one kernel serves many points of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._core.space import Dimension, Labels, Params
from .points import Points


class Kernel(BaseEstimator):
    """K(x, z) and its derivatives with respect to `hyperparameters`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.kernels import Kernel
    >>> from hypermargin.kernels.points import Points
    >>> class Scaled(Kernel):
    ...     hyperparameters = ("gamma",)
    ...     def block(self, rows, cols, params, out=None):
    ...         return np.multiply(params["gamma"], rows.inner(cols), out=out)
    ...     def pullback(self, rows, cols, block, M, params):
    ...         return {"gamma": float((M * block).sum()) / params["gamma"]}
    >>> points = Points.of(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> block = Scaled().block(points, points, {"gamma": 0.5})
    >>> Scaled().pullback(points, points, block, np.ones((2, 2)), {"gamma": 0.5})
    {'gamma': 26.0}

    Kernels add and multiply, and have factors:

    >>> from hypermargin.kernels import RBF, Linear
    >>> 0.5 * RBF(columns=[0, 1]) + Linear() * RBF()
    Sum(kernels=[('rbf', RBF(columns=[0, 1])),
                 ('product',
                  Product(kernels=[('linear', Linear()), ('rbf', RBF())]))],
        weights=[0.5, 1.0])
    """

    hyperparameters: tuple[str, ...] = ()
    widths: tuple[str, ...] = ()  # those that may have an entry for each feature
    definite: bool = True  # whether its matrices have no eigenvalue below zero
    positive: tuple[str, ...] = ("gamma", "alpha")  # those that must be
    turns: ClassVar[bool] = False  # whether it asks for distances and products only, not features

    def values(self) -> Params:
        """Return what hyperparameters are set to, or say what is wrong with them.

        Those that are read off the data are strings.
        """
        found = {n: getattr(self, n) for n in self.hyperparameters if hasattr(self, n)}
        kind = type(self).__name__
        for name, value in found.items():
            if np.ndim(value) and name in self.widths:
                check_array_of(name, value, kind)
            elif not isinstance(value, Real) and not (isinstance(value, str) and value == "scale"):
                raise ValueError(f"{name}={value!r} of {kind} must be 'scale' or a number.")
            elif (
                name in self.positive and isinstance(value, Real) and not 0 < float(value) < np.inf
            ):
                raise ValueError(f"{name}={value!r} of {kind} must be positive and finite.")
        check_groups(getattr(self, "ard", False), kind)
        return found

    def read_off(self, name: str, points: Points) -> float:
        """Return a hyperparameter that is not set to a number, for these training rows."""
        dimension = self.dimension(name, points)
        return dimension.from_scaled(float(np.mean(dimension.first_look)))

    @property
    def arrays(self) -> Mapping[str, Labels]:
        """The hyperparameters with an entry for each of something that the kernel has."""
        return {}

    def ard_of(self, name: str) -> Any:
        """Return whether each feature has its own width: False, True, "always", or groups."""
        return getattr(self, "ard", False)

    def columns_of(self, name: str, n_features: int) -> np.ndarray:
        """Return the numbers of the columns that a hyperparameter has an entry for."""
        return np.arange(n_features)

    # what sums and products are; set by `compose`, which knows them and this class
    added: ClassVar[Callable[[Kernel, Any], Any]]
    multiplied: ClassVar[Callable[[Kernel, Any], Any]]

    def __add__(self, other: Any) -> Kernel:
        return Kernel.added(self, other)

    def __mul__(self, other: Any) -> Kernel:
        return Kernel.multiplied(self, other)

    __rmul__ = __mul__

    def check(self, points: Points) -> None:
        """Raise a ValueError that says what to do, if the kernel is not for such data.

        It is asked once, before any work is done, and of rows to predict.
        """

    def at(self, points: Points, params: Params) -> Points:
        """Return points in the form in which all other methods but `dimension` are given them.

        It is asked for once per evaluation: here a kernel scales columns, or keeps what its blocks
        have in common.
        """
        return points

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return K(rows, cols), written to `out` if that is given."""
        raise NotImplementedError

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        raise NotImplementedError

    def single_error(self, points: Points, params: Params) -> float:
        """Return the rounding error of K, computed in single precision of points in single."""
        return self.kept_error(points, params)

    def kept_error(self, points: Points, params: Params) -> float:
        """Return the error of K, rounded to single precision, relative to what tells rows apart.

        Of rows far from the origin, kernel values are large numbers that hardly differ.
        """
        few = points.take(np.linspace(0, len(points) - 1, min(len(points), 50)).astype(int))
        diagonal = np.abs(self.diagonal(few, params))
        varying = float(diagonal.mean() - self.block(few, few, params).mean())
        eps = float(np.finfo(np.float32).eps)
        return eps * float(diagonal.max()) / varying if varying > 0.0 else np.inf

    def with_bias(self) -> Kernel:
        """Return a kernel whose machines are the same up to their bias, and that rounds less."""
        return self

    def bias_back(self, points: Points, beta: np.ndarray) -> float:
        """Return what a bias lacks that was found with the kernel `with_bias`.

        `points` are those that have the coefficients, which have to add up to zero.
        """
        return 0.0

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        """Return sum_ij M_ij dK_ij/dtheta for each hyperparameter; `block` is K(rows, cols)."""
        return {}

    def dimension(self, name: str, points: Points) -> Dimension:
        """Return a sensible range of a hyperparameter for these data."""
        raise NotImplementedError


def check_array_of(name: str, value: Any, kind: str) -> None:
    """Say so if widths are none."""
    try:
        widths = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        widths = np.empty(0)
    right = widths.ndim == 1 and np.isfinite(widths).all() and (widths >= 0.0).all()
    if not right or not (widths > 0.0).any():
        raise ValueError(
            f"{name}={value!r} of {kind} must be a number, or one for each feature, positive and "
            "finite; some may be 0, not all."
        )


def check_groups(ard: Any, kind: str) -> None:
    """Say so if what has widths of its own is not said in a way that is understood."""
    known = ard == "always" if isinstance(ard, str) else isinstance(ard, (bool, Iterable))
    if not known:
        raise ValueError(f"ard={ard!r} of {kind} must be False, True, 'always' or groups.")
    try:
        np.unique(np.asarray(ard if isinstance(ard, (bool, str)) else list(ard)))
    except TypeError:
        raise ValueError(
            f"ard={ard!r} of {kind} has labels of several types; use numbers or strings."
        ) from None


def total(A: np.ndarray, B: np.ndarray) -> float:
    """Return sum_ij A_ij B_ij; rows in their own precision, their sum in double."""
    return float(np.einsum("ij,ij->i", A, B).sum(dtype=float))
