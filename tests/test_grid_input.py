"""What searches are given, and in which form: scikit-learn's tests, held to ours."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_classification
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV

restates = pytest.mark.restates


@pytest.fixture(scope="module")
def wide():
    return make_classification(n_samples=200, n_features=100, random_state=0)


@pytest.fixture(scope="module")
def ten():
    return np.arange(100.0).reshape(10, 10), np.array([0] * 5 + [1] * 5)


# The space
# ---------


@restates("test_validate_parameter_input", "test_grid_search_bad_param_grid")
@pytest.mark.parametrize(
    "space, error, said",
    [
        (0, ValueError, "'space' parameter"),
        ([{"C": [1]}, 0], TypeError, "a dict or a list of dicts"),
        ({"C": 1}, TypeError, r"space\['C'\]=1 is not understood"),
        ({"C": []}, ValueError, r"space\['C'\] is an empty list"),
        ({"C": "1,2,3"}, TypeError, r"space\['C'\]='1,2,3' is not understood"),
        ({"C": np.ones((3, 2))}, ValueError, r"space\['C'\] is an array of 2 dimensions"),
        ({"foo": [0]}, ValueError, "Invalid parameter 'foo' for estimator SVC"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused_in_a_sentence(ten, space, error, said):
    with pytest.raises(error, match=said):
        GradientSearchCV(SVC(gamma="auto"), space).fit(*ten)


# Rows and targets
# ----------------


@restates("test_grid_search_error")
def test_data_and_targets_must_have_as_many_rows(wide):
    X, y = wide
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GradientSearchCV(LinearSVC(), {"C": [0.1, 1.0]}).fit(X[:180], y)


@restates("test_grid_search_sparse", "test_grid_search_sparse_scoring")
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_matrix, sparse.csc_array])
def test_sparse_rows_are_searched_as_dense_ones(wide, form):
    def loss(y_true, y_pred):
        return -f1_score(y_true, y_pred)

    X, y = wide
    for scoring in (None, "f1", make_scorer(loss, greater_is_better=False)):
        search = GradientSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, scoring=scoring)
        dense = search.fit(X[:180], y[:180])
        C, predicted = dense.best_estimator_.C, dense.predict(X[180:])
        search.fit(form(X[:180]), y[:180])
        assert search.best_estimator_.C == C
        np.testing.assert_array_equal(search.predict(form(X[180:])), predicted)


@restates("test_grid_search_precomputed_kernel")
def test_a_kernel_matrix_is_cut_along_both_sides(wide):
    X, y = wide
    K = X[:180] @ X[:180].T
    given = GradientSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}).fit(K, y[:180])
    plain = GradientSearchCV(SVC(kernel="linear"), {"C": [0.1, 1.0]}).fit(X[:180], y[:180])
    assert given.best_score_ == plain.best_score_
    predicted = given.predict(X[180:] @ X[:180].T)
    np.testing.assert_array_equal(predicted, plain.predict(X[180:]))


@restates("test_grid_search_precomputed_kernel_error_nonsquare")
def test_a_kernel_matrix_must_be_square():
    with pytest.raises(ValueError, match="square"):
        GradientSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}).fit(
            np.zeros((10, 20)), np.arange(10) % 2
        )


class Checking(TransformerMixin, BaseEstimator):
    """A transformer that is fitted to what it is to see only, and makes a table of it."""

    def __init__(self, kind=None, kind_of_y=None, shape=None, scale=1.0):
        self.kind = kind
        self.kind_of_y = kind_of_y
        self.shape = shape
        self.scale = scale

    def fit(self, X, y=None):
        assert self.kind is None or isinstance(X, self.kind)
        assert self.kind_of_y is None or isinstance(y, self.kind_of_y)
        assert self.shape is None or np.shape(X)[1:] == self.shape
        return self

    def transform(self, X):
        return np.asarray(X, dtype=float).reshape(len(X), -1) * self.scale


@restates("test_gridsearch_nd", "test_X_as_list", "test_y_as_list", "test_pandas_input")
@pytest.mark.parametrize(
    "form, form_of_y, expected",
    [
        (lambda X: X.reshape(10, 5, 2, 1), np.asarray, {"shape": (5, 2, 1)}),
        (np.ndarray.tolist, np.asarray, {"kind": list, "kind_of_y": np.ndarray}),
        (np.asarray, list, {"kind": np.ndarray, "kind_of_y": list}),
        (pd.DataFrame, pd.Series, {"kind": pd.DataFrame, "kind_of_y": pd.Series}),
    ],
    ids=["four dimensions", "list", "list of targets", "pandas"],
)
def test_transformers_get_data_in_the_form_that_they_were_given_in(ten, form, form_of_y, expected):
    X, y = form(ten[0]), form_of_y(ten[1])
    pipeline = Pipeline([("check", Checking(**expected)), ("machine", SVC())])
    grid = {"check__scale": [0.5, 1.0]}
    search = GradientSearchCV(pipeline, grid, cv=KFold(3), error_score="raise").fit(X, y)
    assert search.predict(X).shape == (10,)
    assert 0 <= search.score(X, y) <= 1


@restates("test_X_as_list", "test_y_as_list", "test_pandas_input")
@pytest.mark.parametrize("form", [np.ndarray.tolist, pd.DataFrame], ids=["list", "frame"])
def test_machines_alone_take_lists_and_frames(ten, form):
    X, y = ten
    search = GradientSearchCV(SVC(), {"C": [1, 2]}).fit(form(X), list(y))
    plain = GradientSearchCV(SVC(), {"C": [1, 2]}).fit(X, y)
    assert search.best_score_ == plain.best_score_
    np.testing.assert_array_equal(search.predict(form(X)), plain.predict(X))
    np.testing.assert_array_equal(search.predict_proba(form(X)), plain.predict_proba(X))


@restates("test_grid_search_allows_nans")
def test_missing_values_are_for_transformers_to_fill():
    X, y = np.arange(20.0).reshape(5, -1), [0, 0, 1, 1, 1]
    X[2, :] = np.nan
    pipeline = Pipeline([("impute", SimpleImputer()), ("machine", SVC())])
    assert np.isfinite(
        GradientSearchCV(pipeline, {"machine__C": [1, 2]}, cv=2).fit(X, y).best_score_
    )


# Folds
# -----


@restates("test_empty_cv_iterator_error")
def test_folds_that_are_used_up_are_an_error(ten):
    used = KFold(3).split(ten[0])
    list(used)
    with pytest.raises(ValueError, match="no folds"):
        GradientSearchCV(Ridge(), {"alpha": [1e-3, 1e-2]}, cv=used, n_jobs=2).fit(*ten)


@restates("test_random_search_bad_cv")
def test_folds_must_be_as_many_as_the_splitter_says(ten):
    class Broken(KFold):
        def get_n_splits(self, *args, **options):
            return 1

    with pytest.raises(ValueError, match=r"inconsistent results. Expected 1 splits, got 3"):
        GradientSearchCV(Ridge(), {"alpha": [1e-3, 1e-2]}, cv=Broken(3)).fit(*ten)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "inner",
    [
        LeaveOneGroupOut(),
        GroupKFold(3),
        GroupShuffleSplit(3, random_state=0),
        StratifiedKFold(2),
        StratifiedShuffleSplit(3, random_state=0),
    ],
    ids=lambda cv: type(cv).__name__,
)
@restates("test_grid_search_groups", "test_nested_cv")
def test_any_splitter_may_be_inside_any_other(inner):
    X, y = make_classification(n_samples=30, random_state=0)
    groups = np.arange(30) // 2 % 5
    search = GradientSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=inner, error_score="raise")
    for outer in (LeaveOneGroupOut(), StratifiedKFold(2)):
        scores = cross_val_score(
            search, X, y, groups=groups, cv=outer, params={"groups": groups}, error_score="raise"
        )
        assert np.isfinite(scores).all()


# Parameters of fit
# -----------------


class Taking(TransformerMixin, BaseEstimator):
    """A transformer whose fit wants metadata."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y=None, spam=None, eggs=None, number=None, function=None, arrays=None):
        assert spam is None or len(spam) == len(X)
        assert eggs is None or len(eggs) == len(X)
        assert arrays is None or (isinstance(arrays, tuple) and arrays[0].ndim == 2)
        assert function is None or callable(function)
        self.number_ = number
        return self

    def transform(self, X):
        return X * self.scale


