"""Tanimoto's kernel of fingerprints, and its form for counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._core.space import Params
from .base import Kernel
from .pairs import ABSOLUTE, pair_sums
from .points import Points


class _OfCounts(Kernel):
    """A part that two rows have in common; rows of zeros have all in common, and nothing else."""

    def __init__(self, *, columns: Any = None):
        self.columns = columns

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        return np.ones(len(points))

    def check(self, points: Points) -> None:
        values = points.X.data if sparse.issparse(points.X) else points.X
        wrong = values[(values < 0) | (values != np.floor(values))]
        if wrong.size:
            raise ValueError(
                f"X has the value {wrong.flat[0]:g}, but {type(self).__name__} is for bits or "
                "counts; give fingerprints as they are, not scaled, or choose their columns."
            )


class Tanimoto(_OfCounts):
    """``K = x'z / (|x|^2 + |z|^2 - x'z)``: of bits, those in common by those in either.

    Parameters
    ----------
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import Tanimoto
    >>> bits = np.random.default_rng(0).integers(2, size=(100, 20))
    >>> y = bits[:, :10].sum(axis=1) > bits[:, 10:].sum(axis=1)
    >>> KernelSVC(kernel=Tanimoto()).fit(bits, y).score(bits, y) > 0.9
    True
    """

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        common = rows.inner(cols, out)
        either = rows.square_norms[:, None] + cols.square_norms
        either -= common
        return _parts_of(common, either)


class MinMax(_OfCounts):
    """``K = sum_j min(x_j, z_j) / sum_j max(x_j, z_j)``; of bits, the same as Tanimoto's.

    Parameters
    ----------
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVC
    >>> from hypermargin.kernels import MinMax
    >>> counts = np.random.default_rng(0).poisson(2.0, size=(100, 20))
    >>> y = counts[:, :10].sum(axis=1) > counts[:, 10:].sum(axis=1)
    >>> KernelSVC(kernel=MinMax()).fit(counts, y).score(counts, y) > 0.9
    True
    """

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        apart = pair_sums(ABSOLUTE, rows, cols, 1.0, out)
        sizes = [np.asarray(p.X.sum(axis=1)).ravel() for p in (rows, cols)]
        both = np.asarray(sizes[0][:, None] + sizes[1], apart.dtype)
        either = both + apart  # twice the largest, and below twice the least
        return _parts_of(np.subtract(both, apart, out=apart), either)


def _parts_of(common: np.ndarray, either: np.ndarray) -> np.ndarray:
    common[either <= 0], either[either <= 0] = 1.0, 1.0
    return np.divide(common, either, out=common)
