"""Cross-validation of linear machines: the problem for sparse text and half a million rows.

A machine minimises  1/2 |w|^2 + sum_i c_i loss(x_i' w + b),  the bias being penalised like a weight
(LIBLINEAR) or not at all.  Machines of one column, one for each fold and one for all rows, are
trained in lanes on one copy of X: see `lanes`.

With the coefficients beta_i = -loss_i'(o_i) of the rows, R w = X' beta at the solution.  A gradient
delta on the outputs of the validation rows gives the adjoint  H p = X' delta,  H = R + X' D X, and

    df = q' dbeta,   q = X p,

dbeta being the change of beta at fixed outputs: a loss meets cotangents on its dual's data, as it
does in kernel machines.  The derivative of all outputs by the logarithm of one cost C is
X H^-1 X' beta: it costs no more than an adjoint, and serves every criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..._core.budget import Budget, Effort, Workers, cached, one_blas_thread
from ..._core.space import Dimension, Params
from ..._core.spread import typical_deviation
from ...losses.base import Loss
from ..base import Column, Design, Evaluation, Fold, Piece, Problem, Solution
from .bundle import choose_solver
from .lanes import MANY, Matrix, as_matrix
from .part import WHOLE, Job, Part, State
from .systems import FEW_FEATURES

SINGLE_TOL = 1e-5  # tolerances from which single precision is enough
LIFTING = 10.0  # costs, in units of that by which all rows together lift a penalised bias
FAR_TARGETS = 10.0  # deviations from zero to the targets, of which single precision is not enough
EXTREME = 1e8  # values whose squares, times a cost, single precision may not hold
FINISH = 1e-3  # Newton's method has this much more for a step or two
# steps of the one are few and long, so that their number hangs on all digits, and those of the
# other end where rounding hides what they gain
DOUBLE = ("truncated", "fista")
ADJOINT = 5e-2  # accuracy of derivatives, where training is coarse


@dataclass(frozen=True)
class Weights(Solution):
    """Its output at x is the product of x and the weights, the last of which is the bias."""

    weights: np.ndarray


@dataclass(frozen=True)
class LinearEvaluation(Evaluation):
    """Also knows how outputs move with the logarithm of all costs: `rates`, in the same form."""

    rates: Callable[[], tuple[list[np.ndarray], State]] = lambda: ([], {})
    whole: np.ndarray | None = None  # weights of the machines on all rows, one row per column
    still: bool = False  # whether machines were trained well enough where they started


class LinearCrossValidation(Problem):
    """All folds of a linear machine as one function of its hyperparameters.

    Parameters
    ----------
    designs, folds, columns : sequences of Design, Fold, Column
        `points` of a design are its matrix, dense or in CSR format.
    loss : Loss
    values : dict
        Values of hyperparameters that an evaluation does not name.
    intercept : float
        The constant that stands for the bias among the features; 0 for no bias.
    bias_penalty : float
        1 if the bias is penalised like a weight, 0 if it is not.
    whole : Fold, optional
        All rows in training, for a machine that is trained on them beside the folds.
    solver : {"primal", "dual", "fista"}, optional
        How machines are trained, if that is not to be chosen by their shape.
    part : class
        What trains some machines side by side: a `Part`.
    """

    most_looks = 40  # linear machines have no second minimum in a corner of the space
    work = 2e-3  # a start that is just good enough would not move, and look like a flat loss

    def __init__(
        self,
        designs: Sequence[Design],
        folds: Sequence[Fold],
        columns: Sequence[Column],
        loss: Loss,
        values: Params,
        workers: Workers | None = None,
        *,
        intercept: float = 1.0,
        bias_penalty: float = 1.0,
        whole: Fold | None = None,
        solver: str | None = None,
        part: type[Part] | None = None,
    ):
        super().__init__(designs, folds, columns, loss, values, workers)
        self.part = part or Part
        self.intercept, self.bias_penalty, self.whole = intercept, bias_penalty, whole
        self.solver = solver
        self._matrices: dict[Any, tuple[np.ndarray, Matrix]] = {}

    def centre(self, target: np.ndarray) -> float:
        """Return what a free bias takes off the targets of machines before they are trained on.

        It changes nothing but rounding, and what gradients at zero, to which others are compared,
        say of a bias that is far from there.  A target or two must not move it.
        """
        if self.loss.classifies or self.bias_penalty or not self.intercept or not len(target):
            return 0.0
        low, middle, high = np.percentile(target, [25, 50, 75])
        return 0.0 if low <= 0.0 <= high else float(middle)

    def matrix(self, number: int, dtype: Any, rows: np.ndarray | None) -> tuple[np.ndarray, Matrix]:
        """Return the numbers of the rows of a design that take part, and the matrix of them."""
        key = number, np.dtype(dtype).str, None if rows is None else rows.tobytes()
        if key not in self._matrices:
            design = self.designs[number]
            kept, X = np.arange(len(design.rows)), design.points
            if rows is not None:
                kept = np.flatnonzero(rows[design.rows])
                X = X[kept]
            found = design.rows[kept], as_matrix(X, dtype, self.workers, self.intercept)
            self._matrices[key] = found
        return self._matrices[key]

    @property
    def coupled(self) -> bool:
        return self.part is not Part or super().coupled

    def cut(self, piece: Piece) -> Self:
        part = super().cut(piece)
        part._matrices = {}
        if 0 not in piece.folds:  # machines on all rows go with the first fold
            part.whole = None
        return part

    def release(self) -> None:
        self._matrices.clear()

    @cached
    def _fits_single(self) -> bool:
        """Whether X is large enough for single precision to pay, and has no extreme values.

        Nor may targets be far from zero, for their spread: outputs have few digits then.
        """
        X = self.designs[0].points
        values = X.data if sparse.issparse(X) else X
        if values.size < MANY:
            return False
        if not self.loss.classifies:
            y = self.columns[0].target
            if np.abs(np.median(y)) > FAR_TARGETS * typical_deviation(y):
                return False
        largest = max(float(values.max()), -float(values.min()))
        return 1.0 / EXTREME < largest < EXTREME

    def _dtype(self, tol: float) -> Any:
        return np.float32 if tol >= SINGLE_TOL and self._fits_single else np.float64

    def dimensions(self, names: Sequence[str], y: np.ndarray) -> dict[str, Dimension]:
        found = {}
        for name in names:
            if name in self.loss.hyperparameters[:1]:
                found[name] = self._strength(name, y)
            elif name in (*self.loss.hyperparameters, *self.loss.by_part):
                found[name] = self.loss.dimension(name, y, 1.0)
        return found

    def _strength(self, name: str, y: np.ndarray) -> Dimension:
        """Return the range of C, or of alpha = 1 / (2 C)."""
        _, matrix = self.matrix(0, self._dtype(1.0), None)
        lengths = matrix.squared_lengths if self.bias_penalty else matrix.squares()
        most, mean = float(lengths.max(initial=0.0)), float(matrix.squares().mean())
        return self.range_of(name, y, len(lengths), most, mean)

    def range_of(
        self, name: str, y: np.ndarray, n_rows: int, longest: float, mean: float
    ) -> Dimension:
        """Return that range, of the largest squared length of a row and of their mean."""
        most, mean = longest or 1.0, mean or 1.0
        # slopes of a loss that grows linearly do not grow with the residuals: costs have to
        grows = self.loss.corners and not self.loss.classifies
        unit = (self.loss.spread(y) or 1.0) if grows else 1.0
        if grows and self.intercept and self.bias_penalty:  # so must those that lift the bias
            lifted = n_rows * self.intercept**2 / self.bias_penalty
            unit = max(unit, LIFTING * float(np.abs(np.median(y))) / lifted)
        low = unit * least_cost(n_rows, most, self.loss)
        high = unit * 2.0 ** (10 + max(0.0, np.ceil(-np.log2(mean))))
        middle = unit * (16.0 if self.loss.softens else 1.0) / mean
        usual = middle / 16.0, middle * 16.0
        if name == "alpha":
            low, high, usual = 0.5 / high, 0.5 / low, (0.5 / usual[1], 0.5 / usual[0])
        return Dimension(low, high, "log", usual=usual)

    def evaluate(
        self,
        params: Params,
        effort: Effort,
        *,
        warm: State | None = None,
        rows: np.ndarray | None = None,
        path: bool = False,
    ) -> LinearEvaluation:
        """Train all folds; the tolerance bounds gradients, relative to those at zero weights.

        With `path` machines are trained as by Chu et al., and the evaluation tells whether
        those of `warm` were good enough.
        """
        tol, budget, dtype = effort.tol, effort.budget, self._dtype(effort.tol)
        with one_blas_thread():
            parts = [
                part
                for number, design in enumerate(self.designs)
                if design.folds
                for part in self._parts(
                    number, self._folds_of(number), params, budget, dtype, rows, path
                )
            ]

            def run(part: Part) -> None:
                part.train(tol, warm or {}, effort.rough, path)

            with self.workers.clock.phase("train"):
                self.workers.map(run, parts, budget)
        return self._evaluation(parts, params, tol)

    def solver_of(self, number: int, path: bool) -> str:
        """Return how the machines of a design are trained, along a path or elsewhere."""
        path, X = path and self.part is Part, self.designs[number].points
        return choose_solver(self.solver, X, self.loss.corners, path)

    def _parts(
        self,
        number: int,
        folds: list[int],
        params: Params,
        budget: Budget,
        dtype: Any = np.float64,
        rows: np.ndarray | None = None,
        path: bool = False,
    ) -> list[Part]:
        """Return the machines of a design and some folds, those side by side together."""
        solver = self.solver_of(number, path)
        if solver in DOUBLE:
            dtype = np.float64
        return [
            self.part(self, number, jobs, params, dtype, rows, budget, solver)
            for jobs in self.part.groups(self, folds)
        ]

    def fold(self, f: int) -> Fold:
        """Return a fold, or all rows in training."""
        found = self.whole if f == WHOLE else self.folds[f]
        assert found is not None
        return found

    def _folds_of(self, number: int) -> list[int]:
        """Return the folds of a design; all rows come last."""
        folds = list(self.designs[number].folds)
        return [*folds, WHOLE] if self.whole is not None and len(self.designs) == 1 else folds

    def _evaluation(self, parts: list[Part], params: Params, tol: float) -> LinearEvaluation:
        home = {job: part for part in parts for job in part.jobs}
        test = {f: rows for part in parts for f, rows in part.test.items()}
        n_columns = range(len(self.columns))

        def of_fold(f: int, n: int, read: Callable[[Part, Job], np.ndarray]) -> np.ndarray:
            # a fold that does not know a class may have no machine for it
            jobs = [(f, c) for c in n_columns]
            return np.column_stack(
                [read(home[job], job) if job in home else np.zeros(n) for job in jobs]
            )

        def gathered(read: Callable[[Part, Job], np.ndarray]) -> list[np.ndarray]:
            return [of_fold(f, len(test[f]), read) for f in self.numbers]

        def outputs_at(fold: int, at: np.ndarray) -> np.ndarray:
            return of_fold(fold, len(at), lambda part, job: part.outputs(job, at))

        def pullback(delta: Sequence[np.ndarray]) -> Params:
            with one_blas_thread(), self.workers.clock.phase("adjoint"):
                found = self.workers.map(
                    lambda part: part.pullback(delta, adjoint_tol(tol)), parts, Budget()
                )
            return {name: sum(g[name] for g in found) for name in self.hyperparameters}

        def rates() -> tuple[list[np.ndarray], State]:
            with one_blas_thread(), self.workers.clock.phase("adjoint"):
                self.workers.map(lambda part: part.differentiate(adjoint_tol(tol)), parts, Budget())
            state = {job: start for part in parts for job, start in part.state().items()}
            return gathered(lambda part, job: part.rates(job)), state

        whole = None
        if (WHOLE, 0) in home:
            whole = np.array([home[WHOLE, c].weights((WHOLE, c)) for c in n_columns])
        evaluation = LinearEvaluation(
            outputs=gathered(lambda part, job: part.outputs(job, part.test[job[0]])),
            test=[test[f] for f in self.numbers],
            pullback=pullback,
            outputs_at=outputs_at,
            state={job: start for part in parts for job, start in part.state().items()},
            converged=all(part.bundle.converged for part in parts),
            rates=rates,
            whole=whole,
            still=all(part.bundle.still for part in parts),
        )
        return self._moved(evaluation, params)  # type: ignore[return-value]

    def refit(
        self,
        params: Params,
        effort: Effort,
        warm: State | None = None,
        *,
        weight: np.ndarray | None = None,
        points: Any = None,
    ) -> list[Weights]:
        """Train on all rows, which the problem knows, in double precision."""
        tol, budget = effort.tol, effort.budget
        alone = self._parts(0, [WHOLE], params, budget)
        if (
            alone[0].matrix.width <= FEW_FEATURES
            and not self.loss.corners
            and self.solver != "fista"
        ):
            tol *= FINISH
        with one_blas_thread():
            self.workers.map(lambda part: part.train(tol, warm or {}), alone, budget)
        return [
            Weights(
                part.weights(job),
                iterations=part.bundle.iterations,
                converged=part.bundle.converged,
            )
            for part in alone
            for job in part.jobs
        ]

    def inner(
        self, params: Params, weights: Mapping[Job, np.ndarray]
    ) -> dict[Job, tuple[float, np.ndarray]]:
        """Return what machines minimise, and its gradient, at weights that need not be trained.

        Machines are named by the numbers of their fold and column; weights have the bias last.
        """
        return {
            job: found
            for number, design in enumerate(self.designs)
            for part in self._parts(number, list(design.folds), params, Budget())
            for job, found in part.inner(weights).items()
        }


def least_cost(n_rows: int, longest: float, loss: Loss) -> float:
    """Return a power of two below which every row is in its margin: Chu et al., eqs. (21), (22).

    `longest` is the largest squared length of a row.
    """
    squares = 2.0 if loss.unreached else 1.0
    return float(2.0 ** np.floor(-np.log2(squares * n_rows * longest)))


def adjoint_tol(tol: float) -> float:
    """Return how exact derivatives should be, where training is exact to `tol`."""
    return min(ADJOINT, 10.0 * tol)
