"""Stochastic steps of C, which Jiang and Siddiqui's method and the one before it have in common.

The machines of all folds and C move in turn.  In every iteration each machine does a little work,
and tells how its weights move with C.  One validation row of each fold that is inside its margin is
drawn; their mean estimates the derivative of the validation hinge loss by C, of which only the sign
counts: the t-th step of C has the length 1 / (t sqrt(p)), p being the number of features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from .._core.compiled import compiled
from .._core.warn import warn
from ..adapters.base import Targets
from ..adapters.model import Model
from ..losses.base import Rows
from ..losses.classification import Hinge
from ..problems.linear.problem import LinearCrossValidation
from .arguments import check_positive, check_whole
from .base import Curve, Method
from .objective import Objective, SearchEnded
from .walk import Walk, not_alone

MACHINE_TOL = 1e-2  # of the machines that are evaluated on the way: LIBLINEAR's own
RECORDED = 24  # points that are evaluated on the way, at most
MOST_SGD_STEPS = 2000  # iterations, where they go on until C stays
FEWEST_STEPS = 32  # iterations before C is said to stay
STAYS = 0.1  # relative change of C over the last half of the iterations


class Sheet(NamedTuple):
    """Rows of a dense matrix one after the other, or of a CSR one, and the bias's constant."""

    values: np.ndarray
    indices: np.ndarray
    starts: np.ndarray  # empty if dense
    width: int
    bias: float
    lengths: np.ndarray  # the squares of them, the constant included

    @classmethod
    def of(cls, X: Any, bias: float) -> Sheet:
        if sparse.issparse(X):
            parts = X.data, X.indices, X.indptr.astype(np.int64)
        else:
            none = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
            parts = np.ascontiguousarray(X).ravel(), *none
        sheet = cls(*parts, X.shape[1], bias, np.empty(X.shape[0]))
        set_lengths(sheet, np.zeros(X.shape[1] + 1))
        return sheet


@compiled(fastmath=True)
def row_dot(sheet, i, w):
    """Return the product of a row, with the constant at its end, and w."""
    total = sheet.bias * w[sheet.width]
    if sheet.starts.shape[0]:
        for p in range(sheet.starts[i], sheet.starts[i + 1]):
            total += sheet.values[p] * w[sheet.indices[p]]
    else:
        row = sheet.values[i * sheet.width : (i + 1) * sheet.width]
        for j in range(sheet.width):
            total += row[j] * w[j]
    return total


@compiled(fastmath=True)
def add_row(sheet, i, factor, w):
    """Add factor times a row to w."""
    w[sheet.width] += factor * sheet.bias
    if sheet.starts.shape[0]:
        for p in range(sheet.starts[i], sheet.starts[i + 1]):
            w[sheet.indices[p]] += factor * sheet.values[p]
    else:
        row = sheet.values[i * sheet.width : (i + 1) * sheet.width]
        for j in range(sheet.width):
            w[j] += factor * row[j]


@compiled
def set_lengths(sheet, scratch):
    """Find the lengths of all rows; scratch is all zero."""
    for i in range(sheet.lengths.shape[0]):
        add_row(sheet, i, 1.0, scratch)
        sheet.lengths[i] = row_dot(sheet, i, scratch)
        add_row(sheet, i, -1.0, scratch)


@compiled
def row_dots(sheet, rows, w, out):
    for k in range(rows.shape[0]):
        out[k] = row_dot(sheet, rows[k], w)


