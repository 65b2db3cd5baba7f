"""Exponentials of sums over features, and the Laplacian kernel, which is one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._core.compiled import exp_below_zero, exp_of, sum_of_logs
from .._core.space import Dimension, Params
from .base import Kernel, total
from .pairs import ABSOLUTE, feature_sums, pair_sums
from .points import Points
from .stationary import middle_of

TINY = 1e-300  # what the logarithm of zero is taken of


class ExponentialSum(Kernel):
    """K = exp(-sum_j gamma_j s(x_j, z_j)), `kind` being the function s."""

    hyperparameters = ("gamma",)
    widths = ("gamma",)
    kind: ClassVar[int]

    def __init__(self, gamma: Any = "scale", *, ard: Any = False, columns: Any = None):
        self.gamma = gamma
        self.ard = ard
        self.columns = columns

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        exponent = pair_sums(self.kind, rows, cols, np.negative(params["gamma"]), out)
        if exponent.dtype == np.float32 and exponent.flags.c_contiguous:
            exp_below_zero(exponent)
            return exponent
        return exp_of(exponent)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.ones(len(points))

    def single_error(self, points: Points, params: Params) -> float:
        if sparse.issparse(points.X) or not points.fits_single:
            return float(np.inf)  # loops over sparse entries are as fast in double precision
        # sums are as exact as the values that they are of; far-out rows count little
        widths = np.broadcast_to(params["gamma"], points.X.shape[1])
        sizes = np.abs(points.X) @ widths
        eps = float(np.finfo(np.float32).eps)
        return eps * (float(sizes.mean()) + 0.01 * float(sizes.max()))

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        gamma = params["gamma"]
        if np.ndim(gamma):
            return {"gamma": feature_sums(self.kind, rows, cols, -M * block)}
        if block.dtype == np.float32:  # the sum is -log K
            return {"gamma": sum_of_logs(M, block) / gamma}
        logs = np.maximum(block, TINY)
        np.log(logs, out=logs)
        logs *= block
        return {"gamma": total(M, logs) / gamma}

    def dimension(self, name: str, points: Points) -> Dimension:
        # as with all kernels of distances, the width follows those between the data
        few = points.take(np.linspace(0, len(points) - 1, min(len(points), 400)).astype(int))
        sums = pair_sums(self.kind, few, few, 1.0)[np.triu_indices(len(few), 1)]
        centre = 1.0 / middle_of(sums, 0.0)
        usual = (centre / 10, centre * 10)
        return Dimension(1e-3 * centre, 1e2 * centre, "log", drift=0.2, usual=usual, first="tied")


class Laplacian(ExponentialSum):
    """``K = exp(-sum_j gamma_j |x_j - z_j|)``: a product of kernels of single features.

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
    >>> from hypermargin.kernels import Laplacian
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelSVC(kernel=Laplacian(gamma=0.5)).fit(X, y).score(X, y) > 0.95
    True
    """

    kind = ABSOLUTE

    def at(self, points: Points, params: Params) -> Points:
        return points.centred
