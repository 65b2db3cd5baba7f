"""Moore et al.'s PBP: hyperparameters and the weights of all folds move together.

Machines need not be trained: the squares of their gradients, eq. (29), are added to the outer loss
with a penalty, eq. (44), which is doubled until they are next to nothing (Algorithm 2).  For each
penalty the gradients are linearised, eq. (45), and the least-squares problem that this makes is
solved, as near to the last point as it takes for the outer loss to follow (Algorithm 3).

Gradients are in units of those where nothing is learnt, moves of hyperparameters in units of the
space, and moves of weights by what they do to outputs, so that no constant has a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import lsq_linear

from .._core.budget import one_blas_thread
from .._core.space import LabelledArray
from ..adapters.base import Targets
from ..adapters.model import Model
from ..problems.linear.part import Job, Start
from ..problems.linear.problem import FINISH, LinearCrossValidation
from ..problems.linear.systems import FEW_FEATURES
from ..problems.linear.tangent import Coordinate, Machines, Place, Tangent, Untrained
from .arguments import check_flag
from .base import Curve, Method
from .gradient import Descent, nested_rows
from .least_squares import Block, Step, solve
from .objective import Objective, SearchEnded

ZETA = 1e-3  # gradients of machines that are trained, in units of those where nothing is learnt
GAIN_AT_FIRST = 0.01  # of the loss, that weights of folds may gain at first by not being trained
RHO = 0.1  # the least share of what was promised that a step must gain
PART_OF_TOL = 0.2  # of the tolerance of a search: Moore et al.'s own if that is the usual one
PROXIMITY = 1e-2  # proximity to begin with; to try again nearer costs little
ASTRAY = 0.1  # of the loss of trained machines, that no weights are to gain by not being trained
RECENT_STEPS = 10  # that are to gain the tolerance together, or else are the last of a penalty
DOUBLINGS = 50  # most of a penalty; beyond that there is nothing but rounding
STEEPER = 16.0  # factor on penalties that let them
AFAR = 0.3  # moves of hyperparameters that are worth an evaluation, in units of the space
NUDGE = 1e-4  # by how much outputs are moved to see the curvature of the outer loss


class Penalty(Method):
    """Algorithms 2 and 3 of Moore et al.

    Steps are in logarithms of hyperparameters, or with ``logarithms=False`` in them as they are.

    Parameters
    ----------
    logarithms : bool
        Which of the two.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import Penalty
    >>> search = GradientSearchCV(Ridge(), method=Penalty(), random_state=0)
    >>> bool(search.fit(*load_diabetes(return_X_y=True)).best_score_ > 0.47)
    True
    """

    constrained: ClassVar[bool] = True

    def __init__(self, logarithms: bool = True):
        check_flag("logarithms", logarithms)
        self.logarithms = logarithms

    def obstacle(self, model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
        adapter: Any = model.adapter
        if not adapter.linear or adapter.loss().corners or adapter.couples(targets):
            return (
                "is for linear models of losses without corners, one machine at a time; "
                "use method='gradient'"
            )
        if "threshold" in model.bare(ranges):
            return "has no threshold; use method='gradient'"
        return None

    def search(self, objective: Objective) -> Curve | None:
        if not len(objective.space):
            objective(np.empty(0))
            return None
        width = objective.prepared.problem.designs[0].points.shape[1]
        if width > FEW_FEATURES:
            raise ValueError(
                f"method='penalty' is for {FEW_FEATURES} features at most, and X has {width}; "
                "use method='gradient'."
            )
        bilevel = Bilevel(objective, self.logarithms)
        with one_blas_thread():
            for point in bilevel.begin(self.starts(objective)):
                bilevel.descend(point)
        return None

    def starts(self, objective: Objective) -> list[np.ndarray]:
        """Return where to begin: what looks best on few rows, and if there are few all that does.

        These are the places that the gradient method begins at.
        """
        gradient = Descent()
        rows = nested_rows(objective.prepared, gradient.schedule, objective.rng)
        several = len(rows) > 1
        found = gradient.look(objective.on(rows[0], leans=several), several)
        return found[:1] if several else found


class Point(NamedTuple):
    """Hyperparameters and weights, with all that is known of them."""

    theta: np.ndarray
    weights: Machines
    place: Place
    loss: float
    delta: list[np.ndarray]


class Slope(NamedTuple):
    """What is known of the objective (44) around a point: blocks of (45), and the length (46)."""

    blocks: list[Block]
    length: float


@dataclass(frozen=True)
class Penalties:
    """The penalty of every machine's gradient."""

    of: dict[Job, float]

    def times(self, factor: float) -> Penalties:
        return Penalties({job: factor * b for job, b in self.of.items()})

    def value(self, point: Point) -> float:
        """Return the objective (44)."""
        gradients = point.place.gradients.items()
        return point.loss + sum(self.of[job] * float(r @ r) for job, r in gradients)


