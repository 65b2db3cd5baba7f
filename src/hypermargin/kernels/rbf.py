"""The Gaussian kernel."""

from __future__ import annotations

import numpy as np

from .._core.compiled import exp_below_zero, sum_of_logs
from .._core.space import Params
from .base import total
from .points import Points
from .stationary import Stationary, by_width, factor_of


class RBF(Stationary):
    """K = exp(-gamma |x - z|^2), eq. (2) of keerthi-2006; with a width per feature, eq. (3)."""

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        exponent = rows.square_distances(cols, out, -factor_of(params))
        if exponent.dtype == np.float32 and exponent.flags.c_contiguous:
            exp_below_zero(exponent)
            return exponent
        np.minimum(exponent, 0.0, out=exponent)  # rounding may pass zero
        return np.exp(exponent, out=exponent)

    def single_error(self, points: Points, params: Params) -> float:
        # distances are differences of norms; far-out rows count little, as they are few
        mean, largest = points.spread
        return float(np.finfo(np.float32).eps) * factor_of(params) * (mean + 0.01 * largest)

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        gamma = params["gamma"]
        if np.ndim(gamma):  # the slope is -K, without distances
            return {"gamma": by_width(self.by_feature(rows, cols, -M * block), gamma)}
        if block.dtype == np.float32:  # gamma |x - z|^2 = -log K, without another product
            return {"gamma": sum_of_logs(M, block) / gamma}
        distances = rows.square_distances(cols)
        distances *= block
        return {"gamma": -total(M, distances)}
