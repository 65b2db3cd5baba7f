"""A metric learned from the data: directions in which targets change are stretched.

Widths of features measure distances along the features.  Where the targets depend on combinations
of them, other directions do better: those of the average outer product of the gradients of a
machine that was trained on the rows, as in recursive feature machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernels import RBF
from ..kernels.points import Points
from ..problems.leave_one_out import LeaveOneOut

ROWS_TO_AVERAGE = 2000  # most rows that gradients are averaged over: a factor of 0.1 s
ROWS_TO_TUNE = 500  # most rows that width and ridge are found on
STEPS_TO_TUNE = 25
WIDTHS = 1e-3, 1e3  # in units of the usual one
RIDGES = 1e-6, 1e2
RIDGE = 0.1  # to begin with


class LearnedMetric(TransformerMixin, BaseEstimator):
    """Stretch rows along the directions in which the targets change.

    A Gaussian machine of the squared loss is trained on the rows, its width and ridge being those
    of the least leave-one-out loss.  With the average outer product M of its gradients, rows x
    become V' x, M being V V' but for a factor.  So distances between rows grow where the targets
    change.  It pays where they depend on combinations of features, and hurts where they depend on
    single features; let a search find out, as with ``KernelSVR(kernel="auto")``.

    Sparse rows, and rows with more features than there are rows, are left as they are.

    Parameters
    ----------
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is.  With "auto", numbers with a fraction are numbers, and all else are classes.
    random_state : int, RandomState instance or None, default=0
        Draws 2,000 rows where there are more.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features) or None
        The columns of V, as rows; None if rows are left as they are.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVR
    >>> from hypermargin import LearnedMetric
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> y = np.sin(X.sum(axis=1))
    >>> with_metric = make_pipeline(LearnedMetric(), SVR(C=10.0))
    >>> gain = cross_val_score(with_metric, X, y) - cross_val_score(SVR(C=10.0), X, y)
    >>> bool(gain.mean() > 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "target": [StrOptions({"auto", "classes", "numbers"})],
        "random_state": ["random_state"],
    }

    def __init__(self, target: str = "auto", random_state: Any = 0):
        self.target = target
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : object
        """
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr", multi_output=True)
        self.components_ = None
        if not sparse.issparse(X) and X.shape[1] < X.shape[0] and np.ptp(X, axis=0).any():
            chosen = check_random_state(self.random_state).permutation(len(X))[:ROWS_TO_AVERAGE]
            self.components_ = _directions(X[chosen], _columns(y, self.target)[chosen])
        return self

    def transform(self, X: Any) -> Any:
        """Return rows in the metric.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        if self.components_ is None:
            return X
        return (X.toarray() if sparse.issparse(X) else X) @ self.components_.T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _columns(y: np.ndarray, target: str) -> np.ndarray:
    """Return targets of the squared loss: a column for each output, or for each class."""
    if target == "auto":
        target = "numbers" if type_of_target(y).startswith("continuous") else "classes"
    if target == "numbers":
        y = np.asarray(y, dtype=float).reshape(len(y), -1)
        scale = y.std(axis=0)
        return y / np.where(scale > 0.0, scale, 1.0)
    classes = np.unique(y)
    found = (y.reshape(len(y), -1)[:, :1] == classes).astype(float)
    return found[:, 1:] if len(classes) == 2 else found


def _directions(X: np.ndarray, targets: np.ndarray) -> np.ndarray | None:
    """Return the directions, each as long as targets change along it; None if they do not."""
    X = X - X.mean(axis=0)
    try:
        width, ridge = _tuned(
            _machine(X[:ROWS_TO_TUNE], targets[:ROWS_TO_TUNE]), X.var(axis=0).sum()
        )
        slopes = _slopes(_machine(X, targets), X, width, ridge)
    except FloatingPointError:
        return None
    squares, V = np.linalg.eigh(sum(G.T @ G for G in slopes))
    squares = np.maximum(squares, 0.0)
    total = squares.mean()
    if not 0.0 < total < np.inf:
        return None
    return (V * np.sqrt(squares / total)).T[::-1]


def _machine(X: np.ndarray, targets: np.ndarray) -> LeaveOneOut:
    return LeaveOneOut(RBF(), Points.of(X), targets, np.ones(len(X)))


def _tuned(machine: LeaveOneOut, variance: float) -> tuple[float, float]:
    """Return gamma and the ridge of the least leave-one-out loss."""

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        gamma, ridge = np.exp(z)
        left = machine.evaluate({"gamma": gamma}, ridge)
        off = left.outputs - machine.targets - machine.middle
        by_kernel, by_ridge = left.pullback(2.0 * off / off.size)
        return float(np.mean(off**2)), np.array([gamma * float(by_kernel["gamma"]), by_ridge])

    usual = 1.0 / variance
    found = minimize(
        loss,
        np.log([usual, RIDGE]),
        jac=True,
        method="L-BFGS-B",
        bounds=np.log([[usual * WIDTHS[0], usual * WIDTHS[1]], RIDGES]),
        options={"maxiter": STEPS_TO_TUNE},
    )
    gamma, ridge = np.exp(found.x)
    return float(gamma), float(ridge)


def _slopes(
    machine: LeaveOneOut, X: np.ndarray, gamma: float, ridge: float
) -> Iterator[np.ndarray]:
    """Yield the gradients of every output at all rows, up to a factor."""
    params = {"gamma": gamma}
    alpha = machine.train(params, ridge).coefficients
    points = machine.kernel.at(machine.points, params)
    K = machine.kernel.block(points, points, params)
    for column in alpha.T:
        pulls = K * column  # of every row on every row
        yield pulls.sum(axis=1)[:, None] * X - pulls @ X
