"""Evaluations in pieces, some folds and columns each, which the workers of joblib make.

A task of joblib's has no memory of the one before it, and may go to any worker.  So workers keep
two things themselves: the problem, which each of them is sent once, when it does not know it; and
what it has evaluated last, as a gradient needs all that training has left.  For a gradient all
workers are asked at once, and each answers for the pieces that it has.  A piece that nobody has any
more is evaluated again, from where it ended.

Some replace a process whose memory has grown, and what it has kept is gone with it.  Where more
processes have answered than there are workers, nothing is kept from then on but the problem.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4
from weakref import finalize

import numpy as np
from joblib import Parallel, delayed

from .._core.budget import Budget, Effort, OutOfTime, cached, one_blas_thread
from .._core.space import Params
from .._core.warn import warn
from ..kernels.gram import SPARE
from .base import Evaluation, Piece, Problem, gone
from .linear.problem import LinearCrossValidation, LinearEvaluation

SEARCHES = 4  # that a process knows, if they run side by side; a forgotten one is sent again


@dataclass
class Evaluated:
    """A piece of a problem, with its latest evaluation."""

    problem: Problem
    order: str = ""
    found: Evaluation | None = None
    asked: str = ""  # the latest question that it has answered


@dataclass
class Known:
    """What a process knows of a search: the problem, and the pieces that no thread has in hand."""

    problem: Problem
    was_sent: bool = False
    idle: dict[int, Evaluated] = field(default_factory=dict)

    def take(self, order: Order) -> Evaluated:
        """Return the piece of an order, which no other thread gets until it is idle again.

        In a process of the search all pieces share its memory.  Another one has as much for each,
        and gives that of pieces back which it was asked for earlier.
        """
        for number, other in list(self.idle.items()) if self.was_sent else ():
            outdated = number != order.number and other.order != order.name
            if outdated and self.idle.pop(number, None) is other:
                other.problem.release()
        if (found := self.idle.pop(order.number, None)) is not None:
            return found
        piece = replace(order.piece, share=1.0) if self.was_sent else order.piece
        return Evaluated(self.problem.cut(piece))


KNOWN: dict[str, Known] = {}  # in this process, by the name of the search
HERE = uuid4().hex  # this process; forked ones have a number of their own, too


class Sent:
    """A problem on its way to a worker.

    On a cluster joblib sends what several tasks are given once, and not with each of them, if it
    knows that it is large.
    """

    def __init__(self, problem: Problem):
        whole = Piece(tuple(problem.numbers), slice(0, len(problem.columns)))
        self.packed = pickle.dumps(problem.cut(whole), protocol=5)

    def __sizeof__(self) -> int:
        return len(self.packed)

    def problem(self) -> Problem:
        """Return the problem, with arrays of its own."""
        found: Problem = pickle.loads(self.packed)
        return found


@dataclass(frozen=True)
class Order:
    """A piece to be evaluated, and where it starts."""

    name: str  # all pieces have the same one
    number: int
    piece: Piece
    params: Params
    effort: Effort
    warm: Any
    keep: bool


@dataclass(frozen=True)
class Question:
    """What an evaluation is asked: its gradient for one on the outputs, or without that its rates.

    `name` is another one for each question.
    """

    name: str
    delta: Sequence[np.ndarray] | None = None

    def of(self, found: Any, piece: Piece) -> Any:
        if self.delta is None:
            return found.rates()
        # nothing of folds that are none of the piece's: a threshold moves all outputs there are
        rows = [slice(None) if f in piece.folds else slice(0) for f in range(len(self.delta))]
        parts = zip(self.delta, rows, strict=True)
        return found.pullback([part[own, piece.columns] for part, own in parts])


# --- What workers do


def signed(function: Callable, *task: Any) -> tuple[str, Any]:
    """Do a task; return the name of this process, too.

    What is wrong with a point, or the clock, is returned: joblib ends processes that raise.
    """
    name = f"{HERE} {os.getpid()}"
    try:
        return name, function(*task)
    except (FloatingPointError, OutOfTime) as error:
        return name, error


def known(search: str, sent: Sent | None) -> Known | None:
    """Return what this process knows of a search; None if that was not sent yet."""
    if search not in KNOWN and sent is not None:
        KNOWN.setdefault(search, Known(sent.problem(), was_sent=True))
        for oldest in list(KNOWN)[:-SEARCHES]:
            KNOWN.pop(oldest, None)
    return KNOWN.get(search)


def forget(search: str, _: Sent | None = None) -> None:
    """Give the memory of a search back."""
    here = KNOWN.pop(search, None)
    for one in () if here is None else here.idle.values():
        one.problem.release()


def evaluated(search: str, sent: Sent | None, order: Order) -> Evaluation | None:
    """Evaluate a piece and keep it; return what can be sent of it, None of an unknown problem."""
    if (here := known(search, sent)) is None:
        return None
    with evaluation_of(here, order) as found:
        return Evaluation(found.outputs, found.test, gone, gone, found.state, found.converged)


@contextmanager
def evaluation_of(here: Known, order: Order) -> Iterator[Evaluation]:
    """Give the evaluation of a piece, and keep it afterwards."""
    one = here.take(order)
    with one_blas_thread():
        one.found = one.problem.evaluate(order.params, order.effort, warm=order.warm)
    one.order = order.name
    yield one.found
    if not order.keep:
        one.order, one.found = "", None
        one.problem.release()
        SPARE.clear()
    here.idle[order.number] = one


def answers(
    search: str, _: Sent | None, order: str, pieces: Sequence[Piece], question: Question
) -> dict[int, Any]:
    """Return the answers of those pieces that this process has evaluated for an order.

    Each of them is given once, though all tasks may come to one worker.
    """
    found: dict[int, Any] = {}
    if (here := KNOWN.get(search)) is None:
        return found
    for number, piece in enumerate(pieces):
        if (one := here.idle.pop(number, None)) is None:
            continue
        if one.order == order and one.asked != question.name:
            one.asked = question.name
            found[number] = question.of(one.found, piece)
        here.idle[number] = one
    return found


def answer_anew(search: str, sent: Sent | None, order: Order, question: Question) -> Any:
    """Evaluate a piece where it ended, and return its answer; None of an unknown problem."""
    if (here := known(search, sent)) is None:
        return None
    with evaluation_of(here, order) as found:
        return {order.number: question.of(found, order.piece)}


# --- What they are asked for


def cut_up(problem: Problem, most: int) -> list[Piece]:
    """Return so many pieces of a problem, or fewer.

    Folds with designs of their own have nothing in common.  In one design it is columns that share
    least; folds have kernel values, or a pass over all rows, in common.
    """
    n_folds, n_columns = len(problem.folds), 1 if problem.coupled else len(problem.columns)
    if len(problem.designs) > 1:
        n_folds = min(n_folds, most)
        n_columns = min(n_columns, most // n_folds)
    else:
        n_columns = min(n_columns, most)
        n_folds = min(n_folds, most // n_columns)
    runs = np.array_split(np.arange(len(problem.folds)), n_folds)
    folds = [tuple(run.tolist()) for run in runs]
    runs = np.array_split(np.arange(len(problem.columns)), n_columns)
    columns = [slice(int(run[0]), int(run[-1]) + 1) for run in runs]
    sharing = max(sum(bool({*d.folds} & {*some}) for some in folds) for d in problem.designs)
    share = 1.0 / (sharing * n_columns)
    return [Piece(some, part, share) for part in columns for some in folds]


class Lost(Exception):
    """Workers did not do what they were asked for."""


class Apart:
    """A problem that is evaluated by the workers of joblib.

    Where they fail it says so, and evaluates here from then on.

    Parameters
    ----------
    problem : Problem
    n_workers : int
        Into how many pieces it is cut, at most.
    """

    def __init__(self, problem: Problem, n_workers: int):
        self.problem, self.pieces = problem, cut_up(problem, n_workers)
        self.n_workers, self.processes = n_workers, set[str]()
        self.search, self.lost = uuid4().hex, len(self.pieces) < 2
        KNOWN[self.search] = Known(problem)  # threads of this process need not be sent anything
        self._forget_here = finalize(self, forget, self.search)

    @cached
    def sent(self) -> Sent:
        """The problem as it is sent; it is made when a worker does not know it."""
        return Sent(self.problem)

    @property
    def pays(self) -> bool:
        """Whether pieces can take less time than the whole does in this process.

        Folds of one design have kernel values in common, or a pass over all rows: most of the work,
        which each piece does anew.  Two of them take as long as the whole.
        """
        by_folds = len({piece.folds for piece in self.pieces}) == len(self.pieces)
        together = by_folds and len(self.problem.designs) == 1
        return len(self.pieces) > (2 if together else 1)

    @property
    def keeps(self) -> bool:
        """Whether processes last long enough to keep what they have evaluated."""
        return len(self.processes) <= self.n_workers

    def release(self) -> None:
        """Let workers forget the problem, as far as tasks reach them all."""
        self._forget_here()
        if "sent" in vars(self) and not self.lost:
            with suppress(Exception):
                self._run(forget, [()] * self.n_workers, None)

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: Any = None,
        rows: np.ndarray | None = None,
    ) -> Evaluation:
        """Train all folds at `params`, as the problem itself does."""
        if self.lost or rows is not None:
            return self.problem.evaluate(params, effort, warm=warm, rows=rows)
        orders = self.orders(uuid4().hex, params, effort, warm)
        try:
            with self.problem.workers.clock.phase("train"):
                parts = self.ask(evaluated, [(order,) for order in orders], effort.budget)
        except Lost:
            return self.problem.evaluate(params, effort, warm=warm)
        return _Joined(self, orders[0], parts).evaluation()

    def orders(self, name: str, params: Params, effort: Effort, warm: Any) -> list[Order]:
        """Return an order for every piece, with its part of where machines start."""
        starts = [None if warm is None else self.problem.state_of(warm, p) for p in self.pieces]
        return [
            Order(name, number, piece, params, effort, start, self.keeps)
            for number, (piece, start) in enumerate(zip(self.pieces, starts, strict=True))
        ]

    def ask(self, function: Callable, tasks: Sequence[tuple], budget: Budget) -> list:
        """Return what workers make of tasks; who does not know the problem is sent it."""
        try:
            found = self._run(function, tasks, None) if tasks else []
            unknown = [number for number, one in enumerate(found) if one is None]
            if unknown:
                again = self._run(function, [tasks[number] for number in unknown], self.sent)
                for number, one in zip(unknown, again, strict=True):
                    found[number] = one
            return found
        except (FloatingPointError, OutOfTime):  # these are of the point, and of the clock
            raise
        except Exception as error:
            self.lost = True
            warn(
                f"Workers of joblib failed ({type(error).__name__}: {error}); the search goes on "
                "in this process."
            )
            raise Lost from error
        except BaseException:
            self.lost = True
            budget.stop()  # threads of this process ask it, too
            raise

    def _run(self, function: Callable, tasks: Sequence[tuple], sent: Sent | None) -> list:
        # short tasks are not put together, or one worker would have all of them; arrays that are
        # mapped from files cannot be written to, for which loops would be compiled anew
        side_by_side = Parallel(n_jobs=None, batch_size=1, pre_dispatch="all", max_nbytes=None)
        every = [(function, self.search, sent, *task) for task in tasks]
        found = side_by_side(delayed(signed)(*one) for one in every)
        self.processes.update(process for process, _ in found)
        for _, one in found:
            if isinstance(one, Exception):
                raise one
        return [one for _, one in found]


class _Joined:
    """What workers have evaluated, put together."""

    def __init__(self, apart: Apart, order: Order, parts: list[Evaluation]):
        self.apart, self.order, self.parts = apart, order, parts
        # a gradient cannot be had by halves
        self.effort = replace(order.effort, budget=order.effort.budget.unhurried())
        self.state = apart.problem.joined(apart.pieces, [part.state for part in parts])

    def evaluation(self) -> Evaluation:
        """Return it as the evaluation of the problem."""
        tests = {
            f: rows
            for piece, part in zip(self.apart.pieces, self.parts, strict=True)
            for f, rows in zip(piece.folds, part.test, strict=True)
        }
        outputs = self._by_fold([part.outputs for part in self.parts])
        found: dict[str, Any] = {
            "outputs": outputs,
            "test": [tests[f] for f in sorted(tests)],
            "pullback": self.pullback,
            "outputs_at": self.outputs_at,
            "state": self.state,
            "converged": all(part.converged for part in self.parts),
        }
        if isinstance(self.apart.problem, LinearCrossValidation):
            return LinearEvaluation(**found, rates=self.rates)
        return Evaluation(**found)

    def _by_fold(self, parts: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
        """Return for every fold the columns that pieces have, side by side."""
        found: list[list[np.ndarray]] = [[] for _ in self.apart.problem.folds]
        for piece, part in zip(self.apart.pieces, parts, strict=True):
            for f, own in zip(piece.folds, part, strict=True):
                found[f].append(own)
        return [np.hstack(columns) for columns in found]

    def outputs_at(self, fold: int, at: np.ndarray) -> np.ndarray:
        return self.here.outputs_at(fold, at)

    @cached
    def here(self) -> Any:
        """The evaluation in this process, from where that of the workers ended."""
        return self.apart.problem.evaluate(self.order.params, self.effort, warm=self.state)

    def pullback(self, delta: Sequence[np.ndarray]) -> Params:
        """Return the sum of the pieces' gradients."""
        try:
            found = self._answers(Question(uuid4().hex, delta))
        except Lost:
            return self.here.pullback(delta)
        return {name: sum(one[name] for one in found) for name in found[0]}

    def rates(self) -> tuple[list[np.ndarray], Any]:
        """Return how outputs move with the logarithm of all costs, and the state that knows it."""
        try:
            found = self._answers(Question(uuid4().hex))
        except Lost:
            return self.here.rates()
        state = self.apart.problem.joined(self.apart.pieces, [own for _, own in found])
        return self._by_fold([rates for rates, _ in found]), state

    def _answers(self, question: Question) -> list[Any]:
        """Return the answer of each piece."""
        apart, name, budget = self.apart, self.order.name, self.effort.budget
        if apart.lost:
            raise Lost
        found, task = dict[int, Any](), (name, apart.pieces, question)
        with apart.problem.workers.clock.phase("adjoint"):
            tasks = [task] * apart.n_workers if apart.keeps else []  # one for each, most likely
            for some in apart.ask(answers, tasks, budget):
                found |= some
            orders = apart.orders(name, self.order.params, self.effort, self.state)
            left = [(order, question) for order in orders if order.number not in found]
            for one in apart.ask(answer_anew, left, budget):
                found |= one
        return [found[number] for number in range(len(apart.pieces))]
