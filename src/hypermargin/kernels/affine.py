"""Kernels of inner products: linear, polynomial, sigmoid."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._core.space import Dimension, Params
from .base import Kernel, total
from .points import Points


class Linear(Kernel):
    """The linear kernel, ``x'z``.

    Parameters
    ----------
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import RBF, Linear
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelSVC(kernel=0.5 * Linear() + 0.5 * RBF()).fit(X, y).score(X, y) > 0.95
    True
    """

    turns = True

    def __init__(self, *, columns: Any = None):
        self.columns = columns

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        return rows.inner(cols, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return points.square_norms

    def with_bias(self) -> Kernel:
        return CentredLinear(columns=self.columns)


class CentredLinear(Linear):
    """K = (x - c)'(z - c): where coefficients add up to zero, x'z and a change of the bias."""

    turns = True

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        return rows.centred_inner(cols, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return points.square_norms if sparse.issparse(points.X) else points.lifted[:, -2]

    def with_bias(self) -> Kernel:
        return self

    def bias_back(self, points: Points, beta: np.ndarray) -> float:
        if sparse.issparse(points.X) or not np.ndim(points.centre):
            return 0.0
        return -float(points.centre @ (points.lifted[:, :-2].T @ beta))


class _Affine(Kernel):
    """Kernels of the form g(gamma x'z + coef0)."""

    hyperparameters = ("gamma", "coef0")
    coef0_range: ClassVar[tuple[float, float]]

    def link(self, t: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        raise NotImplementedError

    def slope(self, t: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        t = rows.inner(cols, out)
        t *= params["gamma"]
        t += params["coef0"]
        return self.link(t, out=t)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return self.link(params["gamma"] * points.square_norms + params["coef0"])

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        inner = rows.inner(cols)
        weighted = M * self.slope(params["gamma"] * inner + params["coef0"])
        return {"gamma": total(weighted, inner), "coef0": float(weighted.sum(dtype=float))}

    def dimension(self, name: str, points: Points) -> Dimension:
        if name == "coef0":
            return Dimension(*self.coef0_range, "linear")
        mean = float(points.square_norms.mean())
        centre = 1.0 / mean if mean > 1e-150 else 1.0  # rows of zeros have no unit
        return Dimension(1e-2 * centre, 1e2 * centre, "log", first="tied")


class Polynomial(_Affine):
    """The polynomial kernel, ``(gamma x'z + coef0)^degree``.

    Parameters
    ----------
    degree : float, default=3
    gamma : "scale" or float, default="scale"
    coef0 : float, default=0.0
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Polynomial
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelSVC(kernel=Polynomial(2, coef0=1.0)).fit(X, y).score(X, y) > 0.95
    True
    """

    turns = True
    coef0_range = (0.0, 10.0)

    def __init__(
        self, degree: float = 3, *, gamma: Any = "scale", coef0: float = 0.0, columns: Any = None
    ):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.columns = columns

    def values(self) -> Params:
        if not isinstance(self.degree, Integral) or self.degree < 0:
            raise ValueError(f"degree={self.degree!r} of Polynomial must be an integer from 0 on.")
        return super().values()

    def link(self, t: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.power(t, self.degree, out=out)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return self.degree * t ** (self.degree - 1) if self.degree else np.zeros_like(t)


class Sigmoid(_Affine):
    """The sigmoid kernel, ``tanh(gamma x'z + coef0)``; not positive definite in general.

    Parameters
    ----------
    gamma : "scale" or float, default="scale"
    coef0 : float, default=0.0
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Sigmoid
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelSVC(C=0.1, kernel=Sigmoid(gamma=0.01)).fit(X, y).predict(X).shape
    (150,)
    """

    turns = True
    definite = False
    coef0_range = (-2.0, 2.0)

    def __init__(self, *, gamma: Any = "scale", coef0: float = 0.0, columns: Any = None):
        self.gamma = gamma
        self.coef0 = coef0
        self.columns = columns

    def link(self, t: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.tanh(t, out=out)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return 1.0 - np.tanh(t) ** 2
