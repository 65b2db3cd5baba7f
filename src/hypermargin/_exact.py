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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._block import Effort
from ._budget import Budget, cached, one_blas_thread
from ._gram import Columns, Gram, borrowed
from ._kernels import Params, Points
from ._linear_system import SaddleSystem
from ._losses import Dual, Rows
from ._problem import MANY, SAMPLE, Design, Evaluation, KernelProblem, Solution
from ._small import (
    Roster,
    Squad,
    adjoints,
    feasible_start,
    is_for_squads,
    outputs_of_columns,
    shared,
)
from ._train import MOST, WHOLE, Start, Trained, of_columns, of_fold, support, train


@dataclass(frozen=True)
class WarmStart:
    """Where the machines of a design, or of a column of it, ended, by row numbers of the data.

    The members of all columns follow each other, as in a `Roster`.
    """

    folds: tuple[int, ...]
    rows: np.ndarray
    edges: np.ndarray
    beta: np.ndarray  # (folds, rows), as are the bounds
    lower: np.ndarray
    upper: np.ndarray
    active: np.ndarray  # whether a row is, or may become, a support vector
    bias: np.ndarray  # (columns, folds); of a column, (folds,)
    iterations: np.ndarray

    def column(self, c: int) -> WarmStart:
        part = slice(self.edges[c], self.edges[c + 1])
        return WarmStart(
            self.folds, self.rows[part], np.array([0, part.stop - part.start]), self.beta[:, part],
            self.lower[:, part], self.upper[:, part], self.active[part], self.bias[c],
            self.iterations[c : c + 1],
        )  # fmt: skip


class State(Mapping[tuple[int, int], WarmStart]):
    """Where all machines ended, by number of the design and of the column."""

    def __init__(self, designs: dict[int, WarmStart]):
        self.designs = designs

    def __getitem__(self, key: tuple[int, int]) -> WarmStart:
        return self.designs[key[0]].column(key[1])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((d, c) for d, start in self.designs.items() for c in range(len(start.bias)))

    def __len__(self) -> int:
        return sum(len(start.bias) for start in self.designs.values())


def merged(state: State, n_rows: int) -> State:
    """Return the mean machines of all folds, as a start for machines on all rows."""
    columns = []
    for c in sorted({column for _, column in state}):
        parts = [state[key] for key in state if key[1] == c]
        beta, times = np.zeros((2, n_rows))
        low, high = np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
        active = np.zeros(n_rows, dtype=bool)
        for part in parts:
            beta[part.rows] += part.beta.sum(axis=0)
            times[part.rows] += (part.lower < part.upper).sum(axis=0)
            low[part.rows] = np.minimum(low[part.rows], part.lower.min(axis=0))
            high[part.rows] = np.maximum(high[part.rows], part.upper.max(axis=0))
            active[part.rows] |= part.active
        rows = np.flatnonzero(low <= high)
        beta = beta[rows] / np.maximum(times[rows], 1)
        columns.append((rows, beta, low[rows], high[rows], active[rows]))
    rows, beta, low, high, active = map(np.concatenate, zip(*columns, strict=True))
    edges = np.cumsum([0, *(len(column[0]) for column in columns)])
    nothing = np.zeros((len(columns), 1))
    start = WarmStart(
        (0,), rows, edges, beta[None], low[None], high[None], active, nothing, nothing[:, 0]
    )
    return State({0: start})


class CrossValidation(KernelProblem):
    """All folds of a kernel machine, trained exactly, as one function of its hyperparameters."""

    sums_to_zero = True

    @property
    def growth(self) -> float:  # type: ignore[override]
        return 3.0 if self.loss.linear or self.loss.softens else 2.0

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
        with one_blas_thread():
            parts = [
                _TrainedDesign(self, number, view, params, effort, warm)
                for number, view in enumerate(self._views_of(rows))
            ]
        home = {fold: part for part in parts for fold in part.view.folds}
        order = range(len(self.folds))
        evaluation = Evaluation(
            outputs=[home[f].outputs[f] for f in order],
            test=[home[f].view.test_rows[f] for f in order],
            pullback=self._pullback_of(parts),
            outputs_at=lambda fold, at: home[fold].outputs_at(fold, at),
            state=State({part.number: part.state() for part in parts}),
            converged=all(part.converged.all() for part in parts),
        )
        return self._moved(evaluation, params)

    def solutions(
        self,
        points: Points | None,
        weight: np.ndarray,
        params: Params,
        tol: float,
        warm: State | None,
        budget: Budget | None = None,
    ) -> list[Solution]:
        whole = self._on_all_rows(points, weight)
        whole._views = None
        start = None if warm is None else merged(warm, len(weight))
        if self.loss.linear:  # a system is solved or not
            budget = None
        evaluation = whole.evaluate(params, tol=tol, warm=start, budget=budget)
        state = [evaluation.state[0, c] for c in range(len(self.columns))]
        done = evaluation.converged
        design = whole.designs[0]
        place = np.argsort(design.rows, kind="stable")

        def solution(s: WarmStart) -> Solution:
            points = design.points.take(place[s.rows])
            bias = float(s.bias[0]) + self.kernel.bias_back(points, s.beta[0])
            return Solution(s.rows, s.beta[0], bias, int(s.iterations[0]), done)

        return [solution(s) for s in state]

    def _views_of(self, rows: np.ndarray | None) -> list[_View]:
        """Return the designs restricted to some rows; the latest restriction is remembered."""
        if self._views is None or self._views[0] is not rows:
            self._views = (rows, [_View(self, design, rows) for design in self.designs])
        return self._views[1]


