"""Estimators for what scikit-learn's cannot hold: other losses, class costs, margins, thresholds.

They are trained by the machinery of the search, on all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .._core.budget import Budget, Effort, Workers
from .._core.space import Params
from ..adapters.base import Targets
from ..adapters.input import check_matrices, check_widths, is_pairwise
from ..adapters.kernel import KernelSVCAdapter, KernelSVRAdapter
from ..adapters.model import register
from ..kernels import KERNELS
from ..kernels.base import Kernel
from ..kernels.compose import Sum
from ..kernels.points import Points
from ..problems.base import Design, Expansion, Fold
from ..problems.exact.problem import CrossValidation
from ..problems.landmarks.problem import LowRankCrossValidation
from .base import KnobClassifier, KnobRegressor, Machine

COSTS = 1e-300, 1e300  # that can be computed with, and so can their inverses
BLOCK = 2_000_000  # kernel values that are computed at a time


class _KernelMachine(Machine):
    """What the two estimators have in common."""

    _parameter_constraints: ClassVar[dict] = {
        **Machine._parameter_constraints,
        "kernel": [StrOptions(KERNELS.keys()), StrOptions({"auto"}), Kernel],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [
            StrOptions({"scale", "auto"}),
            Interval(Real, 0, None, closed="neither"),
            "array-like",
        ],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "metric": [StrOptions({"gradients"}), None],
        "memory_limit": [Interval(Real, 0, None, closed="neither")],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _begin(self, X: Any) -> None:
        given = np.asarray(X) if isinstance(X, (list, tuple)) else X
        self._kernel = self._adapter(self).kernel_on(given)

    def _train(self, X: Any, targets: Targets, sample_weight: Any, cost_groups: Any) -> None:
        """Train one machine per column, and keep the rows that any of them needs."""
        if not COSTS[0] <= self.C <= COSTS[1]:
            raise ValueError(f"C={self.C!r} must be between {COSTS[0]} and {COSTS[1]}.")
        check_matrices(self._kernel, X)
        self.metric_: Any = self._adapter(self).metric()
        if self.metric_ is not None:
            X = self.metric_.fit(X, targets.y).transform(X)
        weight = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
        adapter, points, targets = self._adapter(self), Points.of(X), targets.in_groups(cost_groups)
        self._check_weight(weight, targets)
        self._kernel.check(points)
        values = adapter.values() | adapter.values_by_part(targets)
        check_widths(values, X.shape[1], self._kernel)
        values |= adapter.read_off(X, self._kernel)
        state, budget, landmarks = vars(self).get("_start", (None, Budget(), None))
        kind = CrossValidation if landmarks is None else LowRankCrossValidation
        problem: Any = kind(
            [Design(points, np.arange(X.shape[0]), (0,))],
            [Fold(np.empty(0, dtype=int), weight)],
            targets.columns,
            self._kernel,
            adapter.loss(),
            values,
            self.memory_limit * 2**20,
            Workers(1),
            **(landmarks or {}),
        )
        problem.solver = adapter.solver()
        try:
            found = problem.refit({}, Effort(self.tol, budget), state, weight=weight)
        finally:
            problem.release()
        self._check_converged(found)
        self._kernel = problem.kernel
        self._keep(X, found, values)

    @contextmanager
    def begin_at(
        self, state: Any, budget: Budget, landmarks: Mapping[str, int] | None = None
    ) -> Iterator[None]:
        """Within this context `fit` begins where a search has ended, and heeds its budget.

        With landmarks, their `rank` and `seed`, the machines are expansions on them.
        """
        self._start = state, budget, landmarks
        try:
            yield
        finally:
            del self._start

    def _keep(self, X: Any, found: list[Expansion], values: dict[str, float]) -> None:
        support = np.unique(np.concatenate([s.rows[s.beta != 0] for s in found]))
        self.support_ = support.astype(np.intp)
        self.dual_coef_ = np.zeros((len(found), len(support)))
        for line, s in zip(self.dual_coef_, found, strict=True):
            used = s.beta != 0
            line[np.searchsorted(support, s.rows[used])] = s.beta[used]
        self.intercept_ = np.array([s.bias for s in found])
        self.n_iter_ = max(1, *(s.iterations for s in found))
        kept = X[support]
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else kept
        self._values = {n: values[n] for n in self._kernel.hyperparameters}

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=self._types, order="C", accept_sparse="csr")
        if self.kernel == "precomputed":
            return np.asarray(X)[:, self.support_] @ self.dual_coef_.T + self.intercept_
        if not len(self.support_):
            return np.tile(self.intercept_, (X.shape[0], 1))
        vectors = Points.of(self.support_vectors_, self.support_)
        back = [self._kernel.bias_back(vectors, line) for line in self.dual_coef_]
        return self._expanded(X, self._kernel, self._values) + (self.intercept_ - np.array(back))

    def _expanded(self, X: Any, kernel: Kernel, values: Params) -> np.ndarray:
        """Return the sums of a kernel's values with the support vectors, times the coefficients."""
        outputs = np.zeros((X.shape[0], len(self.dual_coef_)))
        if not len(self.support_):
            return outputs
        if self.metric_ is not None:
            X = self.metric_.transform(X)
        vectors = Points.of(self.support_vectors_, self.support_)
        if sparse.issparse(X) != sparse.issparse(vectors.X):
            X = X.toarray() if sparse.issparse(X) else sparse.csr_matrix(X)
        centre, vectors = vectors.centre, kernel.at(vectors, values)
        size = max(1, BLOCK // len(self.support_))
        for i in range(0, X.shape[0], size):
            numbers = np.arange(len(outputs))[i : i + size]
            rows = Points(X[i : i + size], numbers, centre)
            kernel.check(rows)
            block = kernel.block(kernel.at(rows, values), vectors, values)
            outputs[i : i + size] = block @ self.dual_coef_.T
        return outputs

    @available_if(lambda self: isinstance(self.kernel, Sum))
    def outputs_by_kernel(self, X: Any) -> dict[str, np.ndarray]:
        """Return what each kernel of a sum has to say.

        The sum over the kernels, and the intercept, are the outputs of the machines.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        outputs : dict
            By the names of the kernels, arrays of shape (n_samples, n_machines).
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=self._types, order="C", accept_sparse="csr")
        parts = self._kernel.parts_at(self._values)
        return {
            name: weight * self._expanded(X, kernel, own) for name, weight, kernel, own in parts
        }

    @available_if(lambda self: isinstance(self.kernel, Sum))
    def scores_by_kernel(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """Return the part that each kernel of a sum has in the score.

        The parts of a regressor's r2 add up to it, but for the square of the mean error.  That of
        a kernel with outputs f_k, all outputs being f, is  mean(f_k (2 y - f)) / mean(y^2),
        everything less its mean; if it only makes noise it is negative.  Accuracy has no such
        parts: there it is what would be lost if the kernel said the same of all rows, its mean.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        scores : dict
            By the names of the kernels.

        Examples
        --------
        >>> import numpy as np
        >>> from hypermargin import KernelSVR
        >>> from hypermargin.kernels import RBF, Sum
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> kernel = Sum([("signal", RBF(columns=[0])), ("noise", RBF(columns=[1]))])
        >>> model = KernelSVR(C=10.0, kernel=kernel).fit(X, np.sin(X[:, 0]))
        >>> parts = model.scores_by_kernel(X, np.sin(X[:, 0]))
        >>> parts["signal"] > 0.9 > 0.1 > parts["noise"]
        True
        """
        parts = self.outputs_by_kernel(X)
        weight = _check_sample_weight(sample_weight, next(iter(parts.values())), dtype=float)
        y = column_or_1d(y, warn=True)
        check_consistent_length(y, weight)
        return self._split_score(parts, y, weight)


class KernelSVC(KnobClassifier, _KernelMachine):
    """Kernel classifier with a choice of losses, costs and margins by class, and a threshold.

    Minimises ``|f|^2 / 2 + sum_i C w_i class_cost[y_i] loss(margin[y_i], f(x_i))``, groups of rows
    having a factor `group_cost` on C as well; with many classes there is one machine per pair of
    them, as in :class:`~sklearn.svm.SVC`, or one for each class against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the loss.
    kernel : str or Kernel, default="rbf"
        A kernel of :mod:`hypermargin.kernels`, which may be made of others, or the name of one:
        "rbf", "linear", "poly", "sigmoid" or "precomputed" as in :class:`~sklearn.svm.SVC`, or
        "laplacian", "matern12", "matern32", "matern52", "chi2", "categories", "tanimoto", "minmax".
        With "auto" a search chooses: a Gaussian whose shape it learns, or the Laplacian, with a
        width for each feature if that pays, or that Gaussian with ``metric="gradients"``.  (Without
        a search it is "rbf".)
    degree : int, default=3
        Of the polynomial kernel given by name.
    gamma : "scale", "auto", float or array-like of shape (n_features,), default="scale"
        Width of a kernel given by name, or one for each feature.
    coef0 : float, default=0.0
        Of the polynomial and the sigmoid kernel given by name.
    loss : {"hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic"}, \
default="hinge"
        Of a row with label y = -1 or 1, margin m and output o, with slack s = max(0, m - y o):
        s; s^2; s^2 up to s = 2 m and linear from there; (m - y o)^2;
        log(1 + exp(mu (m - y o))) / mu; and log(1 + exp(-y o)).  The last three solve linear
        systems in all rows, and are for some thousands of them.
    mu : float, default=12.0
        Steepness of the smooth hinge loss.
    class_cost : array-like or dict, default=None
        Factor on C for each class, in the order of `classes_`, or by label; None is 1 for all.
    margin : float, array-like or dict, default=1.0
        The margin that rows of a class are to have.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With many classes, a machine for every pair of them, or one for each against the rest.
    machine_cost : array-like or dict, default=None
        With "ovr" and many classes, factor on C for the machine of each class: a C of its own.
    group_cost : dict, default=None
        Factors on C by the labels of groups of rows, 1 for those that it does not name; `fit` is
        told the groups as `cost_groups`.
    threshold : float, default=0.0
        For two classes, the output above which `predict` says the second one.
    solver : {"auto", "fista"}, default="auto"
        How to train the smooth hinge and the logistic loss: by Newton's method, or by FISTA as
        Klatzer and Pock do, which is slower.
    tol : float, default=1e-3
        Optimality gap to train to.
    metric : {"gradients"} or None, default=None
        What distances are measured in: the features as they are, or directions in which the targets
        change (:class:`LearnedMetric`), with which `kernel` has one width for all.
    memory_limit : float, default=4000
        Megabytes for the kernel matrix; above that its rows are computed when they are needed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_support,)
        Rows that have a coefficient in any machine.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Coefficients; a positive output speaks for the second class of a pair, or for the class that
        the machine tells from the rest.
    intercept_ : ndarray of shape (n_machines,)
    n_iter_ : int
    metric_ : LearnedMetric or None
        With ``metric="gradients"``, what turns rows into those that the kernel compares.
    calibration_ : object or None
        The sigmoid of `predict_proba`, if a search has fitted one: `slope`, `offsets` and
        ``probabilities(outputs)``.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hypermargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), KernelSVC(loss="squared_hinge")).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    """

    _adapter = KernelSVCAdapter
    decision_function_shape: ClassVar[str] = "ovr"
    break_ties: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict] = {
        **_KernelMachine._parameter_constraints,
        **KnobClassifier.constraints,
        "multi_class": [StrOptions({"ovo", "ovr"})],
        "solver": [StrOptions({"auto", "fista"})],
        "machine_cost": ["array-like", dict, None],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "hinge",
        mu: float = 12.0,
        class_cost: Any = None,
        margin: Any = 1.0,
        multi_class: str = "ovo",
        machine_cost: Any = None,
        group_cost: Any = None,
        threshold: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-3,
        metric: str | None = None,
        memory_limit: float = 4000,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.loss = loss
        self.mu = mu
        self.class_cost = class_cost
        self.margin = margin
        self.multi_class = multi_class
        self.machine_cost = machine_cost
        self.group_cost = group_cost
        self.threshold = threshold
        self.solver = solver
        self.tol = tol
        self.metric = metric
        self.memory_limit = memory_limit

    def _split_score(
        self, parts: dict[str, np.ndarray], y: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        outputs = np.sum(list(parts.values()), axis=0) + self.intercept_
        right = np.average(self._labels(outputs) == y, weights=weight)
        found = {}
        for name, part in parts.items():
            without = self._labels(outputs - part + np.average(part, axis=0, weights=weight))
            found[name] = float(right - np.average(without == y, weights=weight))
        return found


class KernelSVR(KnobRegressor, _KernelMachine):
    """Kernel regression with a choice of losses.

    Minimises ``|f|^2 / 2 + sum_i C w_i loss(y_i - f(x_i))``; groups of rows may have factors on C
    and on epsilon.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the loss.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball"}, \
default="epsilon_insensitive"
        Of a residual r: max(0, abs(r) - epsilon), its square, r^2, and the pinball loss.
    epsilon : float, default=0.1
        Residuals up to it cost nothing, with the first two losses.
    quantile : float, default=0.5
        Which quantile of the target the pinball loss fits.
    group_cost, group_epsilon : dict, default=None
        Factors on C and, where the loss has it, on epsilon by the labels of groups of rows, 1 for
        those that they do not name; `fit` is told the groups as `cost_groups`.
    tol : float, default=1e-3
        Optimality gap to train to, in units of the target's standard deviation.
    kernel, degree, gamma, coef0, metric, memory_limit
        As in :class:`KernelSVC`.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, n_iter_
        As in :class:`KernelSVC`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (200, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=200)
    >>> upper = KernelSVR(loss="pinball", quantile=0.9).fit(X, y)
    >>> bool(0.8 < np.mean(y < upper.predict(X)) < 0.97)
    True
    """

    _adapter = KernelSVRAdapter
    _parameter_constraints: ClassVar[dict] = {
        **_KernelMachine._parameter_constraints,
        **KnobRegressor.constraints,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.1,
        quantile: float = 0.5,
        group_cost: Any = None,
        group_epsilon: Any = None,
        tol: float = 1e-3,
        metric: str | None = None,
        memory_limit: float = 4000,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.group_cost = group_cost
        self.group_epsilon = group_epsilon
        self.tol = tol
        self.metric = metric
        self.memory_limit = memory_limit

    def _split_score(
        self, parts: dict[str, np.ndarray], y: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        def centred(values: np.ndarray) -> np.ndarray:
            return values - np.average(values, weights=weight)

        y, each = centred(y), {name: centred(part[:, 0]) for name, part in parts.items()}
        rest, unit = weight * (2.0 * y - sum(each.values())), float(weight @ y**2)
        return {n: float(f @ rest) / unit if unit > 0.0 else np.nan for n, f in each.items()}


register(KernelSVCAdapter, KernelSVC)
register(KernelSVRAdapter, KernelSVR)
