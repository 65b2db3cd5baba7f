"""Losses, each as the dual problem it leads to.

Every loss here trains by the same quadratic programme in beta (one number per point),

    min  1/2 beta' (K + diag(ridge)) beta - target' beta + sum_i kink_i |beta_i|
    s.t. lower <= beta <= upper,  and  sum beta = 0  if the machine has a bias,

and the machine's output is  o(x) = sum_j beta_j K(x, x_j) + bias.  A loss says how target, lower,
upper, kink and ridge follow from the labels, the weights and its hyperparameters, and pulls
cotangents on them back to the hyperparameters.  (Keerthi et al. write beta_j = alpha_j y_j and
minus b for the bias; in beta the matrix P of eq. (5) becomes symmetric.)

Some hyperparameters have a value for each part of the rows: a row costs  c_i = C w_i  times the
factors of its class, of the machine that is trained and of its group, and has the margin of its
class.  Each of them is an array over all parts of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._core.space import Dimension, Params
from .._core.spread import deviation, typical_deviation

FIELDS = ("target", "lower", "upper", "kink", "ridge")


# factors on the cost of rows, and which part of them has its own
COSTS = {"class_cost": "class", "machine_cost": "machine", "group_cost": "group"}
UNBOUNDED = 1e300  # a bound that is as good as none, and finite
GENTLE = 1e-2  # softness, in units of the outputs, from which corners are made sharper step by step
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

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.losses import CLASSIFICATION, Rows
    >>> rows = Rows(np.array([1.0, -1.0]), np.ones(2), {})
    >>> dual = CLASSIFICATION["hinge"]().dual(rows, {"C": 3.0})
    >>> dual.lower, dual.upper
    (array([ 0., -3.]), array([3., 0.]))
    """

    target: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray
    soft: float = 0.0

    def at(self, index: Any) -> Dual:
        """Return the dual of some folds or points."""
        return Dual(
            self.target[index], self.lower[index], self.upper[index], self.kink[index],
            self.ridge[index], self.soft,
        )  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """What a loss knows of the points: targets, weights, and the parts that each is of.

    `y` has one entry per point, like every one of `parts`: the numbers of the points' classes,
    machines or groups.  `weight` has the same or one row per fold.  Points of many machines may
    follow each other: a loss treats every point on its own.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.losses import REGRESSION, Rows
    >>> rows = Rows(np.array([1.5, 2.0]), np.ones(2), {"group": np.array([0, 1])})
    >>> costs = {"C": 3.0, "epsilon": 0.1, "group_cost": np.array([1.0, 2.0])}
    >>> REGRESSION["epsilon_insensitive"]().dual(rows, costs).upper
    array([3., 6.])
    """

    y: np.ndarray
    weight: np.ndarray
    parts: Mapping[str, np.ndarray]


class Loss:
    """Labels, weights and hyperparameters to the dual problem, and back.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.losses import Costly, Dual, Rows
    >>> class Absolute(Costly):
    ...     def dual(self, rows, params):
    ...         costs = self.costs(rows, params)
    ...         return Dual(rows.y, -costs, costs, 0.0 * costs, 0.0 * costs)
    ...     def pullback(self, rows, params, cotangent):
    ...         return self.pull_costs(rows, params, cotangent.upper - cotangent.lower)
    >>> rows = Rows(np.array([1.0, 2.0]), np.ones(2), {})
    >>> Absolute().dual(rows, {"C": 3.0}).upper
    array([3., 3.])
    """

    hyperparameters: ClassVar[tuple[str, ...]]  # those that are numbers
    by_part: ClassVar[Mapping[str, str]] = {}  # those that are arrays, and over which parts
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

    def gather(self, rows: Rows, params: Params, name: str) -> np.ndarray | float:
        """Return the entry of an array for every point, 1 where it is not set."""
        values = params.get(name) if name in self.by_part else None
        if values is None or (values == 1.0).all():
            return 1.0
        return np.append(values, 1.0)[rows.parts[self.by_part[name]]]  # the last one is NAMELESS

    def sums(self, rows: Rows, params: Params, name: str, cotangent: np.ndarray) -> Params:
        """Turn a cotangent on what `gather` returns into one on the array."""
        if name not in params or name not in self.by_part:
            return {}
        total = cotangent if cotangent.ndim == 1 else cotangent.sum(axis=0)
        numbers = rows.parts[self.by_part[name]] + 1
        return {name: np.bincount(numbers, total, minlength=len(params[name]) + 1)[1:]}


def softer(soft: float) -> list[float]:
    """Return softnesses that lead to this one: Newton's method loses its way at sharp corners."""
    if not 0.0 < soft < GENTLE:
        return [soft]
    n_stages = int(np.ceil(np.log10(GENTLE / soft)))
    return [*(GENTLE * 0.1 ** np.arange(n_stages)), soft]


class Costly(Loss):
    """A loss whose rows cost  c_i = C w_i  times the factors of the parts that they are of.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.losses import Costly, Rows
    >>> rows = Rows(np.array([1.0, 2.0]), np.array([1.0, 0.5]), {})
    >>> Costly().costs(rows, {"C": 4.0})
    array([4., 2.])
    >>> Costly().pull_costs(rows, {"C": 4.0}, np.ones(2))
    {'C': 1.5}
    """

    hyperparameters: ClassVar[tuple[str, ...]] = ("C",)
    by_part: ClassVar[Mapping[str, str]] = {"group_cost": "group"}

    def costs(self, rows: Rows, params: Params) -> np.ndarray:
        costs = params["C"] * rows.weight
        for name in COSTS:
            factors = self.gather(rows, params, name)
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
        gradient: Params = {"C": float(on_logarithms.sum()) / params["C"]}
        for name in COSTS:
            factors = self.gather(rows, params, name)
            gradient |= self.sums(rows, params, name, on_logarithms / factors)
        return gradient


def unbounded_dual(loss: Loss, rows: Rows, params: Params) -> Dual:
    """Return the dual without bounds that are there for solvers of pairs only."""
    dual = loss.dual(rows, params)
    if not loss.unreached:
        return dual
    low, high = np.where(dual.lower < 0, -np.inf, 0.0), np.where(dual.upper > 0, np.inf, 0.0)
    return replace(dual, lower=low, upper=high)


def unreached(costs: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Return what no coefficient of a squared loss exceeds, if outputs of zero have this slack.

    That is  2 sqrt(c_i sum_j c_j slack_j^2),  by roots and in units of the largest: costs may be
    far from one, and their products would be zero or infinite.  Without any slack a bias is all
    that is needed, which rows with some room give.
    """
    roots = np.sqrt(costs)
    own = roots * np.abs(slack)
    largest = own.max(axis=-1, keepdims=True, initial=0.0)
    largest = np.where(largest > 0.0, largest, 1.0)
    share = np.linalg.norm(own / largest, axis=-1, keepdims=True)
    most = np.where(share > 0.0, share, 1.0) * largest
    return np.minimum(2.0 * roots * most, UNBOUNDED)


def inverse(costs: np.ndarray, otherwise: float = np.inf) -> np.ndarray:
    """Return 1 / costs; a row that costs nothing gets `otherwise`: an infinite ridge leaves it out.

    Parameters
    ----------
    costs : ndarray
    otherwise : float, default=inf

    Returns
    -------
    inverse : ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin.losses import inverse
    >>> inverse(np.array([2.0, 0.0]))
    array([0.5, inf])
    """
    return np.divide(1.0, costs, out=np.full_like(costs, otherwise), where=costs > 0)
