"""What several test files share: problems of all kinds, small searches, central differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin import GradientSearchCV, losses
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.criteria import criterion_for
from hypermargin.losses.regression import Squared
from hypermargin.methods.validation import validation_loss

# A point of each kernel's hyperparameters at which small standardised data are well behaved; the
# sigmoid kernel is nearly positive definite there.
KERNEL_PARAMS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.2, "coef0": 1.0},
    "sigmoid": {"gamma": 0.02, "coef0": -0.1},
    "linear": {},
    "precomputed": {},
}
# What makes data of normal deviates that a kernel is for.
SUITED = {
    "chi2": np.abs,
    "categories": np.round,
    "tanimoto": lambda X: np.floor(2.0 * np.abs(X)),
    "minmax": lambda X: np.floor(2.0 * np.abs(X)),
}
CLASSIFICATION = ("accuracy", "balanced_accuracy", "neg_log_loss")
REGRESSION = ("neg_mean_squared_error", "r2", "neg_mean_absolute_error")


def make_data(n_classes: int, n: int = 60, d: int = 4, seed: int = 0):
    """Return X and y; y is real for n_classes = 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] + 0.5 * X[:, d // 2] ** 2 - 0.3 * X[:, -1] * X[:, 0] + 0.5 * rng.normal(size=n)
    if n_classes == 0:
        return X, f
    edges = np.quantile(f, np.linspace(0, 1, n_classes + 1)[1:-1])
    return X, np.searchsorted(edges, f)


def suited(kernel: str, X: np.ndarray) -> np.ndarray:
    """Return data like X that a kernel is for."""
    return SUITED.get(kernel, np.asarray)(X)


def imbalanced(n: int = 300, seed: int = 0):
    """Return X and y; an eighth of the rows, about, is of class one."""
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=n) < 0.12).astype(int)
    return rng.normal(size=(n, 3)) + 1.3 * y[:, None], y


def every_loss():
    """Return all losses that are listed, and the one that has no name."""
    return list(
        dict.fromkeys([*losses.CLASSIFICATION.values(), *losses.REGRESSION.values(), Squared])
    )


class Differentiated:
    """The smooth validation loss of an estimator, evaluated by hand with warm starts."""

    def __init__(
        self,
        estimator,
        X,
        y,
        *,
        scoring=None,
        cv=3,
        sample_weight=None,
        memory=1e9,
        tuned=(),
        rank=None,
    ):
        folds = StratifiedKFold if is_classifier(estimator) else KFold
        splits = list(folds(cv, shuffle=True, random_state=0).split(X, y))
        self.model = read_model(estimator).tuning(tuned)
        scorer = check_scoring(estimator, scoring)
        self.criterion, _ = criterion_for(scorer, is_classifier(estimator))
        fit_params = {self.model.prefix + "sample_weight": sample_weight}
        workers = Workers(1)
        self.prepared = prepare(self.model, X, y, splits, fit_params, memory, workers, rank)
        self.weight = np.ones(len(y)) if sample_weight is None else sample_weight

    def evaluate(self, params, effort=Effort(1e-12), warm=None):  # noqa: B008
        return self.prepared.problem.evaluate(params, effort, warm=warm)

    def value(self, params, warm=None):
        evaluation = self.evaluate(params, warm=warm)
        return validation_loss(evaluation, self.criterion, self.prepared, self.weight)[0]

    def value_and_grad(self, params):
        evaluation = self.evaluate(params)
        value, delta = validation_loss(evaluation, self.criterion, self.prepared, self.weight)
        return value, evaluation.pullback(delta), evaluation.state

    def partition(self, params, warm=None):
        """Return which coefficients are at zero, at a bound and free, for all machines."""
        state = self.evaluate(params, warm=warm).state.values()
        return [np.sign(s.beta) * (1 + ((s.beta <= s.lower) | (s.beta >= s.upper))) for s in state]


