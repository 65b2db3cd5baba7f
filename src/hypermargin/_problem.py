"""Cross-validation of kernel machines as a differentiable function.

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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._budget import Budget, Workers, one_blas_thread
from ._gram import Gram, RowStore
from ._kernels import Kernel, Params, Points
from ._linear_system import SaddleSystem
from ._losses import Dual, Loss
from ._train import WHOLE, Effort, Trained, free_block, train

SINGLE = 1e-3  # gaps, in units of the targets, from which single precision is enough


@dataclass(frozen=True)
class Fold:
    """Row numbers of one split, and the weight that each row has in training (0: none)."""

    test: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Column:
    """One output of the model: the rows that its machines are trained on, and their targets."""

    members: np.ndarray
    target: np.ndarray


@dataclass(frozen=True)
class Design:
    """A data matrix and the folds that share it.

    Plain estimators have one design for all folds; with transformers that are fitted inside the
    folds each fold has its own.  `rows` are the numbers of its rows in the user's data, `fixed` the
    kernel's hyperparameters that depend on the training rows (gamma="scale").
    """

    points: Points
    rows: np.ndarray
    folds: tuple[int, ...]
    fixed: Params = field(default_factory=dict)


@dataclass(frozen=True)
class WarmStart:
    """Where a machine ended, by row numbers of the user's data."""

    rows: np.ndarray
    beta: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    active: np.ndarray  # which of the rows are, or may become, support vectors


State = dict[tuple[int, int], WarmStart]


@dataclass(frozen=True)
class Evaluation:
    """Out-of-fold outputs, one array (rows, columns) per fold, and what can be done with them."""

    outputs: list[np.ndarray]
    test: list[np.ndarray]
    pullback: Callable[[Sequence[np.ndarray]], Params]
    outputs_at: Callable[[int, np.ndarray], np.ndarray]
    state: State
    converged: bool


class CrossValidation:
    """All folds of a kernel machine as one function of its hyperparameters.

    Parameters
    ----------
    designs, folds, columns : sequences of Design, Fold, Column
    kernel, loss : Kernel, Loss
    values : dict
        Values of hyperparameters that an evaluation does not name.
    memory : float
        Bytes for the kernel matrices; above that their rows are computed on demand.

    Notes
    -----
    Rows of kernel matrices live in memory that the next evaluation overwrites, so only the pullback
    of the latest evaluation can be used; an older one raises an error.
    """

    def __init__(
        self,
        designs: Sequence[Design],
        folds: Sequence[Fold],
        columns: Sequence[Column],
        kernel: Kernel,
        loss: Loss,
        values: Params,
        memory: float,
        workers: Workers | None = None,
    ):
        self.designs = designs
        self.folds = folds
        self.columns = columns
        self.kernel = kernel
        self.loss = loss
        self.values = values
        self.memory = memory / len(designs)
        self.workers = workers or Workers(1)
        self._stores = [RowStore() for _ in designs]
        self._latest: object = None
        self.scale = max(float(np.std(column.target)) for column in columns) or 1.0

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        return (*self.loss.hyperparameters, *self.kernel.hyperparameters)

    def gram(
        self, number: int, points: Points, params: Params, budget: Budget, single: bool
    ) -> Gram:
        """Return the kernel matrix of a design, or of some of its points."""
        store = self._stores[number]
        return Gram(points, self.kernel, params, self.memory, self.workers, budget, store, single)

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
        """Train all folds at `params` and return the outputs on their validation rows.

        Parameters
        ----------
        params : dict
            Hyperparameters by name; those not named keep the estimator's own value.
        tol : float
            Optimality gap of every machine.
        warm : dict, optional
            `state` of an earlier evaluation, on the same or on fewer rows.
        rows : ndarray of bool, optional
            Which rows of the data take part, in training and in validation.
        budget : Budget, optional
            When it ends, machines stop where they are; `converged` then is False.
        max_iter : int, optional
            Most pair updates per machine.
        """
        self._latest = token = object()
        effort = Effort(tol, budget or Budget(), max_iter)
        request = _Request(params, effort, warm or {}, rows)
        with one_blas_thread:
            parts = [_FoldsOfDesign(self, number, request) for number in range(len(self.designs))]
        home = {fold: part for part in parts for fold in part.design.folds}
        order = range(len(self.folds))

        def pullback(delta: Sequence[np.ndarray]) -> Params:
            if self._latest is not token:
                raise RuntimeError("the problem was evaluated again; this pullback is out of date.")
            with one_blas_thread:
                gradients = [part.pullback(delta) for part in parts]
            return {n: sum(g[n] for g in gradients) for n in self.hyperparameters}

        return Evaluation(
            outputs=[home[f].outputs[f] for f in order],
            test=[home[f].test_rows[f] for f in order],
            pullback=pullback,
            outputs_at=lambda fold, at: home[fold].outputs_at(fold, at),
            state={key: start for part in parts for key, start in part.state().items()},
            converged=all(m.trained.converged for part in parts for m in part.machines.values()),
        )


