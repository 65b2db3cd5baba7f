"""A kernel of categories, which are equal or not."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._core.space import Params
from .laplacian import ExponentialSum
from .pairs import DIFFERENT
from .points import Points


class Categories(ExponentialSum):
    """``K = exp(-sum_j gamma_j [x_j != z_j])``, for columns of codes or of labels that are numbers.

    A category that no training row has differs from all others.

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
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Categories
    >>> codes = np.random.default_rng(0).integers(4, size=(100, 3))
    >>> y = codes[:, 0] == codes[:, 1]
    >>> KernelSVC(C=100.0, kernel=Categories(gamma=0.5)).fit(codes, y).score(codes, y) > 0.95
    True
    """

    kind = DIFFERENT

    def single_error(self, points: Points, params: Params) -> float:
        if sparse.issparse(points.X) or not points.fits_single or points.merged:
            return float(np.inf)
        return float(np.finfo(np.float32).eps)
