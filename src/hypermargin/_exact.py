"""All folds of a kernel machine, trained exactly.

`CrossValidation.evaluate` takes hyperparameters and returns the out-of-fold outputs together with a
pullback, which turns a gradient on the outputs into a gradient on the hyperparameters by one
adjoint solve per machine (eqs. 13-14 of keerthi-2006).  With beta_B at its bounds and beta_F free,

    [ A  1 ] [ beta_F ]   [ target_F - kink_F sign_F - K_FB beta_B ]
    [ 1' 0 ] [  bias  ] = [             - 1' beta_B                ],   A = K_FF + diag(ridge_F),

outputs  o = K_VT beta + bias  and  delta = df/do,  the adjoint (v, c) solves the same system for
the right-hand side (K_VF' delta, 1' delta), and then

    df = e' dK beta + v' (dtarget_F - sign_F dkink_F - beta_F dridge_F) + ((K' e)_B - c)' dbeta_B,

where e holds delta on the validation rows and -v on the free rows.  So the cotangent on K has rank
one per machine, and a kernel never sees more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._block import Effort
from ._budget import Budget, one_blas_thread
from ._gram import Columns, Gram, borrowed
from ._kernels import Params, Points
from ._linear_system import SaddleSystem
from ._losses import Dual
from ._problem import MANY, Design, Evaluation, Problem, Solution
from ._small import adjoint, outputs_of
from ._train import MOST, WHOLE, Start, Trained, train

FEW = 100  # free rows up to which a compiled loop solves faster than LAPACK can be called


@dataclass(frozen=True)
class WarmStart:
    """Where the machines of a column ended, by row numbers of the user's data."""

    folds: tuple[int, ...]
    rows: np.ndarray
    beta: np.ndarray  # (folds, rows), as are the bounds
    lower: np.ndarray
    upper: np.ndarray
    active: np.ndarray  # which of the rows are, or may become, support vectors
    bias: np.ndarray  # (folds,)
    iterations: int


State = dict[tuple[int, int], WarmStart]  # by number of the design and of the column


def merged(state: State, n_rows: int) -> State:
    """Return the mean machines of all folds, as a start for machines on all rows."""
    starts: State = {}
    for c in {column for _, column in state}:
        parts = [start for (_, column), start in state.items() if column == c]
        beta, times = np.zeros((2, n_rows))
        low, high = np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
        active = np.zeros(n_rows, dtype=bool)
        for part in parts:
            beta[part.rows] += part.beta.sum(axis=0)
            times[part.rows] += (part.lower < part.upper).sum(axis=0)
            low[part.rows] = np.minimum(low[part.rows], part.lower.min(axis=0))
            high[part.rows] = np.maximum(high[part.rows], part.upper.max(axis=0))
            active[part.rows[part.active]] = True
        rows = np.flatnonzero(low <= high)
        beta = beta[rows] / np.maximum(times[rows], 1)
        starts[0, c] = WarmStart(
            (0,), rows, beta[None], low[None, rows], high[None, rows],
            np.flatnonzero(active[rows]), np.zeros(1), 0,
        )  # fmt: skip
    return starts


class CrossValidation(Problem):
    """All folds of a kernel machine, trained exactly, as one function of its hyperparameters."""

    def _begin(self) -> None:
        super()._begin()
        self._grams: dict[int, Gram] = {}
        self._views: tuple[np.ndarray | None, list[_View]] | None = None

    def gram(
        self, number: int, points: Points, params: Params, budget: Budget, single: bool
    ) -> Gram:
        """Return the kernel matrix of a design, or of some of its points.

        If it is that of the latest evaluation, the rows that this has computed are still there.
        """
        params = {name: params[name] for name in self.kernel.hyperparameters}
        wanted = points.single if single else points
        latest = self._grams.get(number)
        if latest is None or latest.points is not wanted or latest.params != params:
            self._grams[number] = Gram(
                points, self.kernel, params, self.memory / len(self.designs), self.workers, budget,
                *self._stores[number], single,
            )  # fmt: skip
        self._grams[number].budget = budget
        return self._grams[number]

    def evaluate(
        self,
        params: Params,
        *,
        tol: float,
        warm: State | None = None,
        rows: np.ndarray | None = None,
        budget: Budget | None = None,
        max_iter: int | None = None,
    ) -> Evaluation:
        self._latest = None
        effort = Effort(tol, budget or Budget(), max_iter)
        with one_blas_thread:
            parts = [
                _TrainedDesign(self, number, view, params, effort, warm or {})
                for number, view in enumerate(self._views_of(rows))
            ]
        home = {fold: part for part in parts for fold in part.view.folds}
        order = range(len(self.folds))
        return Evaluation(
            outputs=[home[f].outputs[f] for f in order],
            test=[home[f].view.test_rows[f] for f in order],
            pullback=self._pullback_of(parts),
            outputs_at=lambda fold, at: home[fold].outputs_at(fold, at),
            state={key: start for part in parts for key, start in part.state().items()},
            converged=all(t.converged for part in parts for t in part.trained),
        )

    def solutions(
        self,
        points: Points | None,
        weight: np.ndarray,
        params: Params,
        tol: float,
        warm: State | None,
    ) -> list[Solution] | None:
        whole = self._on_all_rows(points, weight)
        whole._views = None
        start = None if warm is None else merged(warm, len(weight))
        most = max(1_000_000, 100 * len(weight))  # libsvm may then have a try
        evaluation = whole.evaluate(params, tol=tol, warm=start, max_iter=most)
        if not evaluation.converged:
            return None
        state = [evaluation.state[0, c] for c in range(len(self.columns))]
        return [Solution(s.rows, s.beta[0], float(s.bias[0]), s.iterations) for s in state]

    def _views_of(self, rows: np.ndarray | None) -> list[_View]:
        """Return the designs restricted to some rows; the latest restriction is remembered."""
        if self._views is None or self._views[0] is not rows:
            self._views = (rows, [_View(self, design, rows) for design in self.designs])
        return self._views[1]


