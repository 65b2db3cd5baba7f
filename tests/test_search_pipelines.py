"""Pipelines: transformers are fitted inside the folds, their hyperparameters may be listed."""

import numpy as np
import pytest
from helpers import quick, ridge, svc
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
    TargetEncoder,
)

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Spy(TransformerMixin, BaseEstimator):
    """Drop the last column, the number of the row, and note the rows it was fitted on."""

    fits = []

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        Spy.fits.append(frozenset(X[:, -1].astype(int).tolist()))
        return self

    def transform(self, X):
        return X[:, :-1]


@pytest.mark.parametrize("refit", [True, False])
def test_transformers_are_fitted_on_the_training_rows_of_each_fold_only(binary, refit):
    X, y = np.c_[binary[0], np.arange(80)], binary[1]
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    training = [frozenset(train.tolist()) for train, _ in cv.split(X, y)]
    Spy.fits.clear()
    space = {"svc__C": (1e-1, 1e1), "svc__gamma": (1e-2, 1.0)}
    quick(make_pipeline(Spy(), svc()), space, cv=cv, refit=refit).fit(X, y)
    for rows in training:
        assert rows in Spy.fits
    elsewhere = [rows for rows in Spy.fits if not any(rows <= train for train in training)]
    assert elsewhere == [frozenset(range(80))] * refit


def test_selection_of_columns_does_not_leak(assert_same_scores, grid_over_same_points):
    """Choosing columns of pure noise on all rows would promise far more than a coin toss."""
    rng = np.random.RandomState(0)
    X, y = rng.randn(60, 500), np.arange(60) % 2
    estimator = make_pipeline(SelectKBest(k=10), svc())
    search = quick(estimator, {"svc__C": (1e-1, 1e1)}, max_evals=3).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 20)
    assert search.best_score_ < 0.75


def test_encoders_that_read_the_target_do_not_leak(
    binary, grid_over_same_points, assert_same_scores
):
    """TargetEncoder transforms its training rows by cross-fitting, other rows not."""
    X = np.random.RandomState(0).choice(list("pqrst"), size=(80, 2)).astype(object)
    y = binary[1]
    estimator = make_pipeline(TargetEncoder(cv=3, random_state=0), svc())
    search = quick(estimator, {"svc__C": (1e-1, 1e1)}, max_evals=3).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 26)


@pytest.mark.parametrize(
    "name, values",
    [
        ("pca__n_components", [1, 3]),
        ("pca__whiten", [True, False]),
        ("pca", [PCA(2), "passthrough", MinMaxScaler()]),
        ("svm", [svc(kernel="linear"), svc(gamma=0.1)]),
    ],
    ids=["numbers", "flags", "steps", "machines"],
)
def test_hyperparameters_of_transformers_may_be_listed(
    binary, name, values, grid_over_same_points, assert_same_scores
):
    X, y = binary
    estimator = Pipeline([("scale", StandardScaler()), ("pca", PCA()), ("svm", svc())])
    space = {name: values, "svm__C": (1e-1, 1e1)}
    search = quick(estimator, space, max_evals=3).fit(X, y)
    table = search.cv_results_
    tried = [str(row[name]) for row in table["params"]]
    assert set(tried) == {str(value) for value in values}
    assert set(search.best_params_) == set(space)
    for value in values:
        assert not hasattr(value, "n_features_in_")  # the user's objects stay unfitted
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(table, grid.cv_results_, unit=1 / 26)


def test_a_pipeline_in_a_pipeline(binary, grid_over_same_points, assert_same_scores):
    X, y = binary
    inner = make_pipeline(StandardScaler(), PCA(2))
    estimator = Pipeline([("prepare", inner), ("svm", svc())])
    search = quick(estimator, {"svm__C": (1e-1, 1e1)}, max_evals=3).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 26)
    assert search.n_features_in_ == 4


def test_a_pipeline_of_regression(regression, grid_over_same_points, assert_same_scores):
    X, y = regression
    estimator = make_pipeline(StandardScaler(), ridge())
    space = {"kernelridge__alpha": (1e-3, 1e1), "kernelridge__gamma": (1e-2, 1e1)}
    search = quick(estimator, space).fit(X, y)
    assert_same_scores(search.cv_results_, grid_over_same_points(search, X, y).cv_results_)


def test_missing_values_are_fine_if_the_pipeline_fills_them(binary):
    X, y = binary[0].copy(), binary[1]
    X[::7, 1] = np.nan
    estimator = make_pipeline(SimpleImputer(), svc())
    search = quick(estimator, {"svc__C": (1e-1, 1e1)}, max_evals=3).fit(X, y)
    assert np.isfinite(search.best_score_)
    search = quick(estimator, max_evals=3).fit(X, y)
    assert np.isfinite(search.best_score_)


def test_text_is_fine_if_the_pipeline_turns_it_into_numbers():
    words = np.random.RandomState(0).choice(["good", "bad", "film", "plot", "the"], size=(60, 5))
    text = [" ".join(row) for row in words]
    y = [int((row == "good").sum() > (row == "bad").sum()) for row in words]
    estimator = make_pipeline(TfidfVectorizer(), svc(kernel="linear"))
    search = quick(estimator, {"svc__C": (1e-1, 1e2)}).fit(text, y)
    assert search.best_score_ > 0.8
    assert search.predict(["good good film"])[0] == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_may_be_picked_by_name_in_a_pipeline(binary, library):
    frames = pytest.importorskip(library)
    X, y = binary
    frame = frames.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "town": np.where(X[:, 2] > 0, "Rome", "Oslo").tolist()}
    )
    prepare = ColumnTransformer(
        [("number", StandardScaler(), ["a", "b"]), ("word", OneHotEncoder(), ["town"])]
    )
    estimator = Pipeline([("prepare", prepare), ("svc", svc())])
    for space in ({"svc__C": (1e-1, 1e1), "svc__gamma": (1e-2, 1.0)}, None):
        search = quick(estimator, space).fit(frame, y)
        assert list(search.feature_names_in_) == ["a", "b", "town"]
        plain = clone(estimator).set_params(**search.best_params_)
        again = cross_val_score(plain, frame, y, cv=3).mean()
        assert search.best_score_ == pytest.approx(again, abs=1.01 / 80)


def test_sparse_data_in_a_pipeline_and_without_a_space(binary):
    X, y = binary
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    estimator = make_pipeline(MaxAbsScaler(), svc())
    dense = quick(estimator).fit(X, y)
    thin = quick(estimator).fit(sparse.csr_array(X), y)
    assert thin.best_score_ == pytest.approx(dense.best_score_, abs=0.03)
