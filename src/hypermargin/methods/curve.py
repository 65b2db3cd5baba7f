"""The cost of a linear machine: its whole curve from a few places, or chu-2015's path.

Out-of-fold outputs and their derivatives by log C at a few values of C give, by cubic Hermite
interpolation, the outputs at every C in between, and so any score there: a curve instead of a
number.  Scores of linear machines are flat around the best C, where descending on them is
ill-posed; with the curve in hand, its best place is evaluated if it beats all that were.  Where
every class has a machine, each may have a cost of its own: every machine has its curve, so that the
smooth loss of all their costs can be minimised without training any of them.

`follow` is Algorithm 1 of chu-2015: C grows by a factor, every fold starts where it ended, and
the sweep stops when solutions no longer change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .._core.budget import Budget
from ..adapters.model import Model
from ..problems.base import Evaluation
from ..problems.linear.problem import LinearCrossValidation, LinearEvaluation, State
from .objective import Objective, SearchEnded, Visit, validation_loss

NODE = 1e-2  # tolerance of training on the way: LIBLINEAR's own
STRIDE = 4.0 * np.log(2.0)  # between places, in log C
FINE = 8  # points of the curve from one place to the next
FEW_ROWS = 1000  # below, places are everywhere in the space
SAME = 1e-4  # scores that differ by less are the same, relative to the best
STILL = 0.02  # change of outputs over a stride that is none
GROWING = 0.25  # change of outputs by log C, relative to their size, that is far from the end

OWN_STEPS = 20  # in minimising the loss of costs by machine; each costs a criterion

Rate = Callable[[list[np.ndarray]], tuple[float, float]]
Place = float | np.ndarray  # the logarithm of the cost, or one for each machine


@dataclass(frozen=True)
class Node:
    """A place on the curve: the logarithm of the cost, outputs and their derivatives by it."""

    at: float
    outputs: list[np.ndarray]
    rates: list[np.ndarray]
    score: float
    error: float

    @property
    def change(self) -> float:
        """How fast outputs change, relative to their size."""
        sums = [
            sum(float(np.abs(part).sum()) for part in parts) for parts in (self.rates, self.outputs)
        ]
        return sums[0] / max(sums[1], 1e-300)


@dataclass(frozen=True)
class Curve:
    """Score and its standard error over folds, by the value of the hyperparameter."""

    values: np.ndarray
    scores: np.ndarray
    errors: np.ndarray


def between(
    left: Node, right: Node, at: float, columns: Any = slice(None)
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return outputs between two places and their derivatives, by cubic Hermite interpolation."""
    h = right.at - left.at
    t = (at - left.at) / h
    values = (
        (1 + 2 * t) * (1 - t) ** 2,
        t * (1 - t) ** 2 * h,
        t * t * (3 - 2 * t),
        t * t * (t - 1) * h,
    )
    slopes = 6 * t * (t - 1) / h, (1 - t) * (1 - 3 * t), 6 * t * (1 - t) / h, t * (3 * t - 2)
    parts = [
        [part[:, columns] for part in of_fold]
        for of_fold in zip(left.outputs, left.rates, right.outputs, right.rates, strict=True)
    ]
    outputs, rates = (
        [sum(w * part for w, part in zip(weights, of_fold, strict=True)) for of_fold in parts]
        for weights in (values, slopes)
    )
    return outputs, rates  # type: ignore[return-value]


def walks(model: Model, names: Sequence[str], n_machines: int) -> bool:
    """Whether a curve tunes these hyperparameters of a model: the cost, or those of all machines.

    These are to have the same range.
    """
    if not model.adapter.linear:
        return False
    own = [f"machine_cost[{k}]" for k in range(n_machines)]
    return list(names) in ([model.adapter.loss(model.machine).hyperparameters[0]], own)


