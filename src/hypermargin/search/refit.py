"""Fitted scikit-learn machines from solutions of our own.

`solved_by` lets `fit` of SVC or SVR do all that it does around libsvm (checks, names of features,
gamma="scale", weights of classes, signs) and puts coefficients of our own in libsvm's place.  So
the machine is the one that a cold fit gives, in whatever version of scikit-learn is there.

libsvm's machine for the classes i < j speaks for class i where its output is positive, ours for
class j.  Its support vectors are grouped by class, and the columns of `dual_coef_` belong to them:
one of class i has its coefficient in the machine (i, j) in line j - 1, one of class j in line i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.svm import SVC, SVR
from sklearn.svm._base import BaseLibSVM

from .._core.budget import Budget, Effort
from .._core.space import Params
from ..adapters.prepare import Prepared
from ..kernels.points import Points
from ..problems.base import Expansion, KernelProblem
from ..problems.exact.train import MOST_PAIRS

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
FINEST = 1e-9  # tolerance in units of the targets' spread below which rounding begins
PAIRS_A_SECOND = 1e8  # that libsvm makes on one row; on more rows fewer
SOLVERS = ("_dense_fit", "_sparse_fit")  # the two methods of a machine that call libsvm
Solver = Callable[[Any, np.ndarray, np.ndarray], Sequence[Expansion]]


def can_install(estimator: Any) -> bool:
    """Whether a solution of our own gives what `fit` of this estimator would."""
    kind = type(estimator)
    return (
        kind in (SVC, SVR)
        and kind.fit is BaseLibSVM.fit  # other packages put classes of their own in this place
        and all(hasattr(kind, name) for name in SOLVERS)
        and isinstance(estimator.kernel, str)
        and estimator.kernel in KERNELS
        # "deprecated" is the default from scikit-learn 1.9 on, and means False
        and getattr(estimator, "probability", False) in (False, "deprecated")
    )


@contextmanager
def solved_by(estimator: Any, solver: Solver) -> Iterator[None]:
    """Within this context `fit` of an SVC or SVR asks `solver` instead of libsvm.

    Parameters
    ----------
    estimator : SVC or SVR
        One that `can_install` accepts.
    solver : callable
        Takes X, y (class numbers for SVC) and the weights of the rows as `fit` hands them to
        libsvm, and returns one Expansion per pair (i, j), i < j, of the classes, a positive output
        speaking for class j; a single one for SVR.
    """

    def solve(X: Any, y: np.ndarray, sample_weight: np.ndarray, *_: Any, **__: Any) -> None:
        _store(estimator, X, y, solver(X, y, sample_weight))

    vars(estimator).update(dict.fromkeys(SOLVERS, solve))
    try:
        yield
    finally:
        for name in SOLVERS:
            del vars(estimator)[name]


def _store(estimator: Any, X: Any, y: np.ndarray, solutions: Sequence[Expansion]) -> None:
    """Set what libsvm's solver would set; `y` holds class numbers for SVC."""
    if isinstance(estimator, SVC):
        classes, n_classes, sign = y.astype(np.intp), len(estimator.classes_), -1.0
    else:  # to libsvm a regression is a machine between two classes
        classes, n_classes, sign = np.zeros(len(y), dtype=np.intp), 2, 1.0
    support, n_support, dual_coef = _arrange(classes, n_classes, solutions)
    if not isinstance(estimator, SVC):
        n_support = np.repeat(n_support[:1], 2)
    estimator.support_ = support.astype(np.int32)
    estimator.support_vectors_ = _support_vectors(estimator, X, support)
    estimator._n_support = n_support.astype(np.int32)
    dual_coef *= sign
    estimator.dual_coef_ = _as_csr(dual_coef) if estimator._sparse else dual_coef
    estimator.intercept_ = sign * np.array([s.bias for s in solutions], dtype=np.float64)
    estimator._probA, estimator._probB = np.empty(0), np.empty(0)
    estimator.fit_status_ = 0
    estimator._num_iter = np.array([s.iterations for s in solutions], dtype=np.intc)


