"""Train one machine: the dual of `_losses` on rows of a Gram matrix, to a given optimality gap.

Pairs (SMO) and Newton steps on the free rows both lower the dual objective; they work on a dense
block of the kernel matrix.  Around them, a loop over working sets: rows that violate their
optimality condition are added until none is left, so that most rows of the kernel matrix are never
computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._budget import Budget
from ._gram import Gram
from ._linear_system import SaddleSystem
from ._losses import Dual
from ._smo import slopes, smo

CHUNK = 5_000  # pairs between two looks at the clock
PATIENCE = 10_000_000  # pairs after which a machine is given up as not converging; as libsvm
NEWTON_EVERY = 3  # pairs per row between two Newton steps
POLISHED = 1e-4  # gaps below this are closed by Newton steps rather than by pairs
WHOLE = 600  # with at most so many rows there is no point in a working set
NEAR = 0.2  # rows so close to a violation, in units of the usual distance, are taken along
AHEAD = 0.5  # the same for the working set of the next evaluation, whose hyperparameters differ


@dataclass
class Trained:
    """A trained machine: coefficients over its rows, and the bias.

    `support` are the rows whose optimality conditions hold with equality and so fix the bias: the
    free ones, or the two tightest ones if none is free.  `sign` is the side of the kink that they
    are on.  `active` are the rows that are or may soon become support vectors.
    """

    beta: np.ndarray
    bias: float
    values: np.ndarray  # K beta on all rows of the machine
    support: np.ndarray
    sign: np.ndarray
    free: bool
    active: np.ndarray
    gap: float
    converged: bool


@dataclass(frozen=True)
class Effort:
    """How exactly to train, and when to stop."""

    tol: float
    budget: Budget
    max_iter: int | None = None


def train(
    gram: Gram,
    members: np.ndarray,
    dual: Dual,
    bias: bool,
    effort: Effort,
    start: np.ndarray | None = None,
    guess: np.ndarray | None = None,
) -> Trained:
    """Minimise the dual over `members`, rows of the Gram matrix.

    Rows with lower = upper take no part, but get their values.  `start` are coefficients to begin
    with and `guess` the rows that are likely to matter.
    """
    if np.isinf(dual.upper).all():
        return _solve_unbounded(gram, members, dual, bias)
    if not bias or np.isinf(dual.upper).any():
        raise ValueError("this dual has no solver: bounds need a bias and must all be finite.")
    descent = _Descent(gram, members, dual, start)
    descent.run(effort, guess)
    return descent.finish(effort.tol)


def _solve_unbounded(gram: Gram, members: np.ndarray, dual: Dual, bias: bool) -> Trained:
    """Without bounds the optimality conditions are one linear system."""
    rows = np.flatnonzero(np.isfinite(dual.ridge))
    gram.hold(members[rows])
    system = SaddleSystem(free_block(gram, members, dual, rows), bias)
    beta = np.zeros(len(members))
    beta[rows], shift = system.solve(dual.target[rows], 0.0)
    values = gram.combine(members[rows], beta[rows], _columns(gram, members))
    return Trained(beta, shift, values, rows, np.zeros(len(rows)), True, rows, 0.0, True)


def free_block(gram: Gram, members: np.ndarray, dual: Dual, free: np.ndarray) -> np.ndarray:
    """Return the free block of K + diag(ridge)."""
    return _with_ridge(gram.compact(members[free]), dual.ridge[free])


def _with_ridge(K: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return K + diag(ridge) in double; rounding of a single-precision K counts as ridge."""
    A = K.astype(float)
    noise = 1e-6 * float(np.abs(np.diagonal(A)).mean()) if K.dtype == np.float32 else 0.0
    A[np.diag_indices_from(A)] += ridge + noise
    return A


def _columns(gram: Gram, members: np.ndarray) -> np.ndarray | None:
    return None if len(members) == len(gram) else members


