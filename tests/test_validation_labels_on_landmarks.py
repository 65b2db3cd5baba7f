"""On landmarks, too, labels of validation rows move no output of the fold."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin import GradientSearchCV
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare

N = 240


def outputs_of(estimator, X, y, folds, rank):
    """Return what the models of the folds say of their validation rows."""
    model = read_model(estimator).tuning(["C"])
    problem = prepare(model, X, y, folds, {}, 1e9, Workers(1), rank=rank, seed=0).problem
    return problem.evaluate({"C": 1.5}, Effort(1e-10)).outputs


def relabelled(y, rows, rng):
    """Return other targets on some rows: other labels, or far other numbers."""
    y = y.copy()
    if y.dtype.kind == "f":
        y[rows] = 1000.0 * y[rows] + 7.0
    else:
        classes = np.unique(y)
        y[rows] = rng.permutation(classes[(np.searchsorted(classes, y[rows]) + 1) % len(classes)])
    return y


@pytest.mark.parametrize("rank", [8, 60, N])
@pytest.mark.parametrize(
    ("estimator", "n_classes"),
    [
        (SVC(gamma=0.3), 2),
        (SVC(gamma=0.3), 4),
        (SVC(gamma=0.3, class_weight="balanced"), 3),
        (make_pipeline(StandardScaler(), SVC(gamma=0.3)), 3),
        (SVR(gamma=0.3), 0),
        (SVR(kernel="poly", coef0=1.0), 0),
    ],
    ids=str,
)
def test_they_move_nothing(estimator, n_classes, rank):
    X, y = make_data(n_classes, n=N, seed=3)
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    train, test = folds[1]
    moved = relabelled(y, test, np.random.default_rng(0))
    (one,), (other,) = (outputs_of(estimator, X, a, [(train, test)], rank) for a in (y, moved))
    np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    # other folds train on these rows; their machines are beside this one
    one, other = (outputs_of(estimator, X, a, folds, rank)[1] for a in (y, moved))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_a_rare_class_has_a_landmark_in_every_fold_that_knows_it():
    X, y = make_data(2, n=N, seed=3)
    y[:3] = 2
    X[:3] = X[0] + 4.0
    search = GradientSearchCV(SVC(gamma=0.3), {"C": [10.0]}, cv=KFold(4), rank=20, random_state=0)
    search.fit(X, y)
    assert (search.predict(X[:3]) == 2).all()
    assert (search.best_estimator_.n_support_ > 0).all()
