"""One machine on a dense block of the kernel matrix: pairs (SMO), and Newton steps on free rows.

Both lower the dual objective of `losses`; pairs find out which rows are free, Newton steps close
the gap where pairs stall.
"""

from __future__ import annotations

import numpy as np

from ..._core.budget import Budget
from ..._core.compiled import add_rows, gather
from ...kernels.gram import borrowed
from ...losses.base import Dual
from .dependent import without_dependent
from .interior import solve_inside
from .saddle import SaddleSystem
from .smo import HUGE, slopes, smo

CHUNK = 5_000  # pairs between two looks at the clock
NEWTON_EVERY = 3  # pairs per row between two Newton steps
PATIENCE = 100  # pairs per row before gaps are asked to shrink; libsvm never stops before that
LIFT = 1e-10  # on the diagonal of a block that is singular, in units of it
LOOK_PAIRS = 20  # per row, that a look makes at most
FACTOR = 0.0075  # pairs that take as long as a factor of all rows, per row squared
STEPS_INSIDE = 20  # factors of all rows that an interior-point method makes
ENTRY = 20  # scanned rows that take as long as an entry of the block of a Newton step
ROUND = 100  # pairs that take as long as a Newton step of few rows
SHRINKS = 1_000  # rows from which on those that stay at a bound are left out for a while
FEWER = 0.7  # part of the rows, or less, that is worth a block of its own
POLISHED = 1e-4  # gaps below this are closed by Newton steps, not by pairs; in units of the targets


def free_rows(beta: np.ndarray, dual: Dual) -> np.ndarray:
    """Return the rows strictly between two breakpoints of their penalty."""
    between = (beta > dual.lower) & (beta < dual.upper)
    return np.flatnonzero(between & ((beta != 0) | (dual.kink == 0)))


class Progress:
    """Whether gaps still shrink: by half at least whenever the number of pairs has doubled.

    Gaps go up and down, so it is the least one that counts.  Where rounding or a nearly singular
    block keeps pairs from getting anywhere, this ends them; slow training it lets be.
    """

    def __init__(self, first: int):
        self._due, self._least, self._before = first, np.inf, np.inf

    def stalls(self, pairs: int, gap: float) -> bool:
        self._least = min(self._least, gap)
        if pairs < self._due:
            return False
        stalled = not self._least <= 0.5 * self._before
        self._due, self._before = 2 * pairs, self._least
        return stalled


