"""Rows that stay at a bound are left out of training for a while: that must not show."""

import threading

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.model_selection import KFold
from sklearn.svm import SVC, SVR

from hypermargin import CrossValidationLoss
from hypermargin._core.budget import Budget, Workers


def data(regression):
    if regression:
        X, y = make_friedman1(1600, noise=3.0, random_state=0)
        return 4 * X, y / y.std()
    return make_classification(1600, 6, flip_y=0.3, random_state=0)


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("regression", [False, True])
def test_machines_with_many_rows_at_their_bounds_are_those_of_libsvm(regression, C):
    X, y = data(regression)
    model = SVR(tol=1e-4, epsilon=0.3) if regression else SVC(tol=1e-4)
    folds = list(KFold(2).split(X))
    loss = CrossValidationLoss(model, X, y, {"C": (1e-3, 1e4), "gamma": (1e-3, 10)}, cv=folds)
    found = loss.outputs({"C": C, "gamma": 0.1})
    model.set_params(C=C, gamma=0.1, cache_size=500)
    for (_, ours), (train, test) in zip(found, folds, strict=True):
        model.fit(X[train], y[train])
        theirs = model.predict(X[test]) if regression else model.decision_function(X[test])
        bounded = np.abs(np.abs(model.dual_coef_[0]) - C) < 1e-9 * C
        assert bounded.sum() > 50
        np.testing.assert_allclose(np.ravel(ours), theirs, atol=3e-3)


def test_two_long_parts_of_work_are_done_at_the_same_time():
    both = threading.Barrier(2, timeout=20)
    workers, asked = Workers(2), []

    def item(number):
        asked.append(number)
        if len(asked) > 2:  # the first two have shown that items are long
            both.wait()
        sum(i * i for i in range(400_000))
        return number

    assert workers.map(item, range(2), Budget()) == [0, 1]
    assert workers.map(item, range(2, 4), Budget()) == [2, 3]


@pytest.mark.parametrize("kernel, C, gamma", [("rbf", 100.0, 0.01), ("sigmoid", 3.0, 0.02)])
def test_where_pairs_get_nowhere_rows_that_were_left_out_come_back(monkeypatch, kernel, C, gamma):
    monkeypatch.setattr("hypermargin.problems.exact.block.SHRINKS", 20)
    X, y = make_classification(300, 6, flip_y=0.2, random_state=1)
    model = SVC(C=C, kernel=kernel, gamma=gamma, tol=1e-6)
    folds = list(KFold(2).split(X))
    loss = CrossValidationLoss(model, X, y, {"C": (1e-3, 1e4)}, cv=folds)
    left_out = loss.outputs({"C": C})
    monkeypatch.setattr("hypermargin.problems.exact.block.SHRINKS", 10**9)
    with_all = CrossValidationLoss(model, X, y, {"C": (1e-3, 1e4)}, cv=folds).outputs({"C": C})
    for (_, ours), (_, others), (train, test) in zip(left_out, with_all, folds, strict=True):
        np.testing.assert_allclose(ours, others, atol=1e-5)
        theirs = model.fit(X[train], y[train]).decision_function(X[test])
        np.testing.assert_allclose(np.ravel(ours), theirs, atol=1e-3)  # in single precision