class Machine:
    """A machine of one fold and column on its way: weights, and how they move with C.

    `cost` is that of the rows at C = 1, zero for those that are not trained on, `margin` what they
    are to keep; `test` are the rows to validate on, `chance` says how likely they are drawn.
    """

    moving: ClassVar[tuple[str, ...]] = ("weights", "slope", "outputs")

    def __init__(
        self, sheet: Sheet, sign: np.ndarray, cost: np.ndarray, margin: np.ndarray,
        test: np.ndarray, chance: np.ndarray,
    ):  # fmt: skip
        self.sheet, self.sign, self.cost, self.margin = sheet, sign, cost, margin
        self.test, self.chance = test, chance
        self.weights, self.slope = np.zeros((2, sheet.width + 1))
        self.outputs = np.zeros(len(test))
        self.trained = np.flatnonzero(cost > 0.0)
        self.rng = np.random.RandomState(0)

    def begin(self, rng: np.random.RandomState) -> None:
        """Take what decides the draws; machines that work side by side have one each."""
        self.rng = np.random.RandomState(rng.randint(np.iinfo(np.int32).max))

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes on the way."""
        of_machine = {name: getattr(self, name) for name in self.moving}
        return {**of_machine, "draws": self.rng.get_state()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to where a snapshot was taken."""
        for name in self.moving:
            setattr(self, name, snapshot[name])
        self.rng.set_state(snapshot["draws"])

    def work(self, C: float, t: int) -> None:
        """Go on in the t-th iteration."""
        raise NotImplementedError

    def validate(self) -> None:
        row_dots(self.sheet, self.test, self.weights, self.outputs)

    def derivative(self, draws: bool) -> float:
        """Return that of the hinge loss by C, of one validation row inside its margin or of all."""
        inside = np.flatnonzero((self.sign[self.test] * self.outputs < 1.0) & (self.chance > 0.0))
        if not len(inside):
            return 0.0
        chance = self.chance[inside]
        if draws:
            drawn = np.searchsorted(np.cumsum(chance), self.rng.uniform(high=chance.sum()), "right")
            inside = inside[[min(int(drawn), len(inside) - 1)]]
            chance = np.ones(1)
        rows, moves = self.test[inside], np.empty(len(inside))
        row_dots(self.sheet, rows, self.slope, moves)
        return -float(np.sum(chance * self.sign[rows] * moves))


class Step(NamedTuple):
    """What is told of an iteration: its number, C, and outputs of the machines as they are.

    Outputs are those of the validation rows, one array (rows, columns) per fold.
    """

    iteration: int
    C: float
    outputs: list[np.ndarray]


def not_hinge(model: Model, ranges: Mapping[str, Any]) -> str | None:
    """Return why this is no linear model with the hinge loss of which C alone is tuned, if not."""
    if (
        model.adapter.linear
        and type(model.adapter.loss()) is Hinge
        and not not_alone(model, ranges)
    ):
        return None
    return "is for linear models with loss='hinge' of which C alone is tuned; use method='auto'"