@dataclass(frozen=True)
class _Request:
    """The arguments of one evaluation."""

    params: Params
    effort: Effort
    warm: State
    rows: np.ndarray | None


@dataclass
class _Machine:
    """A trained machine with its place in the design."""

    members: np.ndarray  # the rows of the (restricted) design that it covers
    y: np.ndarray
    weight: np.ndarray
    dual: Dual
    trained: Trained

    def adjoint(
        self, gram: Gram, u: np.ndarray, total: float, bias: bool
    ) -> tuple[np.ndarray, float]:
        """Solve eq. (14): u = K' delta on the support rows, total = 1' delta.

        Returns v on the support rows and c.
        """
        t = self.trained
        if not t.free:  # the bias is the mean of the two end rows' residuals, nothing else moves
            return np.full(2, 0.5 * total), 0.0
        block = free_block(gram, self.members, self.dual, t.support)
        return SaddleSystem(block, bias).solve(u, total)

    def cotangent(self, v: np.ndarray, w: np.ndarray) -> Dual:
        """Return cotangents on the dual's data: v on the support rows, w = K' e - c on all."""
        t, dual = self.trained, self.dual
        on_rows, sign = np.zeros(len(w)), np.zeros(len(w))
        np.add.at(on_rows, t.support, v)
        np.add.at(sign, t.support, v * t.sign)
        inside = dual.lower < dual.upper
        return Dual(
            target=on_rows,
            lower=np.where(inside & (t.beta <= dual.lower), w, 0.0),
            upper=np.where(inside & (t.beta >= dual.upper), w, 0.0),
            kink=-sign,
            ridge=-on_rows * t.beta,
        )