class _Walk:
    """A walk along the logarithm of the cost; the hyperparameter is C, or alpha = 1 / C.

    Where every machine has a cost of its own they walk together, and `at` may be one for each.
    """

    def __init__(self, objective: Objective, rate: Rate | None):
        self.objective, self.rate = objective, rate
        self.names = objective.space.names
        self.dimension = dimension = objective.space.dimensions[self.names[0]]
        problem = objective.prepared.problem
        assert isinstance(problem, LinearCrossValidation)
        self.problem = problem
        self.sign = 1.0 if problem.loss.hyperparameters[0] == "C" else -1.0
        ends = self.sign * np.log([dimension.low, dimension.high])
        self.low, self.high = float(ends.min()), float(ends.max())
        usual = dimension.usual or (dimension.low, dimension.high)
        middle = self.sign * 0.5 * (np.log(usual[0]) + np.log(usual[1]))
        self.middle = float(np.clip(middle, self.low, self.high))
        self.states: dict[float, State] = {}

    def places(self) -> list[float]:
        """Return where to begin: around the usual cost, or on few rows everywhere.

        There the curve is rough, and evaluations cost next to nothing.
        """
        if self.objective.prepared.n_rows >= FEW_ROWS:
            first = max(self.low, self.middle - STRIDE)
            return [first, min(self.high, first + STRIDE)]
        number = max(1, int(np.ceil((self.high - self.low) / STRIDE - 1e-9)))
        # the search may be cut short: from the middle outwards
        return sorted(
            np.linspace(self.low, self.high, number + 1).tolist(),
            key=lambda at: abs(at - self.middle),
        )

    def theta(self, at: Place) -> np.ndarray:
        """Return where that is in the space, which may be a linear one."""
        costs = np.broadcast_to(np.exp(self.sign * np.asarray(at)), len(self.names))
        return np.array([self.dimension.to_scaled(float(cost)) for cost in costs])

    def params(self, at: Place) -> dict[str, float]:
        return self.objective.space.params(self.theta(at))

    def warm(self, at: Place) -> State:
        """Return where every machine is to start: at the nearest place that it was at."""
        found: State = {}
        for column, place in enumerate(np.broadcast_to(at, len(self.problem.columns))):
            near = min(self.states, key=lambda other: abs(other - place), default=None)
            if near is None:
                return {}
            for job, start in self.states[near].items():
                if job[1] == column:
                    # towards less cost the derivative leads astray
                    found[job] = start if near <= place else replace(start, rate=None)
        return found

    def evaluate(
        self, at: Place, tol: float, warm: State | None, path: bool = False
    ) -> LinearEvaluation:
        objective = self.objective
        if objective.over():
            raise SearchEnded
        objective.evaluations_on_all += 1
        params = objective.prepared.model.bare(self.params(at))
        return self._finished(params, tol, warm, objective.budget, path)

    def _finished(
        self, params: dict[str, float], tol: float, warm: State | None, budget: Budget, path: bool
    ) -> LinearEvaluation:
        """Evaluate a point; what the clock cuts short has a value that no model has."""
        found = self.problem.evaluate(params, tol=tol, warm=warm, budget=budget, path=path)
        if not found.converged and budget.expired():
            raise SearchEnded
        return found

    def node(self, at: Place, tol: float) -> Node:
        """Evaluate a place, warm from the nearest one, and record it."""
        clock = time.perf_counter()
        evaluation = self.evaluate(at, tol, self.warm(at))
        rates, state = evaluation.rates()
        if np.ndim(at) == 0:
            self.states[float(at)] = state
        visit = self.visit(at, tol, evaluation, rates, clock)
        self.objective.record(visit)
        if visit.error is not None:
            return Node(float(np.mean(at)), evaluation.outputs, rates, np.nan, np.nan)
        score, error = self.rated(evaluation.outputs)
        if np.isnan(score) and len(self.states) < 2:  # it is undefined here; the loss may not be
            self.rate = None
            score, error = self.rated(evaluation.outputs)
        return Node(float(np.mean(at)), evaluation.outputs, rates, score, error)

    def visit(
        self,
        at: Place,
        tol: float,
        evaluation: LinearEvaluation,
        rates: Sequence[np.ndarray] | None,
        clock: float,
    ) -> Visit:
        objective, params = self.objective, self.params(at)
        value, delta = self.loss(evaluation)
        if not np.isfinite(value):
            failure = FloatingPointError(f"the validation loss is {value} at {params}.")
            return Visit(
                self.theta(at), params, np.nan, None, None, objective.prepared.n_rows,
                time.perf_counter() - clock, False, tol, None, failure,
            )  # fmt: skip
        gradient = None
        if rates is not None:
            slopes = sum((d * r).sum(axis=0) for d, r in zip(delta, rates, strict=True))
            slopes = slopes if len(self.names) > 1 else [slopes.sum()]
            pairs = zip(self.names, slopes, strict=True)
            gradient = {name: self.sign * float(slope) / params[name] for name, slope in pairs}
        again = None
        # without corners nothing is gained by a finer tolerance
        if tol > objective.tol and self.problem.loss.corners:
            again = partial(self.settle, at, evaluation.state, gradient)
        return Visit(
            self.theta(at), params, value, gradient, evaluation,
            objective.prepared.n_rows, time.perf_counter() - clock, False, tol, again,
        )  # fmt: skip

    def settle(self, at: Place, state: State, gradient: Any, budget: Budget) -> Visit:
        """Evaluate a place at the final tolerance; its gradient is good enough as it is."""
        clock, objective = time.perf_counter(), self.objective
        params, tol = objective.prepared.model.bare(self.params(at)), objective.tol
        evaluation = self._finished(params, tol, state, budget, False)
        return replace(self.visit(at, tol, evaluation, None, clock), gradient=gradient)

    def loss(self, evaluation: Evaluation) -> tuple[float, list[np.ndarray]]:
        o = self.objective
        return validation_loss(evaluation, o.criterion, o.prepared, o.weight, o.pooled)

    def rated(self, outputs: list[np.ndarray]) -> tuple[float, float]:
        """Return the score of outputs and its standard error, or minus the smooth loss."""
        if self.rate is not None:
            return self.rate(outputs)
        return -self.loss(self.evaluated(outputs))[0], np.nan

    def evaluated(self, outputs: list[np.ndarray]) -> Evaluation:
        """Return outputs in the form that criteria read."""
        tests = [test for _, test in self.objective.prepared.splits]
        return Evaluation(outputs, tests, lambda delta: {}, lambda f, at: at, None, True)


