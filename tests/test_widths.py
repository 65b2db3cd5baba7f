"""A width for each feature, and the search for them."""

import numpy as np
import pandas as pd
import pytest
from helpers import assert_loss_gradient, make_data
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from hypermargin import CrossValidationLoss, GradientSearchCV, KernelSVC, KernelSVR

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ASKS = {"C": None, "gamma": "per_feature"}
EACH = {"C": None, "gamma": "always_per_feature"}


def two_of_six(n=250, seed=0, regression=False):
    """Two features that matter, four that are noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    f = np.sin(2 * X[:, 1]) + np.sin(2 * X[:, 4])
    y = f + 0.1 * rng.normal(size=n)
    return X, y if regression else (y > 0).astype(int)


@pytest.mark.parametrize(
    ("model", "kernel"),
    [(KernelSVC, "rbf"), (KernelSVC, "laplacian"), (KernelSVR, "rbf"), (KernelSVR, "matern32")],
)
def test_features_that_matter_get_the_widths(model, kernel):
    X, y = two_of_six(400, regression=model is KernelSVR)
    one = GradientSearchCV(model(kernel=kernel), {"C": None, "gamma": None}, cv=3).fit(X, y)
    each = GradientSearchCV(model(kernel=kernel), EACH, cv=3).fit(X, y)
    gamma = each.best_params_["gamma"]
    assert gamma.shape == (6,)
    assert set(np.argsort(gamma)[-2:]) == {1, 4}
    # of the loss that is minimised; the best of many scores may be higher than that of few, by luck
    assert np.nanmin(each.cv_results_["objective"]) < np.nanmin(one.cv_results_["objective"])
    X_new, y_new = two_of_six(400, seed=1, regression=model is KernelSVR)
    assert each.score(X_new, y_new) > one.score(X_new, y_new) - 0.01
    np.testing.assert_array_equal(each.best_estimator_.gamma, gamma)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize(
    "loss", ["hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic"]
)
def test_every_width_has_its_derivative_with_every_loss(kernel, loss):
    X, y = make_data(2, n=50)
    folds = list(StratifiedKFold(3).split(X, y))
    found = CrossValidationLoss(
        KernelSVC(kernel=kernel, loss=loss), X, y, EACH, cv=folds, tol=1e-11
    )
    at = found.start + np.linspace(-0.4, 0.3, len(found.start))
    assert_loss_gradient(found, at)


def test_names_of_columns_are_those_of_the_widths():
    X, y = two_of_six()
    table = pd.DataFrame(X, columns=list("abcdef"))
    search = GradientSearchCV(KernelSVC(), EACH, cv=3, max_evals=20).fit(table, y)
    gradients = [r["gradient"]["gamma"] for r in search.history_ if r["gradient"] is not None]
    assert gradients and all(list(g) == list("abcdef") for g in gradients)
    some = {"C": None, "gamma": {"b": None, "e": (0.01, 10.0)}}
    search = GradientSearchCV(KernelSVC(gamma=0.2), some, cv=3, max_evals=20).fit(table, y)
    gamma = search.best_params_["gamma"]
    np.testing.assert_array_equal(gamma[[0, 2, 3, 5]], 0.2)
    assert 0.01 <= gamma[4] <= 10.0
    with pytest.raises(ValueError, match="gamma names 'z', which is none of the features"):
        GradientSearchCV(KernelSVC(gamma=0.2), {"gamma": {"z": None}}).fit(table, y)
    with pytest.raises(ValueError, match="names some of the features; give the estimator"):
        GradientSearchCV(KernelSVC(), {"gamma": {"b": None}}).fit(table, y)


class FirstOnes(TransformerMixin, BaseEstimator):
    """Keeps more features of more rows."""

    def fit(self, X, y=None):
        self.size_ = 3 + len(X) // 100
        return self

    def transform(self, X):
        return X[:, : self.size_]


def test_widths_behind_transformers():
    X, y = two_of_six()
    pipeline = make_pipeline(StandardScaler(), KernelSVC())
    space = {"kernelsvc__C": None, "kernelsvc__gamma": "per_feature"}
    search = GradientSearchCV(pipeline, space, cv=3, max_evals=20).fit(X, y)
    assert search.best_params_["kernelsvc__gamma"].shape == (6,)
    assert search.score(X, y) > 0.7
    differs = make_pipeline(FirstOnes(), KernelSVC())
    folds = [(np.arange(75, 250), np.arange(75)), (np.arange(90), np.arange(90, 250))]
    with pytest.raises(ValueError, match="features in the folds; a width for each needs the same"):
        GradientSearchCV(differs, space, cv=folds).fit(X, y)


def test_equal_widths_are_one_width():
    X, y = make_data(3)
    one, each = KernelSVC(gamma=0.3).fit(X, y), KernelSVC(gamma=np.full(4, 0.3)).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), each.decision_function(X), atol=1e-6)


def test_a_width_of_zero_removes_a_feature():
    X, y = make_data(2)
    model = KernelSVC(gamma=[0.3, 0.0, 0.3, 0.3]).fit(X, y)
    without = KernelSVC(gamma=0.3).fit(X[:, [0, 2, 3]], y)
    expected = without.decision_function(X[:, [0, 2, 3]])
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)


@pytest.mark.parametrize(
    "gamma, words",
    [([0.1, 0.2], "one for each of the 4 features"), ([0.1, -0.2, 1, 1], "must be positive"),
     ([0.0] * 4, "must be positive"), ([np.nan, 1, 1, 1], "must be positive")],
)  # fmt: skip
def test_wrong_widths_are_refused(gamma, words):
    with pytest.raises(ValueError, match=words):
        KernelSVC(gamma=gamma).fit(*make_data(2))


@pytest.mark.parametrize(
    "model", [SVC(kernel="poly"), KernelRidge(kernel="laplacian"), KernelSVC(kernel="poly")]
)
def test_estimators_with_one_gamma_say_so(model):
    with pytest.raises(ValueError, match="has one gamma for all features"):
        GradientSearchCV(model, {"gamma": "per_feature"}).fit(*make_data(2))


def test_constant_and_duplicate_columns():
    X, y = two_of_six()
    X = np.column_stack([X, np.ones(len(X)), X[:, 1]])
    search = GradientSearchCV(KernelSVC(), EACH, cv=3, max_evals=20).fit(X, y)
    assert np.isfinite(search.best_params_["gamma"]).all()
    assert search.score(X, y) > 0.8


def test_landmarks_and_many_rows():
    X, y = two_of_six(1200)
    options = {"cv": 3, "random_state": 0, "max_evals": 30, "rank": 60, "exact_refit": True}
    search = GradientSearchCV(KernelSVC(), EACH, **options).fit(X, y)
    assert set(np.argsort(search.best_params_["gamma"])[-2:]) == {1, 4}


def test_an_estimator_that_has_widths_can_be_searched_for_the_rest():
    X, y = two_of_six(100)
    model = KernelSVC(gamma=[0.1, 0.5, 0.1, 0.1, 0.5, 0.1])
    search = GradientSearchCV(model, {"C": None}, cv=3).fit(X, y)
    assert set(search.best_params_) == {"C"}
    np.testing.assert_array_equal(search.best_estimator_.gamma, model.gamma)
    listed = {"C": [1.0, 2.0], "gamma": [np.full(6, 0.1), np.array(model.gamma)]}
    search = GradientSearchCV(KernelSVC(), listed, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.isfinite(CrossValidationLoss(model, X, y, {"C": None}, cv=3)({"C": 1.0}))


@pytest.mark.parametrize(
    "model, space, words",
    [
        (KernelSVC(), {"gamma": "per_features"}, "give 'per_feature'"),
        (KernelSVC(gamma=[0.1, 0.2]), {"gamma": {0: None}}, "2 values, but there are 6 features"),
        (KernelSVC(gamma=[0.1, 0.2]), {"C": None}, "6 features"),
        (KernelSVC(kernel="poly", gamma=[0.1] * 6), {"C": None}, "kernel='poly' cannot have"),
    ],
)
def test_mistakes_with_widths_are_named(model, space, words):
    with pytest.raises(ValueError, match=words):
        GradientSearchCV(model, space, cv=3).fit(*two_of_six(60))


def test_where_no_point_can_be_evaluated_all_fits_have_failed(monkeypatch):
    def broken(*args, **kwargs):
        raise FloatingPointError("no digits are left.")

    monkeypatch.setattr("hypermargin.problems.exact.problem.CrossValidation.evaluate", broken)
    with pytest.raises(ValueError, match="fits failed"):
        GradientSearchCV(KernelSVC(), EACH, cv=3, max_evals=5).fit(*two_of_six(60))
