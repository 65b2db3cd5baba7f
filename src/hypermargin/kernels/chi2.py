"""The exponential chi-squared kernel of histograms."""

from __future__ import annotations

from scipy import sparse

from .laplacian import ExponentialSum
from .pairs import CHI2
from .points import Points


class ExponentialChi2(ExponentialSum):
    """``K = exp(-sum_j gamma_j (x_j - z_j)^2 / (x_j + z_j))``, for histograms; 0 / 0 counts as 0.

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
    >>> from hypermargin.kernels import ExponentialChi2
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.poisson([5, 3, 1], (40, 3)), rng.poisson([1, 3, 5], (40, 3))])
    >>> y = np.repeat(["left", "right"], 40)
    >>> KernelSVC(kernel=ExponentialChi2()).fit(X, y).score(X, y) > 0.9
    True
    """

    kind = CHI2

    def check(self, points: Points) -> None:
        values = points.X.data if sparse.issparse(points.X) else points.X
        least = float(values.min(initial=0.0))
        if least < 0:
            raise ValueError(
                f"X has values below zero, as {least:g}, but kernel='chi2' is for histograms; give "
                "counts or frequencies, and do not centre them."
            )
