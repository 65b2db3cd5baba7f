"""Curves where they are hard: features of many sizes, a criterion that is undefined."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVC

from hypermargin import GradientSearchCV, value_and_grad
from hypermargin.criteria import Criterion


@pytest.mark.parametrize("seed", range(3))
def test_powers_of_one_feature(seed):
    """The best alpha is far below the square of the largest feature, where curves used to end."""
    rng = np.random.default_rng(seed)
    x = rng.permutation(np.linspace(0, 10, 100))
    X, y = x[:, None] ** np.arange(1, 10), 3 * np.sin(x) + x + 0.2 * rng.normal(size=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn finds the matrix ill-conditioned
        search = GradientSearchCV(Ridge(), method="curve").fit(X, y)
        expected = cross_val_score(Ridge(**search.best_params_, solver="svd"), X, y).mean()
    assert search.best_score_ > 0.98
    assert search.best_score_ == pytest.approx(expected, abs=1e-3)


class Undefined(Criterion):
    """Undefined where outputs are larger than a bound."""

    two_classes = True

    def __init__(self, most):
        self.most = most

    def __call__(self, outputs, y, weight):
        if np.abs(outputs).max() > self.most:
            return np.nan, np.zeros_like(outputs)
        return float(np.mean((outputs[:, 0] - y) ** 2)), 2 * (outputs - y[:, None]) / len(y)


def labelled():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, (X[:, 0] + rng.normal(size=120) > 0).astype(int)


@pytest.mark.parametrize("method", ["curve", "path", "gradient"])
def test_a_criterion_that_is_nowhere_defined_is_a_failure(method):
    search = GradientSearchCV(LinearSVC(), criterion=Undefined(0.0), method=method)
    with pytest.raises(ValueError, match="the validation loss is nan at"):
        search.fit(*labelled())


class Slopeless(Criterion):
    """A value, and a gradient that is none."""

    two_classes = True

    def __repr__(self):
        return "Slopeless()"

    def __call__(self, outputs, y, weight):
        return float(np.mean((outputs[:, 0] - y) ** 2)), np.full_like(outputs, np.nan)


NO_GRADIENT = r"criterion=Slopeless\(\) returned a gradient that is not finite at {.*C"


@pytest.mark.parametrize("method", ["curve", "path", "gradient"])
def test_a_criterion_without_a_gradient_is_named(method):
    search = GradientSearchCV(LinearSVC(), criterion=Slopeless(), method=method)
    with pytest.raises(ValueError, match=NO_GRADIENT):
        search.fit(*labelled())


def test_a_gradient_that_is_not_finite_is_not_returned():
    with pytest.raises(FloatingPointError, match=NO_GRADIENT):
        value_and_grad(LinearSVC(), *labelled(), {"C": 1.0}, criterion=Slopeless())


@pytest.mark.parametrize("method", ["curve", "path"])
def test_points_at_which_a_criterion_is_undefined_are_not_chosen(method):
    search = GradientSearchCV(LinearSVC(), criterion=Undefined(1.5), method=method)
    with pytest.warns(FitFailedWarning, match="the validation loss is nan at"):
        search.fit(*labelled())
    failed = np.isnan(search.cv_results_["mean_test_score"])
    assert failed.any()
    assert np.isnan(search.cv_results_["objective"][failed]).all()
    assert np.isfinite(search.best_score_)
    assert np.isfinite(search.cv_results_["objective"][search.best_index_])
