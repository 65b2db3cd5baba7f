"""Kernel matrices that are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.space import Params
from .base import Kernel
from .points import Points, copied


class Precomputed(Kernel):
    """X is the kernel matrix itself.

    Parameters
    ----------
    columns : column selection, default=None
        Where X has several matrices side by side, the columns of this one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
    >>> from hypermargin import GradientSearchCV, KernelSVC
    >>> from hypermargin.kernels import Precomputed, Sum
    >>> X, y = load_iris(return_X_y=True)
    >>> both = np.hstack([rbf_kernel(X), linear_kernel(X)])  # 150 rows, 300 columns
    >>> kernel = Sum([("rbf", Precomputed(columns=slice(0, 150))),
    ...               ("linear", Precomputed(columns=slice(150, 300)))])
    >>> search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3).fit(both, y)
    >>> bool(search.best_score_ > 0.95)
    True
    """

    definite = False  # nobody knows

    def __init__(self, *, columns: Any = None):
        self.columns = columns

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        block = rows.X[:, self._places(rows, cols)]
        return block if out is None else copied(block, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        places = self._places(points, points)
        return np.asarray(points.X[np.arange(len(points)), places]).ravel().astype(float)

    def _places(self, rows: Points, cols: Points) -> np.ndarray:
        """Return the columns of points, or say that X has none for them."""
        width = rows.X.shape[1]
        if len(cols) and cols.index.max() >= width:
            raise ValueError(
                f"a precomputed kernel has {width} columns and more rows than that; X must have a "
                "square matrix in its columns."
            )
        return cols.index
