"""Cross-validation as a differentiable function: the seam.

A problem takes hyperparameters and returns out-of-fold outputs together with a pullback, which
turns a gradient on the outputs into a gradient on the hyperparameters.  There are three: `exact`
trains kernel machines on all rows, `landmarks` on landmarks, `linear` trains linear machines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._core.budget import Budget, Effort, Workers, one_blas_thread
from .._core.space import Dimension, Params, same
from ..kernels.base import Kernel
from ..kernels.gram import RowStore
from ..kernels.points import Points
from ..losses.base import Loss

MANY = 5  # machines of a fold that are called many
HARMLESS = 2e-5  # rounding errors of a kernel matrix, relative to its diagonal, up to which it is
SAMPLE = 16  # rows on which outputs in single precision are compared with exact ones
SINGLE = 1e-3  # gaps, in units of the targets, from which single precision is enough


@dataclass(frozen=True)
class Fold:
    """Row numbers of one split, and the weight that each row has in training (0: none).

    `others` is the weight of rows that stand for all other classes, in a column of one class
    against the rest, where that differs: LIBLINEAR weighs the one class only.  `known` tells of
    every class whether the training part has it, where it does not have all: the fold's model then
    is one of the others only, and machines for the class are not trained.
    """

    test: np.ndarray
    weight: np.ndarray
    others: np.ndarray | None = None
    known: np.ndarray | None = None

    def trains(self, column: Column) -> bool:
        """Whether the fold's model has the machine of a column."""
        return self.known is None or bool(self.known[list(column.classes)].all())

    def of_column(self, column: Column) -> np.ndarray:
        """Return the weights of all rows in training a machine of a column."""
        if not self.trains(column):
            return np.zeros(len(self.weight))
        if self.others is None:
            return self.weight * column.members
        return np.where(column.target > 0, self.weight, self.others) * column.members


@dataclass(frozen=True)
class Column:
    """One output of the model: the rows that its machines are trained on, and their targets.

    `parts` are the numbers of every row's class, machine and group, as far as these may have
    hyperparameters of their own; `classes` those that the output is for: two, or one against the
    rest.
    """

    members: np.ndarray
    target: np.ndarray
    parts: Mapping[str, np.ndarray]
    classes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Design:
    """A data matrix and the folds that share it.

    Plain estimators have one design for all folds; with transformers that are fitted inside the
    folds each fold has its own.  `rows` are the numbers of its rows in the user's data, in any
    order; where validation rows of a fold are neighbours, products with them are faster.  `fixed`
    are the kernel's hyperparameters that depend on the training rows (gamma="scale").
    """

    points: Any  # Points of a kernel machine, the matrix of a linear one
    rows: np.ndarray
    folds: tuple[int, ...]
    fixed: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """Some folds and columns of a problem, by their numbers in it.

    `share` is the part of the memory for kernel values that is for a piece, where several share a
    design.
    """

    folds: tuple[int, ...]
    columns: slice
    share: float = 1.0


@dataclass(frozen=True)
class Evaluation:
    """Out-of-fold outputs, one array (rows, columns) per fold, and what can be done with them.

    Where rows are in many places there are no outputs here: `validate` applies a criterion to them
    there, and returns its value and what `pullback` is to be given.
    """

    outputs: list[np.ndarray]
    test: list[np.ndarray]
    pullback: Callable[[Sequence[np.ndarray]], Params]
    outputs_at: Callable[[int, np.ndarray], np.ndarray]
    state: Any  # what `warm` of a later evaluation may be
    converged: bool
    validate: Callable[[Any], tuple[float, list[np.ndarray]]] | None = None

    def outputs_only(self) -> Evaluation:
        """Return a copy that keeps no kernel matrix alive."""
        return Evaluation(self.outputs, self.test, gone, gone, {}, self.converged)


