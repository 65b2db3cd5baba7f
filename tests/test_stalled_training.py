"""Machines that cannot be trained to their tolerance: given up soon, and said to be."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.svm import SVC, SVR

from hypermargin import GradientSearchCV
from hypermargin._core.budget import Effort, Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare


def evaluated(machine, X, y):
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    prepared = prepare(read_model(machine), X, y, splits, {}, 1e9, Workers(1))
    tol = 1e-3 * prepared.targets.scale
    evaluation = prepared.problem.evaluate({}, Effort(tol))
    return evaluation, max(start.iterations.max() for start in evaluation.state.designs.values())


def heavy_tails(n=60, seed=0):
    """Return rows whose products differ by many orders of magnitude, and labels."""
    rng = np.random.default_rng(seed)
    X = 1e5 * rng.standard_cauchy(size=(n, 6))
    return X, (rng.normal(size=n) > 0).astype(int)


def test_a_machine_that_gets_nowhere_is_given_up():
    evaluation, pairs = evaluated(SVC(kernel="linear", C=1e5), *heavy_tails())
    assert not evaluation.converged
    assert pairs < 1e6


@pytest.mark.parametrize("regression", [False, True])
def test_what_single_precision_cannot_train_is_trained_in_double(regression):
    rng = np.random.default_rng(234)
    X = rng.normal(size=(145, 15))
    f = X[:, 0] + rng.normal(size=145)
    machine = SVR(kernel="linear", C=3e3) if regression else SVC(kernel="linear", C=3e3)
    evaluation, pairs = evaluated(machine, X, f if regression else (f > 0).astype(int))
    assert evaluation.converged
    assert pairs < 1e6


@pytest.mark.filterwarnings("ignore:The best:UserWarning")
def test_a_search_over_such_machines_warns_once_and_returns(recwarn):
    search = GradientSearchCV(SVC(kernel="linear"), {"C": (1e4, 1e6)}, cv=3, max_evals=2)
    search.fit(*heavy_tails())
    assert np.isfinite(search.best_score_)
    said = [str(w.message) for w in recwarn if issubclass(w.category, ConvergenceWarning)]
    assert len(said) == 1, said