class _Descent:
    """beta and its residual on all rows, improved on one working set after the other."""

    def __init__(self, gram: Gram, members: np.ndarray, dual: Dual, start: np.ndarray | None):
        self.gram, self.members, self.dual = gram, members, dual
        self.beta = np.zeros(len(members)) if start is None else feasible(start, dual)
        self.refresh()
        self.iterations = 0

    def refresh(self) -> None:
        used = np.flatnonzero(self.beta)
        columns = _columns(self.gram, self.members)
        values = self.gram.combine(self.members[used], self.beta[used], columns)
        self.r = self.dual.target - self.dual.ridge * self.beta - values
        # rounding alone makes gaps of this size
        self.noise = 1e-14 * (np.abs(self.dual.target).max() + np.abs(values).max())

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what every row would gain by rising, and what it would lose by falling."""
        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, self.dual.lower, self.dual.upper, self.dual.kink, up, down)
        return self.r + up, self.r + down

    def run(self, effort: Effort, guess: np.ndarray | None) -> None:
        """Optimise on working sets until no row outside violates its condition."""
        trainable = np.flatnonzero(self.dual.lower < self.dual.upper)
        limit = PATIENCE if effort.max_iter is None else effort.max_iter
        tol = max(effort.tol, self.noise)
        W = self._first(trainable, guess)
        # whether W has most of the rows that matter, so that it is worth an exact solution
        settled = guess is not None or len(W) == len(trainable)
        tries = 0
        while (gap := self.gap()) > tol and tries < 6:
            self.gram.hold(self.members[W])
            # rounding in single precision may leave a gap; after three tries, use double
            goal = tol if settled else max(tol, 0.05 * gap)
            self._improve(W, goal, limit, effort, double=tries >= 3)
            if self.iterations >= limit or effort.budget.expired():
                return
            grown = self._next(W, trainable, tol)
            tries = tries + 1 if settled and np.array_equal(grown, W) else 0
            settled, W = len(grown) < 1.1 * len(W), grown

    def _first(self, trainable: np.ndarray, guess: np.ndarray | None) -> np.ndarray:
        if len(trainable) <= min(WHOLE, self.gram.capacity):
            return trainable
        if guess is None:
            # as many of each target side as there is room for, evenly spread
            side = self.dual.target[trainable] > np.median(self.dual.target[trainable])
            guess = np.concatenate(
                [part[np.linspace(0, len(part) - 1, min(len(part), WHOLE // 2)).astype(int)]
                 for part in (trainable[side], trainable[~side]) if len(part)]
            )  # fmt: skip
        guess = np.union1d(guess, np.flatnonzero(self.beta))
        guess = guess[self.dual.lower[guess] < self.dual.upper[guess]]
        return guess if len(guess) <= self.gram.capacity else self._worst(trainable)

    def _next(self, W: np.ndarray, trainable: np.ndarray, tol: float) -> np.ndarray:
        """Add rows that violate their condition, the worst first, and those that are near to it.

        The set at most doubles: many violations are gone once the worst ones are.
        """
        if len(W) == len(trainable):
            return W
        outside = np.setdiff1d(trainable, W, assume_unique=True)
        excess = self._excess(outside)
        if not (excess > tol).any():
            return W
        near = excess > -NEAR * float(np.median(np.abs(excess)))
        worst = np.argsort(-excess, kind="stable")[: min(len(W), int(near.sum()))]
        grown = np.union1d(W, outside[worst])
        if len(grown) > 0.8 * len(trainable) and len(trainable) <= self.gram.capacity:
            return trainable
        return grown if len(grown) <= self.gram.capacity else self._worst(trainable)

    def _excess(self, rows: np.ndarray) -> np.ndarray:
        """Return by how much each row violates its condition; below zero, by how much it holds."""
        rising, falling = self.slopes()
        bias = self._bias()
        return np.maximum(rising[rows] - bias, bias - falling[rows])

    def gap(self) -> float:
        rising, falling = self.slopes()
        return float(rising.max() - falling.min())

    def _bias(self) -> float:
        free = self.free()
        if free.size:
            signed = self.dual.kink[free] * np.sign(self.beta[free])
            return float(np.mean(self.r[free] - signed))
        rising, falling = self.slopes()
        return 0.5 * float(rising.max() + falling.min())

    def _worst(self, trainable: np.ndarray) -> np.ndarray:
        """Return the rows that gain most by rising and by falling, as many as memory holds."""
        rising, falling = self.slopes()
        half = max(1, min(self.gram.capacity, 2000) // 2)
        rise = trainable[np.argsort(-rising[trainable], kind="stable")[:half]]
        fall = trainable[np.argsort(falling[trainable], kind="stable")[:half]]
        return np.union1d(rise, fall)

    def _improve(self, W: np.ndarray, tol: float, limit: int, effort: Effort, double: bool) -> None:
        d = self.dual
        part = Dual(d.target[W], d.lower[W], d.upper[W], d.kink[W], d.ridge[W])
        K = self.gram.compact(self.members[W])
        block = _Block(K.astype(float) if double else K, part, self.beta[W], self.r[W])
        polish = tol <= effort.tol < POLISHED
        self.iterations += block.descend(tol, limit - self.iterations, effort.budget, polish)
        self.beta[W] = block.beta
        self.refresh()

    def free(self) -> np.ndarray:
        return free_rows(self.beta, self.dual)

    def finish(self, tol: float) -> Trained:
        dual = self.dual
        rising, falling = self.slopes()
        i, j = int(rising.argmax()), int(falling.argmin())
        gap = float(rising[i] - falling[j])
        values = dual.target - dual.ridge * self.beta - self.r
        free = self.free()
        if free.size:
            support, sign = free, np.sign(self.beta[free]) * (dual.kink[free] > 0)
        else:
            # No row is free: the bias may be anything between the two ends of the gap.  Like
            # libsvm we take the middle, so its derivative comes from the rows at the ends.
            support = np.array([i, j])
            sign = np.array([1.0 if self.beta[i] >= 0 else -1.0, 1.0 if self.beta[j] > 0 else -1.0])
        return Trained(
            self.beta,
            self._bias(),
            values,
            support,
            sign,
            bool(free.size),
            self._active(),
            gap,
            gap <= 10 * max(tol, self.noise),
        )

    def _active(self) -> np.ndarray:
        """Return the rows that are, or may soon become, support vectors."""
        trainable = np.flatnonzero(self.dual.lower < self.dual.upper)
        if len(trainable) <= WHOLE:
            return trainable
        excess = self._excess(trainable)
        close = excess > -AHEAD * float(np.median(np.abs(excess)))
        return trainable[close | (self.beta[trainable] != 0)]


def free_rows(beta: np.ndarray, dual: Dual) -> np.ndarray:
    """Return the rows strictly between two breakpoints of their penalty."""
    between = (beta > dual.lower) & (beta < dual.upper)
    return np.flatnonzero(between & ((beta != 0) | (dual.kink == 0)))


class _Block:
    """The dual on a dense block of the kernel matrix."""

    def __init__(self, K: np.ndarray, dual: Dual, beta: np.ndarray, r: np.ndarray):
        self.K, self.dual, self.beta = K, dual, beta
        self.r = r.astype(K.dtype)
        self.diag = (np.diagonal(K) + dual.ridge).astype(K.dtype)

    def descend(self, tol: float, limit: int, budget: Budget, polish: bool) -> int:
        """Close the gap to tol and return how many pairs that took.

        To polish is to close the last part of the gap by Newton steps.  (They may reopen it where
        the free rows change; then the caller tries again.)
        """
        iterations = 0
        for goal in (max(tol, POLISHED), tol) if polish else (tol,):
            iterations += self._pairs(goal, limit - iterations, budget)
            if polish:
                self.newton(rounds=4)
        return iterations

    def _pairs(self, tol: float, limit: int, budget: Budget) -> int:
        """Pairs until the gap is small; now and then a Newton step, which is worth many pairs."""
        dual, iterations = self.dual, 0
        chunk = min(CHUNK, NEWTON_EVERY * len(self.beta))
        since_newton = 0
        while True:
            made, gap = smo(
                self.K, self.diag, dual.ridge, self.beta, self.r,
                dual.lower, dual.upper, dual.kink, tol, chunk,
            )  # fmt: skip
            iterations += made
            since_newton += made
            if gap <= tol or iterations >= limit or budget.expired():
                return iterations
            if since_newton >= NEWTON_EVERY * len(self.beta):
                self.newton(rounds=1)
                since_newton = 0

    def gap(self) -> float:
        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, self.dual.lower, self.dual.upper, self.dual.kink, up, down)
        return float((self.r + up).max() - (self.r + down).min())

    def newton(self, rounds: int) -> bool:
        """Minimise over the free rows as far as the bounds allow; True if they did not matter."""
        for _ in range(rounds):
            free = free_rows(self.beta, self.dual)
            if not free.size:
                return False
            A = _with_ridge(self.K[np.ix_(free, free)], self.dual.ridge[free])
            system = SaddleSystem(A, True)
            beta = self.beta[free]
            d, _ = system.solve(self.r[free] - self.dual.kink[free] * np.sign(beta), 0.0)
            d -= d.mean()
            step = self._reach(free, d)
            if not system.definite:
                return step >= 1.0 and self._try(free, d)
            self._move(free, min(step, 1.0) * d)
            if step >= 1.0:
                return True
        return False

    def _move(self, free: np.ndarray, d: np.ndarray) -> None:
        dual, beta = self.dual, self.beta
        low, high = dual.lower[free], dual.upper[free]
        moved = np.clip(beta[free] + d, low, high)
        for point in (low, high, np.zeros_like(low)):  # what a cut step brings to a breakpoint
            moved = np.where(np.abs(moved - point) <= 1e-12 * (high - low), point, moved)
        change = moved - beta[free]
        beta[free] = moved
        self.r -= change.astype(self.K.dtype) @ self.K[free]
        self.r[free] -= dual.ridge[free] * change

    def _try(self, free: np.ndarray, d: np.ndarray) -> bool:
        """Take a step that need not be downhill (an indefinite kernel) if it closes the gap."""
        beta, r, gap = self.beta.copy(), self.r.copy(), self.gap()
        self._move(free, d)
        if self.gap() <= gap:
            return True
        self.beta, self.r = beta, r
        return False

    def _reach(self, free: np.ndarray, d: np.ndarray) -> float:
        """Return the longest step along d before a free row meets a breakpoint."""
        beta, kink = self.beta[free], self.dual.kink[free]
        high = np.where((beta < 0) & (kink > 0), 0.0, self.dual.upper[free])
        low = np.where((beta > 0) & (kink > 0), 0.0, self.dual.lower[free])
        room = np.where(d > 0, high - beta, beta - low)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(d != 0, room / np.abs(d), np.inf)
        return float(steps.min(initial=np.inf))


def feasible(start: np.ndarray, dual: Dual) -> np.ndarray:
    """Clip a start into the box and restore sum beta = 0, moving no more rows than that takes."""
    beta = np.clip(start, dual.lower, dual.upper)
    used = beta != 0
    for movable in (used & (beta > dual.lower) & (beta < dual.upper), used, np.ones_like(used)):
        excess = beta.sum()
        if abs(excess) <= 1e-14 * np.abs(beta).sum():
            break
        room = np.where(movable, beta - dual.lower if excess > 0 else dual.upper - beta, 0.0)
        if room.sum() > 0.0:
            beta -= np.sign(excess) * room * min(1.0, abs(excess) / room.sum())
    # What rounding leaves would stay for good, as pairs keep the sum: start from nothing instead.
    if abs(beta.sum()) > 1e-10 * np.abs(beta).sum():
        return np.zeros(len(beta))
    return beta
