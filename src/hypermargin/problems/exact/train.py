"""Train the machines of all folds together, on rows of one Gram matrix, to a given gap.

The folds of a column differ in the rows that they leave out, so most rows that matter to one matter
to all.  They share a working set and its dense block of the kernel matrix; rows that violate their
optimality condition in any fold are added until none is left, so that most rows of the kernel
matrix are never computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.budget import Effort
from ..._core.spread import typical_deviation
from ...kernels.gram import Columns, Gram
from ...losses.base import Dual
from .block import LOOK_PAIRS, POLISHED, Block, free_rows
from .saddle import SaddleSystem
from .smo import make_feasible, optimality, slopes
from .soft import FistaMachine, SoftMachine

TRIES = 4  # on the same rows without a gap of half the size, before machines are given up
MOST_PAIRS = 10_000_000  # pairs after which a machine is given up as not converging; as libsvm
WHOLE = 600  # with at most so many rows there is no point in a working set
MOSTLY_ALL = 0.7  # a working set of so large a part of the rows may as well be all of them
NEAR = 0.1  # rows so close to a violation, in units of the target, are taken along
AHEAD = 0.2  # the same for the working set of the next evaluation, whose hyperparameters differ


@dataclass(frozen=True)
class Start:
    """Where to begin: coefficients (folds, rows), and the rows that are likely to matter.

    `complete` tells whether these were chosen among all rows that there are now.
    """

    beta: np.ndarray
    active: np.ndarray
    complete: bool


@dataclass
class Trained:
    """Trained machines, one per fold: coefficients (folds, rows), and the biases.

    `active` are the rows that are or may soon become support vectors.
    """

    beta: np.ndarray
    bias: np.ndarray
    values: np.ndarray  # K beta on all rows of the machines
    active: np.ndarray
    gap: np.ndarray
    converged: bool
    iterations: int


def train(
    gram: Gram,
    members: np.ndarray,
    dual: Dual,
    bias: bool,
    effort: Effort,
    start: Start | None = None,
    solver: str | None = None,
) -> Trained:
    """Minimise the duals of all folds, rows of `dual`, over `members`, rows of the Gram matrix.

    Rows with lower = upper take no part, but get their values.
    """
    if np.isinf(dual.upper).all():
        return _solve_unbounded(gram, members, dual, bias)
    if dual.soft:
        return _solve_soft(gram, members, dual, effort, solver)
    if not bias or np.isinf(dual.upper).any():
        raise ValueError("this dual has no solver: bounds need a bias and must all be finite.")
    if not (dual.lower < dual.upper).any():  # no fold has the machine
        beta, nothing = np.zeros(dual.target.shape), np.zeros(len(dual.target))
        return Trained(beta, nothing, beta.copy(), np.empty(0, dtype=int), nothing.copy(), True, 0)
    team = _Team(gram, members, dual, start)
    team.run(effort)
    return team.finish(effort.gap)


def _solve_unbounded(gram: Gram, members: np.ndarray, dual: Dual, bias: bool) -> Trained:
    """Without bounds the optimality conditions are one linear system per fold."""
    used = np.flatnonzero(np.isfinite(dual.ridge).any(axis=0))
    gram.hold(members[used])
    beta, shift = np.zeros(dual.target.shape), np.zeros(len(dual.target))
    support = [np.flatnonzero(np.isfinite(ridge)) for ridge in dual.ridge]

    def solve(f: int) -> None:
        rows = support[f]
        if not len(rows):
            return
        gram.budget.check()  # half a system is of no use
        block = gram.block(members[rows], members[rows])
        system = SaddleSystem(block, dual.ridge[f, rows], bias)
        beta[f, rows], shift[f] = system.solve(dual.target[f, rows], 0.0)

    gram.workers.map(solve, range(len(beta)), gram.budget)
    values = gram.combine(members, beta, _columns(gram, members))
    return Trained(beta, shift, values, used, np.zeros(len(beta)), True, 0)


def _solve_soft(
    gram: Gram, members: np.ndarray, dual: Dual, effort: Effort, solver: str | None
) -> Trained:
    """Train a soft loss by Newton's method on the outputs or by FISTA; fill in its ridge."""
    kind = FistaMachine if solver == "fista" else SoftMachine
    used = np.flatnonzero((dual.lower < dual.upper).any(axis=0))
    gram.hold(members[used])
    beta, shift = np.zeros(dual.target.shape), np.zeros(len(dual.target))
    moved, steps = np.zeros(len(beta)), np.zeros(len(beta), dtype=int)

    def solve(f: int) -> None:
        rows = np.flatnonzero(dual.lower[f] < dual.upper[f])
        if not len(rows):
            return
        K = gram.block(members[rows], members[rows]).astype(float)
        machine = kind(K, dual.at((f, rows)))
        for sharper in machine.stages():  # each begins where the last one ended
            machine.soft = sharper
            for _ in range(machine.rough_steps if effort.rough else machine.most_steps):
                if effort.budget.expired():
                    break
                steps[f] += 1
                moved[f] = machine.step()
                if moved[f] <= effort.tol:
                    break
        beta[f, rows], shift[f] = machine.settled(), machine.bias
        dual.ridge[f, rows] = 1.0 / machine.curvature()[1]

    gram.workers.map(solve, range(len(beta)), gram.budget)
    values = gram.combine(members, beta, _columns(gram, members))
    converged = bool((moved <= 10 * effort.tol).all())
    return Trained(beta, shift, values, used, moved, converged, int(steps.max(initial=0)))