def trace(objective: Objective, rate: Rate | None) -> Curve | None:
    """Evaluate a few places, choose on the curve between them, and evaluate the chosen place.

    `rate` gives the score of outputs, greater being better, and its standard error; None stands
    for minus the smooth loss.
    """
    walk = _Walk(objective, rate)
    nodes: dict[float, Node] = {}
    curve = None
    most = max(2, objective.max_evals - 1)  # one is left for the place that is chosen
    try:
        for at in walk.places():
            if len(nodes) < most:
                nodes[at] = walk.node(at, NODE)
        while len(nodes) < most and (beyond := _next(walk, nodes)) is not None:
            nodes[beyond] = walk.node(beyond, NODE)
    except SearchEnded:
        pass
    if len(nodes) > 1 and not all(np.isnan(node.score) for node in nodes.values()):
        places, curve = _curve(walk, [nodes[at] for at in sorted(nodes)])
        try:
            known = np.nanmax([node.score for node in nodes.values()])
            top = int(np.nanargmax(curve.scores))
            if not known >= _as_good(curve.scores):  # else a place that was evaluated will do
                walk.node(places[top], NODE)
            if len(walk.names) > 1 and not objective.over():
                walk.node(_own_costs(walk, [nodes[at] for at in sorted(nodes)], places[top]), NODE)
        except SearchEnded:
            pass
        if walk.sign < 0:
            curve = Curve(curve.values[::-1], curve.scores[::-1], curve.errors[::-1])
    return curve


def _next(walk: _Walk, nodes: dict[float, Node]) -> float | None:
    """Return where to look next: beyond the end that is best, if that may be better still."""
    order = sorted(nodes)
    if len(order) < 2:
        return None
    scores = np.array([nodes[at].score for at in order])
    if np.isnan(scores).all():
        return None
    margin = SAME * max(float(np.nanmax(np.abs(scores))), 1e-300)
    first, last = nodes[order[0]], nodes[order[-1]]
    best = float(np.nanmax(scores))
    if last.at < walk.high and last.score >= best - margin:
        rises = last.score > scores[-2] + margin
        if (rises and last.change * STRIDE > STILL) or last.change > GROWING:
            return min(walk.high, last.at + STRIDE)
    if first.at > walk.low and first.score >= best - margin and first.score > scores[1] + margin:
        return max(walk.low, first.at - STRIDE)
    return None