class _FoldsOfDesign:
    """The machines of all folds that share one design, trained at one point."""

    def __init__(self, problem: CrossValidation, number: int, request: _Request):
        self.problem, self.request = problem, request
        self.design = design = problem.designs[number]
        kept, points = np.arange(len(design.rows)), design.points
        if request.rows is not None:
            kept = np.flatnonzero(request.rows[design.rows])
            points = points.take(kept)
        self.rows = design.rows[kept]
        self.params = {**problem.values, **design.fixed, **request.params}
        # a kernel matrix in single precision is exact enough for gaps like libsvm's, but not for
        # finer ones, and a linear system has no gap at all that would show what is lost
        single = request.effort.tol >= SINGLE * problem.scale and problem.loss.bias
        budget = request.effort.budget
        self.gram = problem.gram(number, points, self.params, budget, single)
        self.test_rows, self.test = {}, {}
        for f in design.folds:  # a row may be listed twice, and may be in the training part too
            test = problem.folds[f].test
            self.test_rows[f] = test[np.isin(test, self.rows)]
            self.test[f] = np.searchsorted(self.rows, self.test_rows[f])
        self.machines = self._train_all()
        self.B = {f: self._coefficients(f) for f in design.folds}
        self.outputs = {f: self.outputs_at(f, self.test_rows[f]) for f in design.folds}

    def _map(self, function: Callable, items: Any) -> list:
        return self.problem.workers.map(function, items, self.request.effort.budget)

    def _train_all(self) -> dict[tuple[int, int], _Machine]:
        """Train one machine per fold and column."""
        columns = self.problem.columns
        members = [np.flatnonzero(column.members[self.rows]) for column in columns]
        jobs = [(f, c) for c in range(len(columns)) for f in self.design.folds]
        starts = {job: self._start(job, members[job[1]]) for job in jobs}
        # held here by all threads, before the machines share them
        if len(self.rows) <= 2 * WHOLE:
            self.gram.hold(np.arange(len(self.rows)))
        elif guesses := [members[c][s[1]] for (_, c), s in starts.items() if s is not None]:
            self.gram.hold(np.unique(np.concatenate(guesses)))

        def run(job: tuple[int, int]) -> _Machine:
            return self._train_one(job, members[job[1]], starts[job])

        return dict(zip(jobs, self._map(run, jobs), strict=True))

    def _start(
        self, job: tuple[int, int], members: np.ndarray
    ) -> tuple[WarmStart, np.ndarray] | None:
        """Return where a machine was, and the positions among its rows that were active there."""
        start = self.request.warm.get(job)
        if start is None:
            return None
        rows = self.rows[members]
        active = start.rows[start.active]
        place = np.minimum(np.searchsorted(rows, active), len(rows) - 1)
        return start, place[rows[place] == active]

    def _train_one(
        self,
        job: tuple[int, int],
        members: np.ndarray,
        start: tuple[WarmStart, np.ndarray] | None,
    ) -> _Machine:
        f, c = job
        problem, rows = self.problem, self.rows[members]
        y = problem.columns[c].target[rows]
        weight = problem.folds[f].weight[rows]
        dual = problem.loss.dual(y, weight, self.params)
        beta = None if start is None else _continue(start[0], rows, dual)
        guess = None if start is None else start[1]
        trained = train(
            self.gram, members, dual, problem.loss.bias, self.request.effort, beta, guess
        )
        return _Machine(members, y, weight, dual, trained)

    def of_fold(self, f: int) -> list[_Machine]:
        return [self.machines[f, c] for c in range(len(self.problem.columns))]

    def state(self) -> State:
        return {
            key: WarmStart(
                self.rows[m.members], m.trained.beta, m.dual.lower, m.dual.upper, m.trained.active
            )
            for key, m in self.machines.items()
        }

    def _coefficients(self, f: int) -> np.ndarray:
        B = np.zeros((len(self.rows), len(self.problem.columns)))
        for c, machine in enumerate(self.of_fold(f)):
            B[machine.members, c] = machine.trained.beta
        return B

    def outputs_at(self, f: int, rows: np.ndarray) -> np.ndarray:
        """Return the outputs of a fold's machines at rows given by their numbers in the data."""
        at = np.searchsorted(self.rows, rows)
        outputs = np.empty((len(at), len(self.problem.columns)))
        for c, machine in enumerate(self.of_fold(f)):
            t = machine.trained
            if len(machine.members) == len(self.rows):  # training has left K beta on all rows
                outputs[:, c] = t.values[at] + t.bias
            else:
                used = np.flatnonzero(t.beta)
                values = self.gram.combine(machine.members[used], t.beta[used], at)
                outputs[:, c] = values + t.bias
        return outputs

    def pullback(self, delta: Sequence[np.ndarray]) -> Params:
        """Turn gradients on the outputs of all folds into gradients on the hyperparameters."""
        problem, loss, folds = self.problem, self.problem.loss, self.design.folds
        width = len(problem.columns)
        E = np.zeros((len(self.rows), width * len(folds)))
        place = {(f, c): i * width + c for i, f in enumerate(folds) for c in range(width)}
        for (f, c), k in place.items():
            np.add.at(E[:, k], self.test[f], delta[f][:, c])
        B = np.hstack([self.B[f] for f in folds])
        used = np.unique(
            np.concatenate([m.members[m.trained.support] for m in self.machines.values()]
                           + [np.flatnonzero(B.any(axis=1))])
        )  # fmt: skip
        where = np.full(len(self.rows), -1)
        where[used] = np.arange(len(used))
        U = self.gram.product(used, E)

        def solve(job: tuple[int, int]) -> tuple[np.ndarray, float]:
            m, k = self.machines[job], place[job]
            u = U[where[m.members[m.trained.support]], k]
            return m.adjoint(self.gram, u, float(delta[job[0]][:, job[1]].sum()), loss.bias)

        adjoints = dict(zip(place, self._map(solve, place), strict=True))
        for job, (v, _) in adjoints.items():
            m = self.machines[job]
            np.add.at(E[:, place[job]], m.members[m.trained.support], -v)
        U = self.gram.product(used, E)
        gradient = dict.fromkeys(problem.hyperparameters, 0.0)
        for job, (v, c) in adjoints.items():
            m = self.machines[job]
            w = np.where(where[m.members] >= 0, U[where[m.members], place[job]] - c, 0.0)
            for name, value in loss.pullback(m.y, m.weight, m.cotangent(v, w)).items():
                gradient[name] += value
        return gradient | self.gram.pullback(E, B)


def _continue(start: WarmStart, rows: np.ndarray, dual: Dual) -> np.ndarray:
    """Carry coefficients over to other bounds and more rows: what was at a bound stays there."""
    beta = np.zeros(len(rows))
    place = np.minimum(np.searchsorted(rows, start.rows), len(rows) - 1)
    known = rows[place] == start.rows
    place = place[known]
    old, low, high = start.beta[known], start.lower[known], start.upper[known]
    beta[place] = old
    at_low, at_high = (old <= low) & (low < 0), (old >= high) & (high > 0)
    beta[place[at_low]] = dual.lower[place[at_low]]
    beta[place[at_high]] = dual.upper[place[at_high]]
    return beta
