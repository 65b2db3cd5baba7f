"""Cross-validation of kernel machines as a differentiable function.

`CrossValidation.evaluate` takes hyperparameters and returns the out-of-fold outputs together with a
pullback, which turns a gradient on the outputs into a gradient on the hyperparameters by one
adjoint solve per machine (eqs. 13-14 of keerthi-2006).  With beta_B at its bounds and beta_F free,

    [ A  1 ] [ beta_F ]   [ target_F - kink_F sign_F - K_FB beta_B ]
    [ 1' 0 ] [  bias  ] = [             - 1' beta_B                ],   A = K_FF + diag(ridge_F),

outputs  o = K_VT beta + bias  and  delta = df/do,  the adjoint (v, c) solves the same system for the
right-hand side (K_VF' delta, 1' delta), and then

    df = e' dK beta + v' (dtarget_F - sign_F dkink_F - beta_F dridge_F) + ((K' e)_B - c)' dbeta_B,

where e holds delta on the validation rows and -v on the free rows.  So the cotangent on K has rank
one per machine, and a kernel never sees more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ._budget import Budget, Workers
from ._gram import Gram
from ._kernels import Kernel, Params, Points
from ._linear_system import SaddleSystem
from ._losses import Dual, Loss
from ._train import Trained, free_block, train


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
        Bytes for a kernel matrix; above that its rows are computed on demand.
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
        self.memory = memory
        self.workers = workers or Workers(1)

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        return (*self.loss.hyperparameters, *self.kernel.hyperparameters)

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
        parts = [
            _FoldsOfDesign(
                self, design, params, tol, warm or {}, rows, budget or Budget(), max_iter
            )
            for design in self.designs
        ]
        home = {fold: part for part in parts for fold in part.design.folds}
        order = range(len(self.folds))

        def pullback(delta: Sequence[np.ndarray]) -> Params:
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


@dataclass
class _Machine:
    """A trained machine with its place in the design."""

    members: np.ndarray  # rows of the (restricted) design that its Gram matrix covers
    gram: Gram
    y: np.ndarray
    weight: np.ndarray
    dual: Dual
    trained: Trained

    def adjoint(self, u: np.ndarray, total: float, loss: Loss) -> tuple[np.ndarray, float, Dual]:
        """Solve eq. (14): u = K' delta on the machine's rows, total = 1' delta.

        Returns v over its rows, and the cotangents on the dual's data.
        """
        t, dual = self.trained, self.dual
        v = np.zeros(len(u))
        free = t.free
        if free:
            if t.system is None:
                t.system = SaddleSystem(free_block(self.gram, dual, t.support), loss.bias)
            v[t.support], c = t.system.solve(u[t.support], total)
        else:
            # bias = mean of the two end rows' residuals; coefficients are all at bounds
            np.add.at(v, t.support, 0.5 * total)
            c = 0.0
        moved = np.flatnonzero(v)
        w = u - self.gram.left(moved, v[moved]) - c
        sign = np.zeros(len(u))
        sign[t.support] = t.sign
        at_lower = (t.beta <= dual.lower) & (dual.lower < dual.upper)
        at_upper = (t.beta >= dual.upper) & (dual.lower < dual.upper)
        cotangent = Dual(
            target=v,
            lower=np.where(at_lower, w, 0.0),
            upper=np.where(at_upper, w, 0.0),
            kink=-v * sign,
            ridge=-v * t.beta,
        )
        return v, c, cotangent


class _FoldsOfDesign:
    """The machines of all folds that share one design, trained at one point."""

    def __init__(
        self,
        problem: CrossValidation,
        design: Design,
        params: Params,
        tol: float,
        warm: State,
        rows: np.ndarray | None,
        budget: Budget,
        max_iter: int | None,
    ):
        kept = np.arange(len(design.rows)) if rows is None else np.flatnonzero(rows[design.rows])
        self.problem, self.design = problem, design
        self.rows = design.rows[kept]
        self.params = {**problem.values, **design.fixed, **params}
        self.budget = budget
        points = design.points if rows is None else design.points.take(kept)
        self.gram = Gram(
            points, problem.kernel, self.params, problem.memory, problem.workers, budget
        )
        self.test = {
            f: np.flatnonzero(np.isin(self.rows, problem.folds[f].test)) for f in design.folds
        }
        self.test_rows = {f: self.rows[at] for f, at in self.test.items()}
        self._train_all(tol, warm, max_iter)
        self._B = {f: self._coefficients(f) for f in design.folds}
        self.outputs = {f: self._outputs(f, at) for f, at in self.test.items()}

    def _train_all(self, tol: float, warm: State, max_iter: int | None) -> None:
        problem, folds = self.problem, self.design.folds
        if self.gram.stored:
            _ = self.gram.matrix  # built here, by all threads, before the machines share it

        def of_column(c: int) -> list[tuple[tuple[int, int], _Machine]]:
            members = np.flatnonzero(problem.columns[c].members[self.rows])
            gram = self.gram if len(members) == len(self.rows) else self.gram.restrict(members)
            return [
                ((f, c), self._train_one(f, c, members, gram, tol, warm.get((f, c)), max_iter))
                for f in folds
            ]

        def of_fold(f: int) -> tuple[tuple[int, int], _Machine]:
            everyone = np.arange(len(self.rows))
            start = warm.get((f, 0))
            return (f, 0), self._train_one(f, 0, everyone, self.gram, tol, start, max_iter)

        if len(problem.columns) == 1 and problem.columns[0].members.all():
            self.machines = dict(problem.workers.map(of_fold, folds, self.budget))
        else:
            columns = problem.workers.map(of_column, range(len(problem.columns)), self.budget)
            self.machines = dict(pair for column in columns for pair in column)

    def _train_one(
        self,
        f: int,
        c: int,
        members: np.ndarray,
        gram: Gram,
        tol: float,
        start: WarmStart | None,
        max_iter: int | None,
    ) -> _Machine:
        rows = self.rows[members]
        y = self.problem.columns[c].target[rows]
        weight = self.problem.folds[f].weight[rows]
        dual = self.problem.loss.dual(y, weight, self.params)
        beta = None if start is None else _continue(start, rows, dual)
        trained = train(gram, dual, self.problem.loss.bias, tol, beta, self.budget, max_iter)
        return _Machine(members, gram, y, weight, dual, trained)

    def state(self) -> State:
        return {
            key: WarmStart(self.rows[m.members], m.trained.beta, m.dual.lower, m.dual.upper)
            for key, m in self.machines.items()
        }

    def _coefficients(self, f: int) -> np.ndarray:
        B = np.zeros((len(self.rows), len(self.problem.columns)))
        for c in range(B.shape[1]):
            machine = self.machines[f, c]
            B[machine.members, c] = machine.trained.beta
        return B

    def _outputs(self, f: int, at: np.ndarray) -> np.ndarray:
        biases = [self.machines[f, c].trained.bias for c in range(len(self.problem.columns))]
        return self.gram.right(at, self._B[f]) + np.array(biases)

    def outputs_at(self, f: int, rows: np.ndarray) -> np.ndarray:
        """Return the outputs of a fold's machines at rows given by their numbers in the data."""
        return self._outputs(f, np.searchsorted(self.rows, rows))

    def pullback(self, delta: Sequence[np.ndarray]) -> Params:
        problem, loss = self.problem, self.problem.loss
        names = problem.hyperparameters
        gradient = dict.fromkeys(names, 0.0)

        def of_fold(f: int) -> tuple[np.ndarray, list[Params]]:
            E = np.zeros_like(self._B[f])
            E[self.test[f]] = delta[f]
            U = self.gram.left(self.test[f], delta[f])
            parts = []
            for c in range(E.shape[1]):
                m = self.machines[f, c]
                v, _, cotangent = m.adjoint(U[m.members, c], float(delta[f][:, c].sum()), loss)
                E[m.members, c] -= v
                parts.append(loss.pullback(m.y, m.weight, cotangent))
            return E, parts

        folds = self.design.folds
        found = problem.workers.map(of_fold, folds, self.budget)
        for _, parts in found:
            for part in parts:
                for name, value in part.items():
                    gradient[name] += value
        E = np.hstack([E for E, _ in found])
        B = np.hstack([self._B[f] for f in folds])
        return gradient | self.gram.pullback(E, B)


def _continue(start: WarmStart, rows: np.ndarray, dual: Dual) -> np.ndarray:
    """Carry coefficients over to other bounds and more rows: what was at a bound stays there."""
    beta = np.zeros(len(rows))
    place = np.searchsorted(rows, start.rows)
    place = np.minimum(place, len(rows) - 1)
    known = rows[place] == start.rows
    place = place[known]
    old, low, high = start.beta[known], start.lower[known], start.upper[known]
    beta[place] = old
    at_low, at_high = (old <= low) & (low < 0), (old >= high) & (high > 0)
    beta[place[at_low]] = dual.lower[place[at_low]]
    beta[place[at_high]] = dual.upper[place[at_high]]
    return beta