@dataclass(frozen=True)
class StochasticSteps(Method):
    """Let machines and C move in turn; evaluate some of the C on the way, and the last one.

    Parameters
    ----------
    iterations : int, optional
        How many; None goes on until C stays where it is.
    step : float
        Factor on the steps of C.
    watch : callable, optional
        Is called with a `Step` after every iteration.
    """

    levels: ClassVar[int | None] = 1
    iterations: int | None = 150
    step: float = 1.0
    watch: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        check_whole("iterations", self.iterations)
        check_positive("step", self.step)
        if self.watch is not None and not callable(self.watch):
            raise ValueError(f"watch={self.watch!r} must be a function of a Step, or None.")

    @property
    def draws(self) -> bool:
        """Whether one validation row of a fold stands for all of them."""
        return True

    def machine(self, *of: Any) -> Machine:
        """Return a machine that works as the method has it."""
        raise NotImplementedError

    def moved(self, C: float, up: float, t: int, n_features: int) -> float:
        """Return C after the t-th step, `up` being 1, -1 or 0."""
        return C + up * self.step / (t * np.sqrt(n_features))

    def chosen(self, past: list[float]) -> float:
        """Return the C that the iterations have led to."""
        return past[-1]

    def obstacle(self, model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
        return not_hinge(model, ranges)

    def search(self, objective: Objective) -> Curve | None:
        walk = Walk(objective)
        warm: Any = {}
        places = recorded(self.iterations or MOST_SGD_STEPS, objective.max_evals)
        run = Run(self, objective, walk)
        while not run.ended():
            run.go_on(places)
            if run.t in places:
                warm = run.evaluate(warm)
        if run.diverged:
            run.warn(f"diverged in iteration {run.t}")
        run.C = self.chosen(run.past)
        run.evaluate(warm)
        if run.swings():
            run.warn("go from one end of the range of C to the other")
        return None


def recorded(iterations: int, max_evals: float) -> set[int]:
    """Return the iterations whose C is evaluated; one evaluation is left for the last C."""
    number = int(min(RECORDED, max_evals - 1))
    return set(np.geomspace(1, iterations, number + 1)[:-1].round().astype(int).tolist())


class Run:
    """The machines of all folds, and C, of one search."""

    def __init__(self, method: StochasticSteps, objective: Objective, walk: Walk):
        self.method, self.objective, self.walk = method, objective, walk
        self.low, self.high = np.exp([walk.low, walk.high])
        self.C, self.t, self.diverged = float(self.low), 0, False
        self.past = [self.C]
        self.home: dict[tuple[int, int], Machine] = {}
        for number in range(len(walk.problem.designs)):
            self._add_machines(walk.problem, number)
        self.machines = list(self.home.values())
        for machine in self.machines:
            machine.begin(objective.rng)

    def _add_machines(self, problem: LinearCrossValidation, number: int) -> None:
        """Add the machines of a design."""
        design = problem.designs[number]
        sheet, rows = Sheet.of(design.points, problem.intercept), design.rows
        place = np.full(self.objective.prepared.n_rows, -1)
        place[rows] = np.arange(len(rows))
        params = {**problem.values, **design.fixed, "C": 1.0}
        for c, column in enumerate(problem.columns):
            sign, parts = column.target[rows], {k: v[rows] for k, v in column.parts.items()}
            for f in design.folds:
                fold = problem.folds[f]
                if not fold.trains(column):
                    continue
                weight = fold.of_column(column)[rows].astype(float)
                dual = problem.loss.dual(Rows(sign, weight, parts), params)
                self.home[f, c] = self.method.machine(
                    sheet, sign, dual.upper - dual.lower, np.abs(dual.target),
                    place[fold.test], self.objective.weight[fold.test],
                )  # fmt: skip

    def ended(self) -> bool:
        """Whether all iterations are done, C stays, or there is no more time."""
        if self.objective.budget.expired():
            raise SearchEnded
        if self.diverged:
            return True
        if self.method.iterations is not None:
            return self.t >= self.method.iterations
        late = np.array(self.past[self.t // 2 :])
        stays = self.t >= FEWEST_STEPS and np.abs(late - self.C).max() <= STAYS * self.C
        return stays or self.t >= MOST_SGD_STEPS

    def go_on(self, places: set[int]) -> None:
        """Iterate until the next place where C is evaluated, or take it from the memory."""

        def iterate() -> dict[str, Any]:
            self.iterate()
            while not self.ended() and self.t not in places:
                self.iterate()
            machines = [machine.snapshot() for machine in self.machines]
            return {"t": self.t, "past": self.past, "gone": self.diverged, "machines": machines}

        if self.method.watch is not None:  # is to see every step
            iterate()
            return
        until = min((place for place in places if place > self.t), default=None)
        found = self.objective.memory.once(f"iterations {self.t} to {until}", iterate)
        self.t, self.past, self.diverged = found["t"], found["past"], found["gone"]
        self.C = self.past[-1]
        for machine, snapshot in zip(self.machines, found["machines"], strict=True):
            machine.restore(snapshot)

    def iterate(self) -> None:
        """Let every machine work, then make a step of C."""
        self.t += 1
        objective, problem = self.objective, self.walk.problem
        method, n_features = self.method, max(self.machines[0].sheet.width, 1)

        def work(machine: Machine) -> float:
            machine.work(self.C, self.t)
            machine.validate()
            return machine.derivative(method.draws)

        slopes = problem.workers.map(work, self.machines, objective.budget)
        outputs = [float(np.abs(machine.outputs).max(initial=0.0)) for machine in self.machines]
        if not np.isfinite([*slopes, *outputs]).all():
            self.diverged = True
            return
        if method.watch is not None:
            method.watch(Step(self.t, self.C, self._outputs()))
        up = -float(np.sign(np.mean(slopes)))
        with np.errstate(over="ignore"):  # steps may be as long as one likes
            moved = method.moved(self.C, up, self.t, n_features)
        self.C = float(np.clip(moved, self.low, self.high))
        self.past.append(self.C)

    def swings(self) -> bool:
        """Whether C was at both ends of its range in the last half of the iterations."""
        late = self.past[len(self.past) // 2 :]
        return self.low in late and self.high in late

    def warn(self, what: str) -> None:
        warn(
            f"The steps of {self.method!r} {what}; the best point so far is returned, and shorter "
            "steps may do better.",
            ConvergenceWarning,
        )

    def _outputs(self) -> list[np.ndarray]:
        folds, n_columns = self.walk.problem.folds, len(self.walk.problem.columns)
        found = [np.zeros((len(fold.test), n_columns)) for fold in folds]
        for (f, c), machine in self.home.items():
            found[f][:, c] = machine.outputs
        return found

    def evaluate(self, warm: Any) -> Any:
        """Evaluate and record the present C; return where machines ended."""
        visit = self.walk.visit(float(np.log(self.C)), MACHINE_TOL, warm)
        return warm if visit.evaluation is None else visit.evaluation.state