class Block:
    """The dual on a dense block K; `beta` and its residual `r` are improved in place.

    `whole` tells that no row which is left out has a coefficient.
    """

    def __init__(self, K: np.ndarray, dual: Dual, beta: np.ndarray, r: np.ndarray, whole: bool):
        self.K, self.dual, self.beta, self.whole = K, dual, beta, whole
        self.r = r.astype(K.dtype)
        self.diag = (np.diagonal(K) + dual.ridge).astype(K.dtype)
        self.dependent = False  # whether rows were, in some Newton step

    def descend(self, tol: float, limit: int, budget: Budget, polish: float) -> int:
        """Close the gap to tol and return how many pairs that took.

        What is left of the gap at `polish`, if that is not zero, is closed by Newton steps.  (They
        may reopen it where the free rows change; then the caller tries again.)
        """
        iterations = 0
        for goal in (max(tol, polish), tol) if polish else (tol,):
            iterations += self._pairs(goal, limit - iterations, budget)
            if polish:
                self.newton(rounds=4)
        return iterations

    def pairs(self, tol: float, most: int) -> tuple[int, float]:
        """Improve pairs of rows; return how many, and the gap that is left."""
        dual = self.dual
        return smo(
            self.K, self.diag, dual.ridge, self.beta, self.r, dual.lower, dual.upper, dual.kink,
            tol, most,
        )  # fmt: skip

    def _pairs(self, tol: float, limit: int, budget: Budget) -> int:
        """Pairs until the gap is small; now and then a Newton step, which is worth many pairs."""
        iterations, steps, n = 0, 0.0, len(self.beta)
        chunk = min(CHUNK, NEWTON_EVERY * n) if n < SHRINKS else n // 2
        progress = Progress(PATIENCE * n)
        # most machines need no Newton step at all
        since_newton, wait = -max(CHUNK, NEWTON_EVERY * n), float(NEWTON_EVERY * n)
        # who waits that long loses half the time; it is for all rows at once
        inside = STEPS_INSIDE * FACTOR * n**2 if self.whole else np.inf
        while True:
            if n >= SHRINKS and 0 < len(rows := self._in_play(tol)) <= FEWER * n:
                most = int(min(limit, max(inside, iterations + 1))) - iterations
                iterations += self._without_others(rows, tol, most, budget)
            made, gap = self.pairs(tol, min(chunk, limit - iterations))
            iterations += made
            since_newton += made
            if gap <= tol or iterations >= limit or budget.expired():
                return iterations
            if iterations + steps >= inside or progress.stalls(iterations, gap):
                if not self.whole:
                    return iterations
                # what single precision leaves open then stays so
                last = inside == np.inf or self.K.dtype == np.float32
                if (inside < np.inf and self._inside(tol, budget) <= tol) or last:
                    return iterations
                inside = np.inf
            if since_newton >= wait:
                took = self._newton_for(since_newton)
                wait = max(took, NEWTON_EVERY * n)  # no more time than for pairs
                since_newton, steps = 0, steps + took

    def _in_play(self, tol: float) -> np.ndarray:
        """Return the rows that may be one of a pair now; the others stay at their bounds.

        There is none if the gap is closed.
        """
        dual = self.dual
        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, dual.lower, dual.upper, dual.kink, up, down)
        rising, falling = self.r + up, self.r + down
        top, bottom = rising.max(), falling.min()
        trained = (dual.lower < dual.upper) & (top - bottom > tol)
        return np.flatnonzero(trained & ((rising > bottom) | (falling < top)))

    def _without_others(self, rows: np.ndarray, tol: float, limit: int, budget: Budget) -> int:
        """Close the gap of some rows in a block of their own; return how many pairs that took.

        Scans and rows of the kernel matrix are shorter there.  What that does to the other rows is
        seen here afterwards.
        """
        with borrowed(len(rows), len(rows), self.K.dtype) as K:
            gather(self.K, rows, rows, K)
            part = Block(K, self.dual.at(rows), self.beta[rows], self.r[rows], whole=False)
            made = part._pairs(tol, limit, budget)
        change = part.beta - self.beta[rows]
        moved, total = np.flatnonzero(change), np.zeros(len(self.beta))
        add_rows(total, self.K, rows[moved], change[moved], 0)
        total[rows] += self.dual.ridge[rows] * change
        self.beta[rows] = part.beta
        self.r -= total.astype(self.r.dtype)
        return made

    def _inside(self, tol: float, budget: Budget) -> float:
        """Solve for all rows at once, if that is better than what there is; return the gap."""
        before, beta, r = self.gap(), self.beta.copy(), self.r.copy()
        found = solve_inside(self.K, self.dual, tol, budget)
        residual = self.dual.target - self.dual.ridge * found - self.K @ found
        if not np.abs(residual).max() < HUGE:
            return before
        self.beta[:], self.r[:] = found, residual.astype(self.K.dtype)
        self.newton(rounds=4)
        if self.gap() >= before:
            self.beta[:], self.r[:] = beta, r
        return self.gap()

    def gap(self) -> float:
        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, self.dual.lower, self.dual.upper, self.dual.kink, up, down)
        return float((self.r + up).max() - (self.r + down).min())

    def _newton_for(self, pairs: int) -> float:
        """Take Newton steps for the time of so many pairs, one at least; return what they took.

        Only where rows depend on others is it more than one: else steps soon meet a bound each.
        """
        took, n = 0.0, len(self.beta)
        while took < pairs:
            free = len(free_rows(self.beta, self.dual))
            took += ROUND + (ENTRY + FACTOR * free) * free**2 / n
            if not free or self.newton(rounds=1) or not self.dependent:
                break
        return took

    def newton(self, rounds: int) -> bool:
        """Minimise over the free rows as far as the bounds allow; True if they did not matter."""
        while rounds > 0:
            free = free_rows(self.beta, self.dual)
            if not free.size:
                return False
            K, ridge = self.K[np.ix_(free, free)], self.dual.ridge[free]
            slope = self.r[free] - self.dual.kink[free] * np.sign(self.beta[free])
            system = SaddleSystem(K, ridge, True)
            if not system.definite:
                if self.K.dtype == np.float32:  # it is rounding that makes it so
                    return False
                self.dependent = True
                if self._leave_dependent(free, slope):
                    continue
                K = K.astype(float)
                system = SaddleSystem(K, ridge + LIFT * np.abs(np.diagonal(K)).mean(), True)
            d, _ = system.solve(slope, 0.0)
            d -= d.mean()
            reach = self._reach(free, d)
            if not system.definite:
                return reach >= 1.0 and self._try(free, d)
            gain, curvature = float(slope @ d), float(d @ (K @ d) + ridge @ d**2)
            length = max(1.0, gain / max(curvature, 1e-14 * abs(gain), 1e-300))
            self._move(free, min(reach, length) * d)
            if reach >= length:
                return True
            rounds -= 1
        return False

    def _leave_dependent(self, free: np.ndarray, slope: np.ndarray) -> bool:
        """Take free rows that depend on others to bounds; False if there are none, or no gain."""
        Q = self.K[np.ix_(free, free)].astype(float)
        Q.reshape(-1)[:: len(Q) + 1] += self.dual.ridge[free]
        beta = self.beta[free]
        found = without_dependent(Q, beta, slope.astype(float), *self._between(free))
        if found is None:
            return False
        d = found - beta
        if not float(slope @ d) >= 0.5 * float(d @ (Q @ d)):
            return False
        self._move(free, d)
        return len(free_rows(self.beta, self.dual)) < len(free)

    def _move(self, free: np.ndarray, d: np.ndarray) -> None:
        dual, beta = self.dual, self.beta
        low, high = dual.lower[free], dual.upper[free]
        moved = np.clip(beta[free] + d, low, high)
        near = 1e-12 * np.minimum(high - low, np.abs(moved).max())
        for point in (low, high, np.zeros_like(low)):  # what a cut step brings to a breakpoint
            moved = np.where(np.abs(moved - point) <= near, point, moved)
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
        beta, (low, high) = self.beta[free], self._between(free)
        room = np.where(d > 0, high - beta, beta - low)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = np.where(d != 0, room / np.abs(d), np.inf)
        return float(steps.min(initial=np.inf))

    def _between(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the breakpoints below and above the coefficients of free rows."""
        beta, kink = self.beta[free], self.dual.kink[free]
        low = np.where((beta > 0) & (kink > 0), 0.0, self.dual.lower[free])
        return low, np.where((beta < 0) & (kink > 0), 0.0, self.dual.upper[free])
