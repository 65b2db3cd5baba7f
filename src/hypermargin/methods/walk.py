"""A walk along the cost of a linear machine, which a curve and a path have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.space import Params
from ..adapters.base import Targets
from ..adapters.model import Model
from ..problems.linear.part import State
from ..problems.linear.problem import LinearCrossValidation
from .objective import Objective, Visit

Place = float | np.ndarray  # the logarithm of the cost, or one for each machine


def not_alone(model: Model, ranges: Mapping[str, Any]) -> str | None:
    """Return why the cost is not all that is tuned of a linear model, if it is not."""
    strength = model.adapter.loss().hyperparameters[0]
    if model.adapter.linear and list(model.bare(ranges)) == [strength]:
        return None
    return f"is for linear models of which {strength} alone is tuned; use method='gradient'"


def no_common_range(model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
    """Return why machines do not share one range of costs, each having its own, if they do not."""
    given = model.bare(ranges)
    if not model.adapter.linear or list(given) != ["machine_cost"]:
        return not_alone(model, ranges)
    spec = given["machine_cost"]
    if isinstance(spec, Mapping):
        labels, specs = targets.labels("machine_cost", "machine"), list(spec.values())
        if set(spec) != set(labels.names) or any(one != specs[0] for one in specs):
            return "is for one range of all machine_cost; use method='gradient'"
    return None


class Walk:
    """A walk along the logarithm of the cost; the hyperparameter is C, or alpha = 1 / C.

    Where every machine has a cost of its own they walk together, and `at` may be one for each.
    """

    def __init__(self, objective: Objective):
        self.objective, self.rate = objective, objective.rate
        self.level = objective.on(None)
        (tuned,) = objective.space.hyperparameters
        self.name, self.n_costs = tuned.own, len(objective.space)
        self.dimension = dimension = objective.space.dimensions[0]
        problem = objective.prepared.problem
        assert isinstance(problem, LinearCrossValidation)
        self.problem = problem
        if not problem.loss.corners:  # then nothing is gained by a finer tolerance
            self.level.enough = np.inf
        self.sign = 1.0 if problem.loss.hyperparameters[0] == "C" else -1.0
        ends = self.sign * np.log([dimension.low, dimension.high])
        self.low, self.high = float(ends.min()), float(ends.max())
        usual = dimension.usual or (dimension.low, dimension.high)
        middle = self.sign * 0.5 * (np.log(usual[0]) + np.log(usual[1]))
        self.middle = float(np.clip(middle, self.low, self.high))
        self.states: dict[float, State] = {}

    def theta(self, at: Place) -> np.ndarray:
        """Return where that is in the space, which may be a linear one."""
        costs = np.broadcast_to(np.exp(self.sign * np.asarray(at)), self.n_costs)
        return np.array([self.dimension.to_scaled(float(cost)) for cost in costs])

    def value(self, at: Place) -> float:
        """Return the hyperparameter, or the first one."""
        return self.dimension.from_scaled(self.theta(at)[0])

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

    def visit(self, at: Place, tol: float, warm: State, gradient: Any = None, **how: Any) -> Visit:
        """Evaluate and record a place."""
        theta = self.theta(at)
        visit = self.level.visit(theta, tol, warm, gradient, **how)
        if visit.evaluation is not None:
            self.level.ends[theta.tobytes()] = visit.evaluation.state
        return visit

    def gradient(
        self, at: Place, rates: Sequence[np.ndarray], delta: Sequence[np.ndarray]
    ) -> Params:
        """Return the gradient by the hyperparameters, where outputs move at these rates."""
        params = self.objective.space.params(self.theta(at))
        slopes = sum((d * r).sum(axis=0) for d, r in zip(delta, rates, strict=True))
        slopes = slopes if self.n_costs > 1 else slopes.sum()
        return {self.name: self.sign * slopes / params[self.name]}

    def rated(self, outputs: list[np.ndarray]) -> tuple[float, float]:
        """Return the score of outputs and its standard error, or minus the smooth loss."""
        return (
            (-self.objective.loss(outputs)[0], np.nan) if self.rate is None else self.rate(outputs)
        )
