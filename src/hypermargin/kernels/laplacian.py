"""The Laplacian kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from .._core.compiled import compiled
from .._core.space import Dimension, Params
from .points import Points, copied
from .stationary import Stationary, middle_of


class Laplacian(Stationary):
    """K = exp(-sum_j gamma_j |x_j - z_j|): a product of kernels of single features."""

    def at(self, points: Points, params: Params) -> Points:
        gamma = params["gamma"]
        return points if np.ndim(gamma) == 0 else points.stretched(gamma)

    def distances(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        gamma = params["gamma"]
        d = _absolute_distances(rows.X, cols.X)
        if np.ndim(gamma) == 0:
            d *= gamma
        return d if out is None else copied(d, out)

    def value(self, d: np.ndarray) -> np.ndarray:
        np.negative(d, out=d)
        return np.exp(d, out=d)

    def slope(self, d: np.ndarray, K: np.ndarray) -> np.ndarray:
        return -K

    def by_feature(self, rows: Points, cols: Points, G: np.ndarray) -> np.ndarray:
        X, Z = (p.X.toarray() if sparse.issparse(p.X) else np.asarray(p.X) for p in (rows, cols))
        found = np.zeros(X.shape[1])
        _add_absolute(np.ascontiguousarray(X), np.ascontiguousarray(Z), G, found)
        return found

    def dimension(self, name: str, points: Points) -> Dimension:
        few = points.take(np.linspace(0, len(points) - 1, min(len(points), 400)).astype(int))
        distances = _absolute_distances(few.X, few.X)[np.triu_indices(len(few), 1)]
        centre = 1.0 / middle_of(distances, 0.0)
        usual = (centre / 10, centre * 10)
        return Dimension(1e-3 * centre, 1e2 * centre, "log", drift=0.2, usual=usual)


def _absolute_distances(X: Any, Z: Any) -> np.ndarray:
    if sparse.issparse(X):
        return manhattan_distances(X, Z)
    return cdist(X, Z, "cityblock")


@compiled
def _add_absolute(X, Z, G, out):
    """Add sum_ik G_ik |x_ij - z_kj| to out, for every feature j."""
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            if G[i, k] != 0.0:
                for j in range(len(out)):
                    out[j] += G[i, k] * abs(X[i, j] - Z[k, j])
