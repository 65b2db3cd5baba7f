"""Many small machines: the folds of all columns side by side, in few compiled calls.

With one machine per pair of classes there are dozens of columns, and a machine is trained in less
time than a few calls of NumPy take.  So the members of all columns are laid out one column after
the other, and each step of `train` and `exact` is one compiled call for all columns that a thread
takes care of.  What is not small or not easy is left to the steps there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.budget import Effort, cached
from ..._core.compiled import add, add_rows, compiled
from ...kernels.gram import Gram, borrowed
from ...losses.base import Dual
from .block import CHUNK, LOOK_PAIRS, POLISHED
from .smo import make_feasible, optimality, smo_on_rows
from .train import MOSTLY_ALL, WHOLE, Start, likely, spread, units

SMALL = 1500  # rows up to which a machine among many is trained in a compiled call
ALL = 100  # with at most so many rows a working set does not pay even for small machines
NEAR_SMALL = 0.02  # as in `train`: another round costs less here, and the block is most of that
AHEAD_SMALL = 0.05
ROUNDS = 20  # working sets after which machines are left to `train`


@dataclass(frozen=True)
class Roster:
    """The members of all columns, rows of a Gram matrix, one column after the other.

    Those of column c begin at `edges[c]` and end at `edges[c + 1]`.  Arrays over the roster have
    one entry per member, or (folds, members) of them.
    """

    rows: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, members: Sequence[np.ndarray]) -> Roster:
        return cls(np.concatenate(members), np.cumsum([0, *(len(m) for m in members)]))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def part(self, c: Any) -> slice:
        return slice(int(self.edges[c]), int(self.edges[c + 1]))

    @cached
    def sizes(self) -> np.ndarray:
        return np.diff(self.edges)

    @cached
    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Where runs of neighbouring rows begin and end, (begin, end) each, and their edges."""
        runs = [_runs(self.rows[self.part(c)]) for c in range(len(self))]
        return np.concatenate(runs), np.cumsum([0, *(len(r) for r in runs)])

    def count(self, mask: np.ndarray) -> np.ndarray:
        """Return how many members of each column are marked."""
        return np.diff(np.concatenate([[0], np.cumsum(mask)])[self.edges])

    def spread_out(self, of_column: np.ndarray) -> np.ndarray:
        """Give every member what its column has."""
        return np.repeat(of_column, self.sizes)


def _runs(members: np.ndarray) -> np.ndarray:
    breaks = np.flatnonzero(np.diff(members) != 1) + 1
    begins = members[np.concatenate([[0], breaks])]
    ends = members[np.concatenate([breaks - 1, [len(members) - 1]])] + 1
    return np.column_stack([begins, ends])


def shared(items: np.ndarray, function: Callable, gram: Gram) -> list:
    """Call a function with parts of the items, one part per worker."""
    count = 1 if gram.workers.inside else gram.workers.count
    parts = [items[k::count] for k in range(min(count, len(items)))]
    return gram.workers.map(function, parts, gram.budget)


