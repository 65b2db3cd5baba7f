"""Kernels from outside: scikit-learn's kernels of Gaussian processes, and functions of a user's.

What they cannot differentiate is differentiated by central differences of the whole block in the
logarithm of a hyperparameter: two more blocks for each, and exact to about nine digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array

from .._core.space import Dimension, Params
from .base import Kernel, total
from .compose import bound
from .points import Points, copied

STEP = 1e-5  # of a logarithm: where the errors of differences and of rounding are about equal
TRIED = 20  # rows that functions are tried on
WRONG = 0.01  # relative error of a derivative that is no rounding
NO_SLOPE = 1e-6  # derivatives by a logarithm, relative to the block, that may be rounding
TINY = 1e-300


class _Outside(Kernel):
    """What is computed by others, in double precision, of dense rows."""

    hyperparameters: tuple[str, ...]

    @property
    def positive(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.hyperparameters

    def compute(self, X: np.ndarray, Z: np.ndarray, params: Params) -> np.ndarray:
        raise NotImplementedError

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        K = np.array(self.compute(_dense(rows), _dense(cols), params), dtype=float)
        if K.shape != (len(rows), len(cols)):
            raise ValueError(
                f"{self!r} gives a block of the shape {K.shape} for {len(rows)} and {len(cols)} "
                "rows; it must have an entry for each pair."
            )
        return K if out is None else copied(K, out)

    def diagonal(self, points: Points, params: Params) -> np.ndarray:
        X = _dense(points)
        return np.array([self.compute(x[None], x[None], params)[0, 0] for x in X], dtype=float)

    def single_error(self, points: Points, params: Params) -> float:
        return np.inf  # it is computed in double precision

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        X, Z = _dense(rows), _dense(cols)
        return {name: self._slope(X, Z, M, params, name) for name in self.hyperparameters}

    def _slope(self, X: np.ndarray, Z: np.ndarray, M: np.ndarray, params: Params, name: str) -> Any:
        """Return the sums of M times the derivative of the block by one hyperparameter."""
        value = np.asarray(params[name], dtype=float)
        slopes = np.zeros(value.shape)
        for k in np.ndindex(value.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = value.copy()
                moved[k] *= np.exp(step)
                at = moved if value.ndim else float(moved)
                ends.append(self.compute(X, Z, params | {name: at}))
            change = (ends[0] - ends[1]) / (2.0 * STEP * value[k])
            slopes[k] = total(np.asarray(M, dtype=float), change)
        return slopes if value.ndim else float(slopes)


def _dense(points: Points) -> np.ndarray:
    return points.X.toarray() if sparse.issparse(points.X) else np.asarray(points.X)


class GaussianProcessKernel(_Outside):
    """A kernel of scikit-learn's Gaussian processes.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With the hyperparameters that it has; those that are fixed there stay as they are, the
        others are tuned within their bounds.
    columns : column selection, default=None
        As in ColumnTransformer; None is all.

    Notes
    -----
    The kernels of this package (`RBF`, `Matern52`, ...) are many times faster where both exist, and
    have a width per feature at no cost.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ExpSineSquared
    >>> from hypermargin import GradientSearchCV, KernelSVR
    >>> from hypermargin.kernels import GaussianProcessKernel
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> kernel = GaussianProcessKernel(ExpSineSquared(periodicity=2.5, periodicity_bounds="fixed"))
    >>> y = np.sin(2 * np.pi / 2.5 * X[:, 0])
    >>> search = GradientSearchCV(KernelSVR(kernel=kernel), cv=3).fit(X, y)
    >>> bool(search.best_score_ > 0.99)
    True
    """

    def __init__(self, kernel: Any, *, columns: Any = None):
        self.kernel = kernel
        self.columns = columns

    @property
    def _tuned(self) -> dict[str, Any]:
        """Their hyperparameters that are not fixed, by our names."""
        if not hasattr(self.kernel, "hyperparameters"):
            raise TypeError(
                f"GaussianProcessKernel has kernel={self.kernel!r}; give one of "
                "sklearn.gaussian_process.kernels."
            )
        return {f"kernel__{h.name}": h for h in self.kernel.hyperparameters if not h.fixed}

    @property
    def hyperparameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self._tuned)

    @property
    def widths(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(name for name, h in self._tuned.items() if h.n_elements > 1)

    def ard_of(self, name: str) -> Any:
        return "always" if name in self.widths else False

    def values(self) -> Params:
        return {name: self.kernel.get_params()[h.name] for name, h in self._tuned.items()}

    def compute(self, X: np.ndarray, Z: np.ndarray, params: Params) -> np.ndarray:
        own = {h.name: params[name] for name, h in self._tuned.items() if name in params}
        return clone(self.kernel).set_params(**own)(X, Z)

    def dimension(self, name: str, points: Points) -> Dimension:
        bounds = np.atleast_2d(self._tuned[name].bounds)
        return _around(self.values()[name], float(bounds[:, 0].max()), float(bounds[:, 1].min()))


class FunctionKernel(_Outside):
    """A kernel that is a function.

    Parameters
    ----------
    function : callable
        ``function(X, Z, **params)`` returns the kernel values of all rows of X with all rows of Z.
    params : dict, default=None
        Hyperparameters of the function: positive numbers by name.  They are parameters of the
        kernel, too.
    product : callable, default=None
        ``product(X, Z, M, **params)`` returns a dict with the sum of M times the derivative of the
        block, for each hyperparameter.  Without it they are found by differences of blocks.
        :func:`check_kernel` compares the two.
    ranges : dict, default=None
        Ranges (low, high) of hyperparameters; else a factor of 100 to both sides.
    definite : bool, default=True
        Whether its matrices have no eigenvalue below zero.
    columns : column selection, default=None
        As in ColumnTransformer; None is all.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from hypermargin import GradientSearchCV, KernelSVC
    >>> from hypermargin.kernels import FunctionKernel
    >>> def cauchy(X, Z, gamma):
    ...     return 1 / (1 + gamma * ((X[:, None] - Z) ** 2).sum(axis=2))
    >>> kernel = FunctionKernel(cauchy, {"gamma": 0.1})
    >>> search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3).fit(*load_iris(return_X_y=True))
    >>> sorted(search.best_params_)
    ['C', 'kernel__gamma']
    """

    def __init__(
        self,
        function: Callable[..., Any],
        params: Mapping[str, float] | None = None,
        *,
        product: Callable[..., Mapping[str, float]] | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        definite: bool = True,
        columns: Any = None,
    ):
        self.function = function
        self.params = params
        self.product = product
        self.ranges = ranges
        self.definite = definite
        self.columns = columns

    @property
    def hyperparameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.params or ())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with `deep` those of the function as well.

        Parameters
        ----------
        deep : bool, default=True

        Returns
        -------
        params : dict
        """
        return super().get_params(deep=False) | (dict(self.params or {}) if deep else {})

    def set_params(self, **params: Any) -> FunctionKernel:
        """Set parameters, those of the function included.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : object
        """
        own = {name: params.pop(name) for name in list(params) if name in self.hyperparameters}
        super().set_params(**params)
        self.params = {**(self.params or {}), **own}
        return self

    def values(self) -> Params:
        if not callable(self.function) or not isinstance(self.params or {}, Mapping):
            raise TypeError(
                f"FunctionKernel has function={self.function!r} and params={self.params!r}; give a "
                "function, and a dict of its hyperparameters."
            )
        values = dict(self.params or {})
        for name, value in values.items():
            if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
                raise ValueError(
                    f"params of FunctionKernel has {name}={value!r}; it must be positive."
                )
        return values

    def check(self, points: Points) -> None:
        """Try the function on a few rows; a derivative that is not one is told at once."""
        few, values = points.take(np.arange(min(len(points), TRIED))), self.values()
        if not np.isfinite(self.block(few, few, values)).all():
            raise ValueError(f"FunctionKernel gives values that are not finite at {values}.")
        names = () if self.product is None else self.hyperparameters
        _largest_error(self, few, values, names, WRONG)

    def compute(self, X: np.ndarray, Z: np.ndarray, params: Params) -> np.ndarray:
        return np.asarray(self.function(X, Z, **{n: params[n] for n in self.hyperparameters}))

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        if self.product is None:
            return super().pullback(rows, cols, block, M, params)
        own = {name: params[name] for name in self.hyperparameters}
        found = dict(self.product(_dense(rows), _dense(cols), np.asarray(M, dtype=float), **own))
        if found.keys() != own.keys():
            raise ValueError(
                f"product of FunctionKernel gives {sorted(found)}; it must give {sorted(own)}."
            )
        return {name: float(value) for name, value in found.items()}

    def dimension(self, name: str, points: Points) -> Dimension:
        value = self.values()[name]
        low, high = (self.ranges or {}).get(name, (0.01 * value, 100.0 * value))
        return _around(value, low, high)


