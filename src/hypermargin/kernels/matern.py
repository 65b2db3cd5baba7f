"""Matern's kernels: rougher functions than those of the Gaussian one."""

from __future__ import annotations

import numpy as np

from .._core.space import Params
from .points import Points
from .stationary import Stationary, factor_of, measured_error


class Matern12(Stationary):
    """K = exp(-sqrt d)."""

    def distances(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        # the root of a rounding error is large
        return rows.sharp_distances(cols, out, factor_of(params))

    def value(self, d: np.ndarray) -> np.ndarray:
        np.sqrt(d, out=d)
        np.negative(d, out=d)
        return np.exp(d, out=d)

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        root = np.sqrt(d)
        return np.divide(-0.5 * K, root, out=np.zeros_like(root), where=d > 0)

    def single_error(self, points: Points, params: Params) -> float:
        return measured_error(self, points, params)


class Matern32(Stationary):
    """K = (1 + t) exp(-t), t = sqrt(3 d)."""

    def value(self, d: np.ndarray) -> np.ndarray:
        t = np.sqrt(3.0 * d, out=d) if d.dtype == np.float64 else np.sqrt(d * np.float32(3.0))
        return (1.0 + t) * np.exp(-t)

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        return -1.5 * np.exp(-np.sqrt(3.0 * d))


class Matern52(Stationary):
    """K = (1 + t + t^2 / 3) exp(-t), t = sqrt(5 d)."""

    def value(self, d: np.ndarray) -> np.ndarray:
        t = np.sqrt(5.0 * d)
        return (1.0 + t + t * t / 3.0) * np.exp(-t)

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        t = np.sqrt(5.0 * d)
        return -5.0 / 6.0 * (1.0 + t) * np.exp(-t)
