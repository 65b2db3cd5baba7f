"""Exponentials of sums over features, and the Laplacian kernel, which is one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse

from .._core.compiled import exp_below_zero, sum_of_logs
from .._core.space import Dimension, Params
from .base import Kernel, total
from .pairs import ABSOLUTE, feature_sums, pair_sums
from .points import Points
from .stationary import by_width, factor_of, middle_of

TINY = 1e-300  # what the logarithm of zero is taken of


class ExponentialSum(Kernel):
    """K = exp(-sum_j gamma_j s(x_j, z_j)), `kind` being the function s."""

    hyperparameters = ("gamma",)
    widths = ("gamma",)
    kind: ClassVar[int]

    def sums(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return what the exponential is taken of, without its sign."""
        S = pair_sums(self.kind, rows, cols, out)
        S *= S.dtype.type(factor_of(params))
        return S

    def by_feature(self, rows: Points, cols: Points, G: np.ndarray) -> np.ndarray:
        """Return the sums of G times gamma_j s(x_j, z_j), for each feature."""
        return feature_sums(self.kind, rows, cols, G)

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        exponent = self.sums(rows, cols, params, out)
        np.negative(exponent, out=exponent)
        if exponent.dtype == np.float32 and exponent.flags.c_contiguous:
            exp_below_zero(exponent)
            return exponent
        return np.exp(exponent, out=exponent)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.ones(len(points))

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        gamma = params["gamma"]
        if np.ndim(gamma):
            return {"gamma": by_width(self.by_feature(rows, cols, -M * block), gamma)}
        if block.dtype == np.float32:  # the sum is -log K
            return {"gamma": sum_of_logs(M, block) / gamma}
        logs = np.maximum(block, TINY)
        np.log(logs, out=logs)
        logs *= block
        return {"gamma": total(M, logs) / gamma}

    def dimension(self, name: str, points: Points) -> Dimension:
        # as with all kernels of distances, the width follows those between the data
        few = points.take(np.linspace(0, len(points) - 1, min(len(points), 400)).astype(int))
        sums = pair_sums(self.kind, few, few)[np.triu_indices(len(few), 1)]
        centre = 1.0 / middle_of(sums, 0.0)
        usual = (centre / 10, centre * 10)
        return Dimension(1e-3 * centre, 1e2 * centre, "log", drift=0.2, usual=usual, first="tied")


class Laplacian(ExponentialSum):
    """K = exp(-sum_j gamma_j |x_j - z_j|): a product of kernels of single features."""

    kind = ABSOLUTE

    def at(self, points: Points, params: Params) -> Points:
        gamma, is_sparse = params["gamma"], sparse.issparse(points.X)
        if is_sparse:
            return points if np.ndim(gamma) == 0 else points.stretched(gamma)
        # centred, as only differences matter, and those of small numbers have more digits
        return Points((points.X - points.centre) * (gamma if np.ndim(gamma) else 1.0), points.index)

    def single_error(self, points: Points, params: Params) -> float:
        if sparse.issparse(points.X):
            return float(np.inf)  # loops over entries are as fast in double precision
        # the sums of differences are as exact as the values; far-out rows count little
        sizes = np.abs(points.X).sum(axis=1)
        unit = float(np.finfo(np.float32).eps) * factor_of(params)
        return unit * (float(sizes.mean()) + 0.01 * float(sizes.max()))
