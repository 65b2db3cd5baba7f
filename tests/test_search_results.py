"""What a fitted search leaves: a grid search's attributes and table, the history, the refit."""

import json

import numpy as np
import pytest
from helpers import C_GAMMA, TIMES, quick, svc
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

from hypermargin import value_and_grad

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


# The attributes
# --------------


def test_every_attribute_of_a_fitted_grid_search_is_there(case):
    estimator, space, X, y = case
    search = quick(estimator, space)
    assert search.fit(X, y) is search
    grid = GridSearchCV(estimator, {name: [low] for name, (low, _) in space.items()}, cv=3).fit(
        X, y
    )
    missing = {a for a in vars(grid) if a.endswith("_") and not a.startswith("_")} - set(
        vars(search)
    )
    assert not missing
    assert search.n_splits_ == 3
    assert search.multimetric_ is False
    assert search.n_features_in_ == X.shape[1]
    assert search.refit_time_ >= 0
    for name in ("classes_", "decision_function", "predict_proba"):
        assert hasattr(search, name) == is_classifier(estimator), name


def test_best_attributes_point_at_one_row_of_the_table(case):
    estimator, space, X, y = case
    search = quick(estimator, space).fit(X, y)
    table = search.cv_results_
    assert search.best_params_ == table["params"][search.best_index_]
    assert search.best_score_ == table["mean_test_score"][search.best_index_]
    assert search.best_score_ == pytest.approx(table["mean_test_score"].max(), abs=1e-12)
    tied = np.isclose(table["mean_test_score"], search.best_score_, rtol=0, atol=1e-12)
    assert table["objective"][search.best_index_] == table["objective"][tied].min()
    for name, (low, high) in space.items():
        assert isinstance(search.best_params_[name], float)
        assert low <= search.best_params_[name] <= high
    json.dumps(search.best_params_)


def test_best_estimator_is_the_plain_estimator_refitted_on_all_rows(case):
    estimator, space, X, y = case
    search = quick(estimator, space).fit(X, y)
    plain = clone(estimator).set_params(**search.best_params_).fit(X, y)
    assert type(search.best_estimator_) is type(estimator)
    assert_array_equal(search.best_estimator_.predict(X), plain.predict(X))
    assert_array_equal(search.predict(X), plain.predict(X))
    params = search.best_estimator_.get_params()
    assert {name: params[name] for name in space} == search.best_params_


# The table
# ---------


EXTRAS = {"objective", "gradient_norm", "n_samples", "tol"}


@pytest.mark.parametrize("return_train_score", [False, True])
@pytest.mark.parametrize("scoring", [None, "accuracy", ["accuracy", "recall"]])
def test_table_has_the_columns_of_grid_search(binary, scoring, return_train_score):
    options = dict(
        scoring=scoring,
        refit="recall" if isinstance(scoring, list) else True,
        return_train_score=return_train_score,
    )
    search = quick(svc(), C_GAMMA, max_evals=2, **options).fit(*binary)
    grid = GridSearchCV(svc(), {"C": [1.0], "gamma": [0.1]}, cv=3, **options).fit(*binary)
    assert set(search.cv_results_) == set(grid.cv_results_) | EXTRAS


def test_table_columns_have_one_entry_per_evaluation_and_the_usual_types(fitted, binary):
    table = fitted.cv_results_
    rows = len(table["params"])
    assert rows > 1
    assert isinstance(table["params"], list)
    for key, column in table.items():
        assert len(column) == rows, key
        if key == "params":
            continue
        assert isinstance(column, np.ndarray), key
        assert column.ndim == 1, key
        if key.startswith("param_"):
            assert isinstance(column, np.ma.MaskedArray), key
            assert column.dtype == np.float64, key
            assert not np.any(np.ma.getmaskarray(column)), key
            assert_array_equal(column, [p[key[len("param_") :]] for p in table["params"]])
        elif key.startswith("rank_"):
            assert column.dtype == np.int32, key
        elif key != "n_samples":
            assert column.dtype == np.float64, key
            if key != "gradient_norm":  # points that were only looked at have none
                assert np.all(np.isfinite(column)), key
        if key in TIMES:
            assert np.all(column >= 0), key
    assert_array_equal(table["n_samples"], len(binary[0]))


@pytest.mark.parametrize("which", ["test", "train"])
def test_means_deviations_and_ranks_follow_from_the_split_scores(fitted, which):
    table = fitted.cv_results_
    splits = np.array([table[f"split{i}_{which}_score"] for i in range(fitted.n_splits_)])
    assert_allclose(table[f"mean_{which}_score"], splits.mean(axis=0))
    assert_allclose(table[f"std_{which}_score"], splits.std(axis=0), atol=1e-12)
    if which == "test":
        assert_array_equal(table["rank_test_score"], rankdata(-splits.mean(axis=0), method="min"))


