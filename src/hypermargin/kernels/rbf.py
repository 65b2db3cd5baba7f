"""The Gaussian kernel."""

from __future__ import annotations

import numpy as np

from .._core.compiled import exp_below_zero, sum_of_logs
from .._core.space import Dimension, Params
from .base import Kernel, total
from .points import Points


class RBF(Kernel):
    """K = exp(-gamma |x - z|^2), eq. (2) of keerthi-2006."""

    hyperparameters = ("gamma",)

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        exponent = rows.square_distances(cols, out, -params["gamma"])
        if exponent.dtype == np.float32 and exponent.flags.c_contiguous:
            exp_below_zero(exponent)
            return exponent
        np.minimum(exponent, 0.0, out=exponent)  # rounding may pass zero
        return np.exp(exponent, out=exponent)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.ones(len(points))

    def single_error(self, points: Points, params: Params) -> float:
        # distances are differences of norms; far-out rows count little, as they are few
        mean, largest = points.spread
        return float(np.finfo(np.float32).eps) * params["gamma"] * (mean + 0.01 * largest)

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        if block.dtype == np.float32:  # gamma |x - z|^2 = -log K, without another product
            return {"gamma": sum_of_logs(M, block) / params["gamma"]}
        distances = rows.square_distances(cols)
        distances *= block
        return {"gamma": -total(M, distances)}

    def dimension(self, name: str, points: Points) -> Dimension:
        # The width follows the distances between the data; the best one shrinks as points become
        # dense, hence the drift (measured: 0.4 to 0.9 on ijcnn1, magic04 and covtype).
        centre = 1.0 / typical_square_distance(points)
        usual = (centre / 10, centre * 30)
        return Dimension(1e-3 * centre, 1e2 * centre, "log", drift=0.4, usual=usual)


def typical_square_distance(points: Points, most: int = 400) -> float:
    """Return the median squared distance between at most `most` of the points."""
    few = points.take(np.linspace(0, len(points) - 1, min(len(points), most)).astype(int))
    distances = few.square_distances(few)[np.triu_indices(len(few), 1)]
    positive = distances[distances > 1e-12 * max(float(few.square_norms.mean()), 1e-300)]
    return float(np.median(positive)) if positive.size else 1.0
