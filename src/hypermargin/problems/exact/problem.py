"""All folds of a kernel machine, trained exactly.

`CrossValidation.evaluate` takes hyperparameters and returns the out-of-fold outputs together with a
pullback, which turns a gradient on the outputs into a gradient on the hyperparameters by one
adjoint solve per machine (Keerthi et al., eqs. 13-14).  With beta_B at its bounds and beta_F free,

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
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.budget import Budget, Effort, one_blas_thread
from ..._core.space import Params, same
from ...kernels.gram import Columns, Gram, borrowed
from ...kernels.points import Points
from ...losses.base import Dual
from ..base import (
    HARMLESS,
    MANY,
    SAMPLE,
    SINGLE,
    Evaluation,
    Expansion,
    KernelProblem,
    Piece,
)
from .adjoint import adjoints
from .saddle import SaddleSystem
from .small import Squad, feasible_start, is_for_squads, outputs_of_columns, shared
from .state import State, WarmStart, joined, merged
from .train import MOSTLY_ALL, WHOLE, Start, Trained, support, train
from .view import View

MOST_RIDGE = 1e30  # that goes with kernel values in single precision, which end at 1e38
EXACT_GAP = 1e-6  # the gap of a model on few rows, in units of the targets


class CrossValidation(KernelProblem):
    """All folds of a kernel machine, trained exactly, as one function of its hyperparameters."""

    sums_to_zero = True
    solver: str | None = None  # "fista", if soft losses are to be trained by it

    @property
    def growth(self) -> float:  # type: ignore[override]
        return 3.0 if self.loss.linear or self.loss.softens else 2.0

    def _begin(self) -> None:
        super()._begin()
        self._grams: dict[int, Gram] = {}
        self._views: tuple[np.ndarray | None, dict[int, View]] | None = None

    def gram(
        self, number: int, points: Points, params: Params, budget: Budget, single: bool
    ) -> Gram:
        """Return the kernel matrix of a design, or of some of its points.

        If it is that of the latest evaluation, the rows that this has computed are still there.
        """
        params = {name: params[name] for name in self.kernel.hyperparameters}
        kept = np.float32 if single else np.float64
        latest = self._grams.get(number)
        known = latest is not None and latest.points is points and same(latest.params, params)
        if latest is None or not known or latest.dtype != kept:
            self._grams[number] = Gram(
                points, self.kernel, params, self.memory / len(self.designs), self.workers, budget,
                *self._stores[number], single,
            )  # fmt: skip
        self._grams[number].budget = budget
        return self._grams[number]

    def points_for_single(self, points: Points, params: Params, tol: float) -> Points | None:
        """Return what kernel values in single precision are computed of; None if they do not do.

        Where distances are small against the spread of the data, it is points in double.
        """
        if self.in_single(points, params, tol):
            return points.single
        kept = tol >= SINGLE and self.kernel.kept_error(points, params) <= HARMLESS
        return points if kept else None

    def memory_on(self, n_rows: int) -> float:
        # rows that the latest evaluation held, and the block of a machine that works on them
        parts = self._grams.values()
        share = max((len(gram.held) / len(gram) for gram in parts), default=1.0)
        size = max((gram.dtype.itemsize for gram in parts), default=8)
        whole = len(self.designs) * (share + share**2) * size * float(n_rows) ** 2
        return super().memory_on(n_rows) + min(whole, self.memory)

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: State | None = None,
        rows: np.ndarray | None = None,
    ) -> Evaluation:
        self._latest = None
        with one_blas_thread():
            parts = [
                _TrainedDesign(self, number, view, params, effort, warm)
                for number, view in self._views_of(rows).items()
            ]
        home = {fold: part for part in parts for fold in part.view.folds}
        order = self.numbers
        evaluation = Evaluation(
            outputs=[home[f].outputs[f] for f in order],
            test=[home[f].view.test_rows[f] for f in order],
            pullback=self._pullback_of(parts),
            outputs_at=lambda fold, at: home[fold].outputs_at(fold, at),
            state=State({part.number: part.state() for part in parts}),
            converged=all(part.converged.all() for part in parts),
        )
        return self._moved(evaluation, params)

    def refit(
        self,
        params: Params,
        effort: Effort,
        warm: State | None = None,
        *,
        weight: np.ndarray | None = None,
        points: Points | None = None,
    ) -> list[Expansion]:
        assert weight is not None
        whole = self._on_all_rows(points, weight)
        whole._views = None
        start = None if warm is None else merged(warm, len(weight))
        if self.loss.linear:  # a system is solved or not
            effort = replace(effort, budget=Budget())
        evaluation = whole.evaluate(params, effort, warm=start)
        if evaluation.converged and len(weight) <= WHOLE and effort.tol > EXACT_GAP:
            # a small gap may mean much in the outputs; with few rows it costs nothing to close it
            finer = whole.evaluate(params, replace(effort, tol=EXACT_GAP), warm=evaluation.state)
            evaluation = finer if finer.converged else evaluation
        state = [evaluation.state[0, c] for c in range(len(self.columns))]
        done = evaluation.converged
        design = whole.designs[0]
        place = np.argsort(design.rows, kind="stable")

        def solution(s: WarmStart) -> Expansion:
            points = design.points.take(place[s.rows])
            bias = float(s.bias[0]) + self.kernel.bias_back(points, s.beta[0])
            made = int(s.iterations[0])
            return Expansion(s.rows, s.beta[0], bias, iterations=made, converged=done)

        return [solution(s) for s in state]

    def state_of(self, state: State, piece: Piece) -> State:
        return state.part(piece.folds, piece.columns)

    def joined(self, pieces: Sequence[Piece], states: Sequence[State]) -> State:
        return joined([piece.columns.start for piece in pieces], states)

    def _views_of(self, rows: np.ndarray | None) -> dict[int, View]:
        """Return the designs restricted to some rows; the latest restriction is remembered."""
        if self._views is None or self._views[0] is not rows:
            used = [(number, d) for number, d in enumerate(self.designs) if d.folds]
            self._views = rows, {number: View(self, design, rows) for number, design in used}
        return self._views[1]


class _TrainedDesign:
    """The machines of all folds that share one design, trained at one point.

    Their coefficients `beta`, the bounds of these and so on are arrays (folds, members) over the
    roster of the view; `bias` is (columns, folds).
    """

    def __init__(
        self,
        problem: CrossValidation,
        number: int,
        view: View,
        params: Params,
        effort: Effort,
        warm: State | None,
    ):
        self.problem, self.number, self.view = problem, number, view
        self.effort = effort = replace(effort, unit=problem.units[list(view.folds)])
        self.params = {**problem.values, **view.fixed, **params}
        self.dual = problem.loss.dual(view.of_loss, self.params)
        # a linear system has no gap that would show what is lost
        rounds = not problem.loss.linear and self.dual.ridge.max(initial=0.0) < MOST_RIDGE
        self.points = points = problem.points_at(number, view.points, self.params)
        rounded = problem.points_for_single(points, self.params, effort.tol) if rounds else None
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
            self._train(None if warm is None else warm.designs.get(number), rounded)
            if rounded is not None and (self._is_stuck() or self._is_rounded()):
                self._train(self.state(), None)
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
        return (
            not self.effort.rough and not self.converged.all() and not self.effort.budget.expired()
        )

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
            some, support = (self.points.take(members[rows]) for rows in (at, used))
            exact = beta[:, used] @ problem.kernel.block(support, some, self.params)
            error = np.abs(exact - self.values[:, part][:, at]).max(axis=1)
            if (error > 10 * self.effort.gap).any():
                return True
        return False

    def _train(self, warm: WarmStart | None, rounded: Points | None) -> None:
        """Train the machines of every column, on kernel values of rounded points in single."""
        view, roster, bias = self.view, self.view.roster, self.problem.loss.bias
        budget = self.effort.budget
        points, single = self.points if rounded is None else rounded, rounded is not None
        self.gram = gram = self.problem.gram(self.number, points, self.params, budget, single)
        active, complete = None, np.zeros(len(roster), dtype=bool)
        if warm is not None:
            active, complete = self._begin_at(warm)
        # held here by all threads, before the machines share them
        if len(view.rows) <= 2 * WHOLE:
            gram.hold(np.arange(len(view.rows)))
        elif active is not None:
            guess = np.zeros(len(view.rows), dtype=bool)
            guess[roster.rows[active]] = True
            if guess.sum() <= MOSTLY_ALL * len(guess):
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
            rows, dual = roster.rows[part], self.dual.at((slice(None), part))
            self._put(c, train(gram, rows, dual, bias, self.effort, start(c), self.problem.solver))

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
                    dual.target, dual.lower, dual.upper, dual.kink, dual.ridge, self.beta,
                    self.values, E, cotangent.target, cotangent.lower, cotangent.upper,
                    cotangent.kink, cotangent.ridge, hard,
                )  # fmt: skip

            shared(np.arange(len(E)), solve, self.gram)
        return np.flatnonzero(hard)

    def _adjoint(self, c: int, i: int, delta: np.ndarray, cotangent: Dual, e: np.ndarray) -> None:
        """Solve eq. (14) for one machine; write cotangents on its dual, and -v to its rows of e."""
        if not delta.any():
            return
        part = self.view.roster.part(c)
        members, beta = self.view.members[c], self.beta[i, part]
        dual, cotangent = (d.at((i, part)) for d in (self.dual, cotangent))
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
            one, each, share, merged = self.view.without_twins(members[support], ridge[support])
            rows = members[support][one]
            n = len(rows)
            with borrowed(n, n, gram.dtype) as block, borrowed(n, n, gram.dtype) as work:
                system = SaddleSystem(
                    gram.block(rows, rows, block), merged, bias, work, gram.kernel.definite
                )
                v, shift = system.solve(Ku[: len(support)][one], total)
            v = v[each] * share
        else:  # the bias is the mean of the two end rows' residuals, nothing else moves
            v, shift = np.full(2, 0.5 * total), 0.0
        return v, Ku[len(support) :] - gram.dot(members[bound], members[support], v) - shift
