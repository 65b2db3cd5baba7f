"""The rational quadratic kernel: Gaussian ones of many widths, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.space import Dimension, Params
from .base import total
from .points import Points, copied
from .stationary import Stationary, by_width, factor_of


class RationalQuadratic(Stationary):
    """K = (1 + d / alpha)^-alpha, d = sum_j gamma_j (x_j - z_j)^2.

    It is the Gaussian kernel where alpha is large, and has longer tails where it is small.

    Parameters
    ----------
    gamma : "scale", float or array-like, default="scale"
        Width, or one for each feature; 1 / (2 length^2), as of the Gaussian kernel.
    alpha : float, default=1.0
        How much alike the widths are that it is an average of.
    ard : bool, default=False
        Whether a search gives each feature its own width.
    columns : default=None
        The columns that it reads, as in ColumnTransformer; None is all.
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
        mean, largest = points.spread  # as of the Gaussian kernel, whose slope is the same
        return float(np.finfo(np.float32).eps) * factor_of(params) * (mean + 0.01 * largest)

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        gamma, alpha = params["gamma"], _alpha(params)
        d = self.distances(rows, cols, params)
        d /= d.dtype.type(alpha)
        G = M * block
        by_alpha = total(G, d / (1 + d) - np.log1p(d))
        G /= 1 + d
        if np.ndim(gamma) == 0:
            return {"gamma": -alpha * total(G, d) / gamma, "alpha": by_alpha}
        by_gamma = -by_width(self.by_feature(rows, cols, G), gamma)
        return {"gamma": by_gamma, "alpha": by_alpha}

    def dimension(self, name: str, points: Points) -> Dimension:
        if name == "alpha":  # with more it is the Gaussian kernel, to a hundredth
            return Dimension(0.05, 50.0, "log", usual=(0.3, 10.0), whole=True)
        return super().dimension(name, points)


def _alpha(params: Params) -> float:
    alpha = params["alpha"]
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha={alpha!r} of RationalQuadratic must be positive and finite.")
    return float(alpha)
