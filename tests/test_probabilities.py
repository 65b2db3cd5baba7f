"""Probabilities of new rows, where outputs separate the classes and where they do not."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV
from hypermargin.criteria.probability import calibrated

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def iris_pair(first, second):
    X, y = load_iris(return_X_y=True)
    rows = (y == first) | (y == second)
    return X[rows], y[rows]


DATA = {
    **{f"iris {a}, {b}": lambda a=a, b=b: iris_pair(a, b) for a, b in combinations(range(3), 2)},
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("estimator", [SVC(), SVC(kernel="linear"), LinearSVC()])
def test_log_loss_of_new_rows_is_no_worse_than_that_of_platts_way(estimator, name):
    X, y = DATA[name]()
    X = scale(X)
    ours, theirs = [], []
    for seed in range(2):
        X_1, X_2, y_1, y_2 = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        search = GradientSearchCV(estimator, cv=FOLDS, max_evals=4, random_state=0).fit(X_1, y_1)
        platt = CalibratedClassifierCV(search.best_estimator_, cv=FOLDS, ensemble=False)
        ours.append(log_loss(y_2, search.predict_proba(X_2)))
        theirs.append(log_loss(y_2, platt.fit(X_1, y_1).predict_proba(X_2)))
    assert np.mean(ours) <= 1.1 * np.mean(theirs)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_machines_of_other_classes_have_no_say(kernel):
    """Setosa is far from the others, where the machine that tells these apart says anything."""
    X, y = load_iris(return_X_y=True)
    search = GradientSearchCV(SVC(kernel=kernel), max_evals=4, random_state=0).fit(X, y)
    P = search.predict_proba(X)
    assert P[y == 0, 0].min() > 0.9
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_separated_outputs_are_doubted_by_their_number(n):
    y = np.arange(n) % 2
    outputs = (2.0 * y - 1.0)[:, None]
    found = calibrated(outputs, y, np.ones(n)).probabilities(outputs)[np.arange(n), y]
    np.testing.assert_allclose(found, (n + 1) / (n + 2), rtol=1e-6)


def test_the_unit_of_weights_does_not_matter():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    outputs, weight = rng.normal(size=(60, 3)) + y[:, None], rng.uniform(size=60)
    expected = calibrated(outputs, y, weight).probabilities(outputs)
    found = calibrated(outputs, y, 1e-9 * weight).probabilities(outputs)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_log_odds_that_agree_are_the_probabilities():
    """If pairs are told apart by logits of the classes, coupling gives back their softmax."""
    logits = np.random.default_rng(0).normal(size=(200, 4))
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    outputs = np.column_stack([logits[:, j] - logits[:, i] for i, j in combinations(range(4), 2)])
    sigmoids = calibrated(outputs, np.arange(200) % 4, np.ones(200))
    exact = type(sigmoids)(np.ones(6), np.zeros(6)).probabilities(outputs)
    np.testing.assert_allclose(exact, P, rtol=1e-9)
