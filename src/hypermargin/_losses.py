"""Losses, each as the dual problem it leads to.

Every loss here trains by the same quadratic programme in beta (one number per point),

    min  1/2 beta' (K + diag(ridge)) beta - target' beta + sum_i kink_i |beta_i|
    s.t. lower <= beta <= upper,  and  sum beta = 0  if the machine has a bias,

and the machine's output is  o(x) = sum_j beta_j K(x, x_j) + bias.  A loss says how target, lower,
upper, kink and ridge follow from the labels, the weights and its hyperparameters, and pulls
cotangents on them back to the hyperparameters.  (keerthi-2006 writes beta_j = alpha_j y_j and
minus b for the bias; in beta the matrix P of eq. (5) becomes symmetric.)

Some hyperparameters have a value for each part of the rows: a row costs  c_i = C w_i  times the
factors of its class, of the machine that is trained and of its group, and has the margin of its
class.  They are named `class_cost[0]`, `margin[0]` and so on.

To add a loss, write the class and list it in `LOSSES`; the contract tests of losses pick it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ._budget import cached
from ._kernels import Params
from ._space import Dimension
from ._spread import deviation, typical_deviation

FIELDS = ("target", "lower", "upper", "kink", "ridge")

# What a hyperparameter has a value for each of.
PART = {
    "class_cost": "class",
    "margin": "class",
    "machine_cost": "machine",
    "group_cost": "group",
    "group_epsilon": "group",
}
COSTS = ("class_cost", "machine_cost", "group_cost")
NAMELESS = -1  # the number of a part whose hyperparameters are all 1
FACTOR = Dimension(1e-3, 1e3, "log", usual=(0.1, 10.0))


@dataclass(frozen=True)
class Dual:
    """The data of the quadratic programme, or cotangents on them.

    One entry per point, or one row of them per fold: machines of several folds are trained
    together on the same points, and a point that a fold leaves out has lower = upper there.

    A `soft` loss has an entropy in place of the corners at the bounds: with s = beta / bound,
    soft |bound| (s log s + (1 - s) log(1 - s)) is added.  Its ridge, the inverse of its curvature,
    is known once it is trained, and is filled in then.
    """

    target: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray
    soft: float = 0.0


@dataclass(frozen=True)
class Rows:
    """What a loss knows of the points: targets, weights, and the parts that each is of.

    `y` has one entry per point, like every one of `parts`: the numbers of the points' classes,
    machines or groups.  `weight` has the same or one row per fold.  Points of many machines may
    follow each other: a loss treats every point on its own.
    """

    y: np.ndarray
    weight: np.ndarray
    parts: Mapping[str, np.ndarray]

    @cached
    def n_parts(self) -> dict[str, int]:
        return {kind: int(of.max(initial=0)) + 1 for kind, of in self.parts.items()}

    def values(self, params: Params, name: str) -> np.ndarray | float:
        """Return the value of a hyperparameter by part for every point, 1 where it is not set."""
        kind = PART[name]
        known = [params.get(f"{name}[{k}]", 1.0) for k in range(self.n_parts.get(kind, 0))]
        if all(value == 1.0 for value in known):
            return 1.0
        return np.array([*known, 1.0])[self.parts[kind]]  # the last one is for NAMELESS

    def sums(self, cotangent: np.ndarray, name: str) -> Params:
        """Add what is said of the points by part."""
        kind = PART[name]
        if kind not in self.parts:
            return {}
        total = cotangent if cotangent.ndim == 1 else cotangent.sum(axis=0)
        sums = np.bincount(self.parts[kind] + 1, total, minlength=self.n_parts[kind] + 1)[1:]
        return {f"{name}[{k}]": float(value) for k, value in enumerate(sums)}


class Loss:
    """Labels, weights and hyperparameters to the dual problem, and back."""

    hyperparameters: ClassVar[tuple[str, ...]]
    by_part: ClassVar[tuple[str, ...]] = ()  # hyperparameters that have a value for each part
    classifies: ClassVar[bool] = False  # targets are labels, -1 and 1
    bias: ClassVar[bool] = True
    unreached: ClassVar[bool] = False  # whether bounds are there for the solver only
    linear: ClassVar[bool] = False  # trained by a linear system, without bounds
    corners: ClassVar[bool] = False  # its slope jumps
    softens: ClassVar[bool] = False  # a logistic curve in place of the corner

    def dual(self, rows: Rows, params: Params) -> Dual:
        raise NotImplementedError

    def spread(self, y: np.ndarray, weight: np.ndarray | None = None) -> float:
        """Return the unit of the targets, which a few of them do not move where they cost little.

        Squared losses follow them, however far they are.
        """
        return typical_deviation(y, weight) if self.corners else deviation(y, weight)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        """Return the derivatives with respect to the hyperparameters, summed over all folds."""
        raise NotImplementedError

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        """Return a sensible range, `kernel_scale` being the mean of the centred diagonal of K."""
        raise NotImplementedError


class _Costly(Loss):
    """A loss whose rows cost  c_i = C w_i  times the factors of the parts that they are of."""

    hyperparameters: ClassVar[tuple[str, ...]] = ("C",)
    by_part: ClassVar[tuple[str, ...]] = ("group_cost",)

    def costs(self, rows: Rows, params: Params) -> np.ndarray:
        costs = params["C"] * rows.weight
        for name in self._factors(rows):
            factors = rows.values(params, name)
            if np.ndim(factors):  # else they are all 1
                costs *= factors
        return costs

    def pull_costs(self, rows: Rows, params: Params, on_costs: np.ndarray) -> Params:
        """Turn a cotangent on the costs into one on C and on the factors."""
        return self._pull_logarithms(rows, params, self.costs(rows, params) * on_costs)

    def pull_ridge(self, rows: Rows, params: Params, on_ridge: np.ndarray) -> Params:
        """Turn a cotangent on the ridge 1 / (2 c_i) into one on C and on the factors.

        It goes by logarithms: the derivative by a cost has its square, which may overflow.
        """
        ridge = 0.5 * inverse(self.costs(rows, params), 0.0)
        return self._pull_logarithms(rows, params, -ridge * on_ridge)

    def _pull_logarithms(self, rows: Rows, params: Params, on_logarithms: np.ndarray) -> Params:
        gradient = {"C": float(on_logarithms.sum()) / params["C"]}
        for name in self._factors(rows):
            gradient |= rows.sums(on_logarithms / rows.values(params, name), name)
        return gradient

    def _factors(self, rows: Rows) -> list[str]:
        return [name for name in COSTS if name in self.by_part and PART[name] in rows.parts]


class _Classification(_Costly):
    """Labels -1 and +1, and margins m_i that are to be kept: slack is max(0, m_i - y_i o_i)."""

    by_part: ClassVar[tuple[str, ...]] = ("class_cost", "margin", "machine_cost", "group_cost")
    classifies = True

    def targets(self, rows: Rows, params: Params) -> np.ndarray:
        target = rows.y * rows.values(params, "margin")
        return np.broadcast_to(target, rows.weight.shape)

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        if name in COSTS:
            return FACTOR
        if name == "margin":
            return Dimension(0.1, 10.0, "log", usual=(0.5, 2.0))
        low, high = 1e-2 / kernel_scale, 1e4 / kernel_scale
        usual = (0.2 / kernel_scale, 200.0 / kernel_scale)
        return Dimension(low, high, "log", drift=-0.2, lean=0.02, usual=usual)


class Hinge(_Classification):
    """sum_i c_i max(0, m_i - y_i o_i): the weighted hinge loss of keerthi-2006, section 2."""

    corners: ClassVar[bool] = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        reach = self.costs(rows, params) * rows.y
        zero = np.zeros_like(reach)
        target = self.targets(rows, params)
        return Dual(target, np.minimum(reach, 0.0), np.maximum(reach, 0.0), zero, zero)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        on_costs = rows.y * np.where(rows.y > 0, cotangent.upper, cotangent.lower)
        margins = rows.sums(rows.y * cotangent.target, "margin")
        return self.pull_costs(rows, params, on_costs) | margins


@dataclass(frozen=True)
class SmoothHinge(Hinge):
    """sum_i c_i log(1 + exp(mu (m_i - y_i o_i))) / mu: klatzer-pock, eq. (6)."""

    mu: float = 12.0
    corners = False

    def dual(self, rows: Rows, params: Params) -> Dual:
        dual = super().dual(rows, params)
        return replace(dual, ridge=np.zeros_like(dual.ridge), soft=1.0 / self.mu)


class Logistic(Hinge):
    """sum_i c_i log(1 + exp(-y_i o_i)): kernel logistic regression."""

    softens = True
    corners = False
    by_part: ClassVar[tuple[str, ...]] = COSTS

    def dual(self, rows: Rows, params: Params) -> Dual:
        dual = super().dual(rows, params)
        zero = np.zeros_like(dual.lower)
        return replace(dual, target=zero, ridge=zero.copy(), soft=1.0)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        gradient = super().pullback(rows, params, cotangent)
        return {name: g for name, g in gradient.items() if not name.startswith("margin")}


class SquaredHinge(_Classification):
    """sum_i c_i max(0, m_i - y_i o_i)^2.

    A coefficient is at most 2 c_i times the slack, and the squares of slacks cost no more than they
    do at o = 0: this bounds it, so that no bound is ever met, if the kernel is positive definite.
    """

    unreached = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, target = self.costs(rows, params), self.targets(rows, params)
        most = (costs * target**2).sum(axis=-1, keepdims=True)
        reach = rows.y * 2.0 * np.sqrt(costs * most)
        ridge = 0.5 * inverse(costs, 0.0)
        lower, upper = np.minimum(reach, 0.0), np.maximum(reach, 0.0)
        return Dual(target, lower, upper, np.zeros_like(reach), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        margins = rows.sums(rows.y * cotangent.target, "margin")
        return self.pull_ridge(rows, params, cotangent.ridge) | margins


class ModifiedHuber(_Classification):
    """The squared hinge loss up to a slack of 2 m_i, and its tangent beyond."""

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, target = self.costs(rows, params), self.targets(rows, params)
        reach = 4.0 * costs * target
        lower, upper = np.minimum(reach, 0.0), np.maximum(reach, 0.0)
        return Dual(target, lower, upper, np.zeros_like(reach), 0.5 * inverse(costs, 0.0))

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        costs, target = self.costs(rows, params), self.targets(rows, params)
        at_bound = np.where(rows.y > 0, cotangent.upper, cotangent.lower)
        on_logarithms = 4.0 * costs * target * at_bound - 0.5 * cotangent.ridge * inverse(
            costs, 0.0
        )
        on_target = cotangent.target + 4.0 * costs * at_bound
        margins = rows.sums(rows.y * on_target, "margin")
        return self._pull_logarithms(rows, params, on_logarithms) | margins


class LeastSquares(_Classification):
    """sum_i c_i (m_i y_i - o_i)^2 with a bias: the least-squares SVM, and regression alike."""

    linear = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        target, ridge = self.targets(rows, params), 0.5 * inverse(self.costs(rows, params))
        free = np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        margins = rows.sums(rows.y * cotangent.target, "margin")
        return self.pull_ridge(rows, params, cotangent.ridge) | margins


class _Regression(_Costly):
    """Targets in their own unit."""

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        spread = self.spread(y) or 1.0
        if name in PART:
            return FACTOR
        if name == "epsilon":
            return Dimension(1e-3 * spread, spread, "log", usual=(0.01 * spread, 0.5 * spread))
        unit = spread / kernel_scale
        return Dimension(1e-2 * unit, 1e4 * unit, "log", lean=0.02, usual=(0.1 * unit, 100 * unit))


class EpsilonInsensitive(_Regression):
    """sum_i c_i max(0, |y_i - o_i| - e_i), with e_i = epsilon times the factor of the group.

    moore-2011 has C and epsilon by group.
    """

    corners = True
    hyperparameters = ("C", "epsilon")
    by_part = ("group_cost", "group_epsilon")

    def tubes(self, rows: Rows, params: Params) -> np.ndarray:
        tube = params["epsilon"] * rows.values(params, "group_epsilon")
        return np.array(np.broadcast_to(tube, rows.weight.shape))

    def pull_tubes(self, rows: Rows, params: Params, on_tubes: np.ndarray) -> Params:
        factors = rows.values(params, "group_epsilon")
        of_groups = rows.sums(params["epsilon"] * on_tubes, "group_epsilon")
        return {"epsilon": float((factors * on_tubes).sum())} | of_groups

    def dual(self, rows: Rows, params: Params) -> Dual:
        reach, kink = self.costs(rows, params), self.tubes(rows, params)
        target = np.broadcast_to(rows.y, reach.shape)
        return Dual(target, -reach, reach, kink, np.zeros_like(reach))

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        gradient = self.pull_costs(rows, params, cotangent.upper - cotangent.lower)
        return gradient | self.pull_tubes(rows, params, cotangent.kink)


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """sum_i c_i max(0, |y_i - o_i| - e_i)^2; bounded as in `SquaredHinge`."""

    corners = False
    unreached = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs = self.costs(rows, params)
        most = (costs * (rows.y - rows.y.mean()) ** 2).sum(axis=-1, keepdims=True)
        most = np.where(most > 0.0, most, 1.0)  # equal targets need a bias only, which rows give
        reach, target = 2.0 * np.sqrt(costs * most), np.broadcast_to(rows.y, costs.shape)
        return Dual(target, -reach, reach, self.tubes(rows, params), 0.5 * inverse(costs, 0.0))

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        gradient = self.pull_ridge(rows, params, cotangent.ridge)
        return gradient | self.pull_tubes(rows, params, cotangent.kink)


class LeastSquaresRegression(_Regression):
    """sum_i c_i (y_i - o_i)^2 with a bias."""

    linear = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        ridge = 0.5 * inverse(self.costs(rows, params))
        target, free = np.broadcast_to(rows.y, ridge.shape), np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        return self.pull_ridge(rows, params, cotangent.ridge)


class Pinball(_Regression):
    """sum_i c_i times the pinball loss at `quantile`: of the residuals, so many are above zero."""

    corners = True
    hyperparameters = ("C", "quantile")

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs, q = self.costs(rows, params), params["quantile"]
        target, zero = np.broadcast_to(rows.y, costs.shape), np.zeros_like(costs)
        return Dual(target, (q - 1.0) * costs, q * costs, zero, zero)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        costs, q = self.costs(rows, params), params["quantile"]
        on_costs = (q - 1.0) * cotangent.lower + q * cotangent.upper
        on_quantile = float((costs * (cotangent.lower + cotangent.upper)).sum())
        return self.pull_costs(rows, params, on_costs) | {"quantile": on_quantile}

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        if name == "quantile":
            return Dimension(0.01, 0.99, "linear")
        return super().dimension(name, y, kernel_scale)


class Squared(Loss):
    """sum_i w_i (y_i - o_i)^2 + alpha |f|^2 without a bias: kernel ridge regression."""

    hyperparameters = ("alpha",)
    bias = False
    linear = True

    def dual(self, rows: Rows, params: Params) -> Dual:
        ridge = params["alpha"] * inverse(rows.weight)
        target, free = np.broadcast_to(rows.y, ridge.shape), np.full_like(ridge, np.inf)
        return Dual(target, -free, free, np.zeros_like(ridge), ridge)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        return {"alpha": float((cotangent.ridge * inverse(rows.weight, 0.0)).sum())}

    def dimension(self, name: str, y: np.ndarray, kernel_scale: float) -> Dimension:
        usual = (1e-4 * kernel_scale, kernel_scale)
        return Dimension(1e-6 * kernel_scale, 1e2 * kernel_scale, "log", usual=usual)


def inverse(costs: np.ndarray, otherwise: float = np.inf) -> np.ndarray:
    """Return 1 / costs; where nothing has no cost an infinite ridge leaves the row out."""
    return np.divide(1.0, costs, out=np.full_like(costs, otherwise), where=costs > 0)


LOSSES: tuple[type[Loss], ...] = (
    Hinge,
    SmoothHinge,
    Logistic,
    SquaredHinge,
    ModifiedHuber,
    LeastSquares,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    LeastSquaresRegression,
    Pinball,
    Squared,
)

# by the names that estimators give them
CLASSIFICATION: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "modified_huber": ModifiedHuber,
    "squared": LeastSquares,
    "smooth_hinge": SmoothHinge,
    "logistic": Logistic,
}
REGRESSION: dict[str, type[Loss]] = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "squared": LeastSquaresRegression,
    "pinball": Pinball,
}
