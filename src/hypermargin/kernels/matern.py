"""Matern's kernels: rougher functions than those of the Gaussian one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.compiled import exp_of, least_exponent
from .._core.space import Params
from .generalised import log_sums, to_cotangent
from .points import Points
from .stationary import Stationary, by_width, factor_of, measured_error


class Matern12(Stationary):
    """``K = exp(-sqrt d)``, ``d = sum_j gamma_j (x_j - z_j)^2``.

    Parameters
    ----------
    gamma : "scale", float or array-like of shape (n_features,), default="scale"
        Width, or one for each feature; 0 removes the feature.
    ard : bool, "always" or array-like of labels, default=False
        Whether a search gives each feature its own width if that pays, or in any case, or each
        group of features that have the same label.
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Matern12
    >>> KernelSVC(kernel=Matern12(gamma=0.2)).fit(*load_iris(return_X_y=True)).score(
    ...     *load_iris(return_X_y=True)) > 0.95
    True
    """

    def distances(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        # the root of a rounding error is large
        return rows.sharp_distances(cols, out, factor_of(params))

    def value(self, d: np.ndarray) -> np.ndarray:
        np.sqrt(d, out=d)
        np.negative(d, out=d)
        return exp_of(d)

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        gamma = params["gamma"]
        if np.ndim(gamma) == 0:  # the root is -log K, without another product
            return {"gamma": 0.5 * log_sums(M, block)[0] / gamma}
        G = self.distances(rows, cols, params)
        to_cotangent(G, M, block, G.dtype.type(0.5))
        return {"gamma": by_width(self.by_feature(rows, cols, G), gamma)}

    def single_error(self, points: Points, params: Params) -> float:
        return measured_error(self, points, params)


class Matern32(Stationary):
    """``K = (1 + t) exp(-t)``, ``t = sqrt(3 d)``, ``d = sum_j gamma_j (x_j - z_j)^2``.

    Parameters
    ----------
    gamma : "scale", float or array-like of shape (n_features,), default="scale"
        Width, or one for each feature; 0 removes the feature.
    ard : bool, "always" or array-like of labels, default=False
        Whether a search gives each feature its own width if that pays, or in any case, or each
        group of features that have the same label.
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Matern32
    >>> KernelSVC(kernel=Matern32(gamma=0.2)).fit(*load_iris(return_X_y=True)).score(
    ...     *load_iris(return_X_y=True)) > 0.95
    True
    """

    def value(self, d: np.ndarray) -> np.ndarray:
        t = _roots(3.0, d)
        return (1.0 + t) * np.exp(-t)

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        return -1.5 * np.exp(-_roots(3.0, d))


class Matern52(Stationary):
    """``K = (1 + t + t^2 / 3) exp(-t)``, ``t = sqrt(5 d)``, ``d = sum_j gamma_j (x_j - z_j)^2``.

    Parameters
    ----------
    gamma : "scale", float or array-like of shape (n_features,), default="scale"
        Width, or one for each feature; 0 removes the feature.
    ard : bool, "always" or array-like of labels, default=False
        Whether a search gives each feature its own width if that pays, or in any case, or each
        group of features that have the same label.
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Matern52
    >>> KernelSVC(kernel=Matern52(gamma=0.2)).fit(*load_iris(return_X_y=True)).score(
    ...     *load_iris(return_X_y=True)) > 0.95
    True
    """

    def value(self, d: np.ndarray) -> np.ndarray:
        t = _roots(5.0, d)
        return (1.0 + t + t * t / 3.0) * np.exp(-t)

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        t = _roots(5.0, d)
        return -5.0 / 6.0 * (1.0 + t) * np.exp(-t)


def _roots(factor: float, d: np.ndarray) -> np.ndarray:
    """Return the roots of factor times d, none larger than exponentials can have."""
    t = np.sqrt(d.dtype.type(factor) * d)
    return np.minimum(t, d.dtype.type(-least_exponent(d.dtype)), out=t)


def Matern(gamma: Any = "scale", *, nu: float = 1.5, ard: Any = False, columns: Any = None) -> Any:
    """Return Matern's kernel of a smoothness nu: `Matern12`, `Matern32` or `Matern52`.

    Parameters
    ----------
    gamma, ard, columns
        As of those.
    nu : {0.5, 1.5, 2.5}, default=1.5

    Returns
    -------
    kernel : Kernel

    Examples
    --------
    >>> from hypermargin.kernels import Matern
    >>> Matern(nu=2.5)
    Matern52()
    """
    kinds = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
    if nu not in kinds:
        raise ValueError(f"nu={nu!r} of a Matern kernel must be 0.5, 1.5 or 2.5.")
    return kinds[nu](gamma, ard=ard, columns=columns)
