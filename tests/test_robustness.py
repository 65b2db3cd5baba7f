"""Odd but legal input, and faults that must not stay silent."""

import warnings

import numpy as np
import pytest
from helpers import make_data
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, make_classification
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import (
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import hypermargin.problems.exact.block
import hypermargin.problems.exact.train
from hypermargin import GradientSearchCV, value_and_grad

C = {"C": (0.1, 10.0)}


def search(estimator, space=None, **more):
    options = {"cv": 3, "max_evals": 4, "random_state": 0, **more}
    return GradientSearchCV(estimator, space, **options)


def test_folds_may_count_rows_from_the_end():
    X, y = make_data(2, n=90)
    forward = [(np.arange(30, 90), np.arange(30)), (np.arange(60), np.arange(60, 90))]
    backward = [(train - 90, test - 90) for train, test in forward]
    params = {"C": 1.0, "gamma": 0.3}
    expected = value_and_grad(SVC(), X, y, params, cv=forward)
    assert value_and_grad(SVC(), X, y, params, cv=backward) == expected


def test_rare_classes_with_little_weight_survive_the_first_look():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (np.arange(1500) < 100).astype(int)
    X[y == 1] += 2.0
    weight = np.ones(1500)
    weight[:100] = 0.0
    weight[5:100:16] = 1.0  # six rows of the rare class count
    found = search(SVC(), C, cv=StratifiedKFold(2)).fit(X, y, sample_weight=weight)
    assert found.best_score_ > 0.9


def test_rare_classes_among_many_rows():
    X, y = make_data(2, n=1200)
    y = y.astype(int)
    y[::300] = 7  # four rows
    found = search(SVC(), cv=StratifiedKFold(4, shuffle=True, random_state=0), max_evals=2)
    assert set(found.fit(X, y).classes_) == {0, 1, 7}


def test_training_parts_of_a_few_rows_among_many():
    X, y = make_data(0, n=1500)
    cv = TimeSeriesSplit(3, max_train_size=6)
    found = search(KernelRidge(kernel="rbf"), cv=cv).fit(X, y)
    assert np.isfinite(found.best_score_)


def test_a_kernel_that_overflows_everywhere_says_that_all_fits_failed():
    X, y = make_data(2, n=900)
    model = SVC(kernel="poly", degree=6)
    with pytest.raises(ValueError, match="fits failed"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search(model, {"gamma": (1e80, 1e90)}).fit(X * 1e80, y)


def test_failures_do_not_hide_what_a_short_budget_has_found():
    X, y = make_data(2, n=1500)
    model = make_pipeline(PCA(), SVC())
    space = {"pca__n_components": [99, 3], "svc__C": (0.1, 10.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search(model, space, time_budget=0.02).fit(X, y)
    assert found.best_params_["pca__n_components"] == 3


@pytest.mark.parametrize(
    "distribution",
    [
        stats.expon(),
        stats.lognorm(1.0),
        stats.gamma(2.0),
        stats.uniform(0, 10),
        stats.uniform(1, 9),
    ],
    ids=["expon", "lognorm", "gamma", "uniform from 0", "uniform"],
)
def test_usual_distributions_are_ranges_of_C(distribution):
    X, y = make_data(2)
    found = search(SVC(), {"C": distribution}).fit(X, y)
    assert 0 < found.best_params_["C"] <= distribution.ppf(0.9999)


def test_columns_by_name_work_when_transformers_give_frames():
    pd = pytest.importorskip("pandas")
    X, y = make_data(2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    columns = ColumnTransformer([("some", StandardScaler(), ["a", "b"])])
    model = make_pipeline(SimpleImputer(), columns, SVC()).set_output(transform="pandas")
    assert search(model, {"svc__C": (0.1, 10.0)}).fit(frame, y).best_score_ > 0.6


def test_pipelines_inside_pipelines_with_equal_names():
    X, y = make_data(2)
    inner = Pipeline([("a", StandardScaler()), ("svc", SVC())])
    outer = Pipeline([("a", PCA(3)), ("b", inner)])
    found = search(outer, {"b__svc__C": (0.1, 10.0)}).fit(X, y)
    expected = cross_val_score(clone(outer).set_params(**found.best_params_), X, y, cv=3)
    assert found.best_score_ == pytest.approx(expected.mean(), abs=0.02)


def test_a_score_with_the_wrong_sign_is_not_taken_for_the_smooth_one():
    X, y = make_data(0)
    wrong = make_scorer(mean_squared_error)
    with pytest.warns(UserWarning, match="no smooth form"):
        found = search(SVR(), {"C": (0.01, 10.0)}, scoring=wrong).fit(X, y)
    assert found.best_score_ == found.cv_results_["mean_test_score"].max()


@pytest.mark.parametrize("model", [SVR(), KernelRidge(kernel="rbf")], ids=str)
def test_a_constant_target(model):
    X, _ = make_data(0)
    found = search(model).fit(X, np.full(len(X), 1e9))
    assert np.isfinite(found.cv_results_["objective"]).all()


class RefusesLargeC(SVC):
    def fit(self, X, y, sample_weight=None):
        if self.C > 1.0:
            raise RuntimeError("boom")
        return super().fit(X, y, sample_weight)


def test_error_score_covers_fits_for_a_scorer_that_is_a_function():
    X, y = make_data(2)

    def score(model, X, y):
        return model.score(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search(RefusesLargeC(), {"C": [0.5, 5.0]}, scoring=score).fit(X, y)
    np.testing.assert_array_equal(np.isnan(found.cv_results_["mean_test_score"]), [False, True])
    with pytest.raises(RuntimeError, match="boom"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search(RefusesLargeC(), {"C": [5.0]}, scoring=score, error_score="raise").fit(X, y)


def test_a_later_combination_that_cannot_work_is_refused_at_once_and_leaves_nothing():
    X, y = make_data(2)
    calls = []

    def score(model, X, y):
        calls.append(1)
        return 1.0

    refused = search(SVC(), {"kernel": ["rbf", "precomputed"], **C}, scoring=score)
    with pytest.raises(ValueError, match="square"):
        refused.fit(X, y)
    assert not calls
    with pytest.raises(NotFittedError):
        refused.predict(X)


def test_what_the_search_does_not_apply_is_said():
    X, y = make_data(2)
    with pytest.warns(UserWarning, match="max_iter=3"):
        search(SVC(max_iter=3), C).fit(X, y)
    X, y = make_data(0)
    with pytest.warns(UserWarning, match="tol=0.001 is coarse"):
        search(SVR()).fit(X, 1e-5 * y)


def test_training_that_does_not_converge_is_said(monkeypatch):
    monkeypatch.setattr(hypermargin.problems.exact.train, "MOST_PAIRS", 20)
    monkeypatch.setattr(
        hypermargin.problems.exact.block.Block, "newton", lambda self, rounds: False
    )
    X, y = make_data(2, n=100)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        search(SVC(), {"C": (50.0, 100.0)}).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        value_and_grad(SVC(), X, y, {"C": 100.0, "gamma": 0.1})


def test_warnings_point_at_the_users_line():
    X, y = make_data(2)
    with pytest.warns(UserWarning, match="on the bound") as caught:
        search(SVC(), {"C": (100.0, 1000.0)}, max_evals=8).fit(X, y)
    assert caught[0].filename == __file__


def test_an_interrupt_during_the_refit_loses_nothing():
    class Interrupted(SVC):
        def fit(self, X, y, sample_weight=None):
            if len(X) == 60:  # all rows
                raise KeyboardInterrupt
            return super().fit(X, y, sample_weight)

    X, y = make_data(2, n=60)
    stopped = search(Interrupted(), C)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, y)
    assert stopped.best_params_ in stopped.cv_results_["params"]
    assert stopped.history_


@pytest.mark.parametrize("memory_limit", [0.001, 0.02])
def test_rows_on_demand_give_the_same_search(memory_limit):
    X, y = make_classification(300, 5, n_informative=4, n_redundant=0, random_state=0)
    points = {"C": [0.5, 5.0, 50.0], "gamma": [0.02, 0.5]}
    plenty = search(SVC(), points).fit(X, y)
    little = search(SVC(), points, memory_limit=memory_limit).fit(X, y)
    np.testing.assert_allclose(
        little.cv_results_["objective"], plenty.cv_results_["objective"], rtol=1e-2
    )


def test_single_precision_is_not_used_where_it_would_be_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=1200) > 0).astype(int)
    X[::2] += 1e3  # two clusters, far apart against the width of the kernel
    found = search(SVC(), {"C": (0.5, 2.0), "gamma": (0.2, 0.5)}).fit(X, y)
    plain = SVC(**found.best_params_).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), plain.decision_function(X), atol=1e-2)
    expected = cross_val_score(plain, X, y, cv=3).mean()
    assert found.best_score_ == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_kernel_that_overflows_does_not_end_the_search_for_others(n_jobs):
    X, y = make_data(3, n=900)
    X[:3] *= 1e9
    space = {"kernel": ["poly", "rbf"], "degree": [4], "C": (0.1, 10.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search(SVC(gamma=1.0, coef0=1.0), space, n_jobs=n_jobs, max_evals=2).fit(X, y)
    assert found.best_params_["kernel"] == "rbf"


def test_a_callable_refit_gets_its_point_at_the_final_tolerance():
    X, y = make_data(2, n=1000)
    found = search(SVC(), refit=lambda results: 0).fit(X, y)
    assert found.best_index_ == 0
    assert found.cv_results_["tol"][0] == 1e-3
    assert found.history_[-len(found.cv_results_["tol"])]["tol"] == 1e-3


def test_train_scores_of_looks_are_those_of_their_own_points():
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search(SVC(), time_budget=1e-9, return_train_score=True).fit(X, y)
    scores = found.cv_results_["mean_train_score"]
    expected = cross_validate(SVC(**found.best_params_), X, y, cv=3, return_train_score=True)
    assert scores[found.best_index_] == pytest.approx(expected["train_score"].mean(), abs=0.01)
