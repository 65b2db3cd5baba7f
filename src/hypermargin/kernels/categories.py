"""A kernel of categories, which are equal or not."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._core.space import Params
from .laplacian import ExponentialSum
from .pairs import DIFFERENT
from .points import Points


class Categories(ExponentialSum):
    """K = exp(-sum_j gamma_j [x_j != z_j]), for columns of codes or of labels that are numbers.

    A category that no training row has differs from all others.
    """

    kind = DIFFERENT

    def single_error(self, points: Points, params: Params) -> float:
        if sparse.issparse(points.X) or not points.fits_single or points.merged:
            return float(np.inf)
        return float(np.finfo(np.float32).eps)
