"""Bennett's bilevel programme, which Moore et al. compare with: one linear programme after another.

Every fold's machine  min 1/2 w' R w + C sum_j max(0, |x_j' w - y_j| - epsilon)  is replaced by its
optimality conditions.  With  b = a_minus - a_plus  they are

    R w = X' b,   a_plus + a_minus <= C,   |X w - y| <= epsilon + xi,   a_plus, a_minus, xi >= 0,

and that nothing is lost between a machine and its dual: the sum of all products of an inequality
and its multiplier, which is

    gap = C sum xi + epsilon sum (a_plus + a_minus) - y' b + w' R w >= 0,

is zero.  The mean absolute error of the rows left out, plus a penalty on the gaps, is minimised by
successive linearisation: a linear programme gives a direction, and the best step along it is known,
the gap being quadratic (SLAMS; EZ-SLAMS stops sooner).  Or the error is minimised by an interior
point method while the gap of every fold is held below a limit that shrinks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from .._core.warn import warn
from ..adapters.base import Targets
from ..adapters.model import Model
from ..losses.regression import EpsilonInsensitive, SquaredEpsilonInsensitive
from ..problems.linear.problem import LinearCrossValidation
from .arguments import check_positive
from .base import Curve, Method
from .gradient import Descent, nested_rows
from .interior import check_casadi, relaxed
from .objective import Objective, SearchEnded

LARGEST = {
    "slams": (500, 10),
    "ez-slams": (500, 10),
    "ipopt": (200, 5),
}  # rows and folds; programmes
# of more take minutes each
STEPS = {"slams": (1e-4, 200), "ez-slams": (1e-2, 20)}  # least relative gain of a step; most steps
PENALTY = 10.0  # a gap as large as a machine's objective costs so many errors
LIMITS = 1e-1, 1e-2, 1e-3  # of gaps, relative to the objectives of machines
NAMES = "C", "epsilon"
SOLVERS = (*STEPS, "ipopt")


class Mpec(Method):
    """The bilevel programme with the optimality conditions of all folds as its constraints.

    The mean absolute error of the rows left out is minimised, whatever the criterion is; the score
    chooses among the points on the way, as always.

    Parameters
    ----------
    solver : {"slams", "ez-slams", "ipopt"}
        One linear programme after another, the second with a looser stop, or an interior point
        method, which needs casadi (``pip install "hypermargin[mpec]"``).
    box : float, optional
        The largest weight of a feature that the programme allows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.svm import LinearSVR
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import Mpec
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X, y = 20.0 * X[:60], y[:60] / 80.0
    >>> space = {"C": (1e-3, 10.0), "epsilon": (0.01, 1.0)}
    >>> search = GradientSearchCV(LinearSVR(), space, method=Mpec("ez-slams"), random_state=0)
    >>> bool(search.fit(X, y).best_score_ > 0.2)
    True
    """

    constrained: ClassVar[bool] = True
    levels: ClassVar[int | None] = 2

    def __init__(self, solver: str = "slams", box: float | None = None):
        if solver not in SOLVERS:
            raise ValueError(f"solver={solver!r} must be one of {list(SOLVERS)}.")
        check_positive("box", box, optional=True)
        self.solver, self.box = solver, box

    def obstacle(self, model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
        loss = model.adapter.loss() if model.adapter.linear else None
        right = isinstance(loss, EpsilonInsensitive)
        if not right or isinstance(loss, SquaredEpsilonInsensitive):
            return "is for linear models of the epsilon-insensitive loss; use method='gradient'"
        if not set(model.bare(ranges)) <= {"C", "epsilon"}:
            return "is for C and epsilon only; use method='gradient'"
        most = LARGEST[self.solver][0]
        if len(targets.y) > most:
            return f"is for {most} rows at most, of {len(targets.y)}; use method='gradient'"
        return None

    def search(self, objective: Objective) -> Curve | None:
        if self.solver == "ipopt":
            check_casadi()
        n_rows, n_folds = objective.prepared.n_rows, len(objective.prepared.splits)
        most_rows, most_folds = LARGEST[self.solver]
        if n_rows * n_folds > most_rows * most_folds:
            raise ValueError(
                f"method='mpec' is for {most_rows} rows in {most_folds} folds at most, of {n_rows} "
                f"in {n_folds}; use method='gradient'."
            )
        gradient = Descent()
        rows = nested_rows(objective.prepared, gradient.schedule, objective.rng)
        starts = gradient.look(objective.on(rows[0]), False)
        programme = Programme(objective, self.box)
        if self.solver == "ipopt":
            programme.relax(starts[0])
            return None
        for start in starts[:2]:
            programme.descend(start, *STEPS[self.solver])
        return None


@dataclass(frozen=True)
class FoldRows:
    """The rows of a fold's machine: in training, their weights, and left out."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    X_out: np.ndarray
    y_out: np.ndarray
    counts: np.ndarray  # how much errors of the rows left out count