class _View:
    """A design restricted to the rows that take part, with all that does not change with theta.

    `position` finds a row of the user's data among the rows here, -1 if it is not.  `test` are the
    validation rows of a fold in the order of the rows here, which `order` makes of the order of
    `test_rows`, that of the user's.  `groups` are the rows that belong to the same columns, which
    with one machine per pair of classes are a class each; their columns; and where they are in the
    roster, (rows, columns).
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
        self.roster = Roster.of(self.members)
        targets = [c.target[self.rows[m]] for c, m in zip(problem.columns, self.members)]
        self.y = np.concatenate(targets)
        parts = {
            kind: np.concatenate(
                [c.parts[kind][self.rows[m]] for c, m in zip(problem.columns, self.members)]
            )
            for kind in problem.n_parts
        }
        weight = np.stack([problem.folds[f].weight[self.rows] for f in self.folds])
        weight = np.ascontiguousarray(weight[:, self.roster.rows])
        for i, f in enumerate(self.folds):
            for c, column in enumerate(problem.columns):
                if not problem.folds[f].trains(column):
                    weight[i, self.roster.part(c)] = 0.0
        self.of_loss = Rows(self.y, weight, parts)
        self.groups = [
            (rows, columns, np.stack([self._places(rows, c) for c in columns], axis=1))
            for rows, columns in self._groups(problem)
            if len(columns)
        ]

    def _places(self, rows: np.ndarray, c: int) -> np.ndarray:
        """Return where members of a column are in the roster."""
        return self.roster.edges[c] + np.searchsorted(self.members[c], rows)

    def place(self, start: WarmStart) -> np.ndarray:
        """Return where in the roster the rows of an earlier evaluation are, -1 if nowhere."""
        if len(start.rows) == len(self.y) and np.array_equal(start.rows, self.user_rows):
            return np.arange(len(self.y))
        at = np.full(len(start.rows), -1)
        for c, members in enumerate(self.members):
            part = slice(start.edges[c], start.edges[c + 1])
            place = np.full(len(self.rows) + 1, -1)  # the last one is for rows that are not here
            place[members] = self.roster.edges[c] + np.arange(len(members))
            at[part] = place[self.position[start.rows[part]]]
        return at

    @cached
    def user_rows(self) -> np.ndarray:
        """The numbers of the members in the user's data."""
        return self.rows[self.roster.rows]

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

    @cached
    def test_edges(self) -> np.ndarray | None:
        """Where the validation rows of each fold begin and end, if they follow each other."""
        ends = [0]
        for f in self.folds:
            part = self.test_columns[f]
            if not isinstance(part, slice) or part.start != ends[-1]:
                return None
            ends.append(part.stop)
        return np.array(ends)

    @cached
    def test_columns(self) -> dict[int, Columns]:
        """The validation rows of each fold, as a slice where they are neighbours."""
        return {f: _as_slice(test) for f, test in self.test.items()}


def _as_slice(index: np.ndarray) -> Columns:
    if len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


