"""Rows that are equal have outputs that are equal to the bit, so that no score tells them apart."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import quick
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import KernelSVC
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.kernels.points import first_equal

ESTIMATORS = {
    "svc": SVC(),
    "linear kernel": SVC(kernel="linear"),
    "polynomial": SVC(kernel="poly", coef0=1.0),
    "squared hinge": KernelSVC(loss="squared_hinge"),
    "modified Huber": KernelSVC(loss="modified_huber"),
    "squared": KernelSVC(loss="squared"),
    "logistic": KernelSVC(loss="logistic"),
    "svr": SVR(),
    "ridge": KernelRidge(kernel="rbf"),
    "pipeline": make_pipeline(FunctionTransformer(), SVC()),
    "linear": LinearSVC(),
    "logistic regression": LogisticRegression(),
}


def categories(n: int = 330, n_classes: int = 2):
    """Return rows of which many are equal, and labels that have nothing to do with them."""
    rng = np.random.default_rng(0)
    return 0.1 * rng.integers(0, 4, (n, 2)).astype(float), rng.integers(0, n_classes, n)


def assert_tied(estimator, X, y, n_jobs=1, rank=None, tol=1e-3):
    """Check the outputs of all folds, on validation and on training rows."""
    splits = list(StratifiedKFold(4).split(np.zeros(len(y)), y))
    problem = prepare(read_model(estimator), X, y, splits, {}, 1e9, Workers(n_jobs), rank).problem
    evaluation = problem.evaluate({}, Effort(tol))
    twins = first_equal(np.asarray(X.todense()) if sparse.issparse(X) else X)
    for f, (train, test) in enumerate(splits):
        assert (evaluation.test[f] == test).all()
        for rows, outputs in (
            (test, evaluation.outputs[f]),
            (train, evaluation.outputs_at(f, train)),
        ):
            for twin in np.unique(twins[rows]):
                same = outputs[twins[rows] == twin]
                assert (same == same[0]).all()


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=list(ESTIMATORS))
def test_equal_rows_have_equal_outputs(estimator):
    assert_tied(estimator, *categories())


@pytest.mark.parametrize("tol", [1e-2, 1e-8], ids=["single precision", "double"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_in_every_precision_and_for_many_machines(n_classes, tol):
    assert_tied(SVC(), *categories(n=1500, n_classes=n_classes), n_jobs=2, tol=tol)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_on_landmarks(n_classes):
    assert_tied(SVC(), *categories(n_classes=n_classes), rank=12)


def test_in_sparse_data():
    X, y = categories()
    assert_tied(SVC(), sparse.csr_matrix(X), y)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "average_precision"])
@pytest.mark.parametrize("options", [{}, {"rank": 20}], ids=["exact", "landmarks"])
def test_constant_data_are_no_better_than_chance(scoring, options):
    X, y = np.ones((200, 2)), np.arange(200) % 2
    search = quick(SVC(), scoring=scoring, refit=False, **options).fit(X, y)
    assert search.best_score_ == pytest.approx(0.5, abs=0.01)  # folds have 67 rows


def test_rows_are_told_apart_by_their_numbers():
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, (500, 3)).astype(float)
    X[X == 0] *= rng.choice([-1.0, 1.0], (X == 0).sum())  # zeros of both signs
    _, first, number = np.unique(X + 0.0, axis=0, return_index=True, return_inverse=True)
    expected = first[number.ravel()]
    assert (first_equal(X) == expected).all()
    assert (first_equal(sparse.csr_matrix(X)) == expected).all()