def _around(value: Any, low: float, high: float) -> Dimension:
    """Return a range that is usually a factor of ten around a value."""
    middle = float(np.clip(np.exp(np.mean(np.log(value))), low, high))
    usual = max(low, middle / 10.0), min(high, middle * 10.0)
    return Dimension(low, high, "log", usual=usual)


def check_kernel(kernel: Kernel, X: Any, tol: float = 1e-4) -> float:
    """Compare the derivatives of a kernel with central differences of its blocks.

    Parameters
    ----------
    kernel : Kernel
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Some rows that the kernel is for; no more than 200 are used.
    tol : float, default=1e-4
        The largest relative error that is right.

    Returns
    -------
    error : float
        The largest relative error; a larger one than `tol` raises a ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.kernels import RBF, check_kernel
    >>> check_kernel(RBF(), np.random.default_rng(0).normal(size=(20, 3))) < 1e-6
    True
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel={kernel!r} must be a Kernel.")
    rows = check_array(X, accept_sparse="csr", dtype=float)[:200]
    kernel, points = bound(kernel, X), Points.of(rows)
    kernel.check(points)
    params = {n: kernel.values().get(n, "") for n in kernel.hyperparameters}
    for name, value in params.items():
        read = kernel.read_off(name, points) if isinstance(value, str) else value
        params[name] = np.asarray(read, dtype=float) if np.ndim(read) else read
    return _largest_error(kernel, points, params, kernel.hyperparameters, tol)


def _largest_error(
    kernel: Kernel, points: Points, params: Params, names: Sequence[str], tol: float
) -> float:
    """Return the largest relative error of some derivatives; more than `tol` is too much."""
    kind, M = type(kernel).__name__, np.random.default_rng(0).normal(size=(len(points),) * 2)

    def block(at: Params) -> tuple[Any, np.ndarray]:
        placed = kernel.at(points, at)
        return placed, kernel.block(placed, placed, at)

    placed, K = block(params)
    if not np.allclose(K, K.T, rtol=1e-6, atol=1e-9 * float(np.abs(K).max(initial=0.0))):
        raise ValueError(f"{kind} is not symmetric: K(x, z) must be K(z, x).")
    found = kernel.pullback(placed, placed, K, M, params) if names else {}
    size, worst = NO_SLOPE * total(np.abs(M), np.abs(K)), 0.0
    for name in names:
        value = params[name]
        flat = np.atleast_1d(np.asarray(value, dtype=float))
        slopes, least = np.zeros(len(flat)), size / max(float(np.abs(flat).max()), NO_SLOPE)
        for k, entry in enumerate(flat):
            step = STEP * max(abs(entry), STEP)
            ends = [np.where(np.arange(len(flat)) == k, entry + s, flat) for s in (step, -step)]
            at = [{**params, name: end if np.ndim(value) else float(end[0])} for end in ends]
            up, down = (total(M, block(end)[1]) for end in at)
            slopes[k] = (up - down) / (2.0 * step)
        unit = max(float(np.abs(slopes).max()), least, TINY)
        error = float(np.abs(slopes - found[name]).max()) / unit
        if not error <= tol:
            raise ValueError(
                f"the derivative of {kind} by {name} is {found[name]!r}, while differences of its "
                f"blocks give {slopes.tolist()!r}."
            )
        worst = max(worst, error)
    return worst
