"""Train one machine: the dual of `_losses` on a Gram matrix, to a given optimality gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._budget import Budget
from ._gram import Gram
from ._linear_system import SaddleSystem
from ._losses import Dual
from ._smo import slopes, smo

CHUNK = 5_000  # pairs between two looks at the clock
PATIENCE = 400  # pairs per row after which a machine is given up as not converging


@dataclass
class Trained:
    """A trained machine: coefficients over the rows of its Gram matrix, and the bias.

    `support` are the rows whose optimality conditions hold with equality and so fix the bias: the
    free ones, or the two tightest ones if none is free.  `sign` is the side of the kink that they
    are on.
    """

    beta: np.ndarray
    bias: float
    support: np.ndarray
    sign: np.ndarray
    free: bool
    system: SaddleSystem | None  # of the free rows, where training has factored it
    gap: float
    converged: bool


def train(
    gram: Gram,
    dual: Dual,
    bias: bool,
    tol: float,
    start: np.ndarray | None,
    budget: Budget,
    max_iter: int | None = None,
) -> Trained:
    """Minimise the dual; rows with lower = upper take no part."""
    if np.isinf(dual.upper).all():
        return _solve_unbounded(gram, dual, bias)
    if not bias or np.isinf(dual.upper).any():
        raise ValueError("this dual has no solver: bounds need a bias and must all be finite.")
    state = _State(gram, dual, start)
    limit = PATIENCE * len(gram) + 100 * CHUNK if max_iter is None else max_iter
    state.descend(tol, limit, budget)
    return state.finish(tol)


def _solve_unbounded(gram: Gram, dual: Dual, bias: bool) -> Trained:
    """Without bounds the optimality conditions are one linear system."""
    rows = np.flatnonzero(np.isfinite(dual.ridge))
    system = SaddleSystem(free_block(gram, dual, rows), bias)
    beta = np.zeros(len(gram))
    beta[rows], shift = system.solve(dual.target[rows], 0.0)
    return Trained(beta, shift, rows, np.zeros(len(rows)), True, system, 0.0, True)


def free_block(gram: Gram, dual: Dual, free: np.ndarray) -> np.ndarray:
    A = gram.block(free, free)
    A[np.diag_indices_from(A)] += dual.ridge[free]
    return A


class _State:
    """beta and its residual while they are being improved; every step lowers the objective."""

    def __init__(self, gram: Gram, dual: Dual, start: np.ndarray | None):
        self.gram, self.dual = gram, dual
        self.beta = np.zeros(len(gram)) if start is None else feasible(start, dual)
        self.refresh()
        # rounding alone makes gaps of this size
        self.noise = 1e-14 * (np.abs(dual.target).max() + np.abs(dual.target - self.r).max())
        self.iterations = 0
        self.system: SaddleSystem | None = None
        self.exact = False

    def refresh(self) -> None:
        dual, used = self.dual, np.flatnonzero(self.beta)
        self.r = dual.target - dual.ridge * self.beta
        if used.size:
            self.r -= self.gram.left(used, self.beta[used])

    def free(self) -> np.ndarray:
        b, d = self.beta, self.dual
        return np.flatnonzero((b > d.lower) & (b < d.upper) & ((b != 0) | (d.kink == 0)))

    def ends(self) -> tuple[int, int, float, float]:
        """Return the pair that attains the gap, and the two ends of the gap."""
        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, self.dual.lower, self.dual.upper, self.dual.kink, up, down)
        up += self.r
        down += self.r
        i, j = int(up.argmax()), int(down.argmin())
        return i, j, float(up[i]), float(down[j])

    def gap(self) -> float:
        _, _, top, bottom = self.ends()
        return top - bottom

    def descend(self, tol: float, limit: int, budget: Budget) -> None:
        """Pairs until the gap is small; now and then a Newton step, which is worth many pairs."""
        pairs = self._pairs_stored if self.gram.stored else self._pairs_on_demand
        for _ in range(40):  # rounds; a Newton step that reopens the gap asks for another
            while (gap := pairs(max(tol, self.noise))) > max(tol, self.noise):
                if budget.expired() or self.iterations >= limit:
                    return
                self.newton(rounds=1)
            self.exact = self.newton(rounds=4)
            if not self.exact or self.gap() <= max(tol, 2 * self.noise, gap):
                return

    def newton(self, rounds: int) -> bool:
        """Minimise over the free rows as far as the bounds allow; True if they did not matter."""
        for _ in range(rounds):
            free = self.free()
            self.system = None
            if not free.size or 8.0 * free.size**2 > self.gram.memory:
                return False
            self.system = SaddleSystem(free_block(self.gram, self.dual, free), True)
            beta = self.beta[free]
            slope = self.r[free] - self.dual.kink[free] * np.sign(beta)
            d, _ = self.system.solve(slope, 0.0)
            d -= d.mean()
            step = self._reach(free, d)
            if not self.system.definite:
                return step >= 1.0 and self._try(free, beta + d)
            moved = beta + min(step, 1.0) * d
            self.beta[free] = np.clip(moved, self.dual.lower[free], self.dual.upper[free])
            if step < 1.0:
                self._snap(free)
            self.refresh()
            if step >= 1.0:
                return True
        return False

    def _try(self, free: np.ndarray, values: np.ndarray) -> bool:
        """Take a step that need not be downhill (an indefinite kernel) if it closes the gap."""
        beta, r, gap = self.beta.copy(), self.r, self.gap()
        self.beta[free] = values
        self.refresh()
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

    def _snap(self, free: np.ndarray) -> None:
        """Put rows that a cut step brought to a breakpoint exactly onto it."""
        beta, dual = self.beta, self.dual
        for point in (dual.lower, dual.upper, np.zeros_like(beta)):
            near = np.abs(beta[free] - point[free]) <= 1e-12 * (dual.upper - dual.lower)[free]
            beta[free[near]] = point[free[near]]

    def _pairs_stored(self, tol: float) -> float:
        dual, gram = self.dual, self.gram
        diag = gram.diagonal + dual.ridge
        made, gap = smo(
            gram.matrix, diag, dual.ridge, self.beta, self.r,
            dual.lower, dual.upper, dual.kink, tol, CHUNK,
        )  # fmt: skip
        self.iterations += made
        return gap

    def _pairs_on_demand(self, tol: float) -> float:
        """One round of decomposition: the worst rows, as many as memory holds, are optimised."""
        dual, gram = self.dual, self.gram
        gap = self.gap()
        if gap <= tol:
            return gap
        room = int(self.gram.memory // (8 * (len(gram) + 2 * CHUNK)))
        W = self._worst(max(2, min(room, 1000, len(gram))))
        rows = gram.rows(W)
        K = np.ascontiguousarray(rows[:, W])
        beta, r = self.beta[W].copy(), self.r[W].copy()
        part = [a[W] for a in (dual.ridge, dual.lower, dual.upper, dual.kink)]
        ridge, lower, upper, kink = part
        made, _ = smo(
            K, np.diagonal(K) + ridge, ridge, beta, r, lower, upper, kink,
            max(tol, 0.05 * gap), CHUNK,
        )  # fmt: skip
        change = beta - self.beta[W]
        self.beta[W] = beta
        self.r -= change @ rows
        self.r[W] -= ridge * change
        self.iterations += made
        return self.gap()

    def _worst(self, size: int) -> np.ndarray:
        """Return the rows that can gain most by rising and by falling, half of each."""
        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, self.dual.lower, self.dual.upper, self.dual.kink, up, down)
        rise = np.argsort(-(self.r + up), kind="stable")[: (size + 1) // 2]
        fall = np.argsort(self.r + down, kind="stable")[: size // 2]
        return np.union1d(rise, fall)

    def finish(self, tol: float) -> Trained:
        i, j, top, bottom = self.ends()
        gap, dual = top - bottom, self.dual
        converged = gap <= 10 * max(tol, self.noise)
        free = self.free()
        if free.size:
            sign = np.sign(self.beta[free]) * (dual.kink[free] > 0)
            bias = float(np.mean(self.r[free] - dual.kink[free] * sign))
            system = self.system if self.exact else None
            return Trained(self.beta, bias, free, sign, True, system, gap, converged)
        # No row is free: the bias may be anything between the two ends.  Like libsvm we take the
        # middle, so its derivative comes from the two rows at the ends.
        sign = np.array([1.0 if self.beta[i] >= 0 else -1.0, 1.0 if self.beta[j] > 0 else -1.0])
        return Trained(
            self.beta, 0.5 * (top + bottom), np.array([i, j]), sign, False, None, gap, converged
        )


def feasible(start: np.ndarray, dual: Dual) -> np.ndarray:
    """Clip a start into the box and restore sum beta = 0, moving free rows before bounded ones."""
    beta = np.clip(start, dual.lower, dual.upper)
    for movable in ((beta > dual.lower) & (beta < dual.upper), np.ones(len(beta), dtype=bool)):
        excess = beta.sum()
        if excess == 0.0:
            break
        room = np.where(movable, beta - dual.lower if excess > 0 else dual.upper - beta, 0.0)
        if room.sum() > 0.0:
            beta -= np.sign(excess) * room * min(1.0, abs(excess) / room.sum())
    # What rounding leaves would stay for good, as pairs keep the sum: start from nothing instead.
    if abs(beta.sum()) > 1e-10 * np.abs(beta).sum():
        return np.zeros(len(beta))
    return beta
