"""Kernels of distances, with one width or one for each feature.

With  d = sum_j gamma_j (x_j - z_j)^2,  `gamma` being a number for all features or an array with one
for each, K = phi(d).  A cotangent G on the distances says of the width of feature j

    sum_ik G_ik (x_ij - z_kj)^2 = r' x_j^2 + c' z_j^2 - 2 x_j' G z_j,   r = G 1,  c = G' 1,

which is one matrix product for all features, so that nothing has more entries than K and X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._core.space import Dimension, Params
from .base import Kernel, total
from .points import Points, copied


class Stationary(Kernel):
    """K = phi(d): `value` is phi, and `slope` its derivative.

    A kernel of one's own needs these two.

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
    >>> import numpy as np
    >>> from hypermargin.kernels import Stationary, check_kernel
    >>> class Cauchy(Stationary):
    ...     def value(self, d):
    ...         return 1 / (1 + d)
    ...     def slope(self, d, K):
    ...         return -(K**2)
    >>> check_kernel(Cauchy(gamma=[0.5, 0.1]), np.random.default_rng(0).normal(size=(20, 2))) < 1e-6
    True
    """

    hyperparameters: tuple[str, ...] = ("gamma",)
    widths = ("gamma",)

    def __init__(self, gamma: Any = "scale", *, ard: Any = False, columns: Any = None):
        self.gamma = gamma
        self.ard = ard
        self.columns = columns

    def read_off(self, name: str, points: Points) -> float:
        """Return the gamma that libsvm's users know as "scale"."""
        X = points.X
        is_sparse = sparse.issparse(X)
        variance = X.multiply(X).mean() - X.mean() ** 2 if is_sparse else X.var()
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0

    def value(self, d: np.ndarray) -> np.ndarray:
        """Return phi(d); d may be overwritten."""
        raise NotImplementedError

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        """Return the derivative of phi, K being phi(d); 0 where d is, if there is none."""
        raise NotImplementedError

    def at(self, points: Points, params: Params) -> Points:
        gamma = params["gamma"]
        return points if np.ndim(gamma) == 0 else points.stretched(np.sqrt(gamma))

    def distances(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return d."""
        d = rows.square_distances(cols, out, factor_of(params))
        return np.maximum(d, 0.0, out=d)  # rounding may pass zero

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        K = self.value(self.distances(rows, cols, params, out))
        return K if out is None or K is out else copied(K, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.ones(len(points))

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        d = self.distances(rows, cols, params)
        G = M * self.slope(d, block)
        gamma = params["gamma"]
        if np.ndim(gamma) == 0:
            return {"gamma": total(G, d) / gamma}
        return {"gamma": by_width(self.by_feature(rows, cols, G), gamma)}

    def by_feature(self, rows: Points, cols: Points, G: np.ndarray) -> np.ndarray:
        """Return the sums of G times the squared differences of each feature."""
        X, Z = rows.X, cols.X
        if sparse.issparse(X):
            squares = G.sum(axis=1) @ X.multiply(X) + G.sum(axis=0) @ Z.multiply(Z)
            return np.asarray(squares - 2.0 * X.multiply(G @ Z).sum(axis=0)).ravel()
        X, Z = X - cols.centre, Z - cols.centre  # far from zero, squares would have few digits left
        return G.sum(axis=1) @ X**2 + G.sum(axis=0) @ Z**2 - 2.0 * np.einsum("ij,ij->j", X, G @ Z)

    def dimension(self, name: str, points: Points) -> Dimension:
        # The width follows the distances between the data; the best one shrinks as points become
        # dense, hence the drift (measured: 0.4 to 0.9 on ijcnn1, magic04 and covtype).
        centre = 1.0 / typical_square_distance(points)
        usual = (centre / 10, centre * 30)
        return Dimension(1e-3 * centre, 1e2 * centre, "log", drift=0.4, usual=usual, first="tied")


def factor_of(params: Params) -> float:
    """Return what squared distances are multiplied by: widths of features are in the points."""
    gamma = params["gamma"]
    return gamma if np.ndim(gamma) == 0 else 1.0


def by_width(found: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """Return derivatives by widths of those by their logarithms; a width of zero has none."""
    found = np.asarray(found, dtype=float)
    return np.divide(found, gamma, out=np.zeros_like(found), where=gamma > 0)


def measured_error(kernel: Kernel, points: Points, params: Params, most: int = 100) -> float:
    """Return the rounding error of K in single precision, as a few of the points have it."""
    if sparse.issparse(points.X) or not points.fits_single:
        return float(np.inf)
    few = points.take(np.linspace(0, len(points) - 1, min(len(points), most)).astype(int))
    exact = kernel.block(few, few, params)
    rounded = kernel.block(few.single, few.single, params)
    varying = float(kernel.diagonal(few, params).mean() - exact.mean())
    return float(np.abs(rounded - exact).max()) / varying if varying > 0 else float(np.inf)


def typical_square_distance(points: Points, most: int = 400) -> float:
    """Return the median squared distance between at most `most` of the points."""
    few = points.take(np.linspace(0, len(points) - 1, min(len(points), most)).astype(int))
    distances = few.square_distances(few)[np.triu_indices(len(few), 1)]
    return middle_of(distances, 1e-12 * max(float(few.square_norms.mean()), 1e-300))


def middle_of(distances: np.ndarray, nothing: float) -> float:
    """Return the median of those distances that are something."""
    positive = distances[distances > nothing]
    return float(np.median(positive)) if positive.size else 1.0