class Squad:
    """The machines of all columns, improved on one working set per column after another.

    The steps are those of `train`: the folds of a column share a working set, which grows until
    no row outside violates its condition.

    Parameters
    ----------
    dual : Dual
        Over the roster, one row per fold.
    beta, values : ndarray
        Where to begin; feasible, and improved in place.  `values` gets K beta.
    active : ndarray of bool, optional
        Members that are likely to matter.
    complete : ndarray of bool
        For each column, whether these were chosen among all rows that there are now.
    """

    def __init__(
        self,
        gram: Gram,
        roster: Roster,
        dual: Dual,
        effort: Effort,
        beta: np.ndarray,
        values: np.ndarray,
        active: np.ndarray | None,
        complete: np.ndarray,
    ):
        self.gram, self.roster, self.dual, self.effort = gram, roster, dual, effort
        self.beta, self.values = beta, values
        shape = (len(roster), len(beta))
        self.r, self.excess = np.empty(beta.shape), np.empty(beta.shape)
        self.worst = np.full(beta.shape[1], np.inf)  # excess in the worst fold
        self.gap, self.bias = np.full(shape, np.inf), np.zeros(shape)
        self.iterations = np.zeros(shape, dtype=int)
        self.trainable: np.ndarray = np.any(dual.lower < dual.upper, axis=0)
        self.n_trainable = roster.count(self.trainable)
        self.unit = units(dual.target[0], roster.edges)
        self.inside = self._first(active)
        # whether the working set has most of the rows that matter: worth an exact solution
        self.settled = complete | (roster.count(self.inside) == self.n_trainable)

    def run(self) -> np.ndarray:
        """Train what is easy; return the columns that are left, at what they have reached."""
        tol, columns = self.effort.gap, np.arange(len(self.roster))
        left = []
        for _ in range(ROUNDS):
            sizes = self.roster.count(self.inside)
            small = (sizes <= min(SMALL, self.gram.capacity))[columns]
            left.append(columns[~small])
            columns = columns[small]
            if not len(columns) or self.effort.budget.expired() or not self._hold(columns):
                break
            self._round(columns, sizes)
            self._grow(columns, sizes)
            done = (self.gap[columns] <= tol).all(axis=1)
            new_sizes = self.roster.count(self.inside)
            stuck = ~done & self.settled[columns] & (new_sizes == sizes)[columns]
            self.settled = new_sizes < 1.5 * sizes
            left.append(columns[stuck])
            columns = columns[~done & ~stuck]
        return np.sort(np.concatenate([*left, columns]))

    def start(self, c: int) -> Start:
        """Return where a column that is left has got to."""
        part = self.roster.part(c)
        return Start(self.beta[:, part], np.flatnonzero(self.inside[part]), bool(self.settled[c]))

    def active(self) -> np.ndarray:
        """Return the members that are, or may soon become, support vectors."""
        used: np.ndarray = np.any(self.beta, axis=0) & self.trainable
        active = self.trainable.copy()
        for c in np.flatnonzero(self.n_trainable > ALL):
            part = self.roster.part(c)
            rows = part.start + np.flatnonzero(self.trainable[part])
            active[rows] = likely(used[rows], self.worst[rows], AHEAD_SMALL * self.unit[c])
        return active

    def _first(self, active: np.ndarray | None) -> np.ndarray:
        """Return the first working set of every column."""
        inside = self.trainable.copy()
        most = min(WHOLE if active is None else ALL, self.gram.capacity)
        guess: np.ndarray = np.any(self.beta, axis=0)
        if active is not None:
            guess |= active
        for c in np.flatnonzero(self.n_trainable > most):
            part = self.roster.part(c)
            rows = part.start + np.flatnonzero(self.trainable[part])
            if active is None:
                guess[spread(rows, self.dual.target[0])] = True
            if guess[rows].sum() <= MOSTLY_ALL * len(rows):
                inside[rows] = guess[rows]
        return inside

    def _hold(self, columns: np.ndarray) -> bool:
        """Hold the rows of all working sets, by all threads, before the columns share them."""
        taken = np.zeros(len(self.roster), dtype=bool)
        taken[columns] = True
        wanted = np.zeros(len(self.gram), dtype=bool)
        wanted[self.roster.rows[self.inside & self.roster.spread_out(taken)]] = True
        return self.gram.hold(np.flatnonzero(wanted))

    def _round(self, columns: np.ndarray, sizes: np.ndarray) -> None:
        """Improve all columns on their working sets."""
        tol, roster, dual = self.effort.gap, self.roster, self.dual
        todo = self.gap > tol
        rough = np.maximum(tol, 0.05 * np.minimum(self.gap, self.unit[:, None]))
        goal = np.where(self.settled[:, None], tol, rough)
        limit = min(LOOK_PAIRS * len(self.gram), CHUNK) if self.effort.rough else CHUNK

        def improve(part: np.ndarray) -> None:
            size = int(sizes[part].max())
            with borrowed(size, size, self.gram.dtype) as block:
                train_columns(
                    *self.gram.places, part, roster.rows, roster.edges, *roster.runs, self.inside,
                    dual.target, dual.lower, dual.upper, dual.kink, dual.ridge, self.beta,
                    self.values, self.r, self.excess, self.worst, self.gap, self.bias,
                    self.iterations, todo, goal, limit, block.reshape(-1),
                )  # fmt: skip

        shared(columns, improve, self.gram)

    def _grow(self, columns: np.ndarray, sizes: np.ndarray) -> None:
        """Add rows that violate their condition, the worst first, and those that are near to it.

        A set at most doubles: many violations are gone once the worst ones are.
        """
        short = columns[(sizes < self.n_trainable)[columns]]
        for c in short:
            part = self.roster.part(c)
            rows = part.start + np.flatnonzero(self.trainable[part] & ~self.inside[part])
            excess = self.worst[rows]
            # rows that violate a little matter where they alone keep the gap open
            open_still = (self.gap[c] > self.effort.gap).any()
            least = 0.0 if open_still else float(np.max(self.effort.gap))
            if not excess.max() > least:
                continue
            near = excess > -NEAR_SMALL * self.unit[c]
            if near.sum() > sizes[c]:
                near = np.argsort(-excess, kind="stable")[: sizes[c]]
            self.inside[rows[near]] = True
            if self.inside[part].sum() > MOSTLY_ALL * self.n_trainable[c]:
                self.inside[part] = self.trainable[part]


def is_for_squads(gram: Gram, roster: Roster, dual: Dual, bias: bool, effort: Effort) -> bool:
    """Whether machines are many, small and not to be trained very exactly."""
    if len(roster) == 1 or not bias or dual.soft or effort.tol < POLISHED:
        return False
    return bool(roster.sizes.max() < len(gram) and np.isfinite(dual.upper).all())