class Programme:
    """The linear programmes of a search.

    Variables are C, epsilon, and for each fold w, a_plus, a_minus, xi and the errors z of the rows
    left out.
    """

    def __init__(self, objective: Objective, box: float | None = None):
        problem = objective.prepared.problem
        assert isinstance(problem, LinearCrossValidation)
        self.objective, self.problem = objective, problem
        self.level, self.box = objective.on(None), box
        self.folds = [
            self._rows(number, f) for number, d in enumerate(problem.designs) for f in d.folds
        ]
        self.penalty = np.ones(self.folds[0].X.shape[1])
        self.penalty[-1] = problem.bias_penalty if problem.intercept else 1.0
        self._lay_out()

    def _rows(self, number: int, f: int) -> FoldRows:
        rows, matrix = self.problem.matrix(number, np.float64, None)
        X = matrix.dense(np.arange(matrix.n_rows)).astype(float)
        column, fold = self.problem.columns[0], self.problem.folds[f]
        weight, counts = fold.of_column(column)[rows], self.objective.weight[rows]
        used, y = weight > 0, column.target[rows]
        out = np.isin(rows, fold.test) & (counts > 0)
        return FoldRows(X[used], y[used], weight[used], X[out], y[out], counts[out])

    def _lay_out(self) -> None:
        """Set where variables are, and what constrains them."""
        size, self.places = 2, list[list[np.ndarray]]()
        for rows in self.folds:
            n, d, m = len(rows.y), rows.X.shape[1], len(rows.y_out)
            ends = np.cumsum([size, d, n, n, n, m])
            self.places.append([np.arange(a, b) for a, b in pairwise(ends)])
            size = int(ends[-1])
        self.size, self.errors = size, np.zeros(size)
        parts = [self._constraints(*pair) for pair in self.pairs()]
        self.equal = sparse.vstack([equal for equal, _, _ in parts], "csr")
        self.less = sparse.vstack([less for _, less, _ in parts], "csr")
        self.right = np.concatenate([right for _, _, right in parts])
        total = sum(rows.counts.sum() for rows in self.folds)
        for rows, places in self.pairs():
            self.errors[places[4]] = rows.counts / total
        self._add_users()
        self._bound()

    def _add_users(self) -> None:
        """Add what users have constrained."""
        space = self.objective.space
        if (region := space.region) is None:
            return
        if region.logs.any():
            raise ValueError(
                "method='mpec' takes constraints on C and epsilon, not on their logarithms; use "
                "method='gradient'."
            )
        at = [NAMES.index(h.own) for h in space.hyperparameters]
        rows = sparse.csr_matrix(self._row((np.array(at), region.plain)))
        for sign, limit in ((1.0, region.high), (-1.0, region.low)):
            some = np.isfinite(limit)
            self.less = sparse.vstack([self.less, sign * rows[some]], "csr")
            self.right = np.append(self.right, sign * limit[some])

    def _bound(self) -> None:
        """Set the bounds of all variables."""
        low, high = np.zeros(self.size), np.full(self.size, np.inf)
        for places in self.places:
            low[places[0]] = -np.inf
            if self.box is not None:
                weights = places[0][:-1] if self.problem.intercept else places[0]
                low[weights], high[weights] = -self.box, self.box
        ranges = {h.own: h.ranges[0] for h in self.objective.space.hyperparameters}
        for k, name in enumerate(NAMES):
            low[k] = high[k] = self.problem.values[name]
            if name in ranges:
                low[k], high[k] = ranges[name].low, ranges[name].high
        self.bounds = np.column_stack([low, high])

    def pairs(self) -> Iterator[tuple[FoldRows, list[np.ndarray]]]:
        """Yield the rows of every fold, and where its variables are."""
        return zip(self.folds, self.places, strict=True)

    def _constraints(self, rows: FoldRows, places: list[np.ndarray]) -> tuple[Any, Any, np.ndarray]:
        """Return equalities of a fold, which are zero, its inequalities and their right side."""
        w, plus, minus, xi, z = places
        C, tube, one = np.array([0]), np.array([1]), np.ones((len(rows.y), 1))
        eye, of_out, XT = sparse.eye(len(rows.y)), sparse.eye(len(rows.y_out)), rows.X.T
        equal = self._row((w, np.diag(self.penalty)), (plus, XT), (minus, -XT))
        less = [
            self._row((plus, eye), (minus, eye), (C, -rows.weight[:, None])),
            self._row((w, rows.X), (tube, -one), (xi, -eye)),
            self._row((w, -rows.X), (tube, -one), (xi, -eye)),
            self._row((w, rows.X_out), (z, -of_out)),
            self._row((w, -rows.X_out), (z, -of_out)),
        ]
        right = np.concatenate([0.0 * rows.y, rows.y, -rows.y, rows.y_out, -rows.y_out])
        return equal, sparse.vstack(less), right

    def _row(self, *parts: tuple[np.ndarray, Any]) -> Any:
        """Return a block row of the constraints: matrices, and the variables that they are of."""
        columns = np.concatenate([at for at, _ in parts])
        block = sparse.hstack([sparse.coo_matrix(matrix) for _, matrix in parts]).tocoo()
        shape = block.shape[0], self.size
        return sparse.csr_matrix((block.data, (block.row, columns[block.col])), shape)

    def gap(self, v: np.ndarray) -> float:
        """Return the gaps of all machines."""
        total = self.bend(v)
        for rows, (_, plus, minus, _, _) in self.pairs():
            total -= float(rows.y @ (v[minus] - v[plus]))
        return total

    def bend(self, v: np.ndarray) -> float:
        """Return the part of the gaps that is quadratic."""
        total = 0.0
        for rows, (w, plus, minus, xi, _) in self.pairs():
            total += v[0] * (rows.weight @ v[xi]) + v[1] * (v[plus] + v[minus]).sum()
            total += (self.penalty * v[w]) @ v[w]
        return float(total)

    def gap_of(self, f: int, v: Any, casadi: Any) -> Any:
        """Return the gap of a fold, of symbols."""
        rows, (w, plus, minus, xi, _) = self.folds[f], self.places[f]
        plus, minus, w = (v[int(at[0]) : int(at[-1]) + 1] for at in (plus, minus, w))
        slack = v[int(xi[0]) : int(xi[-1]) + 1]
        gap = v[0] * casadi.dot(rows.weight, slack) + v[1] * casadi.sum1(plus + minus)
        return gap - casadi.dot(rows.y, minus - plus) + casadi.dot(self.penalty * w, w)

    def slope(self, v: np.ndarray) -> np.ndarray:
        """Return the gradient of the gaps."""
        g = np.zeros(self.size)
        for rows, (w, plus, minus, xi, _) in self.pairs():
            g[0] += rows.weight @ v[xi]
            g[1] += (v[plus] + v[minus]).sum()
            g[xi] = v[0] * rows.weight
            g[plus], g[minus] = v[1] + rows.y, v[1] - rows.y
            g[w] = 2.0 * self.penalty * v[w]
        return g

    def start(self, params: dict[str, Any], state: Any) -> np.ndarray:
        """Return the point of machines that are trained, whose gaps are nearly zero."""
        v = np.zeros(self.size)
        v[:2] = params["C"], params["epsilon"]
        for f, (rows, (w, plus, minus, xi, z)) in enumerate(self.pairs()):
            fold, beta = self.problem.folds[f], state[f, 0].beta
            b = beta[fold.of_column(self.problem.columns[0]) > 0].astype(float)
            limit = v[0] * rows.weight
            v[minus], v[plus] = np.clip(b, 0.0, limit), np.clip(-b, 0.0, limit)
            v[w] = state[f, 0].weights
            free = self.penalty > 0
            v[w[free]] = (rows.X.T @ (v[minus] - v[plus]))[free]
            v[xi] = np.maximum(np.abs(rows.X @ v[w] - rows.y) - v[1], 0.0)
            v[z] = np.abs(rows.X_out @ v[w] - rows.y_out)
        return v

    def begin(self, theta: np.ndarray) -> np.ndarray | None:
        """Return the point of the machines that are trained at hyperparameters."""
        visit = self.level.visit(theta, self.level.tol, self.level.state, None)
        if visit.evaluation is None:
            return None
        return self.start({**self.problem.values, **visit.params}, visit.evaluation.state)

    def descend(self, theta: np.ndarray, least: float, most: int) -> None:
        """Linearise, go to the best point on the way to what that finds, and again."""
        v = self.begin(theta)
        if v is None:
            return
        mu = PENALTY * float(self.errors @ v) / max(self.worth(v), 1e-300)
        value = float(self.errors @ v) + mu * self.gap(v)
        for _ in range(most):
            if self.objective.budget.expired():
                raise SearchEnded
            costs = self.errors + mu * self.slope(v)
            best_vertex = partial(self.best_vertex, costs)
            vertex = self.objective.memory.once("best vertex", best_vertex)
            if vertex is None:
                return
            direction = vertex - v
            # the objective moves by  step * down + step^2 * bend
            down, bend = float(costs @ direction), mu * self.bend(direction)
            step = 1.0 if bend <= 0.0 else min(1.0, -down / (2.0 * bend))
            change = step * down + step**2 * bend
            v, value = v + step * direction, value + change
            self.evaluate(v)
            if -change <= least * abs(value):
                return

    def worth(self, v: np.ndarray) -> float:
        """Return the objectives of all machines."""
        return float(self.worths(v).sum())

    def worths(self, v: np.ndarray) -> np.ndarray:
        """Return the objective of every machine."""
        found = [
            0.5 * (self.penalty * v[w]) @ v[w] + v[0] * (rows.weight @ v[xi])
            for rows, (w, _, _, xi, _) in self.pairs()
        ]
        return np.array(found, dtype=float)

    def best_vertex(self, costs: np.ndarray) -> np.ndarray | None:
        """Return where costs are least, or warn that nothing can be said."""
        found = linprog(
            costs, self.less, self.right, self.equal, np.zeros(self.equal.shape[0]),
            self.bounds, method="highs",
            options={"time_limit": self.objective.budget.left},
        )  # fmt: skip
        if self.objective.budget.expired():
            raise SearchEnded
        if found.x is None:
            why = " ".join(found.message.split())
            warn(
                f"A linear programme of method='mpec' could not be solved ({why}); the best point "
                "so far is returned.",
                ConvergenceWarning,
            )
        return found.x

    def relax(self, theta: np.ndarray) -> None:
        """Minimise the error while gaps are below ever lower limits."""
        v = self.begin(theta)
        if v is None:
            return
        solve, worths = relaxed(self), np.maximum(self.worths(v), 1e-300)
        for limit in LIMITS:
            solution = partial(solve, v, limit * worths)
            v = self.objective.memory.once("relaxed programme", solution)
            self.evaluate(v)

    def evaluate(self, v: np.ndarray) -> None:
        """Train machines at the hyperparameters, and record what they are worth."""
        space = self.objective.space
        values = {h.own: float(v[NAMES.index(h.own)]) for h in space.hyperparameters}
        ends = {h.own: (h.ranges[0].low, h.ranges[0].high) for h in space.hyperparameters}
        inside = {name: float(np.clip(value, *ends[name])) for name, value in values.items()}
        self.level(space.nearest(space.theta(inside)))