@restates("test_SearchCV_with_fit_params")
def test_metadata_of_rows_are_cut_like_rows(ten):
    X, y = ten
    pipeline = Pipeline([("take", Taking()), ("machine", SVC())])
    search = GradientSearchCV(pipeline, {"take__scale": [1, 2]}, cv=2, error_score="raise")
    search.fit(X, y, take__spam=np.ones(10), take__eggs=np.zeros(10))
    with pytest.raises(AssertionError):
        search.fit(X, y, take__spam=np.ones(1))
    with pytest.raises(TypeError, match="unexpected parameter 'take_spam'"):
        search.fit(X, y, take_spam=np.ones(10))


@restates("test_scalar_fit_param", "test_scalar_fit_param_compat")
def test_metadata_that_are_not_of_rows_are_passed_as_they_are(ten):
    X, y = ten
    pipeline = Pipeline([("take", Taking()), ("machine", SVC())])
    search = GradientSearchCV(pipeline, {"take__scale": [1, 2]}, cv=2, error_score="raise")
    search.fit(X, y, take__number=42, take__function=print, take__arrays=(X[:3], y[:3]))
    assert search.best_estimator_["take"].number_ == 42


@restates("test_search_cv_sample_weight_equivalence")
@pytest.mark.parametrize(
    "estimator, grid",
    [
        (LogisticRegression(tol=1e-6), {"C": [1, 10, 100]}),
        (Ridge(), {"alpha": [10, 1, 0.1]}),
        (SVC(tol=1e-6, gamma=0.05), {"C": [1, 10, 100]}),
        (SVR(tol=1e-6, gamma=0.05), {"C": [0.1, 1]}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_weights_are_as_good_as_rows_that_are_there_again(estimator, grid):
    rng = np.random.RandomState(42)
    X, y = rng.rand(60, 120), rng.randint(0, 3, size=60)
    weight, groups = rng.randint(0, 5, size=60), np.arange(60) % 4
    again = [np.repeat(part, weight, axis=0) for part in (X, y, groups)]

    def fitted(X, y, groups, weight):
        cv = list(LeaveOneGroupOut().split(X, groups=groups))
        return GradientSearchCV(estimator, grid, cv=cv).fit(X, y, sample_weight=weight)

    weighted, repeated = fitted(X, y, groups, weight), fitted(*again, None)
    for key, column in repeated.cv_results_.items():
        if key.endswith("_score"):
            np.testing.assert_allclose(weighted.cv_results_[key], column, atol=1e-4, err_msg=key)
    assert weighted.best_index_ == repeated.best_index_
    for method in ("predict", "decision_function"):
        if hasattr(weighted, method):
            here, there = getattr(weighted, method)(X), getattr(repeated, method)(X)
            np.testing.assert_allclose(here, there, atol=2e-3)


class Minimal:
    """A transformer with no more than the methods that it needs."""

    def __init__(self, param=1):
        self.param = param

    def get_params(self, deep=True):
        return {"param": self.param}

    def set_params(self, **params):
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(self, X, y=None):
        return self

    def transform(self, X, y=None):
        return X

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X, y)


@restates("test_search_cv_using_minimal_compatible_estimator")
@pytest.mark.parametrize("machine", [SVC(), SVR()], ids=str)
def test_transformers_need_not_inherit_anything(machine):
    rng = np.random.RandomState(0)
    X, y = rng.randn(25, 2), np.array([0] * 5 + [1] * 20)
    pipeline = Pipeline([("transformer", Minimal()), ("predictor", machine)])
    grid = {"transformer__param": [1, 10], "predictor__C": [1, 10]}
    search = GradientSearchCV(pipeline, grid, error_score="raise").fit(X, y)
    assert search.best_params_.keys() == grid.keys()
    assert search.score(X, y) == pytest.approx(search.best_estimator_.score(X, y))