def _arrange(
    classes: np.ndarray, n_classes: int, solutions: Sequence[Expansion]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the support rows in libsvm's order, their number per class, and coefficients.

    A row that serves a machine between two other classes (a landmark that all machines share) is
    listed once more, among the rows of the first of these two: prediction goes by the lists.
    """
    pairs = list(combinations(range(n_classes), 2))
    if len(solutions) != len(pairs):
        raise ValueError(f"{len(solutions)} solutions are given for {len(pairs)} machines.")
    places, lines, values = [], [], []
    for (i, j), solution in zip(pairs, solutions):
        used = np.flatnonzero(solution.beta)
        rows = solution.rows[used]
        group = np.where(classes[rows] == j, j, i)
        places.append(group * len(classes) + rows)
        lines.append(np.where(group == i, j - 1, i))
        values.append(solution.beta[used])
    place = np.concatenate(places)
    order = np.unique(place)
    group, support = np.divmod(order, len(classes))
    dual_coef = np.zeros((n_classes - 1, len(order)))
    at = np.searchsorted(order, place)
    np.add.at(dual_coef, (np.concatenate(lines), at), np.concatenate(values))
    return support, np.bincount(group, minlength=n_classes), dual_coef


def _support_vectors(estimator: Any, X: Any, support: np.ndarray) -> Any:
    if estimator.kernel == "precomputed":
        return np.empty((0, 0))
    vectors = X[support]
    if not estimator._sparse:
        return vectors
    vectors.sort_indices()  # kernels of sparse rows are computed by merging them
    return _csr((vectors.data, vectors.indices, vectors.indptr), vectors.shape)


def _as_csr(table: np.ndarray) -> Any:
    """Return a table in which zeros are stored too: libsvm reads the data as a dense array."""
    n_rows, n_columns = table.shape
    if n_columns == 0:
        return _csr(table, table.shape)
    indices = np.tile(np.arange(n_columns), n_rows)
    return _csr((table.ravel(), indices, np.arange(n_rows + 1) * n_columns), table.shape)


def _csr(content: Any, shape: tuple[int, ...]) -> Any:
    """Return a matrix, or an array where scikit-learn (1.9 and later) is told to make arrays."""
    array = sparse.csr_array(content, shape)  # keeps the type of the indices, a matrix does not
    as_array = get_config().get("sparse_interface") == "sparray"
    return array if as_array else sparse.csr_matrix(array)


def leaves_bias_open(state: Any) -> bool:
    """Whether some machine of the folds has no free row, so that its bias has room.

    We take the middle of that, as libsvm means to; but there a row may be free by a rounding error,
    and has the bias to itself.
    """
    return any(
        not ((lower < beta) & (beta < upper)).any()
        for start in (state or {}).values()
        for beta, lower, upper in zip(start.beta, start.lower, start.upper, strict=True)
    )


class OwnSolver:
    """Trains on all rows, beginning with the machines of the folds, until the budget ends.

    `params` are the machine's tuned hyperparameters.
    """

    def __init__(
        self,
        prepared: Prepared,
        params: Params,
        state: Any,
        machine: Any,
        budget: Budget,
    ):
        self.prepared, self.params, self.state = prepared, params, state
        self.machine, self.budget = machine, budget
        self.converged = False

    def __call__(self, X: Any, y: np.ndarray, sample_weight: np.ndarray) -> list[Expansion]:
        prepared, machine, params = self.prepared, self.machine, self.params
        weight = np.asarray(sample_weight, dtype=float) if len(sample_weight) else np.ones(len(y))
        if prepared.targets.classes is not None:
            weight = weight * machine.class_weight_[y.astype(int)]
        problem = prepared.problem
        assert isinstance(problem, KernelProblem)
        shared = prepared.model.transformers is None and len(problem.designs) == 1
        values = {name: params[name] for name in problem.hyperparameters if name in params}
        # the machine has its costs by class in the weights
        values |= {n: np.ones_like(v) for n, v in problem.values.items() if n == "class_cost"}
        # widths of features are in X as the machine gets it, not in the rows that we have
        if "gamma" in problem.hyperparameters and not (shared and np.ndim(values.get("gamma", 0))):
            values["gamma"] = float(machine._gamma)
        # libsvm's tolerance is in the unit that targets have, ours in that of their spread
        tol = float(machine.tol) * min(1.0, 1.0 / prepared.targets.scale)
        points = None if shared else Points.of(X)
        effort = Effort(max(tol, FINEST), self.budget)
        found = problem.refit(values, effort, self.state, weight=weight, points=points)
        self.converged = all(solution.converged for solution in found)
        return found


@contextmanager
def limited(machine: Any, n_rows: int, seconds: float | None) -> Iterator[None]:
    """Within this context libsvm stops after as many pairs as it did before scikit-learn had it.

    Otherwise it runs for ever where rounding keeps it from its tolerance.  With a number of seconds
    it stops after about as many.
    """
    if getattr(machine, "max_iter", None) != -1 or not isinstance(machine, BaseLibSVM):
        yield
        return
    most = max(MOST_PAIRS, 100 * n_rows)
    if seconds is not None:
        most = int(np.clip(seconds * PAIRS_A_SECOND / n_rows, 1000, most))
    machine.max_iter = most
    try:
        yield
    finally:
        machine.max_iter = -1