def entries(params: dict):
    """Return pairs of every number among the hyperparameters, arrays entry by entry.

    The first is its name, with the number of the entry; the second the function that sets it.
    """
    found = {}
    for name, value in params.items():
        for k in np.ndindex(np.shape(value)):

            def at(z, name=name, k=k):
                moved = np.array(params[name], dtype=float)
                moved[k] = z
                return {**params, name: moved if k else float(moved)}

            found[name, *k] = at
    return found.items()


def entry(params: dict, place: tuple):
    """Return one of the numbers that `entries` names."""
    name, *k = place
    return float(np.asarray(params[name])[tuple(k)])


def central_difference(f, x: float, h: float = 1e-4) -> float:
    """Return f'(x) by central differences, extrapolated to fourth order."""
    step = h * max(abs(x), 1e-2)
    wide = (f(x + step) - f(x - step)) / (2 * step)
    narrow = (f(x + step / 2) - f(x - step / 2)) / step
    return (4 * narrow - wide) / 3


def assert_loss_gradient(loss, at, h: float = 1e-5, rel: float = 1e-5, near: float = 1e-7):
    """Compare the gradient of a CrossValidationLoss at a vector with central differences."""
    _, gradient = loss.value_and_grad(at)
    for k in range(len(at)):

        def f(z, k=k):
            return loss(np.where(np.arange(len(at)) == k, z, at))

        assert gradient[k] == pytest.approx(central_difference(f, at[k], h), rel=rel, abs=near)


def assert_gradient(problem: Differentiated, params: dict, rtol: float = 1e-5, h: float = 1e-4):
    """Compare every component with central differences; warm starts keep the same solution."""
    value, gradient, state = problem.value_and_grad(params)
    assert np.isfinite(value)
    for place, at in entries(params):
        x, found = entry(params, place), entry(gradient, place)
        expected = central_difference(lambda z, at=at: problem.value(at(z), state), x, h)
        floor = 1e-7 * abs(value) / max(abs(x), 1e-2)  # rounding of the differences
        assert abs(found - expected) <= rtol * abs(expected) + floor, (
            f"{place}: {found} instead of {expected}"
        )


def is_smooth_around(problem: Differentiated, params: dict, h: float = 1e-4) -> bool:
    """Whether no coefficient meets or leaves a bound within the reach of the differences."""
    state = problem.evaluate(params).state
    here = problem.partition(params)
    for name, x in params.items():
        step = h * max(abs(x), 1e-2)
        for z in x + step * np.array([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5]):
            there = problem.partition({**params, name: z}, state)
            if any((a != b).any() for a, b in zip(here, there, strict=True)):
                return False
    return True


# --- small searches

C_GAMMA = {"C": (1e-2, 1e2), "gamma": (1e-2, 1e1)}
SVR_SPACE = {"C": (1e-1, 1e2), "gamma": (1e-2, 1e1), "epsilon": (1e-2, 1.0)}
RIDGE_SPACE = {"alpha": (1e-3, 1e1), "gamma": (1e-2, 1e1)}
TIMES = {"mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"}


def quick(estimator, space=None, **options):
    """Make a search small enough for a test."""
    return GradientSearchCV(
        estimator, space, **{"cv": 3, "max_evals": 6, "random_state": 0} | options
    )


def svc(**options):
    """Make an SVC solved accurately enough that two solvers agree on its decisions."""
    return SVC(**{"tol": 1e-6} | options)


def svr(**options):
    """Make an SVR solved accurately enough that two solvers agree on its predictions."""
    return SVR(**{"tol": 1e-6} | options)


def ridge(**options):
    """Make a kernel ridge with the Gaussian kernel unless told otherwise."""
    return KernelRidge(**{"kernel": "rbf"} | options)


# The kinds of estimator, each with a space and the fixture that has its data.
CASES = {
    "svc": (svc(), C_GAMMA, "binary"),
    "svr": (svr(), SVR_SPACE, "regression"),
    "kernel ridge": (ridge(), RIDGE_SPACE, "regression"),
    "pipeline": (
        make_pipeline(StandardScaler(), svc()),
        {"svc__C": (1e-2, 1e2), "svc__gamma": (1e-2, 1e1)},
        "binary",
    ),
}
