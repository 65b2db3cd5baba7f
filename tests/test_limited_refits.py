"""The refit of the best point: within limits of pairs and of time."""

import warnings

import numpy as np
import pytest
from helpers import make_data
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin._core.budget import Budget
from hypermargin.search.refit import MOST_PAIRS, limited

pytestmark = pytest.mark.filterwarnings("ignore:The best:UserWarning")


def test_targets_whose_rounding_is_above_libsvms_tolerance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = 1e14 * (X[:, 0] + 0.3 * rng.normal(size=60))
    search = GradientSearchCV(SVR(), cv=3, max_evals=3).fit(X, y)
    assert search.best_estimator_.fit_status_ == 0
    assert search.score(X, y) > 0.5


@pytest.mark.parametrize("model", [SVC(), KernelSVC()])
def test_a_refit_that_runs_out_of_time_gives_the_best_so_far(model, monkeypatch):
    X, y = make_data(2, n=300)
    monkeypatch.setattr("hypermargin.search.finish.COLD_ROWS", 0)
    monkeypatch.setattr(Budget, "rest", lambda self: Budget(1e-9))
    # so that it looks at the clock after five pairs
    monkeypatch.setattr("hypermargin.problems.exact.block.CHUNK", 5)
    search = GradientSearchCV(model, {"C": (1.0, 10.0)}, cv=3, max_evals=2)
    with pytest.warns(ConvergenceWarning) as caught:
        search.fit(X, y)
    said = [str(one.message) for one in caught if "refit" in str(one.message).lower()]
    assert not any("Scale" in one for one in said)  # the data are not at fault
    assert search.score(X, y) > 0.6


def test_a_refit_that_takes_a_moment_is_done_though_time_is_up(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.randn(150, 4)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.randn(150)
    monkeypatch.setattr(Budget, "rest", lambda self: Budget(1e-9))
    model = SVR(C=3000.0, gamma=0.01)
    cold = clone(model).fit(X, y)
    assert cold.n_iter_ > 1000  # pairs that libsvm makes in any case
    search = GradientSearchCV(model, {"C": [3000.0]}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        search.fit(X, y)
    np.testing.assert_array_equal(search.predict(X), cold.predict(X))


def test_libsvm_has_a_limit_where_it_refits():
    machine, seen = SVC(probability=True), []
    with limited(machine, 100, None):
        seen.append(machine.max_iter)
    with limited(machine, 100, 1e-3):
        seen.append(machine.max_iter)
    assert seen == [MOST_PAIRS, 1000]
    assert machine.max_iter == -1
    with limited(given := SVC(max_iter=7), 100, 1e-3):
        assert given.max_iter == 7


def test_time_is_kept_for_the_refit(monkeypatch):
    now = 7.0
    monkeypatch.setattr("hypermargin._core.budget.time.perf_counter", lambda: now)
    budget = Budget(1000.0)
    budget.reserve(1e6)
    assert budget.left == 500.0
    assert budget.rest().left == 1000.0
    assert not budget.expired()
    now += 501.0
    assert budget.expired()
    assert not budget.rest().expired()


def test_a_system_that_takes_too_long_is_solved_for_fewer_rows(monkeypatch):
    X = np.random.default_rng(0).normal(size=(800, 3))
    y = np.sin(X[:, 0])
    search = GradientSearchCV(KernelRidge(kernel="rbf"), random_state=0, cv=3, max_evals=2)
    assert len(search.fit(X, y).best_estimator_.X_fit_) == 800
    # the point was evaluated on all rows, so that these are not too many
    short = Budget(1e-9)
    short.wanted = 100.0
    monkeypatch.setattr(Budget, "rest", lambda self: short)
    assert len(search.fit(X, y).best_estimator_.X_fit_) == 800
    search.set_params(time_budget=1e-9)  # a first look is all that there is time for
    with pytest.warns(ConvergenceWarning, match="refit on all 800 rows"):
        search.fit(X, y)
    assert len(search.best_estimator_.X_fit_) == 250
    assert np.isfinite(search.predict(X)).all()