def test_parameters_of_other_branches_are_masked(binary):
    space = [
        {"kernel": ["rbf"], "C": (1e-1, 1e1), "gamma": (1e-2, 1.0)},
        {"kernel": ["poly"], "degree": [1, 2], "C": (1e-1, 1e1)},
    ]
    search = quick(svc(gamma=0.1), space, max_evals=15).fit(*binary)
    table = search.cv_results_
    rbf = np.asarray(table["param_kernel"] == "rbf")
    assert set(table["param_kernel"]) == {"rbf", "poly"}
    assert set(table["param_degree"].compressed()) == {1, 2}
    assert_array_equal(np.ma.getmaskarray(table["param_degree"]), rbf)
    assert_array_equal(np.ma.getmaskarray(table["param_gamma"]), ~rbf)
    assert not np.ma.getmaskarray(table["param_C"]).any()
    assert table["param_kernel"].dtype == object
    assert table["param_degree"].dtype.kind == "i"
    assert table["param_gamma"].dtype.kind == "f"
    for row, is_rbf in zip(table["params"], rbf):
        assert set(row) == ({"kernel", "C", "gamma"} if is_rbf else {"kernel", "C", "degree"})


def test_what_a_kernel_does_not_have_is_left_out_of_its_rows(binary):
    space = {"kernel": ["rbf", "linear"], "C": (1e-1, 1e1), "gamma": (1e-2, 1.0)}
    table = quick(svc(), space, max_evals=4).fit(*binary).cv_results_
    linear = np.asarray(table["param_kernel"] == "linear")
    assert linear.any()
    assert not linear.all()
    assert_array_equal(np.ma.getmaskarray(table["param_gamma"]), linear)


# The history
# -----------


def test_history_tells_every_evaluation(case):
    estimator, space, X, y = case
    search = quick(estimator, space).fit(X, y)
    keys = {"params", "objective", "gradient", "score", "seconds", "n_samples"}
    for look in search.history_:
        assert keys <= set(look)
        assert set(look["params"]) == set(space)
        assert look["gradient"] is None or set(look["gradient"]) == set(space)
        assert look["seconds"] >= 0
        assert 0 < look["n_samples"] <= len(X)
    # rough looks have no gradient and are not in the table
    full = [look for look in search.history_ if look["gradient"] is not None]
    table = search.cv_results_
    assert [look["params"] for look in full] == table["params"]
    assert_allclose([look["score"] for look in full], table["mean_test_score"])
    assert_allclose([look["objective"] for look in full], table["objective"])


def test_objective_and_gradient_are_those_of_value_and_grad(case):
    estimator, space, X, y = case
    search = quick(estimator, space).fit(X, y)
    known = [look for look in search.history_ if look["gradient"] is not None]
    assert known
    for look in known:
        value, gradient = value_and_grad(estimator, X, y, look["params"], cv=3)
        assert look["objective"] == pytest.approx(value, rel=1e-3, abs=1e-5)
        size = max(abs(g * look["params"][name]) for name, g in gradient.items())
        for name in space:  # compared in relative steps of the hyperparameter
            step = look["params"][name]
            apart = abs(look["gradient"][name] - gradient[name]) * step
            assert apart <= 0.05 * size + 1e-4, (name, look, gradient)


# The refit
# ---------


def test_without_refit_only_the_selection_remains(binary):
    X, y = binary
    search = quick(svc(), C_GAMMA, refit=False).fit(X, y)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_score_ == search.cv_results_["mean_test_score"][search.best_index_]
    for absent in ("best_estimator_", "refit_time_", "classes_", "n_features_in_"):
        assert not hasattr(search, absent)
    for method in ("predict", "decision_function", "score"):
        with pytest.raises(AttributeError) as error:
            getattr(search, method)(X, *([y] if method == "score" else []))
        assert "refit" in str(error.value) + str(error.value.__cause__)


def test_refit_may_choose_the_row_itself(binary):
    X, y = binary
    seen = []

    def worst(table):
        seen.append(set(table))
        return int(table["mean_test_score"].argmin())

    search = quick(svc(), C_GAMMA, refit=worst).fit(X, y)
    assert search.best_index_ == search.cv_results_["mean_test_score"].argmin()
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_params_["C"] == search.best_estimator_.C
    assert not hasattr(search, "best_score_")
    assert seen == [set(search.cv_results_)]


@pytest.mark.parametrize(
    "answer, error", [(None, TypeError), (0.5, TypeError), (-1, IndexError), (10**6, IndexError)]
)
def test_a_choice_of_row_that_is_no_row_is_refused(binary, answer, error):
    search = quick(svc(), C_GAMMA, refit=lambda table: answer, max_evals=2)
    with pytest.raises(error, match="best_index_"):
        search.fit(*binary)
