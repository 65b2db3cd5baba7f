"""What a search over listed values finds and reports: scikit-learn's tests, held to ours."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import expon
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_blobs, make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, f1_score, make_scorer, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, SplineTransformer
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV

restates = pytest.mark.restates
GRIDS = [
    {"kernel": ["rbf"], "C": [1, 10], "gamma": [0.1, 1]},
    {"kernel": ["poly"], "degree": [1, 2]},
]
OURS = {"objective", "gradient_norm", "n_samples", "tol"}  # what cv_results_ has beside


@pytest.fixture(scope="module")
def fifty():
    return make_classification(n_samples=50, n_features=4, random_state=42)


def without_times(results):
    return {key: value for key, value in results.items() if not key.endswith("_time")}


@restates("test_grid_search", "test_trivial_cv_results_attr")
def test_the_best_of_a_list_is_found_and_can_be_used(capsys):
    X, y = np.array([[-1, -1], [-2, -1], [1, 1], [2, 1]]), np.array([1, 1, 2, 2])

    def above_one(estimator, X, y):
        return float(estimator.C > 1)

    search = GradientSearchCV(SVC(), {"C": [1, 2, 3]}, cv=2, verbose=3, scoring=above_one)
    search.fit(X, y)
    assert search.best_estimator_.C == 2  # the first of equals
    np.testing.assert_array_equal(search.cv_results_["param_C"].data, [1, 2, 3])
    for method in (search.predict_proba, search.decision_function, search.predict):
        assert len(method(X)) == 4
    assert search.score(X, y) == 1.0
    with pytest.raises(ValueError, match="scoring"):
        search.set_params(scoring="sklearn").fit(X, y)
    one = GradientSearchCV(SVC(), {"C": [1]}, cv=2).fit(X, y)
    assert len(one.cv_results_["params"]) == 1


@restates("test_grid_search_pipeline_steps", "test_search_estimator_param")
def test_listed_estimators_are_cloned_before_they_are_fitted(fifty):
    pipeline = Pipeline([("machine", None)])
    grid = {"machine": [SVR(kernel="linear"), Ridge()]}
    search = GradientSearchCV(pipeline, grid, cv=2, scoring="r2").fit(*fifty)
    for listed, given in zip(search.cv_results_["param_machine"], grid["machine"], strict=True):
        assert type(listed) is type(given)
        assert listed is not search.best_estimator_["machine"]
        assert not hasattr(listed, "intercept_")
        assert not hasattr(given, "intercept_")
    machine = LinearSVC()
    grid = {"machine": [machine], "machine__C": [0.01]}
    search = GradientSearchCV(pipeline, grid, cv=2, scoring="accuracy").fit(*fifty)
    assert machine.C == 1.0
    assert search.best_estimator_["machine"].C == 0.01


@restates("test_grid_search_one_grid_point")
def test_one_point_gives_the_model_at_that_point():
    X, y = make_classification(n_samples=200, n_features=100, random_state=0)
    grid = {"C": [1.0], "kernel": ["rbf"], "gamma": [0.1]}
    search = GradientSearchCV(SVC(gamma="auto"), grid).fit(X, y)
    model = SVC(C=1.0, kernel="rbf", gamma=0.1).fit(X, y)
    np.testing.assert_array_equal(search.best_estimator_.dual_coef_, model.dual_coef_)


@restates("test_grid_search_when_param_grid_includes_range")
def test_values_may_be_a_range_of_integers(fifty):
    search = GradientSearchCV(SVC(), {"C": range(1, 4)}, cv=2).fit(*fifty)
    assert [params["C"] for params in search.cv_results_["params"]] == [1, 2, 3]


# The table of results
# --------------------


@restates("test_grid_search_cv_results", "test_yield_masked_array_for_each_param")
def test_results_have_the_columns_types_and_masks_of_a_grid(fifty):
    given, options = (SVC(tol=1e-6), GRIDS), {"cv": 3, "return_train_score": True}
    ours = GradientSearchCV(*given, **options).fit(*fifty).cv_results_
    theirs = GridSearchCV(*given, **options).fit(*fifty).cv_results_
    assert set(ours) - set(theirs) == OURS
    for key, column in theirs.items():
        if key == "params":
            assert ours[key] == column
            continue
        assert type(ours[key]) is type(column), key
        assert ours[key].dtype == column.dtype, key
        assert ours[key].shape == column.shape == (6,)
        if key.startswith("param_"):
            np.testing.assert_array_equal(ours[key].mask, column.mask)
        if key.endswith("_score"):
            np.testing.assert_allclose(ours[key], column)


@restates("test_random_search_cv_results")
def test_ranges_by_distributions_have_masks_too(fifty):
    space = [
        {"kernel": ["rbf"], "C": expon(scale=10), "gamma": expon(scale=0.1)},
        {"kernel": ["poly"], "degree": [2, 3]},
    ]
    search = GradientSearchCV(SVC(), space, cv=3, return_train_score=True).fit(*fifty)
    results = search.cv_results_
    rbf = np.array([kernel == "rbf" for kernel in results["param_kernel"]])
    assert (~rbf).sum() == 2
    for name, where in {"C": ~rbf, "gamma": ~rbf, "degree": rbf}.items():
        np.testing.assert_array_equal(results[f"param_{name}"].mask, where)
    kinds = {name: results[f"param_{name}"].dtype.kind for name in ("C", "degree", "kernel")}
    assert kinds == {"C": "f", "degree": "i", "kernel": "O"}
    assert results["mean_train_score"].shape == results["rank_test_score"].shape == rbf.shape


@restates("test_grid_search_cv_results_multimetric", "test_random_search_cv_results_multimetric")
@pytest.mark.parametrize("refit", [False, "accuracy"])
def test_several_scores_are_as_each_alone(fifty, refit):
    scoring = {"accuracy": make_scorer(accuracy_score), "recall": make_scorer(recall_score)}
    multi = GradientSearchCV(SVC(), GRIDS, cv=3, scoring=scoring, refit=refit).fit(*fifty)
    alone = {
        name: GradientSearchCV(SVC(), GRIDS, cv=3, scoring=name, refit=bool(refit)).fit(*fifty)
        for name in scoring
    }
    assert multi.multimetric_
    assert sorted(multi.scorer_) == ["accuracy", "recall"]
    for name, single in alone.items():
        for key, column in without_times(single.cv_results_).items():
            if key.endswith("_score"):
                together = multi.cv_results_[key.removesuffix("_score") + f"_{name}"]
                np.testing.assert_array_equal(together, column)
    if refit:
        single, X = alone["accuracy"], fifty[0]
        for key in ("best_index_", "best_score_", "best_params_"):
            assert getattr(multi, key) == getattr(single, key)
        for method in ("predict", "predict_proba", "predict_log_proba"):
            np.testing.assert_allclose(getattr(multi, method)(X), getattr(single, method)(X))
        assert multi.score(*fifty) == single.score(*fifty)


@restates("test_search_cv_results_rank_tie_breaking")
def test_equal_scores_have_the_same_rank():
    X, y = make_blobs(n_samples=50, random_state=42)
    grid = {"C": [1, 1.001, 0.001]}
    search = GradientSearchCV(SVC(), grid, return_train_score=True).fit(X, y)
    results = search.cv_results_
    for part in ("mean_test_score", "mean_train_score"):
        assert results[part][0] == pytest.approx(results[part][1])
        assert results[part][1] != pytest.approx(results[part][2])
    np.testing.assert_array_equal(results["rank_test_score"], [1, 1, 3])


@restates("test_search_cv_results_none_param")
def test_none_is_a_value_like_another(fifty):
    for estimator in (LinearSVC(), LogisticRegression()):
        search = GradientSearchCV(estimator, {"random_state": [0, None]}).fit(*fifty)
        np.testing.assert_array_equal(search.cv_results_["param_random_state"], [0, None])


@restates("test_search_cv_timing")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_times_are_reported_and_are_zero_where_nothing_was_scored():
    X, y = [[1], [2], [3], [4]], [0, 1, 1, 0]
    search = GradientSearchCV(LinearSVC(), {"C": [0, 1]}, cv=2, error_score=0).fit(X, y)
    for key in ("mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"):
        assert (search.cv_results_[key] >= 0).all()
    assert search.cv_results_["mean_score_time"][0] == 0.0
    assert isinstance(search.refit_time_, float)
    assert search.refit_time_ >= 0


@restates("test_grid_search_correct_score_results")
@pytest.mark.parametrize("scoring", ["f1", "roc_auc"])
def test_scores_are_those_of_models_fitted_in_the_folds(scoring):
    X, y = make_blobs(random_state=0, centers=2)
    search = GradientSearchCV(LinearSVC(), {"C": [0.1, 1, 10]}, scoring=scoring, cv=3).fit(X, y)
    for row, params in enumerate(search.cv_results_["params"]):
        for number, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
            model = LinearSVC(**params).fit(X[train], y[train])
            if scoring == "f1":
                expected = f1_score(y[test], model.predict(X[test]))
            else:
                expected = roc_auc_score(y[test], model.decision_function(X[test]))
            found = search.cv_results_[f"split{number}_test_score"][row]
            assert found == pytest.approx(expected, abs=1e-3)


@restates("test_grid_search_with_multioutput_data")
@pytest.mark.parametrize("estimator", [Ridge(), RidgeClassifier()], ids=str)
def test_scores_of_several_targets_are_those_of_models_fitted_in_the_folds(estimator):
    X, y = make_multilabel_classification(n_samples=80, random_state=0)
    cv = KFold()
    search = GradientSearchCV(estimator, {"alpha": [0.1, 1.0, 100.0]}, cv=cv).fit(X, y)
    assert search.predict(X).shape == y.shape
    for row, params in enumerate(search.cv_results_["params"]):
        for number, (train, test) in enumerate(cv.split(X, y)):
            model = type(estimator)(**params).fit(X[train], y[train])
            found = search.cv_results_[f"split{number}_test_score"][row]
            assert found == pytest.approx(model.score(X[test], y[test]), abs=1e-6)


@restates("test_search_train_scores_set_to_false")
def test_scores_on_training_rows_are_not_made_unasked():
    X, y = np.arange(6).reshape(6, -1), [0, 0, 0, 1, 1, 1]
    search = GradientSearchCV(LinearSVC(), param_grid={"C": [0.1, 0.2]}, cv=3).fit(X, y)
    assert not [key for key in search.cv_results_ if "train" in key]


# Columns of values of unusual types
# ----------------------------------


@restates("test_cv_results_dtype_issue_29074")
def test_values_of_mixed_types_are_columns_of_objects(fifty):
    grid = {
        "class_weight": [None, {0: 1.0}, {1: 2.0}],
        "random_state": [None, np.random.RandomState(0)],
        "kernel": ["rbf", "linear"],
    }
    search = GradientSearchCV(SVC(), grid, cv=3).fit(*fifty)
    for name in grid:
        assert search.cv_results_[f"param_{name}"].dtype == object


@restates("test_search_with_estimators_issue_29157")
def test_listed_transformers_are_a_column_of_objects():
    table = pd.DataFrame({"number": [1.0, 2, 3, 4, 5], "letter": ["a"] * 5})
    encode = ColumnTransformer([("enc", OneHotEncoder(), ["letter"])], remainder="passthrough")
    grid = {"enc__enc": [OneHotEncoder(sparse_output=False), OrdinalEncoder()]}
    pipeline = Pipeline([("enc", encode), ("machine", Ridge())])
    search = GradientSearchCV(pipeline, grid, cv=2).fit(table, [1.0, 4.1, 2.0, 3.0, 1.0])
    assert search.cv_results_["param_enc__enc"].dtype == object


@restates("test_cv_results_multi_size_array")
def test_listed_arrays_may_have_different_sizes():
    X, y = make_classification(n_features=10, random_state=0)
    pipeline = make_pipeline(SplineTransformer(extrapolation="periodic"), LogisticRegression())
    knots = [np.linspace(0, 2 * np.pi, 10 * k).reshape(-1, 10) for k in (10, 11, 12)]
    search = GradientSearchCV(pipeline, {"splinetransformer__knots": knots}).fit(X, y)
    assert search.cv_results_["param_splinetransformer__knots"].dtype == object


@restates("test_search_with_2d_array")
def test_listed_tuples_stay_tuples():
    from sklearn.feature_extraction.text import TfidfVectorizer

    pipeline = Pipeline([("vect", TfidfVectorizer()), ("clf", LinearSVC())])
    grid = {"vect__ngram_range": ((1, 1), (1, 2)), "vect__norm": ("l1", "l2")}
    texts = ["one", "two", "three", "four", "five", "six"]
    search = GradientSearchCV(pipeline, grid, cv=3).fit(texts, [0, 0, 1, 0, 1, 1])
    column = search.cv_results_["param_vect__ngram_range"]
    assert column.tolist() == [(1, 1), (1, 1), (1, 2), (1, 2)]


@restates("test_grid_search_cv_splits_consistency")
def test_folds_are_drawn_once_whatever_gives_them():
    X, y = make_classification(n_samples=100, random_state=0)

    class OneTime:
        """Folds that can be asked for once."""

        def __init__(self):
            self.folds = iter(list(KFold(5).split(np.empty((100, 1)))))

        def split(self, X=None, y=None, groups=None):
            yield from self.folds

        def get_n_splits(self, X=None, y=None, groups=None):
            return 5

    def found(cv, values=(0.1, 0.2, 0.3)):
        grid = {"C": list(values)}
        search = GradientSearchCV(LinearSVC(), grid, cv=cv, return_train_score=True).fit(X, y)
        return without_times(search.cv_results_)

    np.testing.assert_equal(found(OneTime()), found(KFold(5)))
    shuffled = KFold(5, shuffle=True, random_state=0)
    np.testing.assert_equal(found(shuffled.split(X, y)), found(shuffled))
    twice = found(KFold(5, shuffle=True), values=[0.1, 0.1, 0.2, 0.2])
    for key in twice:
        if key.startswith("split"):
            np.testing.assert_allclose(twice[key][::2], twice[key][1::2])


@restates("test_search_default_iid")
def test_a_fold_that_is_trained_on_two_classes_of_four():
    centers = [[0, 0], [1, 0], [0, 1], [1, 1]]
    X, y = make_blobs(80, centers=centers, cluster_std=0.1, shuffle=False, random_state=0)
    rest = np.zeros(80, dtype=bool)
    for label in (1, 2):
        rest[np.flatnonzero(y == label)[::2]] = True
    folds = [(~rest, rest), (rest, ~rest)]
    search = GradientSearchCV(SVC(), {"C": [1, 10]}, cv=folds, return_train_score=True).fit(X, y)
    table = {name: column[0] for name, column in search.cv_results_.items()}
    found = [table[f"split{f}_{part}_score"] for part in ("test", "train") for f in (0, 1)]
    np.testing.assert_allclose(found, [1, 1 / 3, 1, 1])
    np.testing.assert_allclose(table["mean_test_score"], 2 / 3)  # folds count alike