class _TrainedDesign:
    """The machines of all folds that share one design, trained at one point.

    Their coefficients `beta`, the bounds of these and so on are arrays (folds, members) over the
    roster of the view; `bias` is (columns, folds).
    """

    def __init__(
        self,
        problem: CrossValidation,
        number: int,
        view: _View,
        params: Params,
        effort: Effort,
        warm: State | None,
    ):
        self.problem, self.number, self.view = problem, number, view
        self.effort = effort = replace(effort, unit=problem.units[list(view.folds)])
        self.params = {**problem.values, **view.fixed, **params}
        # a linear system has no gap that would show what is lost
        single = not problem.loss.linear and problem.in_single(view.points, self.params, effort.tol)
        self.dual = problem.loss.dual(view.of_loss, self.params)
        offsets = problem.offsets[list(view.folds)]
        if offsets.any():
            away = np.repeat(offsets, view.roster.sizes, axis=1)
            self.dual = replace(self.dual, target=self.dual.target - away)
        n_columns, n_folds = len(view.roster), len(view.folds)
        self.beta = np.zeros(self.dual.target.shape)
        self.values = np.empty(self.dual.target.shape)  # K beta
        self.active = np.zeros(len(view.y), dtype=bool)
        self.bias = np.zeros((n_columns, n_folds))
        self.iterations = np.zeros(n_columns, dtype=int)
        self.converged = np.ones(n_columns, dtype=bool)
        with problem.workers.clock.phase("train"):
            self._train(None if warm is None else warm.designs.get(number), single)
            if single and (self._is_stuck() or self._is_rounded()):
                self._train(self.state(), single=False)
        self._check_bounds()
        self.bias = self.bias + offsets.T
        with problem.workers.clock.phase("outputs"):
            self.outputs = {
                f: view.points.tied(part, view.test[f])[np.argsort(view.order[f])]
                for f, part in self._all_outputs().items()
            }

    def _map(self, function: Callable, items: Any) -> list:
        # for small machines threads do not pay, as above
        if len(self.problem.columns) > MANY and len(self.view.rows) <= 2 * WHOLE:
            return [function(item) for item in items]
        return self.problem.workers.map(function, items, self.effort.budget)

    def _is_stuck(self) -> bool:
        """Whether gaps are open that neither the clock nor a limit has left open."""
        rough = self.effort.max_iter is not None
        return not rough and not self.converged.all() and not self.effort.budget.expired()

    def _check_bounds(self) -> None:
        """Say so if coefficients are at bounds that no minimum of a convex problem can reach."""
        if not self.problem.loss.unreached or not self.converged.all():
            return
        beta, dual = self.beta, self.dual
        if (((beta <= dual.lower) | (beta >= dual.upper)) & (beta != 0.0)).any():
            names = ("C", *self.problem.kernel.hyperparameters)
            raise FloatingPointError(
                "the kernel matrix is so far from positive definite at "
                f"{ {name: self.params[name] for name in names} } that a squared loss has no "
                "minimum; lower C, or use a loss that is not squared."
            )

    def _is_rounded(self) -> bool:
        """Whether K beta in double precision differs by more than gaps may be open in the end."""
        view, problem = self.view, self.problem
        for c in np.linspace(0, len(view.roster) - 1, min(len(view.roster), 4)).astype(int):
            members, part = view.members[c], view.roster.part(c)
            at = np.linspace(0, len(members) - 1, min(len(members), SAMPLE)).astype(int)
            beta = self.beta[:, part]
            used = np.flatnonzero(beta.any(axis=0))
            some, support = (view.points.take(members[rows]) for rows in (at, used))
            exact = beta[:, used] @ problem.kernel.block(support, some, self.params)
            error = np.abs(exact - self.values[:, part][:, at]).max(axis=1)
            if (error > 10 * self.effort.gap).any():
                return True
        return False

    def _train(self, warm: WarmStart | None, single: bool) -> None:
        """Train the machines of every column."""
        view, roster, bias = self.view, self.view.roster, self.problem.loss.bias
        budget = self.effort.budget
        self.gram = gram = self.problem.gram(self.number, view.points, self.params, budget, single)
        active, complete = None, np.zeros(len(roster), dtype=bool)
        if warm is not None:
            active, complete = self._begin_at(warm)
        # held here by all threads, before the machines share them
        if len(view.rows) <= 2 * WHOLE:
            gram.hold(np.arange(len(view.rows)))
        elif active is not None:
            guess = np.zeros(len(view.rows), dtype=bool)
            guess[roster.rows[active]] = True
            if guess.sum() <= MOST * len(guess):
                gram.hold(np.flatnonzero(guess))
        left, start = np.arange(len(roster)), self._start(active, complete)
        if is_for_squads(gram, roster, self.dual, bias, self.effort):
            squad = Squad(
                gram, roster, self.dual, self.effort, self.beta, self.values, active, complete
            )
            left, start = squad.run(), squad.start
            self._take(squad)

        def run(c: int) -> None:
            part = roster.part(c)
            rows, dual = roster.rows[part], of_columns(self.dual, part)
            self._put(c, train(gram, rows, dual, bias, self.effort, start(c)))

        self._map(run, left)

    def _begin_at(self, warm: WarmStart) -> tuple[np.ndarray, np.ndarray]:
        """Set beta to an earlier solution; return its active rows, and which columns were whole."""
        view, dual = self.view, self.dual
        at = view.place(warm)
        feasible_start(
            warm.beta, warm.lower, warm.upper, at, dual.lower, dual.upper, view.roster.edges,
            self.beta,
        )  # fmt: skip
        active = np.zeros(len(view.y), dtype=bool)
        active[at[warm.active & (at >= 0)]] = True
        return active, np.diff(warm.edges) >= view.roster.sizes

    def _start(
        self, active: np.ndarray | None, complete: np.ndarray
    ) -> Callable[[int], Start | None]:
        """Return a function that says where the machines of a column begin."""

        def start(c: int) -> Start | None:
            if active is None:
                return None
            part = self.view.roster.part(c)
            return Start(self.beta[:, part], np.flatnonzero(active[part]), bool(complete[c]))

        return start

    def _take(self, squad: Squad) -> None:
        """Take over what a squad has come to; coefficients and values are here already."""
        self.active, self.bias = squad.active(), squad.bias
        self.iterations = squad.iterations.max(axis=1)
        self.converged = np.all(squad.gap <= 10 * self.effort.gap, axis=1)

    def _put(self, c: int, t: Trained) -> None:
        part = self.view.roster.part(c)
        self.beta[:, part], self.values[:, part] = t.beta, t.values
        self.active[part] = False
        self.active[part.start + t.active] = True
        self.bias[c], self.iterations[c], self.converged[c] = t.bias, t.iterations, t.converged

    def state(self) -> WarmStart:
        return WarmStart(
            self.view.folds, self.view.user_rows, self.view.roster.edges, self.beta,
            self.dual.lower, self.dual.upper, self.active, self.bias, self.iterations,
        )  # fmt: skip

    def _all_outputs(self) -> dict[int, np.ndarray]:
        """Return the outputs of every fold on its validation rows."""
        view, first, roster = self.view, self.view.test_edges, self.view.roster
        if len(roster) == 1 or first is None:
            return {f: self._outputs(f) for f in view.folds}
        outputs = np.empty((len(roster), first[-1]))

        def fill(columns: np.ndarray) -> bool:
            return outputs_of_columns(
                *self.gram.places, columns, roster.rows, roster.edges, self.beta, self.bias, first,
                outputs,
            )  # fmt: skip

        if not all(shared(np.arange(len(roster)), fill, self.gram)):
            return {f: self._outputs(f) for f in view.folds}
        parts = np.split(outputs.T, first[1:-1])
        return dict(zip(view.folds, parts, strict=True))

    def outputs_at(self, f: int, rows: np.ndarray) -> np.ndarray:
        """Return the outputs of a fold's machines at rows given by their numbers in the data."""
        at = self.view.position[rows]
        return self.view.points.tied(self._outputs(f, at), at)

    def _outputs(self, f: int, at: np.ndarray | None = None) -> np.ndarray:
        view, i = self.view, self.view.folds.index(f)
        columns = view.test_columns[f] if at is None else at
        at = view.test[f] if at is None else at

        def output(c: int) -> np.ndarray:
            members, part = view.members[c], view.roster.part(c)
            if len(members) == len(view.rows):  # training has left K beta on all rows
                return self.values[i, part][at] + self.bias[c, i]
            beta = self.beta[i : i + 1, part]
            return self.gram.combine(members, beta, columns)[0] + self.bias[c, i]

        return np.column_stack(self._map(output, range(len(view.roster))))

    def pullback(self, gradients: Sequence[np.ndarray]) -> Params:
        """Turn gradients on the outputs of all folds into gradients on the hyperparameters."""
        problem, view = self.problem, self.view
        n_folds, n_columns = len(view.folds), len(view.roster)
        # scaled to one, so that single precision neither over- nor underflows
        unit = max(float(np.abs(gradients[f]).max(initial=0.0)) for f in view.folds) or 1.0
        delta = {f: gradients[f][view.order[f]] / unit for f in view.folds}
        E = np.zeros((n_columns * n_folds, len(view.rows)), self.gram.dtype)
        for i, f in enumerate(view.folds):
            lanes, test = E[i::n_folds], view.test_columns[f]
            if isinstance(test, slice):
                lanes[:, test] = delta[f].T
            else:  # a row may be listed twice
                np.add.at(lanes.T, test, delta[f].astype(E.dtype))
        cotangent = Dual(*np.zeros((5, *self.beta.shape)))

        def solve(machine: int) -> None:
            c, i = divmod(int(machine), n_folds)
            self._adjoint(c, i, delta[view.folds[i]][:, c], cotangent, E[machine])

        self._map(solve, self._easy_adjoints(delta, cotangent, E))
        groups = []
        for rows, columns, places in view.groups:
            B = np.moveaxis(self.beta[:, places], 0, -1).reshape(len(rows), -1)
            groups.append((rows, (columns[:, None] * n_folds + np.arange(n_folds)).ravel(), B))
        gradient = problem.loss.pullback(view.of_loss, self.params, cotangent)
        gradient |= self.gram.pullback(E, groups)
        return {name: unit * value for name, value in gradient.items()}

    def _easy_adjoints(
        self, delta: dict[int, np.ndarray], cotangent: Dual, E: np.ndarray
    ) -> np.ndarray:
        """Solve the adjoints of machines with few free rows in compiled calls; return the others.

        Machines are numbered as the lanes of E.
        """
        view, dual, first = self.view, self.dual, self.view.test_edges
        hard = np.ones(len(E), dtype=bool)
        if first is not None and self.problem.loss.bias and not dual.soft:
            pooled = np.ascontiguousarray(np.concatenate([delta[f] for f in view.folds]).T)

            def solve(machines: np.ndarray) -> None:
                adjoints(
                    *self.gram.places, machines, view.roster.rows, view.roster.edges, first, pooled,
                    dual.lower, dual.upper, dual.kink, dual.ridge, self.beta, E, cotangent.target,
                    cotangent.lower, cotangent.upper, cotangent.kink, cotangent.ridge, hard,
                )  # fmt: skip

            shared(np.arange(len(E)), solve, self.gram)
        return np.flatnonzero(hard)

    def _adjoint(self, c: int, i: int, delta: np.ndarray, cotangent: Dual, e: np.ndarray) -> None:
        """Solve eq. (14) for one machine; write cotangents on its dual, and -v to its rows of e."""
        if not delta.any():
            return
        part = self.view.roster.part(c)
        members, beta = self.view.members[c], self.beta[i, part]
        dual, cotangent = (of_fold(of_columns(d, part), i) for d in (self.dual, cotangent))
        rows, sign, free = support(dual, beta, self.values[i, part])
        at_lower = (beta <= dual.lower) & (dual.lower < dual.upper)
        at_upper = (beta >= dual.upper) & (dual.lower < dual.upper)
        bound = np.flatnonzero((at_lower | at_upper) & (beta != 0.0))
        test = self.view.test_columns[self.view.folds[i]]
        v, w_bound = self._solve(members, rows, bound, dual.ridge, test, delta, free)
        w = np.zeros(len(beta))
        w[bound] = w_bound
        # without free rows, the two rows may be one and the same
        np.add.at(e, members[rows], -v.astype(e.dtype))
        np.add.at(cotangent.target, rows, v)
        np.add.at(cotangent.kink, rows, -v * sign)
        cotangent.ridge[:] = -cotangent.target * beta
        cotangent.lower[:] = np.where(at_lower, w, 0.0)
        cotangent.upper[:] = np.where(at_upper, w, 0.0)
        if dual.soft:  # coefficients are in proportion to their bound
            share = v * beta[rows] / (dual.lower + dual.upper)[rows] * dual.ridge[rows]
            cotangent.lower[rows] += np.where(dual.lower[rows] < 0.0, share, 0.0)
            cotangent.upper[rows] += np.where(dual.upper[rows] > 0.0, share, 0.0)

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
        Ku = gram.dot(members[np.concatenate([support, bound])], test, delta)
        if free:
            n, rows = len(support), members[support]
            with borrowed(n, n, gram.dtype) as block, borrowed(n, n, gram.dtype) as work:
                system = SaddleSystem(gram.block(rows, rows, block), ridge[support], bias, work)
                v, shift = system.solve(Ku[:n], total)
        else:  # the bias is the mean of the two end rows' residuals, nothing else moves
            v, shift = np.full(2, 0.5 * total), 0.0
        return v, Ku[len(support) :] - gram.dot(members[bound], members[support], v) - shift
