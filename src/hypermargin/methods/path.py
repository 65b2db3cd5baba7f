"""Chu et al.'s path: the cost of a linear machine grows, and every fold starts where it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..adapters.base import Targets
from ..adapters.model import Model
from ..problems.linear.part import State
from .base import Curve, Method
from .objective import Objective, SearchEnded
from .walk import Walk, not_alone

PATH_TOL = 2e-3  # tolerance of training along the path, where a start is nearly good enough; but
TRUNCATED = {True: 1e-2, False: 1e-4}  # LIBLINEAR's own for its Newton method: classifiers, others
DELTA = 2.0  # the factor from one C to the next
CONSECUTIVE = 3  # solutions that did not change before the sweep stops


class CostPath(Method):
    """Algorithm 1 of Chu et al.: sweep the cost upwards, every fold warm from its last solution.

    It starts at the least cost of the space, by default that below which every row is inside its
    margin, eqs. (21) and (22), and stops when CONSECUTIVE solutions in a row already were good
    enough for the next cost, rule (24).
    """

    takes_first: ClassVar[bool] = True
    levels: ClassVar[int | None] = 1

    def obstacle(self, model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
        return not_alone(model, ranges)

    def search(self, objective: Objective) -> Curve | None:
        walk = Walk(objective)
        at, problem, tol = walk.low, walk.problem, PATH_TOL
        if problem.solver_of(0, path=True) == "truncated":
            tol = TRUNCATED[problem.loss.classifies]
            problem.release()  # the range of C was read off a matrix in single precision
        state: State = {}
        rows, unchanged = [], 0
        try:
            while unchanged < CONSECUTIVE:
                at = min(at, walk.high)
                visit = walk.visit(at, tol, state, path=True)
                found: Any = visit.evaluation
                if found is None:
                    break
                unchanged = unchanged + 1 if state and found.still else 0
                state = found.state
                failed = visit.error is not None
                rated = (np.nan, np.nan) if failed else walk.rated(found.outputs)
                rows.append((walk.value(at), *rated))
                if at == walk.high:
                    break
                at += float(np.log(DELTA))
        except SearchEnded:
            pass
        if not rows:
            return None
        return Curve(walk.name, *np.array(sorted(rows), dtype=float).T)
