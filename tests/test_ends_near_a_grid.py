"""Every method, on every kind of problem that it claims, ends near the best of a dense grid.

What counts is the outer loss that the method minimises: the criterion.  Those with a loss of their
own are held to the same in their own files: the stochastic steps in `test_stochastic_steps.py`,
`penalty` with all of its losses in `test_penalty.py`, `mpec` in `test_mpec.py`.
"""

from functools import cache

import numpy as np
import pytest
from helpers import make_data
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import scale
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV, LinearClassifier, LinearRegressor

ONE = {"C": (1e-4, 1e4)}
WIDTH = {"C": (1e-2, 1e3), "gamma": (1e-3, 10.0)}
TUBE = {"C": (1e-4, 1e3), "epsilon": (1e-2, 1.0)}
ALONE = ("curve", "gradient")  # where C alone is tuned
CLAIMS = {
    "hinge": (LinearClassifier(loss="hinge"), ONE, 25, ALONE),
    "squared hinge": (LinearSVC(), ONE, 25, ALONE),
    "smooth hinge": (LinearClassifier(loss="smooth_hinge"), ONE, 25, ALONE),
    "logistic": (LogisticRegression(), ONE, 25, ALONE),
    "RBF": (SVC(), WIDTH, 81, ("gradient",)),
    "ridge": (Ridge(), {"alpha": (1e-4, 1e4)}, 25, (*ALONE, "penalty")),
    "tube": (LinearRegressor(loss="squared_epsilon_insensitive"), TUBE, 81, ("gradient",)),
    "RBF regression": (SVR(), WIDTH, 81, ("gradient",)),
    "kernel ridge": (
        KernelRidge(kernel="rbf"), {"alpha": (1e-4, 1e2), "gamma": (1e-3, 10.0)}, 81, ("gradient",)
    ),
}  # fmt: skip


def small_sets(classifies):
    """Return four small sets, some drawn and some measured."""
    if classifies:
        (X, y), iris, wine = (
            load(return_X_y=True) for load in (load_breast_cancer, load_iris, load_wine)
        )
        found = [(X, y), (iris[0], iris[1] == 2), (wine[0], wine[1] == 1), make_data(2, d=6)]
    else:
        X, y = load_diabetes(return_X_y=True)
        found = [(X, scale(y)), (X[:, :4], scale(np.log(y))), make_data(0, n=100, d=5, seed=2),
                 make_data(0, n=60, d=30, seed=1)]  # fmt: skip
    for X, y in found:
        rows = np.random.default_rng(0).permutation(len(X))[:110]
        yield scale(X[rows]), y[rows]


@cache
def best_of_grid(name):
    """Return the least loss of a dense grid on every set."""
    estimator, space, dense, _ = CLAIMS[name]
    sets = small_sets(hasattr(estimator, "decision_function"))
    return [least(estimator, space, X, y, "grid", dense) for X, y in sets]


def least(estimator, space, X, y, method, most):
    criterion = "accuracy" if hasattr(estimator, "decision_function") else "neg_mean_squared_error"
    search = GradientSearchCV(
        estimator, space, cv=3, method=method, max_evals=most, random_state=0, criterion=criterion,
        refit=False,
    )  # fmt: skip
    return float(np.nanmin(search.fit(X, y).cv_results_["objective"]))


@pytest.mark.filterwarnings("ignore:The best")
@pytest.mark.parametrize("name", CLAIMS)
def test_the_loss_is_within_two_percent_of_the_best_of_a_dense_grid(name):
    estimator, space, _, methods = CLAIMS[name]
    sets = small_sets(hasattr(estimator, "decision_function"))
    for (X, y), best in zip(sets, best_of_grid(name), strict=True):
        for method in methods:
            assert least(estimator, space, X, y, method, 50) <= 1.02 * best, (method, X.shape)


@pytest.mark.filterwarnings("ignore:The best")
@pytest.mark.parametrize("name", ["hinge", "squared hinge", "ridge"])
def test_a_path_misses_by_no_more_than_the_distance_of_its_points(name):
    estimator, space, *_ = CLAIMS[name]
    sets = small_sets(hasattr(estimator, "decision_function"))
    for (X, y), best in zip(sets, best_of_grid(name), strict=True):
        assert least(estimator, space, X, y, "path", 50) <= 1.06 * best, X.shape