class _View:
    """A design restricted to the rows that take part, with all that does not change with theta.

    `position` finds a row of the user's data among the rows here, -1 if it is not.  `test` are the
    validation rows of a fold in the order of the rows here, which `order` makes of the order of
    `test_rows`, that of the user's.  `groups` are
    the rows that belong to the same columns: with one machine per pair of classes, a class each.
    """

    def __init__(self, problem: CrossValidation, design: Design, rows: np.ndarray | None):
        kept: Any = slice(None)
        if rows is not None and not rows[design.rows].all():
            kept = np.flatnonzero(rows[design.rows])
        self.points = design.points if rows is None else design.points.take(kept)
        self.rows = design.rows[kept]
        self.folds, self.fixed = design.folds, design.fixed
        n_total = len(problem.columns[0].target)
        self.position = np.full(n_total, -1)
        self.position[self.rows] = np.arange(len(self.rows))
        self.test_rows, self.test, self.order = {}, {}, {}
        for f in self.folds:  # a row may be listed twice, and may be in the training part too
            test = problem.folds[f].test
            self.test_rows[f] = test[self.position[test] >= 0]
            self.order[f] = np.argsort(self.position[self.test_rows[f]], kind="stable")
            self.test[f] = self.position[self.test_rows[f]][self.order[f]]
        self.members = [np.flatnonzero(c.members[self.rows]) for c in problem.columns]
        self.y = [c.target[self.rows[m]] for c, m in zip(problem.columns, self.members)]
        weight = np.stack([problem.folds[f].weight[self.rows] for f in self.folds])
        self.weight = [np.ascontiguousarray(weight[:, m]) for m in self.members]
        self.groups = self._groups(problem)

    def _groups(self, problem: CrossValidation) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs (rows, columns)."""
        if len(problem.columns) == 1:
            return [(self.members[0], np.array([0]))]
        belongs = np.stack([column.members[self.rows] for column in problem.columns], axis=1)
        bits = np.packbits(belongs, axis=1)
        _, first, of_row = np.unique(
            bits.view(f"V{bits.shape[1]}").ravel(), return_index=True, return_inverse=True
        )
        return [
            (np.flatnonzero(of_row == k), np.flatnonzero(belongs[row]))
            for k, row in enumerate(first)
        ]

    @cached_property
    def test_edges(self) -> np.ndarray | None:
        """Where the validation rows of each fold begin and end, if they follow each other."""
        ends = [0]
        for f in self.folds:
            part = self.test_columns[f]
            if not isinstance(part, slice) or part.start != ends[-1]:
                return None
            ends.append(part.stop)
        return np.array(ends)

    @cached_property
    def test_columns(self) -> dict[int, Columns]:
        """The validation rows of each fold, as a slice where they are neighbours."""
        return {f: _as_slice(test) for f, test in self.test.items()}


def _as_slice(index: np.ndarray) -> Columns:
    if len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


class _TrainedDesign:
    """The machines of all folds that share one design, trained at one point."""

    def __init__(
        self,
        problem: CrossValidation,
        number: int,
        view: _View,
        params: Params,
        effort: Effort,
        warm: State,
    ):
        self.problem, self.number, self.view, self.effort = problem, number, view, effort
        self.params = {**problem.values, **view.fixed, **params}
        # a linear system, without a bias, has no gap that would show what is lost
        single = problem.loss.bias and problem.in_single(view.points, self.params, effort.tol)
        self.gram = problem.gram(number, view.points, self.params, effort.budget, single)
        self.duals = [
            problem.loss.dual(y, weight, self.params)
            for y, weight in zip(view.y, view.weight, strict=True)
        ]
        with problem.workers.clock.phase("train"):
            self.trained = self._train(warm)
        with problem.workers.clock.phase("outputs"):
            self.outputs = {
                f: part[np.argsort(view.order[f])] for f, part in self._all_outputs().items()
            }

    def _map(self, function: Callable, items: Any) -> list:
        # for small machines threads do not pay, as above
        if len(self.problem.columns) > MANY and len(self.view.rows) <= 2 * WHOLE:
            return [function(item) for item in items]
        return self.problem.workers.map(function, items, self.effort.budget)

    def _train(self, warm: State) -> list[Trained]:
        """Train the machines of every column."""
        view, columns = self.view, range(len(self.problem.columns))
        starts = [self._start(warm.get((self.number, c)), c) for c in columns]
        # held here by all threads, before the machines share them
        if len(view.rows) <= 2 * WHOLE:
            self.gram.hold(np.arange(len(view.rows)))
        else:
            guess = np.zeros(len(view.rows), dtype=bool)
            for members, start in zip(view.members, starts, strict=True):
                if start is not None:
                    guess[members[start.active]] = True
            if guess.sum() <= MOST * len(guess):
                self.gram.hold(np.flatnonzero(guess))

        def run(c: int) -> Trained:
            bias = self.problem.loss.bias
            return train(self.gram, view.members[c], self.duals[c], bias, self.effort, starts[c])

        return self._map(run, columns)

    def _start(self, start: WarmStart | None, c: int) -> Start | None:
        """Carry coefficients over to other bounds and rows: what was at a bound stays there."""
        if start is None:
            return None
        view, dual = self.view, self.duals[c]
        members = view.members[c]
        place = np.full(len(view.rows), -1)
        place[members] = np.arange(len(members))
        at = view.position[start.rows]
        at = np.where(at >= 0, place[at], -1)
        known = at >= 0
        to = at[known]
        old = start.beta[:, known]
        low, high = start.lower[:, known], start.upper[:, known]
        moved = np.where((old <= low) & (low < 0), dual.lower[:, to], old)
        beta = np.zeros(dual.target.shape)
        beta[:, to] = np.where((old >= high) & (high > 0), dual.upper[:, to], moved)
        active = at[start.active]
        return Start(beta, active[active >= 0], len(start.rows) >= len(members))

    def state(self) -> State:
        return {
            (self.number, c): WarmStart(
                self.view.folds, self.view.rows[self.view.members[c]], t.beta,
                self.duals[c].lower, self.duals[c].upper, t.active, t.bias, t.iterations,
            )
            for c, t in enumerate(self.trained)
        }  # fmt: skip

    def _all_outputs(self) -> dict[int, np.ndarray]:
        """Return the outputs of every fold on its validation rows."""
        view, first = self.view, self.view.test_edges
        if len(self.trained) == 1 or first is None:
            return {f: self._outputs(f) for f in view.folds}
        outputs = np.empty((len(self.trained), first[-1]))

        def fill(c: int) -> None:
            t, members = self.trained[c], view.members[c]
            used = np.flatnonzero(t.beta.any(axis=0))
            held, B = self.gram.held(members[used]), np.ascontiguousarray(t.beta[:, used])
            if held is not None:
                outputs_of(*held, B, t.bias, first, outputs[c])
                return
            for i, part in enumerate(view.test_columns.values()):
                values = self.gram.combine(members[used], B[i : i + 1], part)[0]
                outputs[c, first[i] : first[i + 1]] = values + t.bias[i]

        self._map(fill, range(len(self.trained)))
        parts = np.split(outputs.T, first[1:-1])
        return dict(zip(view.folds, parts, strict=True))

    def outputs_at(self, f: int, rows: np.ndarray) -> np.ndarray:
        """Return the outputs of a fold's machines at rows given by their numbers in the data."""
        return self._outputs(f, self.view.position[rows])

    def _outputs(self, f: int, at: np.ndarray | None = None) -> np.ndarray:
        view, i = self.view, self.view.folds.index(f)
        columns = view.test_columns[f] if at is None else at
        at = view.test[f] if at is None else at

        def output(c: int) -> np.ndarray:
            t, members = self.trained[c], view.members[c]
            if len(members) == len(view.rows):  # training has left K beta on all rows
                return t.values[i, at] + t.bias[i]
            return self.gram.combine(members, t.beta[i : i + 1], columns)[0] + t.bias[i]

        return np.column_stack(self._map(output, range(len(self.trained))))

    def pullback(self, gradients: Sequence[np.ndarray]) -> Params:
        """Turn gradients on the outputs of all folds into gradients on the hyperparameters."""
        problem, view = self.problem, self.view
        delta = {f: gradients[f][view.order[f]] for f in view.folds}
        n_folds, n_columns = len(view.folds), len(problem.columns)
        E = np.zeros((len(view.rows), n_columns * n_folds))
        B = np.zeros_like(E)
        for i, f in enumerate(view.folds):
            np.add.at(E[:, i::n_folds], view.test[f], delta[f])  # a row may be listed twice

        def solve(c: int) -> Params:
            return self._pull_column(c, delta, E, B)

        gradient = dict.fromkeys(problem.hyperparameters, 0.0)
        for part in self._map(solve, range(n_columns)):
            for name, value in part.items():
                gradient[name] += value
        groups = [
            (rows, (columns[:, None] * n_folds + np.arange(n_folds)).ravel())
            for rows, columns in view.groups
        ]
        return gradient | self.gram.pullback(E, B, groups)

    def _pull_column(
        self, c: int, delta: dict[int, np.ndarray], E: np.ndarray, B: np.ndarray
    ) -> Params:
        """Solve the adjoints of one column, and pull what they say back to the loss.

        Writes to the lanes of the column in E, one per fold, what the adjoints add to them, and to
        B the coefficients.
        """
        view, t = self.view, self.trained[c]
        members, n_folds = view.members[c], len(view.folds)
        lane = slice(c * n_folds, (c + 1) * n_folds)
        B[members, lane] = t.beta.T
        cotangent = Dual(*np.zeros((5, *t.beta.shape)))

        def solve(i: int) -> None:
            self._adjoint(c, i, delta[view.folds[i]][:, c], cotangent, E[:, lane.start + i])

        self._map(solve, range(n_folds))
        return self.problem.loss.pullback(view.y[c], view.weight[c], cotangent)

    def _adjoint(self, c: int, i: int, delta: np.ndarray, cotangent: Dual, e: np.ndarray) -> None:
        """Solve eq. (14) for one machine; write cotangents on its dual, and -v to its rows of e."""
        view, t, dual = self.view, self.trained[c], self.duals[c]
        members, beta, (support, sign, free) = view.members[c], t.beta[i], t.support(i)
        lower, upper = dual.lower[i], dual.upper[i]
        at_lower = (beta <= lower) & (lower < upper)
        at_upper = (beta >= upper) & (lower < upper)
        bound = np.flatnonzero((at_lower | at_upper) & (beta != 0.0))
        test = view.test_columns[view.folds[i]]
        v, w_bound = self._solve(members, support, bound, dual.ridge[i], test, delta, free)
        w = np.zeros(len(beta))
        w[bound] = w_bound
        if free:
            e[members[support]] -= v
            cotangent.target[i, support] = v
            cotangent.kink[i, support] = -v * sign
        else:  # the two rows may be one and the same
            np.add.at(e, members[support], -v)
            np.add.at(cotangent.target[i], support, v)
            np.add.at(cotangent.kink[i], support, -v * sign)
        cotangent.ridge[i] = -cotangent.target[i] * beta
        cotangent.lower[i] = np.where(at_lower, w, 0.0)
        cotangent.upper[i] = np.where(at_upper, w, 0.0)

    def _solve(
        self,
        members: np.ndarray,
        support: np.ndarray,
        bound: np.ndarray,
        ridge: np.ndarray,
        test: Columns,
        delta: np.ndarray,
        free: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return v on the support rows, and w = K'e - c on the bound ones."""
        gram, total, bias = self.gram, float(delta.sum()), self.problem.loss.bias
        used = np.concatenate([support, bound])
        held = gram.held(members[used]) if len(support) <= FEW and free and bias else None
        if held is not None and isinstance(test, slice):
            v, w = np.empty(len(support)), np.empty(len(bound))
            slots = np.zeros(len(members), dtype=int)
            slots[used] = held[1]
            if adjoint(
                held[0], slots, members, support, bound, ridge, test.start,
                np.ascontiguousarray(delta), v, w,
            ):  # fmt: skip
                return v, w
        Ku = gram.dot(members[used], test, delta)
        if free:
            n, rows = len(support), members[support]
            with borrowed(n, n, gram.dtype) as block, borrowed(n, n, gram.dtype) as work:
                system = SaddleSystem(gram.block(rows, rows, block), ridge[support], bias, work)
                v, shift = system.solve(Ku[:n], total)
        else:  # the bias is the mean of the two end rows' residuals, nothing else moves
            v, shift = np.full(2, 0.5 * total), 0.0
        return v, Ku[len(support) :] - gram.dot(members[bound], members[support], v) - shift
