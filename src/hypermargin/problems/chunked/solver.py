"""Newton's method for machines whose rows are in many places: the fewest passes over them.

The objective of a lane is  1/2 w' R w + sum_i weight_i loss_i(x_i' w),  R being one but for the
bias.  A pass brings values and gradients of all lanes, so a step is one pass: it is taken whole,
and the pass at its end tells whether that was right.

With few features the pass brings Hessians as well: X' D X of the rows that each fold leaves out,
whose sums without one of them are the Hessians of the folds, but for D, which is the mean of the
folds.  Folds of many rows differ in D by little, so that such a step leaves a hundredth of the
distance or less.  Where it does not, every fold has a Hessian of its own: as many bytes, and as
many times the multiplications as there are folds.
With many features Hessians are too much to add up and to send; steps are solved by conjugate
gradients then, each of which is a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._core.budget import Budget
from ..._core.space import Params
from ...criteria.sums import Moments
from ..conjugate import conjugate_gradients, dots
from ..linear.systems import factored
from . import passes
from .chunk import Machines
from .places import Places

OF_TOL = 1e-3  # how far weights may be off, in units of the tolerance of a search
ROUNDING = 1e-13  # part of the objective below which rounding may keep steps from getting shorter
MOST_LOOKS = 60
FRESH = 1e-4  # what a step with a new Hessian leaves of the promised gain, once it is near
SAVED = 20  # iterations of conjugate gradients that a Hessian saves
POOR = 3  # steps in a row that call for a Hessian of each fold
BY_CONJUGATES = 1e-2, 0.1  # accuracy of a step by conjugate gradients, near the end and far from it
TINY = np.finfo(float).tiny
UNCURVED = 1e-30  # penalty of a bias that has none, where all rows are certain
DESCENT = 1e-4  # part of the promised gain that a step is to have
# steps that are looked at where a whole one is too long
SIZES = 0.5 ** np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0])


Inverse = Callable[[np.ndarray], np.ndarray]


class Penalty:
    """R of the objective, by row of W: one for weights, and one or none for the bias."""

    def __init__(self, of_rows: np.ndarray):
        self.of_rows = of_rows

    def __len__(self) -> int:
        return len(self.of_rows)

    def times(self, W: np.ndarray) -> np.ndarray:
        """Return R W."""
        return self.of_rows[:, None] * W

    def masked(self, G: np.ndarray) -> np.ndarray:
        """Return G without what lanes do not have."""
        return G

    def inverse(self, H: np.ndarray, lane: int) -> Inverse:
        """Return the inverse of H + R in a lane."""
        return factored(H, self.of_rows + np.where(self.of_rows > 0, 0.0, UNCURVED))

    def diagonal(self) -> np.ndarray:
        """Return that of R, as a column."""
        return self.of_rows[:, None]


class KernelPenalty(Penalty):
    """R = Q, and `own` are the coefficients that each lane has."""

    def __init__(self, Q: np.ndarray, own: np.ndarray):
        self.Q, self.own = Q, own

    def __len__(self) -> int:
        return len(self.Q)

    def times(self, W: np.ndarray) -> np.ndarray:
        return self.own * (self.Q @ W)

    def masked(self, G: np.ndarray) -> np.ndarray:
        return self.own * G

    def inverse(self, H: np.ndarray, lane: int) -> Inverse:
        own = np.flatnonzero(self.own[:, lane])
        square = np.ix_(own, own)
        solve = factored(H[square] + self.Q[square], np.zeros(len(own)))

        def inverse(b: np.ndarray) -> np.ndarray:
            found = np.zeros_like(b)
            found[own] = solve(b[own])
            return found

        return inverse


@dataclass(frozen=True)
class Looked:
    """Objectives, losses and gradients at some weights, and moments of out-of-fold outputs."""

    W: np.ndarray
    value: np.ndarray
    loss: np.ndarray
    gradient: np.ndarray
    moments: Moments


class Solver:
    """Trains all machines at some hyperparameters, and solves the systems of their derivatives.

    What is known of the Hessians outlives an evaluation: it serves the next one nearby, times the
    ratio of the costs.
    """

    def __init__(self, places: Places, machines: Machines, penalty: Penalty, no_gain: float):
        self.places, self.machines, self.penalty = places, machines, penalty
        self.no_gain = no_gain
        kernels = machines.landmarks is not None  # whose Hessians are far from their diagonals
        self.few = kernels or len(penalty) <= 3 * SAVED * machines.n_lanes
        self.n_passes = 0
        self._curvature: tuple[float, np.ndarray, str] | None = None  # with its cost and kind

    def forget(self, penalty: Penalty) -> None:
        """Begin anew, with another penalty."""
        self.penalty, self._curvature = penalty, None

    def pass_over(self, function: Callable, params: Params, *args: object) -> dict:
        """Make a pass over all rows."""
        self.n_passes += 1
        return self.places.sum(function, self.machines, params, *args)

    def look(
        self, params: Params, W: np.ndarray, kind: str | None, moving: np.ndarray | None = None
    ) -> Looked:
        """Return what weights are worth; curvature of some kind comes along, if one is given.

        Lanes that are no longer `moving` keep what they have.
        """
        before = self._curvature
        if kind != "own" or before is None or before[2] != kind:
            before = moving = None
        found = self.pass_over(passes.look, params, W, kind, moving)
        if kind is not None:
            new = found[kind]
            if before is not None and moving is not None:
                own = np.pad(moving.reshape(len(new), -1), [(0, 0), (0, 1)])
                new = np.where(own[..., None, None], new, before[1])
            self._curvature = cost_of(params), new, kind
        RW = self.penalty.times(W)
        value = found["value"] + 0.5 * dots(W, RW)
        gradient = self.penalty.masked(found["gradient"]) + RW
        return Looked(W, value, found["value"], gradient, found["moments"])

    def inverse(self, params: Params) -> Inverse:
        """Return the (approximate) inverse of the Hessians of all lanes."""
        assert self._curvature is not None
        cost, known, kind = self._curvature
        ratio, folds = cost_of(params) / cost, self.machines.n_folds
        if kind == "diagonal":
            diagonal = self.penalty.diagonal() + ratio * known
            diagonal = np.where(diagonal > 0, diagonal, 1.0)
            return lambda B: B / diagonal
        if kind == "shared":
            known = known.sum(axis=1, keepdims=True) - known
        solves = [
            self.penalty.inverse(ratio * of_column[f], c * folds + f)
            for c, of_column in enumerate(known)
            for f in range(folds)
        ]
        return lambda B: np.column_stack([solve(b) for solve, b in zip(solves, B.T, strict=True)])

    def train(
        self, params: Params, W: np.ndarray, budget: Budget, no_gain: float | None = None
    ) -> tuple[Looked, bool]:
        """Take steps until the next one promises next to nothing; return whether it came to that.

        What that is, `no_gain`, is a part of the loss: a penalty may be far larger than all losses,
        and say nothing of them.
        """
        no_gain = no_gain or self.no_gain
        usual, poor = "shared" if self.few else "diagonal", 0
        known = self._curvature is not None and self._curvature[2] == usual
        at = self.look(params, W, None if known else usual)
        last, ended = np.full(len(at.value), np.inf), np.zeros(len(at.value), dtype=bool)
        left = np.ones(len(at.value))
        for _ in range(MOST_LOOKS):
            S = self.step(params, at, left, no_gain * at.loss, budget)
            promise = -dots(at.gradient, S)
            # rounding may not let them go any further
            ended |= (promise > 0.5 * last) & (promise < ROUNDING * np.abs(at.value))
            goal = np.maximum(no_gain * at.loss, TINY)
            moving = (promise > goal) & ~ended
            if not moving.any():
                return at, True
            if budget.expired():
                return at, False
            ratio = promise[moving] / last[moving]
            worn = self.worn(ratio, promise[moving] / goal[moving])
            left[moving] = np.where(np.isfinite(last[moving]), ratio, left[moving])
            poor = poor + 1 if worn else 0
            kind = "own" if self.few and poor > POOR else usual
            last = promise
            S = np.where(moving, S, 0.0)
            at = self.go(params, at, S, promise, kind if worn else None, moving)
        return at, False

    def worn(self, left: np.ndarray, to_go: np.ndarray) -> bool:
        """Whether a new Hessian saves more than it costs.

        `left` is what the last step has left of the promised gain, by lane, and `to_go` how many
        times less it has to be.  In units of a pass without a Hessian, which has four
        multiplications for each entry of X and lane, one with it costs one for each feature more.
        """
        left = np.clip(left, FRESH, 0.9)
        passes_left = np.log(np.maximum(to_go, 1.0)) / -np.log(left)
        with_new = np.log(np.maximum(to_go, 1.0)) / -np.log(FRESH)
        price = len(self.penalty) / (4.0 * self.machines.n_lanes) if self.few else 0.0
        return bool((passes_left - with_new).max() > price)

    def go(
        self,
        params: Params,
        at: Looked,
        S: np.ndarray,
        promise: np.ndarray,
        kind: str | None,
        moving: np.ndarray,
    ) -> Looked:
        """Take a step whole, or as far as it pays."""
        new = self.look(params, at.W + S, kind, moving)
        noise = 1e-13 * np.abs(at.value)
        bad = ~(new.value <= at.value - DESCENT * promise + noise)
        if not bad.any():
            return new
        found = self.pass_over(passes.along, params, at.W, S, SIZES)["value"]
        W, times = at.W, self.penalty.times
        line = np.array([0.5 * dots(W + t * S, times(W + t * S)) for t in SIZES])
        best = (found + line).argmin(axis=0)
        size = np.where(bad, SIZES[best], 1.0)
        return self.look(params, W + size * S, kind, moving)

    def step(
        self, params: Params, at: Looked, left: np.ndarray, goal: np.ndarray, budget: Budget
    ) -> np.ndarray:
        """Return the step from weights that were looked at.

        Where the last one has left much of what it promised, this need not be exact, and none has
        to be more exact than the `goal` is.
        """
        if self.few:
            return self.inverse(params)(-at.gradient)
        tol = np.clip(np.sqrt(left), *BY_CONJUGATES)
        return self.solve(params, at, -at.gradient, tol, budget, 0.1 * goal)

    def solve(
        self,
        params: Params,
        at: Looked,
        B: np.ndarray,
        tol: np.ndarray | float,
        budget: Budget,
        enough: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Return H^-1 B to a tolerance, relative to B as the preconditioner measures it.

        What is below `enough` by that measure, squared, may be left in any case.
        """

        def product(V: np.ndarray, on: np.ndarray) -> np.ndarray:
            bent = self.pass_over(passes.bend, params, at.W, V)["product"]
            return self.penalty.times(V) + self.penalty.masked(bent)

        def rule(square: np.ndarray) -> Callable:
            return lambda S, residual, left, count: left > np.maximum(tol**2 * square, enough)

        found, _ = conjugate_gradients(
            product, self.inverse(params), self.penalty.masked(B), rule,
            np.ones(B.shape[1], dtype=bool), budget,
        )  # fmt: skip
        return found


def cost_of(params: Params) -> float:
    """Return what all curvatures are proportional to."""
    return 1.0 / params["alpha"] if "alpha" in params else float(params["C"])


def of_weights(n_features: int, intercept: float, bias_penalty: float) -> Penalty:
    """Return R of weights of features, the bias coming last."""
    of_rows = np.ones(n_features + 1)
    of_rows[-1] = bias_penalty if intercept else 1.0
    return Penalty(of_rows)
