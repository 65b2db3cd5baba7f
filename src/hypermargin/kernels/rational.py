"""The rational quadratic kernel: Gaussian ones of many widths, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.compiled import compiled
from .._core.powers import fast_log2
from .._core.space import Dimension, Params
from .pairs import FAST, LOG_2
from .points import Points, copied
from .rbf import RBF
from .stationary import Stationary, by_width


class RationalQuadratic(Stationary):
    """``K = (1 + d / alpha)^-alpha``, ``d = sum_j gamma_j (x_j - z_j)^2``.

    It is the Gaussian kernel where alpha is large, and has longer tails where it is small.

    Parameters
    ----------
    gamma : "scale", float or array-like, default="scale"
        Width, or one for each feature; 1 / (2 length^2), as of the Gaussian kernel.
    alpha : float, default=1.0
        How much alike the widths are that it is an average of.
    ard : bool, "always" or array-like of labels, default=False
        Whether a search gives each feature its own width if that pays, or in any case, or each
        group of features that have the same label.
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import RationalQuadratic
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelSVC(kernel=RationalQuadratic(alpha=0.5)).fit(X, y).score(X, y) > 0.95
    True
    """

    hyperparameters = ("gamma", "alpha")

    def __init__(
        self, gamma: Any = "scale", *, alpha: float = 1.0, ard: Any = False, columns: Any = None
    ):
        super().__init__(gamma, ard=ard, columns=columns)
        self.alpha = alpha

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        d, alpha = self.distances(rows, cols, params, out), _alpha(params)
        d /= d.dtype.type(alpha)
        np.log1p(d, out=d)
        d *= d.dtype.type(-alpha)
        K = np.exp(d, out=d)
        return K if out is None or K is out else copied(K, out)

    def single_error(self, points: Points, params: Params) -> float:
        return RBF().single_error(points, params)  # whose slope is the same

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        gamma, alpha = params["gamma"], _alpha(params)
        G = self.distances(rows, cols, params)
        by_log, by_alpha = _to_cotangent(G, M, block, G.dtype.type(1.0 / alpha))
        if np.ndim(gamma) == 0:
            return {"gamma": alpha * by_log / gamma, "alpha": by_alpha}
        return {"gamma": by_width(self.by_feature(rows, cols, G), gamma), "alpha": by_alpha}

    def dimension(self, name: str, points: Points) -> Dimension:
        if name == "alpha":  # with more it is the Gaussian kernel, to a hundredth
            return Dimension(0.05, 50.0, "log", usual=(0.3, 10.0), whole=True)
        return super().dimension(name, points)


def _alpha(params: Params) -> float:
    alpha = params["alpha"]
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha={alpha!r} of RationalQuadratic must be positive and finite.")
    return float(alpha)


@compiled
def _to_cotangent(d, M, K, inverse):
    """Replace distances by their cotangents, -M K / (1 + u) with u = d / alpha.

    Returned are the sums of these times u, and of M dK/dalpha.
    """
    by_width, by_alpha = 0.0, 0.0
    for i in range(K.shape[0]):
        a, b = _to_cotangent_row(d[i], M[i], K[i], inverse)
        by_width += a
        by_alpha += b
    return by_width, by_alpha


@compiled(fastmath=FAST, inner=True)
def _to_cotangent_row(d, M, K, inverse):
    one, log_2 = K.dtype.type(1), K.dtype.type(LOG_2)
    by_width, by_alpha = K.dtype.type(0), K.dtype.type(0)
    for k in range(K.shape[0]):
        u = d[k] * inverse
        part = M[k] * K[k]
        slope = part / (one + u)
        by_alpha += u * slope - part * fast_log2(one + u) * log_2
        by_width -= u * slope
        d[k] = -slope
    return by_width, by_alpha