class Bilevel:
    """The bilevel problem of a search, and its descent."""

    def __init__(self, objective: Objective, logarithms: bool = True):
        problem = objective.prepared.problem
        assert isinstance(problem, LinearCrossValidation)
        self.objective, self.problem, self.space = objective, problem, objective.space
        self.level = objective.on(None)
        self.tol = PART_OF_TOL * objective.tol
        self.untrained = Untrained(problem, coordinates(objective))
        self.is_log = np.array([d.scale == "log" for d in self.space.dimensions])
        self.curved = self.is_log & (not logarithms)
        self.state: dict[Job, Start] = {}
        self.latest: np.ndarray | None = None

    def begin(self, starts: Sequence[np.ndarray]) -> list[Point]:
        """Train machines where descents are to begin, and return the best place first."""
        points = [self.trained(start) for start in starts if self.evaluate(start) is not None]
        return sorted(points, key=lambda point: point.loss)

    def descend(self, point: Point) -> None:
        """Algorithm 2: double the penalty until machines are trained."""
        if point.loss == 0.0:  # every row fits: nothing is left to gain
            return
        penalties = self.first(point)
        for _ in range(DOUBLINGS):
            point, astray = self.approach(point, penalties)
            if astray:
                point, penalties = self.trained(point.theta), penalties.times(STEEPER)
            elif point.loss == 0.0 or self.is_trained(point, penalties):
                break
            else:
                penalties = penalties.times(2.0)
        self.evaluate(point.theta, 0.0)

    def is_trained(self, point: Point, penalties: Penalties) -> bool:
        """Whether gradients are next to nothing, and so is what weights gain by having them.

        The first alone, which is the paper's, says little where costs are large: gradients are
        compared with those where nothing is learnt, which grow with costs.
        """
        if self.longest(point) > ZETA:
            return False
        blocks = self.slope(point, penalties, penalties.value(point)).blocks
        return sum(abs(block.untrained()) for block in blocks) <= self.tol * point.loss

    def approach(self, point: Point, penalties: Penalties) -> tuple[Point, bool]:
        """Algorithm 3: steps by approximations that are ever nearer where they promise too much.

        Also returned is whether weights have left what the trained machines are: where the outer
        loss is not convex, small penalties may lead them far away.
        """
        tau, value = PROXIMITY, penalties.value(point)
        values = [value]
        while value > 0.0:  # none where every row fits to the last bit
            if len(values) > RECENT_STEPS and values[-RECENT_STEPS - 1] - value < self.tol * value:
                return point, False
            slope = self.slope(point, penalties, value)
            if slope.length < self.tol * value:
                return point, False
            while True:
                if self.objective.budget.expired():
                    raise SearchEnded
                step = solve(slope.blocks, tau, value, *self.room(point.theta))
                if self.is_small(step, slope, value):
                    return point, False
                trial = self.stepped(point, step)
                reached = penalties.value(trial)
                if reached - value < RHO * step.change:  # eq. (38)
                    break
                tau *= 2.0
            point, value = trial, reached
            values.append(value)
            of_trained = self.evaluate(point.theta)
            if of_trained is not None and point.loss < (1.0 - ASTRAY) * of_trained:
                return point, True
            tau /= np.sqrt(2.0)
        return point, False

    def trained(self, theta: np.ndarray) -> Point:
        """Return a point with the weights of the machines that were trained last."""
        weights = {job: end.weights.astype(float) for job, end in self.state.items() if job[0] >= 0}
        return self.at(theta, weights)

    def at(self, theta: np.ndarray, weights: Machines) -> Point:
        """Return the outer loss and the gradients of machines at a point."""
        place = self.untrained.at(self.space.params(theta), weights)
        loss, delta = self.objective.loss(self.outputs(place))
        return Point(theta, weights, place, loss, delta)

    def outputs(self, place: Place) -> list[np.ndarray]:
        threshold = self.problem.values.get("threshold", 0.0)
        return [part - threshold for part in place.outputs(len(self.problem.columns))]

    def reach(self, point: Point) -> dict[Job, float]:
        """Return the lengths of gradients where nothing is learnt."""
        found = self.untrained.reach(point.place.params)
        return {job: length or 1.0 for job, length in found.items()}

    def longest(self, point: Point) -> float:
        """Return the longest gradient of a machine, in units of those where nothing is learnt."""
        reach = self.reach(point)
        return max(
            float(np.linalg.norm(r)) / reach[job] for job, r in point.place.gradients.items()
        )

    def first(self, point: Point) -> Penalties:
        """Return the least penalties with which weights alone gain a small share of the loss."""
        reach = self.reach(point)
        worth = {job: point.loss / (len(reach) * length**2) for job, length in reach.items()}
        penalties = Penalties(worth)
        blocks = self.slope(point, penalties, point.loss).blocks
        while sum(block.gain() for block in blocks) > GAIN_AT_FIRST * point.loss:
            penalties = penalties.times(2.0)
            blocks = [replace(block, penalty=2.0 * block.penalty) for block in blocks]
        return penalties

    def evaluate(self, theta: np.ndarray, least: float = AFAR) -> float | None:
        """Train machines at hyperparameters, and record their loss.

        Not if they have moved by less than `least` since the last time: steps may be short.
        Machines start from those that were trained last, never from weights on the way: these know
        the rows that are left out, and would pass for trained.
        """
        if self.latest is not None and np.abs(theta - self.latest).max() <= least:
            return None
        self.latest = theta
        visit = self.level.visit(theta, FINISH * self.level.tol, self.state, None)
        if visit.evaluation is None or not np.isfinite(visit.value):
            return None
        self.state = visit.evaluation.state
        return visit.value

    def slope(self, point: Point, penalties: Penalties, value: float) -> Slope:
        """Return the approximation (45) with the shares of rows at corners that (46) finds."""
        moves = self.scale(point.theta)
        outputs, curvatures = self.outputs(point.place), self.curvatures(point)
        spread = float(np.var(np.concatenate(outputs))) or 1.0
        blocks, tangents = [], point.place.tangents()
        for job, tangent in tangents.items():
            f, c = job
            X, q = point.place.left_out(job), curvatures[f][:, c]
            unit = value * np.square(X).mean() / (spread * len(tangents))
            blocks.append(
                Block(
                    X.T @ point.delta[f][:, c], X.T @ (q[:, None] * X), tangent.gradient,
                    tangent.by_weights, tangent.by_hyperparameters * moves,
                    penalties.of[job], unit,
                )
            )  # fmt: skip
        found = list(tangents.values())
        shares, length = steepest(blocks, found, moves, self.active(point.theta), value)
        for k, (block, tangent, p) in enumerate(zip(blocks, found, shares, strict=True)):
            if len(p):
                bent = tangent.with_shares(p)
                blocks[k] = replace(
                    block,
                    by_weights=bent.by_weights,
                    by_hyperparameters=bent.by_hyperparameters * moves,
                )
        return Slope(blocks, length)

    def curvatures(self, point: Point) -> list[np.ndarray]:
        """Return the curvature of the outer loss by every output, by differences of its slope.

        Where it bends down it is taken to be straight: approximations are convex.
        """
        outputs = self.outputs(point.place)
        found = [np.zeros_like(part) for part in outputs]
        for c in range(len(self.problem.columns)):
            column = np.concatenate([part[:, c] for part in outputs])
            move = np.zeros(outputs[0].shape[1])
            move[c] = NUDGE * (float(np.std(column)) or 1.0)
            more, less = (
                self.objective.loss([part + sign * move for part in outputs])[1]
                for sign in (1.0, -1.0)
            )
            for part, a, b in zip(found, more, less, strict=True):
                part[:, c] = np.maximum((a[:, c] - b[:, c]) / (2.0 * move[c]), 0.0)
        return found

    def scale(self, theta: np.ndarray) -> np.ndarray:
        """Return the derivatives of hyperparameters by what steps are in."""
        units = np.array([d.unit for d in self.space.dimensions])
        return np.where(self.is_log, self.space.flat(self.space.params(theta)), units)

    def stepped(self, point: Point, step: Step) -> Point:
        dx = step.hyperparameters
        dx = np.where(self.curved, np.log1p(np.where(self.curved, dx, 0.0)), dx)
        theta = self.space.nearest(point.theta + dx)
        weights = {
            job: point.weights[job] + dw
            for job, dw in zip(point.place.gradients, step.weights, strict=True)
        }
        return self.at(theta, weights)

    def room(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the constraints G dx >= h of a step from a point: the bounds, and the user's.

        Those are linear in hyperparameters as they are; in logarithms they are linearised.
        """
        eye, (low, high) = np.eye(len(theta)), (self.space.bounds - theta[:, None]).T
        low = np.where(self.curved, np.expm1(low), low)
        high = np.where(self.curved, np.expm1(high), high)
        G, h = np.vstack([eye, -eye]), np.append(low, -high)
        if (region := self.space.region) is not None:
            slopes = region.slopes(theta)
            length = np.maximum(np.linalg.norm(slopes, axis=1), 1e-300)
            slopes, rows = slopes / length[:, None], region.rows(theta)
            below, above = np.isfinite(region.high), np.isfinite(region.low)
            G = np.vstack([G, -slopes[below], slopes[above]])
            over, under = (rows - region.high) / length, (region.low - rows) / length
            h = np.concatenate([h, over[below], under[above]])
        return G, np.minimum(h, 0.0)

    def active(self, theta: np.ndarray) -> np.ndarray:
        """Return the active constraints: rows of G that steps may not go against."""
        G, h = self.room(theta)
        return G[h > -1e-9]

    def is_small(self, step: Step, slope: Slope, value: float) -> bool:
        """Whether a step, in units of the objective, neither moves nor promises much."""
        moved = sum(b.unit * float(w @ w) for b, w in zip(slope.blocks, step.weights, strict=True))
        length = moved / value + float(step.hyperparameters @ step.hyperparameters)
        return length < self.tol**2 and -step.change < self.tol * value


def coordinates(objective: Objective) -> list[Coordinate]:
    """Return the hyperparameters of a search, and which entries of arrays they are."""
    found: list[Coordinate] = []
    for h in objective.space.hyperparameters:
        if isinstance(h, LabelledArray):
            found += [(h.own, int(k)) for k in h.chosen]
        else:
            found.append((h.own, None))
    return found


def steepest(
    blocks: list[Block],
    tangents: list[Tangent],
    moves: np.ndarray,
    active: np.ndarray,
    value: float,
) -> tuple[list[np.ndarray], float]:
    """Problem (46): the shares of rows at corners with the shortest gradient, and its length.

    Gradients have the units of the proximity; multipliers of active constraints take their part.
    """
    widths = np.cumsum([0, *(len(block.slope) for block in blocks)])
    corners = np.cumsum([0, *(len(t.corners) for t in tangents)])
    n, m = widths[-1] + len(moves), corners[-1]
    g, J, low = np.zeros(n), np.zeros((n, m + len(active))), np.zeros(m + len(active))
    for k, (block, tangent) in enumerate(zip(blocks, tangents, strict=True)):
        own, of = slice(widths[k], widths[k + 1]), slice(corners[k], corners[k + 1])
        r, root = 2.0 * block.penalty * block.residual, np.sqrt(block.unit)
        g[own] = (block.slope + block.by_weights @ r) / root
        g[widths[-1] :] += block.by_hyperparameters.T @ r / np.sqrt(value)
        at = tangent.corners
        pull = at.steep * (at.X @ r)
        J[own, of] = at.X.T * pull / root
        J[widths[-1] :, of] = (at.moves * moves).T * pull / np.sqrt(value)
    J[widths[-1] :, m:] = -active.T
    high = np.append(np.ones(m), np.full(len(active), np.inf))
    found = np.zeros(len(high))
    if len(found):
        found = lsq_linear(J, -g, bounds=(low, high), tol=1e-12).x
    shares = [found[corners[k] : corners[k + 1]] for k in range(len(blocks))]
    rest = g + J @ found
    return shares, float(rest @ rest)