def _curve(walk: _Walk, nodes: Sequence[Node]) -> tuple[list[float], Curve]:
    """Return the places of the curve by cost, and the curve itself."""
    places, rows = [], []
    for left, right in pairwise(nodes):
        for at in np.linspace(left.at, right.at, FINE, endpoint=False):
            places.append(float(at))
            if at == left.at:
                rows.append((left.score, left.error))
                continue
            outputs, _ = between(left, right, float(at))
            rows.append(walk.rated(outputs))
    places.append(nodes[-1].at)
    rows.append((nodes[-1].score, nodes[-1].error))
    scores, errors = np.array(rows, dtype=float).T
    values = np.array([walk.params(at)[walk.names[0]] for at in places])
    return places, Curve(values, scores, errors)


def _own_costs(walk: _Walk, nodes: Sequence[Node], start: float) -> np.ndarray:
    """Return a cost for each machine: those with the least smooth loss on the curves of all."""
    ends = np.array([node.at for node in nodes])

    def value_and_grad(at: np.ndarray) -> tuple[float, np.ndarray]:
        if walk.objective.over():
            raise SearchEnded
        left = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(ends) - 2)
        found = [
            between(nodes[k], nodes[k + 1], float(place), [column])
            for column, (k, place) in enumerate(zip(left, at, strict=True))
        ]
        outputs, rates = (
            [np.hstack(of_fold) for of_fold in zip(*parts, strict=True)]
            for parts in zip(*found, strict=True)
        )
        value, delta = walk.loss(walk.evaluated(outputs))
        return value, sum((d * r).sum(axis=0) for d, r in zip(delta, rates, strict=True))

    first, bounds = np.full(len(walk.names), start), [(ends[0], ends[-1])] * len(walk.names)
    options = {"maxiter": OWN_STEPS}
    return minimize(value_and_grad, first, jac=True, bounds=bounds, options=options).x


def _as_good(scores: np.ndarray) -> float:
    """Return from which score on a place is as good as the best."""
    best = float(np.nanmax(scores))
    return best - SAME * abs(best)


STEP = 2e-3  # tolerance of training along the path, where a start is nearly good enough; but
TRUNCATED = {True: 1e-2, False: 1e-4}  # LIBLINEAR's own for its Newton method: classifiers, others
DELTA = 2.0  # the factor from one C to the next
CONSECUTIVE = 3  # solutions that did not change before the sweep stops


def follow(objective: Objective, rate: Rate | None) -> Curve | None:
    """Algorithm 1 of chu-2015: sweep the cost upwards, every fold warm from its last solution.

    It starts at the least cost of the space, by default that below which every row is inside its
    margin, eqs. (21) and (22), and stops when CONSECUTIVE solutions in a row already were good
    enough for the next cost, rule (24).
    """
    walk = _Walk(objective, rate)
    at, problem = walk.low, walk.problem
    tol = STEP
    if problem.truncates:
        tol = TRUNCATED[problem.loss.classifies]
        problem.release()  # the range of C was read off a matrix in single precision
    state: State | None = None
    rows, unchanged = [], 0
    try:
        while unchanged < CONSECUTIVE:
            at, clock = min(at, walk.high), time.perf_counter()
            evaluation = walk.evaluate(at, tol, state, path=True)
            unchanged = unchanged + 1 if state is not None and evaluation.still else 0
            state = evaluation.state
            visit = walk.visit(at, tol, evaluation, None, clock)
            objective.record(visit)
            failed = visit.error is not None
            rated = (np.nan, np.nan) if failed else walk.rated(evaluation.outputs)
            rows.append((walk.params(at)[walk.names[0]], *rated))
            if at == walk.high:
                break
            at += float(np.log(DELTA))
    except SearchEnded:
        pass
    if not rows:
        return None
    values, scores, errors = np.array(sorted(rows), dtype=float).T
    return Curve(values, scores, errors)