@compiled
def feasible_start(old, old_lower, old_upper, at, lower, upper, edges, beta):
    """Carry coefficients over to other bounds and rows: what was at a bound stays there.

    `at` says where in the new roster each member of the old one is, -1 if nowhere.
    """
    for f in range(old.shape[0]):
        for k in range(at.shape[0]):
            t, value = at[k], old[f, k]
            if t < 0 or value == 0.0:
                continue
            if value <= old_lower[f, k]:
                value = lower[f, t]
            elif value >= old_upper[f, k]:
                value = upper[f, t]
            beta[f, t] = value
        for c in range(edges.shape[0] - 1):
            a, b = edges[c], edges[c + 1]
            make_feasible(beta[f, a:b], lower[f, a:b], upper[f, a:b])


@compiled(inner=True)
def copy_block(K, slots, rows, block):
    """Set block to K[rows, rows]; `slots` are the places of all rows in K."""
    n = rows.shape[0]
    for a in range(n):
        row, copied = K[slots[rows[a]]], block[a]
        for b in range(n):
            copied[b] = row[rows[b]]


@compiled(inner=True)
def residual_on(block, W, target, ridge, beta, r):
    """Compute the residual on the rows W; all rows with a coefficient are in it."""
    n = W.shape[0]
    values = np.zeros(n)
    for a in range(n):
        if beta[W[a]] != 0.0:
            add(values, block[a], beta[W[a]])
    for a in range(n):
        t = W[a]
        r[t] = target[t] - ridge[t] * beta[t] - values[a]


@compiled(inner=True)
def used_rows(slots, rows, beta):
    """Return the places in K of the rows that have a coefficient, and the coefficients."""
    at = np.flatnonzero(beta)
    return slots[rows[at]], beta[at]


@compiled
def train_columns(
    K, slots, columns, rows, edges, runs, run_edges, inside, target, lower, upper, kink, ridge,
    beta, values, r, excess, worst, gap, bias, iterations, todo, goal, max_iter, memory,
):  # fmt: skip
    """Improve the machines `todo` of some columns on their working sets, which are held rows of K.

    Brings up to date what depends on them.  All rows with a coefficient are in the working set.
    `memory` is for the block of the largest one.
    """
    for c in columns:
        a, b = edges[c], edges[c + 1]
        W = np.flatnonzero(inside[a:b])
        n = W.shape[0]
        block = memory[: n * n].reshape((n, n))
        copy_block(K, slots, rows[a:b][W], block)
        for f in range(beta.shape[0]):
            if todo[c, f] and n > 0:
                residual_on(block, W, target[f, a:b], ridge[f, a:b], beta[f, a:b], r[f, a:b])
                pairs, _ = smo_on_rows(
                    block, W, lower[f, a:b], upper[f, a:b], kink[f, a:b], ridge[f, a:b],
                    beta[f, a:b], r[f, a:b], goal[c, f], max_iter,
                )  # fmt: skip
                iterations[c, f] += pairs
        used = [used_rows(slots, rows[a:b], beta[f, a:b]) for f in range(beta.shape[0])]
        start = stop = a
        for k in range(run_edges[c], run_edges[c + 1]):
            start, stop = stop, stop + runs[k, 1] - runs[k, 0]
            for f in range(beta.shape[0]):  # one after the other, while this part of K is at hand
                if todo[c, f]:
                    values[f, start:stop] = 0.0
                    add_rows(values[f, start:stop], K, used[f][0], used[f][1], runs[k, 0])
        worst[a:b] = -np.inf
        for f in range(beta.shape[0]):
            if todo[c, f]:
                for t in range(a, b):
                    r[f, t] = target[f, t] - ridge[f, t] * beta[f, t] - values[f, t]
                top, bottom, bias[c, f] = optimality(
                    r[f, a:b], beta[f, a:b], lower[f, a:b], upper[f, a:b], kink[f, a:b],
                    excess[f, a:b],
                )  # fmt: skip
                gap[c, f] = top - bottom
            for t in range(a, b):
                worst[t] = max(worst[t], excess[f, t])


@compiled
def outputs_of_columns(K, slots, columns, rows, edges, beta, bias, first, out):
    """Set out[c] to the outputs of the machines of all folds on their validation rows.

    These begin at `first[f]` and end where the next fold's begin.  False if a row is not held.
    """
    for c in columns:
        a, b = edges[c], edges[c + 1]
        for f in range(beta.shape[0]):
            places, factors = used_rows(slots, rows[a:b], beta[f, a:b])
            if (places < 0).any():
                return False
            out[c, first[f] : first[f + 1]] = bias[c, f]
            add_rows(out[c, first[f] : first[f + 1]], K, places, factors, first[f])
    return True