def _columns(gram: Gram, members: np.ndarray) -> Columns:
    return slice(0, len(gram)) if len(members) == len(gram) else members


class _Team:
    """beta and its residual on all rows in all folds, improved on one working set after another."""

    def __init__(self, gram: Gram, members: np.ndarray, dual: Dual, start: Start | None):
        self.gram, self.members, self.dual, self.start = gram, members, dual, start
        self.n_folds = len(dual.target)
        self.trainable = np.flatnonzero((dual.lower < dual.upper).any(axis=0))
        self.unit = min(
            2.0 * typical_deviation(dual.target[0, self.trainable]),
            0.5 * float(np.ptp(dual.target[0, self.trainable])),
        )
        self.iterations = np.zeros(self.n_folds, dtype=int)
        # in order also where targets are the same for all folds: other layouts are compiled anew
        self.r = np.array(dual.target, order="C")
        self.values = np.zeros(dual.target.shape)
        self.noise, self.bias = np.zeros((2, self.n_folds))
        # a fold without rows to train on has its machine already
        idle = ~(dual.lower < dual.upper).any(axis=1)
        self.top, self.bottom = np.where(idle, 0.0, np.inf), np.zeros(self.n_folds)
        self.known = False  # whether `r` is up to date, at least on the working set
        self.excess = np.full(dual.target.shape, -np.inf)
        self.beta = np.zeros(dual.target.shape)
        if start is not None:
            self.beta[:] = start.beta
            for f in range(self.n_folds):
                make_feasible(self.beta[f], dual.lower[f], dual.upper[f])

    def refresh(self, folds: list[int]) -> None:
        """Compute residuals and optimality anew, in double precision."""
        dual, self.known = self.dual, True
        values = np.zeros((len(folds), len(self.members)))
        if self.beta[folds].any():
            columns = _columns(self.gram, self.members)
            values = self.gram.combine(self.members, self.beta[folds], columns)
        self.values[folds] = values
        for f, value in zip(folds, values, strict=True):
            self.r[f] = dual.target[f] - dual.ridge[f] * self.beta[f] - value
            # rounding alone makes gaps of this size; rows at a bound may be anywhere beyond it
            near = (dual.lower[f] < self.beta[f]) & (self.beta[f] < dual.upper[f])
            near |= (self.beta[f] == 0.0) & (dual.lower[f] < dual.upper[f])
            largest = np.abs(dual.target[f]).max(initial=0.0, where=near)
            self.noise[f] = 1e-14 * (largest + np.abs(value).max(initial=0.0, where=near))
            self.top[f], self.bottom[f], self.bias[f] = optimality(
                self.r[f], self.beta[f], dual.lower[f], dual.upper[f], dual.kink[f], self.excess[f]
            )

    @property
    def gap(self) -> np.ndarray:
        return self.top - self.bottom

    def run(self, effort: Effort) -> None:
        """Optimise on working sets until no row outside violates its condition in any fold."""
        limit = LOOK_PAIRS * len(self.gram) if effort.rough else MOST_PAIRS
        W = self._first()
        if not len(W):  # targets that are all equal leave nothing to begin with
            self.refresh(list(range(self.n_folds)))
            W = self._worst()
        # whether W has most of the rows that matter, so that it is worth an exact solution
        settled = len(W) == len(self.trainable)
        settled = settled or (self.start is not None and self.start.complete)
        tol = np.maximum(effort.gap, self.noise)
        tries, least = 0, self.gap
        while (todo := np.flatnonzero(self.gap > tol)).size and tries < TRIES:
            self.gram.hold(self.members[W])
            goal = tol if settled else np.maximum(tol, 0.05 * np.minimum(self.gap, self.unit))
            # rounding in single precision may leave a gap; after some tries, use double
            K = self.gram.compact(self.members[W], scratch=True)
            K = K.astype(float) if tries >= TRIES // 2 else K
            if not self.known:
                self._residuals_on(W, K)
            self._improve(K, W, todo, goal, limit, effort)
            tol = np.maximum(effort.gap, self.noise)
            if (self.iterations[todo] >= limit).any() or effort.budget.expired():
                return
            grown = self._next(W, tol)
            same = settled and np.array_equal(grown, W)
            better = (self.gap <= 0.5 * least)[todo].all() or not same
            tries, least = (0, self.gap) if better else (tries + 1, least)
            settled, W = len(grown) < 1.5 * len(W), grown

    def _improve(
        self,
        K: np.ndarray,
        W: np.ndarray,
        folds: np.ndarray,
        goal: np.ndarray,
        limit: int,
        effort: Effort,
    ) -> None:
        dual, unit = self.dual, np.broadcast_to(effort.unit, self.n_folds)

        outside = np.delete(np.arange(len(self.members)), W)

        def improve(f: int) -> None:
            whole = not self.beta[f, outside].any()
            block = Block(K, dual.at((f, W)), self.beta[f, W], self.r[f, W], whole)
            last = effort.tol < POLISHED and goal[f] <= effort.tol * unit[f]
            polish = POLISHED * float(unit[f]) if last else 0.0
            self.iterations[f] += block.descend(goal[f], limit, effort.budget, polish)
            self.beta[f, W] = block.beta

        self.gram.workers.map(improve, folds, effort.budget)
        self.refresh(folds.tolist())

    def _residuals_on(self, W: np.ndarray, K: np.ndarray) -> None:
        """Compute residuals on W only: all rows that have a coefficient are in it."""
        dual, beta = self.dual, self.beta[:, W]
        values = np.zeros(beta.shape)
        if beta.any():
            values = (beta.astype(K.dtype) @ K).astype(float)
        self.r[:, W] = dual.target[:, W] - dual.ridge[:, W] * beta - values
        self.known = True

    def _first(self) -> np.ndarray:
        """Return the first working set."""
        trainable = self.trainable
        if len(trainable) <= min(WHOLE, self.gram.capacity):
            return trainable
        wanted, start = np.any(self.beta, axis=0), self.start
        wanted[spread(trainable, self.dual.target[0]) if start is None else start.active] = True
        return self._fitting(wanted)

    def _fitting(self, wanted: np.ndarray) -> np.ndarray:
        """Return the wanted rows; all if that is most of them, the worst if memory is short."""
        chosen, capacity = self.trainable[wanted[self.trainable]], self.gram.capacity
        if len(chosen) > MOSTLY_ALL * len(self.trainable) and len(self.trainable) <= capacity:
            return self.trainable
        return chosen if len(chosen) <= capacity else self._worst()

    def _next(self, W: np.ndarray, tol: np.ndarray) -> np.ndarray:
        """Add rows that violate their condition, the worst first, and those that are near to it.

        The set at most trebles: many violations are gone once the worst ones are.
        """
        if len(W) == len(self.trainable):
            return W
        chosen = np.zeros(len(self.members), dtype=bool)
        chosen[W] = True
        outside = self.trainable[~chosen[self.trainable]]
        excess = self.excess[:, outside].max(axis=0)
        if not (self.excess[:, outside] > tol[:, None]).any():
            return W
        near = excess > -NEAR * self.unit
        worst = np.argsort(-excess, kind="stable")[: min(2 * len(W), int(near.sum()))]
        chosen[outside[worst]] = True
        return self._fitting(chosen)

    def _worst(self) -> np.ndarray:
        """Return the rows that violate most in any fold, as many as memory holds."""
        half = max(1, min(self.gram.capacity, 2000) // (2 * self.n_folds))
        chosen = np.zeros(len(self.members), dtype=bool)
        for f in range(self.n_folds):
            rising, falling = ends(self.dual.at(f), self.beta[f], self.r[f])
            chosen[np.argsort(-rising, kind="stable")[:half]] = True
            chosen[np.argsort(falling, kind="stable")[:half]] = True
        return self.trainable[chosen[self.trainable]]

    def finish(self, tol: np.ndarray) -> Trained:
        # (recovered from the residuals, values would have rounding errors that know the targets)
        closed = (self.gap <= 10 * np.maximum(tol, self.noise)).all()
        # where rounding is larger than what is to be learned, a closed gap means nothing
        lost = self.beta.any(axis=1) & (self.noise > np.maximum(tol, self.unit))
        converged = bool(closed and not lost.any())
        iterations = int(self.iterations.max())
        return Trained(
            self.beta, self.bias, self.values, self._active(), self.gap, converged, iterations
        )

    def _active(self) -> np.ndarray:
        """Return the rows that are, or may soon become, support vectors."""
        if len(self.trainable) <= WHOLE:
            return self.trainable
        used = np.any(self.beta, axis=0)[self.trainable]
        excess = self.excess.max(axis=0)[self.trainable]
        return self.trainable[likely(used, excess, AHEAD * self.unit)]


def spread(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return as many rows of each target side as a first working set has room for."""
    side = target[rows] > np.median(target[rows])
    parts = [part for part in (rows[side], rows[~side]) if len(part)]
    places = [np.linspace(0, len(part) - 1, min(len(part), WHOLE // 2)) for part in parts]
    return np.concatenate([part[at.astype(int)] for part, at in zip(parts, places, strict=True)])


def likely(used: np.ndarray, excess: np.ndarray, near: float) -> np.ndarray:
    """Return which rows have a coefficient, or are near to it; `excess` is the worst fold's."""
    excess = np.where(used, np.inf, excess)
    # with narrow kernels all rows are near the margin: take the nearest ones
    most = min(len(excess), 3 * int(used.sum()) + 50)
    least = np.partition(excess, len(excess) - most)[len(excess) - most]
    return excess >= max(least, -near)


def units(target: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return what gaps are compared with: the spread of the targets between each two edges."""
    first, count = edges[:-1], np.diff(edges)
    mean = np.add.reduceat(target, first) / count
    centred = target - np.repeat(mean, count)
    deviation = np.sqrt(np.add.reduceat(centred**2, first) / count)
    extent = np.maximum.reduceat(target, first) - np.minimum.reduceat(target, first)
    return np.minimum(2.0 * deviation, 0.5 * extent)


def ends(dual: Dual, beta: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what every row of a machine would gain by rising, and lose by falling."""
    up, down = np.empty((2, len(beta)))
    slopes(beta, dual.lower, dual.upper, dual.kink, up, down)
    return r + up, r + down


def support(
    dual: Dual, beta: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the rows of a machine whose optimality conditions hold with equality.

    They fix the bias.  Also returned are the side of the kink that they are on, and whether they
    are free: if no row is, they are the two tightest ones.
    """
    free = free_rows(beta, dual)
    free = free[np.isfinite(dual.ridge[free])]
    if free.size:
        return free, np.sign(beta[free]) * (dual.kink[free] > 0), True
    # No row is free: the bias may be anything between the two ends of the gap.  Like libsvm
    # we take the middle, so its derivative comes from the rows at the ends.
    rising, falling = ends(dual, beta, dual.target - dual.ridge * beta - values)
    i, j = int(rising.argmax()), int(falling.argmin())
    sign = np.array([1.0 if beta[i] >= 0 else -1.0, 1.0 if beta[j] > 0 else -1.0])
    return np.array([i, j]), sign, False