def gone(*_: Any) -> Any:
    """Stand for what an evaluation no longer has."""
    raise RuntimeError("only the outputs of this evaluation were kept.")


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A machine that is trained on all rows."""

    iterations: int = 1
    converged: bool = True


@dataclass(frozen=True)
class Expansion(Solution):
    """Its output at x is sum_k beta_k K(x, X[rows_k]) + bias.

    The rows may be of either class, the coefficients of either sign.
    """

    rows: np.ndarray
    beta: np.ndarray
    bias: float


def _middle(fold: Fold, column: Column) -> float:
    """Return a middle one of the targets that a machine is trained on."""
    target = column.target[fold.of_column(column) > 0]
    return float(np.partition(target, len(target) // 2)[len(target) // 2])


def _where_minima_are(dimension: Dimension, K: np.ndarray, n_rows: int) -> Dimension:
    """Return a range of C whose usual part begins where a squared loss has a minimum.

    It has one for sure where 1 / (2 C) is more than what the kernel matrix lacks to be positive
    definite.  `K` is of some of the rows; eigenvalues grow with their number.
    """
    centred = K - K.mean(axis=0)
    lack = -float(np.linalg.eigvalsh(centred - centred.mean(axis=1, keepdims=True))[0])
    lack *= n_rows / len(K)
    low, high = dimension.usual or (dimension.low, dimension.high)
    middle, most = np.sqrt(low * high), 0.5 / max(lack, 1e-300)
    if middle <= most or lack <= 1e-9 * np.abs(K).max():
        return dimension
    usual = low * most / middle, high * most / middle
    return replace(dimension, low=min(dimension.low, usual[0]), usual=usual)


def middle_of(dimension: Dimension | Sequence[Dimension]) -> Any:
    """Return the middle of a range, or of those of an array."""
    if isinstance(dimension, Dimension):
        return dimension.from_scaled(dimension.middle)
    return np.array([d.from_scaled(d.middle) for d in dimension])


class Problem:
    """Folds, columns and a loss: what every way to cross-validate has in common.

    Parameters
    ----------
    designs, folds, columns : sequences of Design, Fold, Column
    loss : Loss
    values : dict
        Values of hyperparameters that an evaluation does not name.
    """

    most_looks = 200  # at the whole space, where rows are few
    work = 1e-2  # tolerance on the way, where there are many rows; libsvm ends at 1e-3
    growth = 1.0  # the power of the number of rows that time grows with

    def __init__(
        self,
        designs: Sequence[Design],
        folds: Sequence[Fold],
        columns: Sequence[Column],
        loss: Loss,
        values: Params,
        workers: Workers | None = None,
    ):
        self.designs = designs
        self.folds = folds
        self.columns = columns
        self.loss = loss
        self.workers = workers or Workers(1)
        n_parts = {
            kind: int(max(column.parts[kind].max(initial=0) for column in columns)) + 1
            for kind in columns[0].parts
        }
        by_part = loss.by_part.items()
        ones = {name: np.ones(n_parts[kind]) for name, kind in by_part if kind in n_parts}
        self.hyperparameters = (*loss.hyperparameters, *ones)
        self.values = {**ones, **values}

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: Any = None,
        rows: np.ndarray | None = None,
    ) -> Evaluation:
        """Train all folds at `params` and return the outputs on their validation rows.

        Parameters
        ----------
        params : dict
            Hyperparameters by name; those not named keep the estimator's own value.
        effort : Effort
            How far every machine is trained; where its budget ends, `converged` is False.
        warm : dict, optional
            `state` of an earlier evaluation, on the same or on fewer rows.
        rows : ndarray of bool, optional
            Which rows of the data take part, in training and in validation.
        """
        raise NotImplementedError

    def refit(
        self,
        params: Params,
        effort: Effort,
        warm: Any = None,
        *,
        weight: np.ndarray | None = None,
        points: Any = None,
    ) -> Sequence[Solution]:
        """Train one machine per column on all rows, beginning with `state` of an evaluation.

        `weight` are the weights of the rows, where the problem does not know them; `points` the
        rows in the user's order, if they are not those of the (only) design here.
        """
        raise NotImplementedError

    def dimensions(self, names: Sequence[str], y: np.ndarray) -> dict[str, Dimension]:
        """Return ranges that suit the data, for those of the names that it knows."""
        raise NotImplementedError

    def map_evaluations(self, function: Callable, items: Any, budget: Budget) -> list:
        """Apply a function that evaluates `of_thread()` to all items, side by side if that pays.

        With many small machines it does not: they take less time than threads take to share the
        interpreter.
        """
        if len(self.columns) * len(self.designs) > MANY:
            return [function(item) for item in items]
        return self.workers.map(function, items, budget)

    def of_thread(self) -> Self:
        """Return a problem like this one that may be evaluated beside it."""
        return self

    @property
    def numbers(self) -> list[int]:
        """The numbers of the folds that are evaluated here: all, unless it is a part."""
        return sorted(f for design in self.designs for f in design.folds)

    @property
    def coupled(self) -> bool:
        """Whether the machines of all columns are to be trained together."""
        return any(fold.known is not None for fold in self.folds)

    def cut(self, piece: Piece) -> Self:
        """Return the problem of some folds and columns, with one thread and memory of its own.

        Folds keep their numbers; columns are counted from the first one that is there.
        """
        part = copy(self)
        part.workers = Workers(1)
        part.columns = self.columns[piece.columns]
        part.designs = [
            replace(design, folds=tuple(f for f in design.folds if f in piece.folds))
            for design in self.designs
        ]
        return part

    def state_of(self, state: Any, piece: Piece) -> Any:
        """Return of where machines ended what is of a piece."""
        first, last = piece.columns.start, piece.columns.stop
        return {
            (f, c - first): end
            for (f, c), end in state.items()
            if first <= c < last and (f in piece.folds or f not in self.numbers)
        }

    def joined(self, pieces: Sequence[Piece], states: Sequence[Any]) -> Any:
        """Return where all machines ended, of where those of the pieces did."""
        return {
            (f, c + piece.columns.start): end
            for piece, state in zip(pieces, states, strict=True)
            for (f, c), end in state.items()
        }

    def memory_on(self, n_rows: int) -> float:
        """Return the bytes that an evaluation on so many rows takes, beside the data."""
        return 8.0 * n_rows * len(self.folds) * len(self.columns)

    def release(self) -> None:
        """Give memory back; the next evaluation takes what it needs."""

    def _moved(self, evaluation: Evaluation, params: Params) -> Evaluation:
        """Return an evaluation with outputs above the threshold: eq. (15) of Keerthi et al."""
        threshold = params.get("threshold", self.values.get("threshold", 0.0))
        if threshold == 0.0 and "threshold" not in params:
            return evaluation

        def pullback(delta: Sequence[np.ndarray]) -> Params:
            moved = -float(sum(part.sum() for part in delta))
            return evaluation.pullback(delta) | {"threshold": moved}

        def outputs_at(fold: int, at: np.ndarray) -> np.ndarray:
            return evaluation.outputs_at(fold, at) - threshold

        outputs = [part - threshold for part in evaluation.outputs]
        return replace(evaluation, outputs=outputs, pullback=pullback, outputs_at=outputs_at)


class KernelProblem(Problem):
    """What the ways to cross-validate a kernel machine have in common.

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

    refit: Callable[..., list[Expansion]]
    sums_to_zero: ClassVar[bool]  # whether the coefficients of a machine with a bias do

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
        super().__init__(designs, folds, columns, loss, values, workers)
        self.kernel = kernel.with_bias() if loss.bias and self.sums_to_zero else kernel
        self.hyperparameters = (*self.hyperparameters, *self.kernel.hyperparameters)
        self.memory = memory
        self._measure()
        self._begin()

    def _measure(self) -> None:
        """Set what targets are read in, for each fold: where they are, and how far they spread.

        `offsets` and `spreads` are (folds, columns), of training rows.  A bias takes up what all
        targets have in common; without it they have more digits.  Labels have their own unit.
        """
        self.offsets = np.zeros((len(self.folds), len(self.columns)))
        if self.loss.bias and not self.loss.classifies:
            self.offsets[:] = [[_middle(f, c) for c in self.columns] for f in self.folds]
        self.spreads = np.array(
            [
                [self.loss.spread(c.target, fold.of_column(c)) or 1.0 for c in self.columns]
                for fold in self.folds
            ]
        )
        self.units = np.ones(len(self.folds))
        if not self.loss.classifies:
            self.units = self.spreads.max(axis=1)

    def points_at(self, key: Any, points: Points, params: Params) -> Points:
        """Return points as the kernel wants them, which it is asked for once per evaluation."""
        own = {name: params[name] for name in self.kernel.hyperparameters}
        latest = self._placed.get(key)
        if latest is None or latest[0] is not points or not same(latest[1], own):
            # what is inherited does not count: a kernel of one's own may ask for features
            turns = "turns" in vars(type(self.kernel)) and self.kernel.turns
            turns = turns and not any(np.ndim(value) for value in own.values())
            placed = self.kernel.at(points.narrow if turns else points, own)
            self._placed[key] = latest = points, own, placed
        return latest[2]

    def in_single(self, points: Points, params: Params, tol: float) -> bool:
        """Whether kernel values in single precision are exact enough.

        They are for gaps like libsvm's, not for finer ones, nor where distances are small against
        the spread of the data.
        """
        if tol < SINGLE:
            return False
        return self.kernel.single_error(points, params) <= HARMLESS

    def dimensions(self, names: Sequence[str], y: np.ndarray) -> dict[str, Dimension]:
        design, kernel, loss = self.designs[0], self.kernel, self.loss
        at = np.linspace(0, len(design.rows) - 1, min(len(design.rows), 500)).astype(int)
        sample = design.points.take(at)
        found = {n: kernel.dimension(n, sample) for n in names if n in kernel.hyperparameters}
        middle = {name: middle_of(dimension) for name, dimension in found.items()}
        params = {**self.values, **design.fixed, **middle}
        sample = kernel.at(sample, params)
        K = kernel.block(sample, sample, params)
        scale = float(kernel.diagonal(sample, params).mean()) - float(K.mean())
        scale = scale if np.isfinite(scale) and scale > 1e-12 else 1.0
        known = [name for name in names if name in (*loss.hyperparameters, *loss.by_part)]
        found |= {name: loss.dimension(name, y, scale) for name in known}
        if loss.unreached and not kernel.definite and "C" in known and np.isfinite(K).all():
            found["C"] = _where_minima_are(found["C"], K, len(design.rows))
        return found

    def of_thread(self) -> Self:
        """Return a problem like this one with memory of its own."""
        if not self.workers.inside:
            return self
        # no lock: every thread has a key of its own
        return self._twins.setdefault(threading.get_ident(), self._twin())

    def _twin(self) -> Self:
        twin = copy(self)
        twin._begin()
        return twin

    def cut(self, piece: Piece) -> Self:
        part = super().cut(piece)
        part.offsets = self.offsets[:, piece.columns]
        part.spreads = self.spreads[:, piece.columns]
        part.memory = self.memory * piece.share
        part._begin()
        return part

    def release(self) -> None:
        """Give the memory of kernel matrices back; the next evaluation takes what it needs."""
        for problem in (self, *self._twins.values()):
            for stores in problem._stores:
                for store in stores:
                    store.release()
        self._begin()

    def _begin(self) -> None:
        self._stores = [(RowStore(), RowStore()) for _ in range(self._n_stores)]
        self._twins: dict[int, Any] = {}
        self._placed: dict[Any, tuple[Points, Params, Points]] = {}
        self._latest: object = None

    @property
    def _n_stores(self) -> int:
        return len(self.designs)

    def _pullback_of(self, parts: Sequence[Any]) -> Callable[[Sequence[np.ndarray]], Params]:
        """Return the sum of the parts' pullbacks, to be used before the next evaluation."""
        self._latest = token = object()

        def pullback(delta: Sequence[np.ndarray]) -> Params:
            if self._latest is not token:
                raise RuntimeError("the problem was evaluated again; this pullback is out of date.")
            with one_blas_thread(), self.workers.clock.phase("adjoint"):
                gradients = [part.pullback(delta) for part in parts]
            return {name: sum(g[name] for g in gradients) for name in self.hyperparameters}

        return pullback

    def _on_all_rows(self, points: Points | None, weight: np.ndarray) -> Self:
        """Return the problem with all rows in training and none in validation."""
        whole = copy(self)
        whole.folds = [Fold(np.empty(0, dtype=int), weight)]
        if points is None:
            design = self.designs[0]
            whole.designs = [Design(design.points, design.rows, (0,), design.fixed)]
        else:
            whole.designs = [Design(points, np.arange(len(points)), (0,))]
            whole._begin()
        whole._measure()
        return whole
