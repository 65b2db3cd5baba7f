"""The exponential chi-squared kernel of histograms."""

from __future__ import annotations

from scipy import sparse

from .laplacian import ExponentialSum
from .pairs import CHI2
from .points import Points


class ExponentialChi2(ExponentialSum):
    """K = exp(-sum_j gamma_j (x_j - z_j)^2 / (x_j + z_j)), for histograms; 0 / 0 counts as 0."""

    kind = CHI2

    def check(self, points: Points) -> None:
        values = points.X.data if sparse.issparse(points.X) else points.X
        least = float(values.min(initial=0.0))
        if least < 0:
            raise ValueError(
                f"X has values below zero, as {least:g}, but kernel='chi2' is for histograms; give "
                "counts or frequencies, and do not centre them."
            )
