"""The Gaussian kernel."""

from __future__ import annotations

import numpy as np

from .._core.compiled import exp_below_zero, exp_of, sum_of_logs
from .._core.space import Params
from .base import total
from .points import Points
from .stationary import Stationary, by_width, factor_of


class RBF(Stationary):
    """The Gaussian kernel, ``exp(-gamma |x - z|^2)``: eq. (2) of Keerthi et al.

    With a width for each feature, exp(-sum_j gamma_j (x_j - z_j)^2), it is eq. (3).

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
    >>> from hypermargin import GradientSearchCV, KernelSVC
    >>> from hypermargin.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(150, 4))
    >>> y = np.sin(2 * X[:, 0]) > 0.2
    >>> search = GradientSearchCV(KernelSVC(kernel=RBF(ard="always")), cv=3).fit(X, y)
    >>> int(search.best_params_["kernel__gamma"].argmax())
    0
    """

    turns = True

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        exponent = rows.square_distances(cols, out, -factor_of(params))
        if exponent.dtype == np.float32 and exponent.flags.c_contiguous:
            exp_below_zero(exponent)
            return exponent
        np.minimum(exponent, 0.0, out=exponent)  # rounding may pass zero
        return exp_of(exponent)

    def single_error(self, points: Points, params: Params) -> float:
        # distances are differences of norms; far-out rows count little, as they are few
        mean, largest = points.spread
        if not points.fits_single:
            return float(np.inf)
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
