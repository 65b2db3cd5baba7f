"""The generalised Gaussian kernel: its shape is a hyperparameter.

With  D = sum_j (gamma_j^(1/2) |x_j - z_j|)^p  and  t = D^(q / p),  K = exp(-t).  As t = -log K,
derivatives by q and by a single width are read off the block alone:

    dK / dlog gamma = (q / 2) K log K,     dK / dq = K log K log D / p,    log D = (p / q) log t.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from .._core.compiled import LEAST_DOUBLE, LEAST_SINGLE, compiled, fast_max
from .._core.powers import fast_exp2, fast_log2
from .._core.space import Dimension, Params
from .pairs import ABSOLUTE, FAST, LOG_2, POWER, POWER_LOG, feature_sums, pair_sums
from .points import Points
from .stationary import Stationary, by_width, factor_of, measured_error, middle_of

LEAST_POWER = 0.3  # of q and p; what is less hardly tells rows apart that are not equal


class GeneralisedGaussian(Stationary):
    """``K = exp(-(sum_j (gamma_j^(1/2) |x_j - z_j|)^p)^(q / p))``, with 0 < q <= p <= 2.

    With p = 2 it is the Gaussian kernel at q = 2 and Matern's of 1/2 at q = 1; with p = q = 1 it is
    the Laplacian kernel, with the squares of its widths.

    Parameters
    ----------
    gamma : "scale", float or array-like, default="scale"
        Width, or one for each feature.
    q : float, default=1.0
        How smooth it is; tuned in a search.
    p : float or None, default=2.0
        How differences of features add up; None tunes that as well, by `roundness`.
    roundness : float, default=0.5
        Where p is None, p = q + roundness (2 - q): at 0 it is a product of kernels of single
        features, at 1 it knows only the distance.
    ard : bool, "always" or array-like of labels, default=False
        Whether a search gives each feature its own width if that pays, or in any case, or each
        group of features that have the same label.
    columns : column selection, default=None
        The columns that it reads, as in ColumnTransformer; None is all.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import GradientSearchCV, KernelSVR
    >>> from hypermargin.kernels import GeneralisedGaussian
    >>> X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    >>> smooth = np.sin(3 * X[:, 0]) * X[:, 1]
    >>> search = GradientSearchCV(KernelSVR(kernel=GeneralisedGaussian()), cv=3).fit(X, smooth)
    >>> search.best_params_["kernel__q"] > 1.5
    True
    """

    def __init__(
        self,
        gamma: Any = "scale",
        *,
        q: float = 1.0,
        p: float | None = 2.0,
        roundness: float = 0.5,
        ard: Any = False,
        columns: Any = None,
    ):
        super().__init__(gamma, ard=ard, columns=columns)
        self.q = q
        self.p = p
        self.roundness = roundness

    @property
    def hyperparameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("gamma", "q", "roundness") if self.p is None else ("gamma", "q")

    def values(self) -> Params:
        found = super().values()
        self.powers(found)
        return found

    def powers(self, params: Params) -> tuple[float, float]:
        """Return q and p, or say what is wrong with them."""
        q, p = params["q"], self.p
        if p is None:
            s = params["roundness"]
            if not isinstance(s, Real) or not 0.0 <= float(s) <= 1.0:
                raise ValueError(f"roundness={s!r} must be between 0 and 1.")
            p = q + s * (2.0 - q)
        if not isinstance(p, Real) or not 0.0 < float(p) <= 2.0:
            raise ValueError(f"p={p!r} must be above 0 and at most 2, or None to be tuned.")
        if not isinstance(q, Real) or not 0.0 < float(q) <= float(p):
            raise ValueError(f"q={q!r} must be above 0 and at most p={p:g}.")
        return float(q), float(p)

    def at(self, points: Points, params: Params) -> Points:
        placed = super().at(points, params)
        return placed if self.p == 2.0 else placed.centred

    def sums(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return D."""
        _, p = self.powers(params)
        if self.p == 2.0:
            return rows.sharp_distances(cols, out, factor_of(params))
        return pair_sums(_kind(p), rows, cols, factor_of(params) ** (0.5 * p), out, p)

    def block(
        self, rows: Points, cols: Points, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        q, p = self.powers(params)
        D = self.sums(rows, cols, params, out)
        _exp_of_power(D, D.dtype.type(q / p))
        return D

    def single_error(self, points: Points, params: Params) -> float:
        return measured_error(self, points, params)

    def pullback(
        self, rows: Points, cols: Points, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        (q, p), gamma = self.powers(params), params["gamma"]
        by_log, by_log_log = log_sums(M, block)
        found: Params = {"gamma": 0.5 * q * by_log / gamma, "q": by_log_log / q}
        if np.ndim(gamma) or self.p is None:
            G = self.sums(rows, cols, params)
            to_cotangent(G, M, block, G.dtype.type(q / p))
        if np.ndim(gamma):
            found["gamma"] = by_width(self.by_feature(rows, cols, G, p), gamma)
        if self.p is None:
            logs = float(feature_sums(POWER_LOG, rows, cols, G, p).sum())
            if not np.ndim(gamma):  # a single width is not in the points
                logs = gamma ** (0.5 * p) * logs + 0.5 * np.log(gamma) * q / p * by_log
            by_p, s = logs - by_log_log / p, params["roundness"]
            found["q"] += (1.0 - s) * by_p
            found["roundness"] = (2.0 - q) * by_p
        return found

    def by_feature(self, rows: Points, cols: Points, G: np.ndarray, p: float = 2.0) -> np.ndarray:
        if self.p == 2.0:
            return super().by_feature(rows, cols, G)
        return 0.5 * p * feature_sums(_kind(p), rows, cols, G, p)

    def dimension(self, name: str, points: Points) -> Dimension:
        if name == "q":
            most = 2.0 if self.p is None else self.p
            # (on a logarithmic scale searches end at slightly worse points)
            return Dimension(min(LEAST_POWER, most / 2), most, "linear", whole=True)
        if name == "roundness":  # at q = 2 it is of no account: what is round is there as well
            return Dimension(0.0, 1.0, "linear", usual=(0.0, 0.3), whole=True)
        found = super().dimension(name, points)
        if self.p == 2.0:
            return found
        p = 1.5 if self.p is None else self.p
        few = points.take(np.linspace(0, len(points) - 1, min(len(points), 400)).astype(int))
        sums = pair_sums(_kind(p), few, few, 1.0, p=p)[np.triu_indices(len(few), 1)]
        centre = middle_of(sums, 0.0) ** (-2.0 / p)
        return found.over(np.sqrt(found.low * found.high / 10) / centre)


def _kind(p: float) -> int:
    return ABSOLUTE if p == 1.0 else POWER


@compiled
def _exp_of_power(D, r):
    """Replace D by exp(-D^r)."""
    for i in range(D.shape[0]):
        _exp_of_power_row(D[i], r)


@compiled(fastmath={"contract", "nsz"}, inner=True)
def _exp_of_power_row(d, r):
    one, scale = d.dtype.type(1), d.dtype.type(-1.4426950408889634)
    least = d.dtype.type(LEAST_SINGLE if d.itemsize == 4 else LEAST_DOUBLE)
    for k in range(d.shape[0]):
        power = fast_exp2(r * fast_log2(d[k]))
        value = fast_exp2(fast_max(scale * power, least)) if d[k] > 0 else one
        d[k] = value if d[k] == d[k] else d[k]  # what is not a number stays so


@compiled
def log_sums(M, K):
    """Return the sums of M K log K and of M K log K log(-log K)."""
    first, second = 0.0, 0.0
    for i in range(K.shape[0]):
        a, b = _log_sums_row(M[i], K[i])
        first += a
        second += b
    return first, second


@compiled(fastmath=FAST, inner=True)
def _log_sums_row(M, K):
    log_2, first, second = K.dtype.type(LOG_2), K.dtype.type(0), K.dtype.type(0)
    for k in range(K.shape[0]):
        log = fast_log2(K[k]) * log_2
        part = M[k] * K[k] * log
        first += part
        second += part * fast_log2(-log) * log_2 if log < 0 else K.dtype.type(0)
    return first, second


@compiled
def to_cotangent(D, M, K, r):
    """Replace D by M r K log K / D, which is M times the derivative of exp(-D^r); 0 where D is."""
    for i in range(K.shape[0]):
        _to_cotangent_row(D[i], M[i], K[i], r)


@compiled(fastmath=FAST)
def _to_cotangent_row(D, M, K, r):
    least, factor = D.dtype.type(1.2e-38), r * D.dtype.type(LOG_2)
    for k in range(K.shape[0]):
        slope = factor * M[k] * K[k] * fast_log2(K[k])
        D[k] = slope / D[k] if D[k] > least else D.dtype.type(0)
