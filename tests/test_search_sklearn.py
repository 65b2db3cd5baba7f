"""What a user of scikit-learn's grid search would miss if GradientSearchCV lacked it."""

import json
import pickle
import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import loguniform, rankdata, uniform
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import (
    accuracy_score,
    cohen_kappa_score,
    confusion_matrix,
    make_scorer,
    recall_score,
)
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, SVR
from sklearn.utils import get_tags

from hypermargin import GradientSearchCV, value_and_grad

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

C_GAMMA = {"C": (1e-2, 1e2), "gamma": (1e-2, 1e1)}
SVR_SPACE = {"C": (1e-1, 1e2), "gamma": (1e-2, 1e1), "epsilon": (1e-2, 1.0)}
RIDGE_SPACE = {"alpha": (1e-3, 1e1), "gamma": (1e-2, 1e1)}
TIMES = {"mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"}
EXTRAS = {"objective", "gradient_norm", "n_samples", "tol"}


def quick(estimator, space=None, **options):
    """Make a search small enough for a test."""
    return GradientSearchCV(
        estimator, space, **{"cv": 3, "max_evals": 6, "random_state": 0} | options
    )


def svc(**options):
    """Make an SVC solved accurately enough that two solvers agree on its decisions."""
    return SVC(**{"tol": 1e-6} | options)


def svr(**options):
    """Make an SVR solved accurately enough that two solvers agree on its predictions."""
    return SVR(**{"tol": 1e-6} | options)


def ridge(**options):
    """Make a kernel ridge with the Gaussian kernel unless told otherwise."""
    return KernelRidge(**{"kernel": "rbf"} | options)


CASES = {
    "svc": (svc(), C_GAMMA, "binary"),
    "svr": (svr(), SVR_SPACE, "regression"),
    "kernel ridge": (ridge(), RIDGE_SPACE, "regression"),
    "pipeline": (
        make_pipeline(StandardScaler(), svc()),
        {"svc__C": (1e-2, 1e2), "svc__gamma": (1e-2, 1e1)},
        "binary",
    ),
}


@pytest.fixture(params=list(CASES))
def case(request):
    """Go through the kinds of estimator, each with a space and data."""
    estimator, space, data = CASES[request.param]
    return clone(estimator), space, *request.getfixturevalue(data)


@pytest.fixture(scope="module")
def fitted(binary):
    """Fit one search that several read-only tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quick(svc(), C_GAMMA, return_train_score=True).fit(*binary)


# The attributes and the table
# ----------------------------


def test_is_a_search_of_scikit_learn():
    assert issubclass(GradientSearchCV, BaseSearchCV)


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
    assert hasattr(search, "classes_") == is_classifier(estimator)


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


# The scores are those of scikit-learn
# ------------------------------------

COUNTING = {"accuracy": 1 / 26, "balanced_accuracy": 1 / 24}


@pytest.mark.parametrize(
    "estimator",
    [
        svc(),
        svc(class_weight="balanced"),
        svc(class_weight={1: 5}),
        svc(kernel="linear"),
        svc(kernel="poly", degree=2, coef0=1.0),
        svc(kernel="sigmoid"),
        svc(probability=True, random_state=0),
    ],
    ids=["rbf", "balanced", "dict", "linear", "poly", "sigmoid", "probability"],
)
@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_classification_scores_agree_with_cross_validate(
    binary, estimator, scoring, assert_same_scores
):
    X, y = binary
    # Below, every row would be a support vector on its bound: the bias is not determined then.
    space = {"C": (1.0, 1e2), "gamma": (1e-2, 1e-1)}
    if estimator.kernel == "linear":
        del space["gamma"]
    search = quick(estimator, space, scoring=scoring, max_evals=4).fit(X, y)
    rows = search.cv_results_["params"]
    runs = [
        cross_validate(clone(estimator).set_params(**row), X, y, cv=3, scoring=scoring)[
            "test_score"
        ]
        for row in rows
    ]
    theirs = {f"split{i}_test_score": np.array([run[i] for run in runs]) for i in range(3)}
    assert_same_scores(search.cv_results_, theirs, unit=COUNTING.get(scoring), atol=1e-2)


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_squared_error", "neg_mean_absolute_error"])
@pytest.mark.parametrize(
    "estimator, space",
    [
        (svr(), SVR_SPACE),
        (svr(kernel="linear"), {"C": (1e-2, 1e1), "epsilon": (1e-2, 1.0)}),
        (ridge(), RIDGE_SPACE),
        (ridge(kernel="poly", degree=2), RIDGE_SPACE | {"coef0": (0.1, 2.0)}),
        (ridge(kernel="linear"), {"alpha": (1e-3, 1e1)}),
    ],
    ids=["svr", "svr-linear", "ridge", "ridge-poly", "ridge-linear"],
)
def test_regression_scores_agree_with_cross_validate(
    regression, estimator, space, scoring, assert_same_scores
):
    X, y = regression
    search = quick(estimator, space, scoring=scoring, max_evals=4).fit(X, y)
    runs = [
        cross_validate(clone(estimator).set_params(**row), X, y, cv=3, scoring=scoring)[
            "test_score"
        ]
        for row in search.cv_results_["params"]
    ]
    theirs = {f"split{i}_test_score": np.array([run[i] for run in runs]) for i in range(3)}
    assert_same_scores(search.cv_results_, theirs)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_scores_of_several_classes_agree_with_grid_search(
    three_classes, shape, break_ties, grid_over_same_points, assert_same_scores
):
    if shape == "ovo" and break_ties:
        pytest.skip("scikit-learn does not allow it")
    X, y = three_classes
    estimator = svc(decision_function_shape=shape, break_ties=break_ties)
    search = quick(estimator, C_GAMMA).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 30)
    assert search.decision_function(X).shape == (90, 3)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
def test_hyperparameters_outside_the_space_keep_their_meaning(
    binary, gamma, grid_over_same_points, assert_same_scores
):
    X, y = binary[0] * [1, 1, 3, 10], binary[1]
    search = quick(svc(gamma=gamma), {"C": (1e-1, 1e2)}).fit(X, y)
    assert search.best_estimator_.gamma == gamma
    assert list(search.best_params_) == ["C"]
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=COUNTING["accuracy"])


@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
def test_log_loss_can_be_asked_for(binary):
    X, y = binary
    estimator = svc(probability=True, random_state=0)
    search = quick(estimator, C_GAMMA, scoring="neg_log_loss").fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    plain = clone(estimator).set_params(**search.best_params_)
    again = cross_val_score(plain, X, y, cv=3, scoring="neg_log_loss").mean()
    assert search.best_score_ == pytest.approx(again, abs=0.1)
    assert search.predict_proba(X).shape == (80, 2)


def test_log_loss_can_be_asked_for_without_the_deprecated_argument(three_classes):
    search = quick(svc(), C_GAMMA, scoring="neg_log_loss").fit(*three_classes)
    assert -np.log(3) < search.best_score_ < 0


def test_train_scores_agree_with_grid_search(case, grid_over_same_points, assert_same_scores):
    estimator, space, X, y = case
    search = quick(estimator, space, return_train_score=True).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert any(key.startswith("split0_train") for key in grid.cv_results_)
    unit = 1 / 26 if is_classifier(estimator) else None
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=unit)


def test_train_scores_are_absent_unless_asked_for(binary):
    search = quick(svc(), C_GAMMA, max_evals=2).fit(*binary)
    assert not [key for key in search.cv_results_ if "train" in key]


@pytest.mark.parametrize(
    "values",
    [[0.1, 1.0, 10.0], np.array([0.1, 1.0, 10.0]), [0.1], [1, 10]],
    ids=["list", "array", "one value", "integers"],
)
def test_lists_of_values_give_the_table_of_grid_search(binary, values):
    X, y = binary
    space = {"C": values, "kernel": ["rbf", "linear"], "gamma": [0.1]}
    search = quick(SVC(), space, max_evals=100).fit(X, y)
    grid = GridSearchCV(SVC(), space, cv=3).fit(X, y)

    def key(row):
        return (row["C"], row["kernel"])

    mine = dict(zip(map(key, search.cv_results_["params"]), search.cv_results_["mean_test_score"]))
    theirs = dict(zip(map(key, grid.cv_results_["params"]), grid.cv_results_["mean_test_score"]))
    assert set(mine) == set(theirs)
    assert len(search.cv_results_["params"]) == len(theirs)
    assert_allclose([mine[k] for k in theirs], list(theirs.values()), atol=1 / 80 + 1e-9)
    assert search.best_score_ == pytest.approx(grid.best_score_, abs=1 / 80 + 1e-9)


def test_an_empty_space_scores_the_estimator_as_it_is(binary):
    X, y = binary
    search = quick(svc(), {}).fit(X, y)
    assert search.best_params_ == {}
    assert search.best_score_ == pytest.approx(cross_val_score(svc(), X, y, cv=3).mean(), abs=0.02)


def test_a_space_of_one_point_refits_that_point(binary):
    X, y = binary
    space = {"C": [2.0], "kernel": ["rbf"], "gamma": [0.1]}
    search = quick(SVC(gamma="auto"), space).fit(X, y)
    assert search.best_params_ == {"C": 2.0, "kernel": "rbf", "gamma": 0.1}
    assert_array_equal(
        search.best_estimator_.dual_coef_, SVC(C=2.0, gamma=0.1).fit(X, y).dual_coef_
    )


def test_scores_do_not_depend_on_the_order_of_the_names(binary):
    X, y = binary
    one = quick(svc(), {"C": (1e-2, 1e2), "gamma": (1e-2, 1e1)}).fit(X, y)
    two = quick(svc(), {"gamma": (1e-2, 1e1), "C": (1e-2, 1e2)}).fit(X, y)
    assert one.best_score_ == pytest.approx(two.best_score_, abs=0.03)


# Kinds of space
# --------------


@pytest.mark.parametrize(
    "ranges, low, high",
    [
        ((1e-1, 1e1), 1e-1, 1e1),
        ((1e-1, 1e1, "log"), 1e-1, 1e1),
        ((0.5, 4.0, "linear"), 0.5, 4.0),
        (loguniform(1e-1, 1e1), 1e-1, 1e1),
        (uniform(0.5, 3.5), 0.5, 4.0),
        ((1, 10), 1, 10),
    ],
    ids=["pair", "log", "linear", "loguniform", "uniform", "integers"],
)
def test_a_range_may_be_written_in_every_documented_way(binary, ranges, low, high):
    search = quick(svc(), {"C": ranges, "gamma": [0.1]}).fit(*binary)
    visited = np.asarray(search.cv_results_["param_C"], dtype=float)
    assert np.all((visited >= low * (1 - 1e-9)) & (visited <= high * (1 + 1e-9)))


def test_bounds_hold_for_every_visited_point(case):
    estimator, _, X, y = case
    name = {"KernelRidge": "alpha", "Pipeline": "svc__C"}.get(type(estimator).__name__, "C")
    search = quick(estimator, {name: (0.9, 1.1)}, max_evals=10).fit(X, y)
    visited = [look["params"][name] for look in search.history_]
    assert min(visited) >= 0.9 * (1 - 1e-9)
    assert max(visited) <= 1.1 * (1 + 1e-9)


def test_every_listed_value_is_tried(binary):
    space = {"kernel": ["rbf", "linear", "poly"], "C": (1e-1, 1e1)}
    search = quick(svc(), space, max_evals=12).fit(*binary)
    tried = list(search.cv_results_["param_kernel"])
    assert set(tried) == {"rbf", "linear", "poly"}
    assert max(tried.count(kernel) for kernel in set(tried)) <= 12


def test_kernels_of_the_ridge_may_be_listed(regression):
    space = {"kernel": ["rbf", "polynomial", "linear"], "alpha": (1e-2, 1e1)}
    search = quick(KernelRidge(), space, max_evals=12).fit(*regression)
    assert set(search.cv_results_["param_kernel"]) == {"rbf", "polynomial", "linear"}
    assert search.best_params_["kernel"] != "linear"


def test_offset_of_the_polynomial_kernel_may_be_negative(regression):
    space = {"alpha": (1e-2, 1e1), "coef0": (-1.0, 1.0, "linear"), "gamma": [0.5]}
    search = quick(ridge(kernel="poly", degree=2), space).fit(*regression)
    assert np.isfinite(search.best_score_)


def test_what_a_kernel_does_not_have_is_left_out_of_its_rows(binary):
    space = {"kernel": ["rbf", "linear"], "C": (1e-1, 1e1), "gamma": (1e-2, 1.0)}
    table = quick(svc(), space, max_evals=4).fit(*binary).cv_results_
    linear = np.asarray(table["param_kernel"] == "linear")
    assert linear.any()
    assert not linear.all()
    assert_array_equal(np.ma.getmaskarray(table["param_gamma"]), linear)


def test_width_of_the_tube_may_be_zero(regression):
    search = quick(svr(), {"C": (0.1, 10.0), "epsilon": (0.0, 1.0, "linear")}).fit(*regression)
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e-2])
@pytest.mark.parametrize(
    "estimator, data",
    [
        (SVC(), "binary"),
        (SVC(), "three_classes"),
        (SVC(kernel="linear"), "binary"),
        (SVC(kernel="poly"), "binary"),
        (SVR(), "regression"),
        (KernelRidge(kernel="rbf"), "regression"),
        (make_pipeline(StandardScaler(), SVC()), "binary"),
    ],
    ids=["svc", "svc-three", "svc-linear", "svc-poly", "svr", "ridge", "pipeline"],
)
def test_without_a_space_the_result_is_no_worse_than_the_defaults(request, estimator, data, scale):
    X, y = request.getfixturevalue(data)
    X = X * scale
    search = GradientSearchCV(estimator, cv=3, random_state=0, max_evals=15).fit(X, y)
    slack = 3.01 / len(X) if is_classifier(estimator) else 0.01  # three rows of noise
    assert search.best_score_ >= cross_val_score(estimator, X, y, cv=3).mean() - slack


@pytest.mark.parametrize("scale, shift", [(1e4, 0.0), (1e-4, 0.0), (1.0, 1e2)])
@pytest.mark.parametrize("estimator", [SVR(), KernelRidge(kernel="rbf")], ids=["svr", "ridge"])
def test_without_a_space_the_unit_of_the_target_does_not_matter(
    regression, estimator, scale, shift
):
    X, y = regression
    search = quick(estimator, max_evals=20).fit(X, y * scale + shift)
    assert search.best_score_ > 0.8


def test_without_a_space_every_continuous_hyperparameter_is_tuned(case):
    estimator, space, X, y = case
    assert set(quick(estimator).fit(X, y).best_params_) == set(space)


# refit, several metrics, scorers
# -------------------------------


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


def two_metrics(estimator, X, y):
    """Score accuracy and recall in one call."""
    predicted = estimator.predict(X)
    return {"accuracy": accuracy_score(y, predicted), "recall": recall_score(y, predicted)}


@pytest.mark.parametrize(
    "scoring",
    [
        ["accuracy", "recall"],
        ("accuracy", "recall"),
        {"accuracy": make_scorer(accuracy_score), "recall": "recall"},
        two_metrics,
    ],
    ids=["list", "tuple", "dict", "callable"],
)
@pytest.mark.parametrize("refit", ["accuracy", "recall"])
def test_several_metrics_fill_a_table_each(
    binary, scoring, refit, grid_over_same_points, assert_same_scores
):
    X, y = binary
    search = quick(svc(), C_GAMMA, scoring=scoring, refit=refit, max_evals=4).fit(X, y)
    table = search.cv_results_
    assert search.multimetric_ is True
    assert not [key for key in table if key.endswith("_test_score")]
    assert search.best_score_ == table[f"mean_test_{refit}"][search.best_index_]
    assert search.best_score_ == pytest.approx(table[f"mean_test_{refit}"].max(), abs=1e-12)
    assert_same_scores(table, grid_over_same_points(search, X, y).cv_results_, unit=1 / 12)
    score = accuracy_score if refit == "accuracy" else recall_score
    assert search.score(X, y) == pytest.approx(score(y, search.predict(X)))
    if scoring is not two_metrics:
        assert set(search.scorer_) == {"accuracy", "recall"}


def test_several_metrics_without_refit_name_no_best(binary):
    search = quick(svc(), C_GAMMA, scoring=["accuracy", "f1"], refit=False, max_evals=2).fit(
        *binary
    )
    for absent in ("best_index_", "best_params_", "best_score_", "best_estimator_"):
        assert not hasattr(search, absent)
    assert "mean_test_f1" in search.cv_results_


def test_several_metrics_with_a_chosen_row(binary):
    search = quick(
        svc(),
        C_GAMMA,
        scoring=["accuracy", "recall"],
        refit=lambda table: int(table["mean_test_recall"].argmin()),
    ).fit(*binary)
    assert search.best_index_ == search.cv_results_["mean_test_recall"].argmin()
    assert not hasattr(search, "best_score_")


@pytest.mark.parametrize("scoring", [["accuracy", "recall"], two_metrics], ids=["list", "callable"])
@pytest.mark.parametrize("refit", [True, "precision"])
def test_several_metrics_need_a_known_name_to_refit(binary, scoring, refit):
    with pytest.raises(ValueError, match="refit"):
        quick(svc(), C_GAMMA, scoring=scoring, refit=refit, max_evals=2).fit(*binary)


def test_score_uses_the_metric_of_the_search(binary):
    X, y = binary
    plain = quick(svc(), C_GAMMA).fit(X, y)
    assert plain.score(X, y) == accuracy_score(y, plain.predict(X))
    auc = quick(svc(), C_GAMMA, scoring="roc_auc").fit(X, y)
    assert auc.score(X, y) == auc.scorer_(auc.best_estimator_, X, y)
    assert auc.score(X, y) != accuracy_score(y, auc.predict(X))


@pytest.mark.parametrize(
    "name", ["f1", "precision", "roc_auc", "average_precision", "matthews_corrcoef", "cohen_kappa"]
)
def test_any_metric_selects_among_the_visited_points(
    binary, name, grid_over_same_points, assert_same_scores
):
    X, y = binary
    kappa = name == "cohen_kappa"
    scoring = make_scorer(cohen_kappa_score) if kappa else name
    search = quick(svc(), C_GAMMA, scoring=scoring, max_evals=4)
    with pytest.warns(UserWarning, match=name) if kappa else nullcontext():
        search.fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    grid = grid_over_same_points(search, X, y)
    # One hit more or less moves the ratio of counts by at most a tenth on these folds.
    unit = None if name in ("roc_auc", "average_precision") else 0.1
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=unit, rtol=2e-2)


@pytest.mark.parametrize("name", ["max_error", "median_absolute_error", "explained_variance"])
def test_any_metric_of_regression_selects_among_the_visited_points(
    regression, name, grid_over_same_points, assert_same_scores
):
    X, y = regression
    prefix = "" if name == "explained_variance" else "neg_"
    search = quick(svr(), SVR_SPACE, scoring=prefix + name, max_evals=4)
    with pytest.warns(UserWarning, match=name):
        search.fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_)


@pytest.mark.parametrize(
    "case_name, scoring",
    [
        ("svc", None),
        ("svc", "accuracy"),
        ("svc", "balanced_accuracy"),
        ("svr", None),
        ("svr", "r2"),
        ("svr", "neg_mean_absolute_error"),
        ("kernel ridge", "neg_mean_squared_error"),
    ],
)
def test_metrics_with_their_own_surrogate_are_not_warned_about(request, case_name, scoring):
    estimator, space, data = CASES[case_name]
    X, y = request.getfixturevalue(data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quick(estimator, space, scoring=scoring, max_evals=2).fit(X, y)
    told = [str(w.message) for w in caught]
    assert not [m for m in told if "surrogate" in m or "smooth" in m or "differentiable" in m]


def test_a_scorer_sees_the_fitted_plain_estimator(binary):
    """Scorers that look inside the model (its C, its support vectors) must keep working."""
    X, y = binary

    def read_c(estimator, X, y):
        assert type(estimator) is SVC
        assert estimator.support_vectors_.shape[1] == X.shape[1]
        assert estimator.decision_function(X).shape == y.shape
        return estimator.C

    search = quick(svc(), C_GAMMA, scoring=read_c, error_score="raise").fit(X, y)
    assert_allclose(search.cv_results_["mean_test_score"], search.cv_results_["param_C"].data)
    assert search.best_params_["C"] == max(search.cv_results_["param_C"])


def test_a_scorer_sees_the_fitted_plain_pipeline(binary):
    X, y = binary

    def read_inside(estimator, X, y):
        assert estimator[:-1].transform(X).shape == X.shape
        return estimator["svc"].n_support_.sum() / len(estimator["standardscaler"].mean_)

    estimator, space, _ = CASES["pipeline"]
    search = quick(estimator, space, scoring=read_inside, error_score="raise").fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] > 0)


def test_a_scorer_sees_the_data_as_the_user_gave_them(binary):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(binary[0], columns=list("abcd"))
    y = pd.Series(np.where(binary[1] == 1, "yes", "no"))

    def check(estimator, X_test, y_test):
        assert list(X_test.columns) == list("abcd")
        assert set(y_test) <= {"yes", "no"}
        assert_array_equal(X.loc[X_test.index], X_test)
        return float(np.mean(estimator.predict(X_test) == y_test))

    quick(svc(), C_GAMMA, scoring=check, error_score="raise", max_evals=2).fit(X, y)


def test_a_loss_turned_into_a_scorer_is_minimised(binary):
    X, y = binary
    loss = make_scorer(lambda t, p: np.mean(t != p), greater_is_better=False)
    search = quick(svc(), C_GAMMA, scoring=loss).fit(X, y)
    plain = quick(svc(), C_GAMMA, scoring="accuracy").fit(X, y)
    assert search.best_score_ <= 0
    assert 1 + search.best_score_ == pytest.approx(plain.best_score_, abs=0.03)


def test_a_scorer_returning_counts_fills_the_table(binary):
    def counts(estimator, X, y):
        (tn, fp), (fn, tp) = confusion_matrix(y, estimator.predict(X))
        return {"tn": tn, "fp": fp, "fn": fn, "tp": tp}

    X, y = binary
    search = quick(svc(), C_GAMMA, scoring=counts, refit="tp").fit(X, y)
    table = search.cv_results_
    total = sum(table[f"mean_test_{name}"] for name in ("tn", "fp", "fn", "tp"))
    assert_allclose(total, 80 / 3)
    assert search.score(X, y) == counts(search.best_estimator_, X, y)["tp"]


# Failing scorers and fits
# ------------------------


def failing_scorer(estimator, X, y):
    """Fail for every other point of the space, so to say."""
    if estimator.get_params()["C"] > 1:
        raise ValueError("no score beyond one")
    return estimator.score(X, y)


@pytest.mark.parametrize("error_score", [np.nan, -1.0])
def test_a_failing_scorer_costs_only_its_rows(binary, error_score):
    space = {"C": [0.5, 1.0, 5.0, 50.0], "gamma": [0.1]}
    search = quick(svc(), space, scoring=failing_scorer, error_score=error_score, max_evals=20)
    with pytest.warns(UserWarning, match="Scoring failed"):
        search.fit(*binary)
    table = search.cv_results_
    failed = table["param_C"].data > 1
    assert failed.any()
    assert_array_equal(table["mean_test_score"][failed], [error_score] * failed.sum())
    assert np.all(table["mean_test_score"][~failed] > 0)
    assert np.all(table["rank_test_score"][failed] == table["rank_test_score"].max())
    assert search.best_params_["C"] <= 1


def test_a_failing_scorer_does_not_stop_the_descent(binary):
    space = {"C": [10.0, 0.5], "gamma": (1e-2, 10.0)}
    search = quick(svc(), space, scoring=failing_scorer).fit(*binary)
    assert search.best_params_["C"] == 0.5
    assert search.best_score_ > 0.5


def test_a_scorer_that_always_fails_leaves_nan_and_a_warning(binary):
    def never(estimator, X, y):
        raise RuntimeError("never")

    search = quick(svc(), C_GAMMA, scoring=never, max_evals=3)
    with pytest.warns(UserWarning, match="never|non-finite"):
        search.fit(*binary)
    assert np.all(np.isnan(search.cv_results_["mean_test_score"]))
    assert set(search.best_params_) == set(C_GAMMA)


def test_a_failing_scorer_raises_when_asked_to(binary):
    def never(estimator, X, y):
        raise RuntimeError("never mind")

    with pytest.raises(RuntimeError, match="never mind"):
        quick(svc(), C_GAMMA, scoring=never, error_score="raise").fit(*binary)


def test_one_failing_metric_of_two_leaves_the_other(binary):
    search = quick(
        svc(),
        {"C": (1e-2, 1e2)},
        scoring={"good": "accuracy", "bad": failing_scorer},
        refit="good",
    ).fit(*binary)
    table = search.cv_results_
    assert np.all(np.isfinite(table["mean_test_good"]))
    assert_array_equal(np.isnan(table["mean_test_bad"]), table["param_C"].data > 1)


def test_a_value_that_cannot_be_fitted_costs_only_its_rows(binary):
    estimator = make_pipeline(PCA(), svc())
    space = {"pca__n_components": [2, 1000], "svc__C": (0.1, 10.0)}
    search = quick(estimator, space, max_evals=10)
    with pytest.warns(FitFailedWarning):
        search.fit(*binary)
    assert search.best_params_["pca__n_components"] == 2
    failed = search.cv_results_["param_pca__n_components"] == 1000
    assert np.all(np.isnan(search.cv_results_["mean_test_score"][failed]))
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"][~failed]))


def test_a_value_that_cannot_be_fitted_raises_when_asked_to(binary):
    estimator = make_pipeline(PCA(), svc())
    space = {"pca__n_components": [2, 1000], "svc__C": (0.1, 10.0)}
    with pytest.raises(ValueError, match="n_components"):
        quick(estimator, space, max_evals=10, error_score="raise").fit(*binary)


def test_nothing_that_can_be_fitted_is_an_error(binary):
    estimator = make_pipeline(PCA(n_components=1000), svc())
    with pytest.raises(ValueError, match="n_components"):
        quick(estimator, {"svc__C": (0.1, 10.0)}).fit(*binary)


# Folds
# -----


@pytest.mark.parametrize(
    "cv, n_splits",
    [
        (2, 2),
        (StratifiedKFold(3, shuffle=True, random_state=1), 3),
        (KFold(4, shuffle=True, random_state=1), 4),
        (ShuffleSplit(3, test_size=0.3, random_state=1), 3),
        (ShuffleSplit(1, test_size=0.3, random_state=1), 1),
        (ShuffleSplit(2, train_size=0.4, test_size=0.3, random_state=1), 2),
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=1), 4),
        (PredefinedSplit(np.r_[np.full(50, -1), np.zeros(30)]), 1),
        ([(np.arange(40), np.arange(40, 80)), (np.arange(20, 80), np.arange(20))], 2),
    ],
    ids=[
        "int",
        "stratified",
        "kfold",
        "shuffle",
        "one",
        "partial",
        "repeated",
        "predefined",
        "list",
    ],
)
def test_any_splitter_gives_the_scores_of_grid_search(
    binary, cv, n_splits, grid_over_same_points, assert_same_scores
):
    X, y = binary
    search = quick(svc(), C_GAMMA, cv=cv, max_evals=4).fit(X, y)
    assert search.n_splits_ == n_splits
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 20)


BOOTSTRAP = np.random.RandomState(0).randint(0, 80, 80)


@pytest.mark.parametrize(
    "fold",
    [
        (BOOTSTRAP, np.setdiff1d(np.arange(80), BOOTSTRAP)),
        (np.arange(40), np.r_[40:80, np.full(10, 40), 41]),
        (np.arange(80), np.arange(80)),
        (np.arange(60), np.arange(40, 80)),
        (np.random.RandomState(0).permutation(60), np.arange(79, 59, -1)),
    ],
    ids=["drawn twice", "tested twice", "all", "overlapping", "out of order"],
)
@pytest.mark.parametrize("kind", ["svc", "pipeline"])
def test_rows_may_be_in_a_fold_twice_in_both_parts_or_out_of_order(
    binary, kind, fold, grid_over_same_points, assert_same_scores
):
    X, y = binary
    estimator, space, _ = CASES[kind]
    search = quick(estimator, space, cv=[fold]).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / len(fold[1]))


def test_five_folds_by_default(binary):
    search = GradientSearchCV(svc(), C_GAMMA, max_evals=2).fit(*binary)
    assert search.n_splits_ == 5


def test_masks_and_generators_may_give_the_folds(binary):
    X, y = binary
    mask = np.arange(80) % 3 == 0
    masked = quick(svc(), C_GAMMA, cv=[(~mask, mask), (mask, ~mask)]).fit(X, y)
    pairs = [
        (np.flatnonzero(~mask), np.flatnonzero(mask)),
        (np.flatnonzero(mask), np.flatnonzero(~mask)),
    ]
    indexed = quick(svc(), C_GAMMA, cv=pairs).fit(X, y)
    generated = quick(svc(), C_GAMMA, cv=(pair for pair in pairs)).fit(X, y)
    for other in (indexed, generated):
        assert_array_equal(
            masked.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
        )


def test_time_ordered_folds(regression, grid_over_same_points, assert_same_scores):
    X, y = regression
    search = quick(svr(), SVR_SPACE, cv=TimeSeriesSplit(3)).fit(X, y)
    assert_same_scores(search.cv_results_, grid_over_same_points(search, X, y).cv_results_)


def test_leave_one_out(binary):
    X, y = binary[0][:24], binary[1][:24]
    search = quick(svc(), {"C": (1e-1, 1e1)}, cv=LeaveOneOut(), max_evals=3).fit(X, y)
    assert search.n_splits_ == 24
    plain = clone(search.estimator).set_params(**search.best_params_)
    again = cross_val_score(plain, X, y, cv=LeaveOneOut()).mean()
    assert search.best_score_ == pytest.approx(again, abs=1.01 / 24)


class OneTime:
    """Splitter that can be asked for its folds only once."""

    def __init__(self):
        self.folds = iter(KFold(3, shuffle=True, random_state=0).split(np.zeros(80)))

    def split(self, X, y=None, groups=None):
        yield from self.folds

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


def test_folds_are_drawn_once(binary):
    X, y = binary
    once = quick(svc(), C_GAMMA, cv=OneTime()).fit(X, y)
    plain = quick(svc(), C_GAMMA, cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert len(once.cv_results_["params"]) > 1
    assert_array_equal(once.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_shuffled_folds_stay_the_same_through_the_search(binary):
    """The same point must score the same in every row, or the search chases noise."""
    X, y = binary
    space = {"C": [1.0, 1.0, 1.0], "gamma": [0.1]}
    search = quick(svc(), space, cv=KFold(3, shuffle=True), max_evals=20).fit(X, y)
    assert np.ptp(search.cv_results_["split0_test_score"]) == 0


# Weights, groups, metadata
# -------------------------


def weights_of(n, seed=0):
    """Draw whole weights from one to three."""
    return np.random.RandomState(seed).randint(1, 4, size=n)


def test_weights_give_the_scores_of_grid_search(case, grid_over_same_points, assert_same_scores):
    estimator, space, X, y = case
    weights = 10.0 ** np.random.RandomState(1).uniform(-1, 1, len(X))
    names = {"Pipeline": "svc__sample_weight"}
    fit_params = {names.get(type(estimator).__name__, "sample_weight"): weights}
    search = quick(estimator, space).fit(X, y, **fit_params)
    grid = grid_over_same_points(search, X, y, **fit_params)
    unit = 0.2 if is_classifier(estimator) else None  # one hit may weigh this much
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=unit)
    plain = clone(estimator).set_params(**search.best_params_)
    assert_array_equal(plain.fit(X, y, **fit_params).predict(X), search.predict(X))


def test_weights_change_the_result(case):
    estimator, space, X, y = case
    weights = np.where(np.arange(len(X)) % 2, 10.0, 0.01)
    name = "svc__sample_weight" if isinstance(estimator, Pipeline) else "sample_weight"
    space = {key: [low, 1.0] for key, (low, _) in space.items()}
    plain = quick(estimator, space, max_evals=50).fit(X, y)
    weighted = quick(estimator, space, max_evals=50).fit(X, y, **{name: weights})
    assert not np.allclose(
        plain.cv_results_["mean_test_score"], weighted.cv_results_["mean_test_score"]
    )
    assert not np.allclose(plain.cv_results_["objective"], weighted.cv_results_["objective"])


def repeated(X, y, weights):
    """Return folds of the rows, and the rows repeated by their weights with the same folds."""
    fold = np.arange(len(X)) % 3
    splits = list(LeaveOneGroupOut().split(X, groups=fold))
    many_X, many_y, many_fold = (np.repeat(a, weights, axis=0) for a in (X, y, fold))
    return splits, many_X, many_y, list(LeaveOneGroupOut().split(many_X, groups=many_fold))


@pytest.mark.parametrize(
    "kind, scoring",
    [
        ("svc", "accuracy"),
        ("svc", "balanced_accuracy"),
        ("svc", "neg_log_loss"),
        ("svr", "r2"),
        ("svr", "neg_mean_squared_error"),
        ("svr", "neg_mean_absolute_error"),
        ("kernel ridge", "r2"),
    ],
)
@pytest.mark.parametrize("least", [0, 1])
def test_whole_weights_equal_repetition_in_the_smooth_loss(request, kind, scoring, least):
    estimator, space, data = CASES[kind]
    X, y = request.getfixturevalue(data)
    weights = np.random.RandomState(0).randint(least, 4, size=len(X))
    splits, many_X, many_y, many_splits = repeated(X, y, weights)
    params = dict.fromkeys(space, 0.5)
    a, da = value_and_grad(
        estimator, X, y, params, cv=splits, sample_weight=weights, scoring=scoring
    )
    b, db = value_and_grad(estimator, many_X, many_y, params, cv=many_splits, scoring=scoring)
    assert a == pytest.approx(b, rel=1e-4)
    for name in space:
        assert da[name] == pytest.approx(db[name], rel=1e-2, abs=1e-5)


@pytest.mark.parametrize("kind", ["svc", "svr", "kernel ridge"])
def test_whole_weights_equal_repetition_in_the_table(request, kind):
    estimator, space, data = CASES[kind]
    X, y = request.getfixturevalue(data)
    weights = np.random.RandomState(0).randint(0, 4, size=len(X))
    splits, many_X, many_y, many_splits = repeated(X, y, weights)
    space = {name: [0.3, 1.0] for name in space}
    one = quick(estimator, space, cv=splits).fit(X, y, sample_weight=weights)
    two = quick(estimator, space, cv=many_splits).fit(many_X, many_y)
    for i in range(3):
        key = f"split{i}_test_score"
        assert_allclose(one.cv_results_[key], two.cv_results_[key], rtol=1e-2, atol=0.03)
    assert_allclose(one.cv_results_["objective"], two.cv_results_["objective"], rtol=1e-3)
    assert one.best_params_ == two.best_params_


def test_weights_and_balanced_classes_come_together(
    binary, grid_over_same_points, assert_same_scores
):
    X, y = binary
    weights = 10.0 ** np.random.RandomState(1).uniform(-1, 1, 80)
    search = quick(svc(class_weight="balanced"), {"C": (1.0, 1e2)}).fit(X, y, sample_weight=weights)
    grid = grid_over_same_points(search, X, y, sample_weight=weights)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=0.2)


def test_equal_weights_change_nothing_but_the_scale_of_c(binary):
    X, y = binary
    plain, grad = value_and_grad(svc(), X, y, {"C": 2.0, "gamma": 0.2}, cv=3)
    twice, grad2 = value_and_grad(
        svc(), X, y, {"C": 1.0, "gamma": 0.2}, cv=3, sample_weight=np.full(80, 2.0)
    )
    assert plain == pytest.approx(twice, rel=1e-4)
    assert 2 * grad["C"] == pytest.approx(grad2["C"], rel=1e-2, abs=1e-6)
    assert grad["gamma"] == pytest.approx(grad2["gamma"], rel=1e-2, abs=1e-6)


def test_groups_are_kept_together(binary, grid_over_same_points, assert_same_scores):
    X, y = binary
    groups = np.arange(80) // 8
    search = quick(svc(), C_GAMMA, cv=GroupKFold(3)).fit(X, y, groups=groups)
    grid = grid_over_same_points(search, X, y, groups=groups)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 24)


def test_group_splitters_without_groups_are_refused(binary):
    with pytest.raises(ValueError, match="groups"):
        quick(svc(), C_GAMMA, cv=GroupKFold(3)).fit(*binary)


def test_weights_and_groups_may_come_together(binary, grid_over_same_points, assert_same_scores):
    X, y = binary
    fit_params = {"sample_weight": weights_of(80), "groups": np.arange(80) // 8}
    search = quick(svc(), C_GAMMA, cv=GroupKFold(3)).fit(X, y, **fit_params)
    grid = grid_over_same_points(search, X, y, **fit_params)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=0.2)


@config_context(enable_metadata_routing=True)
def test_routed_weights_and_groups_reach_whoever_asked(
    binary, grid_over_same_points, assert_same_scores
):
    X, y = binary
    fit_params = {
        "sample_weight": weights_of(80),
        "score_weight": weights_of(80, seed=1),
        "groups": np.arange(80) // 8,
    }
    estimator = svc().set_fit_request(sample_weight=True)
    scoring = make_scorer(accuracy_score).set_score_request(sample_weight="score_weight")
    search = quick(estimator, C_GAMMA, scoring=scoring, cv=GroupKFold(3))
    search.fit(X, y, **fit_params)
    grid = grid_over_same_points(search, X, y, **fit_params)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=0.2)
    plain = (
        svc().set_params(**search.best_params_).fit(X, y, sample_weight=fit_params["sample_weight"])
    )
    assert_array_equal(search.decision_function(X), plain.decision_function(X))
    weighted = accuracy_score(y, search.predict(X), sample_weight=fit_params["score_weight"])
    assert search.score(X, y, score_weight=fit_params["score_weight"]) == pytest.approx(weighted)


@config_context(enable_metadata_routing=True)
def test_routed_weights_reach_each_of_several_metrics(
    binary, grid_over_same_points, assert_same_scores
):
    X, y = binary
    scoring = {
        "weighted": make_scorer(accuracy_score).set_score_request(sample_weight="score_weight"),
        "plain": make_scorer(accuracy_score),
    }
    weights = weights_of(80)
    search = quick(svc(), C_GAMMA, scoring=scoring, refit="weighted").fit(
        X, y, score_weight=weights
    )
    grid = grid_over_same_points(search, X, y, score_weight=weights)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=0.2)
    table = search.cv_results_
    assert np.any(table["mean_test_weighted"] != table["mean_test_plain"])


@config_context(enable_metadata_routing=True)
def test_routed_weights_through_a_pipeline(binary, grid_over_same_points, assert_same_scores):
    X, y = binary
    estimator = make_pipeline(
        StandardScaler().set_fit_request(sample_weight=True),
        svc().set_fit_request(sample_weight=True),
    )
    scoring = make_scorer(accuracy_score).set_score_request(sample_weight=False)
    space = CASES["pipeline"][1]
    weights = 10.0 ** np.random.RandomState(1).uniform(-1, 1, 80)
    search = quick(estimator, space, scoring=scoring).fit(X, y, sample_weight=weights)
    grid = grid_over_same_points(search, X, y, sample_weight=weights)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 26)


@config_context(enable_metadata_routing=True)
def test_weights_nobody_asked_for_are_refused_under_routing(binary):
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        quick(svc(), C_GAMMA).fit(*binary, sample_weight=np.ones(80))


@config_context(enable_metadata_routing=True)
def test_routed_weights_pass_through_nested_cross_validation(binary):
    X, y = binary
    estimator = svc().set_fit_request(sample_weight=True)
    scoring = make_scorer(accuracy_score).set_score_request(sample_weight=True)
    search = quick(estimator, C_GAMMA, scoring=scoring, cv=GroupKFold(2), max_evals=2)
    run = cross_validate(
        search,
        X,
        y,
        cv=GroupKFold(2),
        params={"sample_weight": weights_of(80), "groups": np.arange(80) // 8},
        error_score="raise",
    )
    assert np.all(run["test_score"] > 0.5)


def test_score_takes_no_metadata_without_routing(fitted, binary):
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        fitted.score(*binary, metadata=1)


def test_a_scorer_without_weights_is_warned_about(binary):
    scorer = make_scorer(lambda t, p: float(np.mean(t == p)))
    with pytest.warns(UserWarning, match="does not support sample_weight"):
        quick(svc(), C_GAMMA, scoring=scorer, max_evals=2).fit(*binary, sample_weight=np.ones(80))


# An estimator among estimators
# -----------------------------


def test_a_fitted_search_survives_pickling(fitted, binary):
    X, y = binary
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(copy.decision_function(X), fitted.decision_function(X))
    assert copy.best_params_ == fitted.best_params_
    assert copy.score(X, y) == fitted.score(X, y)
    assert len(copy.history_) == len(fitted.history_)
    assert [h["params"] for h in copy.history_] == [h["params"] for h in fitted.history_]
    assert_array_equal(copy.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


def test_an_unfitted_search_survives_pickling(binary):
    search = quick(svc(), {"C": loguniform(1e-2, 1e2), "gamma": [0.1]}, max_evals=2)
    copy = pickle.loads(pickle.dumps(search)).fit(*binary)
    assert copy.best_params_ == search.fit(*binary).best_params_


def test_clone_and_parameters_round_trip():
    space = {"C": (1e-2, 1e2), "kernel": ["rbf", "linear"]}
    search = GradientSearchCV(
        svc(C=3), space, scoring="f1", cv=4, max_evals=7, tol=0.1, random_state=1
    )
    params = search.get_params()
    assert params["estimator__C"] == 3
    assert params["space"] is space
    copy = clone(search)
    assert copy is not search
    assert copy.estimator is not search.estimator
    for name, value in copy.get_params(deep=False).items():
        if name not in ("estimator", "error_score"):
            assert value == params[name], name
    copy.set_params(estimator__kernel="poly", max_evals=3, scoring=None)
    assert (copy.estimator.kernel, copy.max_evals, copy.scoring) == ("poly", 3, None)
    assert search.estimator.kernel == "rbf"


def test_fitting_changes_nothing_the_user_passed(case):
    estimator, space, X, y = case
    space = dict(space)
    before, params, X0, y0 = dict(space), estimator.get_params(), X.copy(), y.copy()
    search = quick(estimator, space).fit(X, y)
    assert search.estimator is estimator
    assert search.space is space
    assert space == before
    after = estimator.get_params()
    assert {k: v for k, v in after.items() if not hasattr(v, "get_params") and k != "steps"} == {
        k: v for k, v in params.items() if not hasattr(v, "get_params") and k != "steps"
    }
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    assert not [name for name in vars(last) if name.endswith("_")]
    assert_array_equal(X, X0)
    assert_array_equal(y, y0)


def test_html_shows_the_estimator_then_the_best_one(binary):
    estimator, space, _ = CASES["pipeline"]
    search = quick(estimator, space, max_evals=2)
    unfitted = search._repr_html_()
    assert "GradientSearchCV" in unfitted
    assert "StandardScaler" in unfitted
    assert "best_estimator_" not in unfitted
    assert "best_estimator_" in search.fit(*binary)._repr_html_()
    assert "GradientSearchCV" in repr(search)


@pytest.mark.parametrize(
    "estimator, classifier, pairwise",
    [
        (SVC(), True, False),
        (SVR(), False, False),
        (KernelRidge(), False, False),
        (SVC(kernel="precomputed"), True, True),
        (SVR(kernel="precomputed"), False, True),
        (KernelRidge(kernel="precomputed"), False, True),
        (make_pipeline(StandardScaler(), SVC()), True, False),
    ],
)
def test_tags_are_those_of_the_estimator(estimator, classifier, pairwise):
    search = GradientSearchCV(estimator)
    assert is_classifier(search) is classifier
    assert is_regressor(search) is not classifier
    assert get_tags(search).input_tags.pairwise is pairwise
    assert get_tags(search).input_tags.sparse is get_tags(estimator).input_tags.sparse


def test_methods_are_those_of_the_best_estimator(fitted, binary):
    X, _ = binary
    assert_array_equal(fitted.decision_function(X), fitted.best_estimator_.decision_function(X))
    assert_array_equal(fitted.classes_, [0, 1])
    for absent in ("transform", "inverse_transform", "score_samples"):
        assert not hasattr(fitted, absent), absent


@pytest.mark.parametrize("method", ["predict", "decision_function", "score"])
def test_unfitted_says_so(binary, method):
    X, y = binary
    search = quick(svc())
    assert hasattr(search, method)
    for absent in ("classes_", "n_features_in_", "cv_results_", "history_"):
        assert not hasattr(search, absent)
    with pytest.raises(NotFittedError):
        getattr(search, method)(X, *([y] if method == "score" else []))


def test_regressors_have_no_decision_function(regression):
    search = quick(svr(), SVR_SPACE, max_evals=2).fit(*regression)
    assert not hasattr(search, "decision_function")
    assert not hasattr(search, "classes_")


def test_a_second_fit_forgets_the_first(binary, regression):
    search = quick(svc(), C_GAMMA, max_evals=3).fit(*binary)
    rows = len(search.history_)
    search.set_params(estimator=svr(), space=SVR_SPACE).fit(*regression)
    assert search.n_features_in_ == 2
    assert not hasattr(search, "classes_")
    assert set(search.best_params_) == set(SVR_SPACE)
    assert len(search.history_) < rows + len(search.cv_results_["params"])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_nested_cross_validation(binary, n_jobs):
    X, y = binary
    search = quick(svc(), C_GAMMA, max_evals=3)
    scores = cross_val_score(search, X, y, cv=3, n_jobs=n_jobs, error_score="raise")
    by_hand = [
        clone(search).fit(X[train], y[train]).score(X[test], y[test])
        for train, test in StratifiedKFold(3).split(X, y)
    ]
    assert_allclose(scores, by_hand)


def test_two_processes_give_what_one_gives(binary):
    X, y = binary
    one = quick(svc(), C_GAMMA, n_jobs=1).fit(X, y)
    two = quick(svc(), C_GAMMA, n_jobs=2).fit(X, y)
    assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert_allclose(one.cv_results_["param_C"].data, two.cv_results_["param_C"].data, rtol=1e-6)


def test_a_search_may_be_the_last_step_of_a_pipeline(binary):
    X, y = binary
    model = make_pipeline(StandardScaler(), quick(svc(), C_GAMMA, max_evals=3)).fit(X, y)
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize("case_name", list(CASES))
def test_the_same_seed_gives_the_same_search(request, case_name):
    estimator, space, data = CASES[case_name]
    X, y = request.getfixturevalue(data)
    one, two = (quick(estimator, space, random_state=3).fit(X, y) for _ in range(2))
    assert one.best_params_ == two.best_params_
    assert one.cv_results_["params"] == two.cv_results_["params"]
    for key in one.cv_results_:
        if key not in TIMES | {"params"}:
            assert_array_equal(one.cv_results_[key], two.cv_results_[key], err_msg=key)


def test_a_random_state_object_is_taken(binary):
    for state in (np.random.RandomState(0), None):
        search = quick(svc(), C_GAMMA, random_state=state, max_evals=2).fit(*binary)
        assert search.best_score_ > 0.5


def test_verbose_tells_and_silence_is_the_default(binary, capsys):
    quick(svc(), C_GAMMA, max_evals=2).fit(*binary)
    assert capsys.readouterr().out == ""
    quick(svc(), C_GAMMA, max_evals=2, verbose=3).fit(*binary)
    told = capsys.readouterr()
    assert told.out + told.err


@pytest.mark.parametrize("max_evals", [1, 2, 5])
def test_evaluations_stay_within_the_budget(case, max_evals):
    estimator, space, X, y = case
    search = quick(estimator, space, max_evals=max_evals).fit(X, y)
    assert 1 <= len(search.cv_results_["params"]) <= max_evals
    assert np.isfinite(search.best_score_)


def test_more_evaluations_are_never_worse(case):
    estimator, space, X, y = case
    few = quick(estimator, space, max_evals=2).fit(X, y)
    many = quick(estimator, space, max_evals=25).fit(X, y)
    assert many.cv_results_["objective"].min() <= few.cv_results_["objective"].min() + 1e-9


def test_search_finds_what_a_fine_grid_finds(case):
    """Thirty evaluations must do at least about as well as a grid of a hundred points."""
    estimator, space, X, y = case
    search = quick(estimator, space, max_evals=30).fit(X, y)
    grid = {
        name: np.geomspace(low, high, 7 if len(space) == 2 else 5)
        for name, (low, high) in space.items()
    }
    best = GridSearchCV(estimator, grid, cv=3).fit(X, y).best_score_
    slack = 2.01 / len(X) if is_classifier(estimator) else 0.02
    assert search.best_score_ >= best - slack


# Pipelines
# ---------


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
    search = quick(estimator, space, max_evals=12).fit(X, y)
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


def test_text_is_fine_if_the_pipeline_turns_it_into_numbers():
    words = np.random.RandomState(0).choice(["good", "bad", "film", "plot", "the"], size=(60, 5))
    text = [" ".join(row) for row in words]
    y = [int((row == "good").sum() > (row == "bad").sum()) for row in words]
    estimator = make_pipeline(TfidfVectorizer(), svc(kernel="linear"))
    search = quick(estimator, {"svc__C": (1e-1, 1e2)}).fit(text, y)
    assert search.best_score_ > 0.8
    assert search.predict(["good good film"])[0] == 1


# Containers of data and labels
# -----------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_names(binary, library):
    frames = pytest.importorskip(library)
    X, y = binary
    plain = quick(svc(), C_GAMMA).fit(X, y)
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate("abcd")})
    search = quick(svc(), C_GAMMA).fit(frame, frames.Series(y))
    assert list(search.feature_names_in_) == list("abcd")
    assert list(search.best_estimator_.feature_names_in_) == list("abcd")
    assert_array_equal(search.predict(frame), plain.predict(X))
    assert_allclose(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    if library == "pandas":
        with pytest.raises(ValueError, match="feature names"):
            search.predict(frame.rename(columns={"a": "z"}))


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


def test_a_shuffled_index_of_a_data_frame_is_not_taken_for_positions(binary):
    pd = pytest.importorskip("pandas")
    X, y = binary
    index = np.random.RandomState(0).permutation(80)
    plain = quick(svc(), C_GAMMA).fit(X, y)
    search = quick(svc(), C_GAMMA).fit(pd.DataFrame(X, index=index), pd.Series(y, index=index))
    assert_allclose(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    "make", [sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]
)
@pytest.mark.parametrize("kind", ["svc", "svr", "kernel ridge"])
def test_sparse_data_give_the_result_of_dense_data(request, kind, make):
    estimator, space, data = CASES[kind]
    X, y = request.getfixturevalue(data)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = quick(estimator, space, max_evals=3).fit(X, y)
    thin = quick(estimator, space, max_evals=3).fit(make(X), y)
    assert_allclose(
        dense.cv_results_["mean_test_score"],
        thin.cv_results_["mean_test_score"],
        rtol=1e-2,
        atol=0.02,
    )
    for name, value in dense.best_params_.items():
        assert thin.best_params_[name] == pytest.approx(value, rel=1e-2)
    assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-2, atol=1e-2)


def test_sparse_data_in_a_pipeline_and_without_a_space(binary):
    X, y = binary
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    estimator = make_pipeline(MaxAbsScaler(), svc())
    dense = quick(estimator).fit(X, y)
    thin = quick(estimator).fit(sparse.csr_array(X), y)
    assert thin.best_score_ == pytest.approx(dense.best_score_, abs=0.03)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([1.0, 2.0]),
        np.array([7, 300], dtype=np.int16),
    ],
    ids=["text", "object", "bool", "signs", "floats", "integers"],
)
def test_labels_may_have_any_names(binary, names):
    X, y = binary
    plain = quick(svc(), C_GAMMA).fit(X, y)
    search = quick(svc(), C_GAMMA).fit(X, names[y])
    assert_array_equal(search.classes_, names)
    assert_array_equal(search.predict(X), names[plain.predict(X)])
    assert_allclose(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


@pytest.mark.parametrize("dtype", ["category", "string", "object"])
def test_labels_may_be_a_column_of_any_kind(binary, dtype):
    pd = pytest.importorskip("pandas")
    X, y = binary
    plain = quick(svc(), C_GAMMA).fit(X, y)
    search = quick(svc(), C_GAMMA).fit(X, pd.Series(np.array(["no", "yes"])[y]).astype(dtype))
    assert_array_equal(search.predict(X), np.array(["no", "yes"])[plain.predict(X)])
    assert_allclose(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_weights_of_classes_go_by_name(binary, grid_over_same_points, assert_same_scores):
    X, y = binary[0], np.array(["no", "yes"])[binary[1]]
    search = quick(svc(class_weight={"yes": 3.0}), {"C": (1.0, 1e2)}).fit(X, y)
    assert_same_scores(
        search.cv_results_, grid_over_same_points(search, X, y).cv_results_, unit=1 / 26
    )


def test_several_targets_of_the_ridge(regression, grid_over_same_points, assert_same_scores):
    X, y = regression
    y = np.c_[y, X[:, 0] - 2 * y]
    search = quick(ridge(), RIDGE_SPACE).fit(X, y)
    assert search.predict(X).shape == (70, 2)
    assert_same_scores(search.cv_results_, grid_over_same_points(search, X, y).cv_results_)


def test_several_classes_may_have_any_names(three_classes):
    X, y = three_classes
    names = np.array(["a", "b", "c"])
    plain = quick(svc(), C_GAMMA).fit(X, y)
    search = quick(svc(), C_GAMMA).fit(X, names[y])
    assert_array_equal(search.predict(X), names[plain.predict(X)])
    assert search.best_score_ == plain.best_score_


def test_swapping_the_two_classes_changes_nothing(binary):
    X, y = binary
    one = quick(svc(), C_GAMMA).fit(X, y)
    two = quick(svc(), C_GAMMA).fit(X, 1 - y)
    assert two.best_score_ == pytest.approx(one.best_score_, abs=0.03)


@pytest.mark.parametrize(
    "turn",
    [
        np.ndarray.tolist,
        np.asfortranarray,
        partial(np.asarray, dtype=np.float32),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: X.astype(object),
    ],
    ids=["lists", "columns first", "single", "strided", "object"],
)
def test_numbers_may_come_in_any_array(binary, turn):
    X, y = binary
    plain = quick(svc(), C_GAMMA).fit(X, y)
    search = quick(svc(), C_GAMMA).fit(turn(X), y.tolist())
    assert_allclose(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=0.03
    )


def test_whole_numbers_are_fine(binary):
    X, y = (binary[0] * 3).astype(int), binary[1]
    search = quick(svc(), C_GAMMA).fit(X, y)
    assert search.best_score_ > 0.5


@pytest.mark.parametrize("kind", ["svc", "svr", "kernel ridge"])
def test_a_precomputed_kernel_gives_what_the_kernel_gives(request, kind):
    estimator, space, data = CASES[kind]
    X, y = request.getfixturevalue(data)
    space = {name: bounds for name, bounds in space.items() if name != "gamma"}
    K = rbf_kernel(X, gamma=0.3)
    plain = quick(clone(estimator).set_params(gamma=0.3), space).fit(X, y)
    search = quick(clone(estimator).set_params(kernel="precomputed"), space).fit(K, y)
    assert_allclose(
        search.cv_results_["mean_test_score"],
        plain.cv_results_["mean_test_score"],
        rtol=1e-2,
        atol=0.02,
    )
    assert_allclose(search.predict(K), plain.predict(X), rtol=1e-2, atol=1e-2)
    assert set(search.best_params_) == set(space)


def test_a_precomputed_kernel_needs_no_space(binary):
    X, y = binary
    search = quick(svc(kernel="precomputed")).fit(rbf_kernel(X, gamma=0.3), y)
    assert list(search.best_params_) == ["C"]


def test_a_precomputed_kernel_is_cut_in_both_directions_by_cross_validation(binary):
    X, y = binary
    search = quick(svc(kernel="precomputed"), {"C": (1e-1, 1e1)}, max_evals=2)
    scores = cross_val_score(search, rbf_kernel(X, gamma=0.3), y, cv=2, error_score="raise")
    assert np.all(scores > 0.4)


# Enough rows for cheap looks at some of them
# -------------------------------------------


@pytest.mark.parametrize("kind", ["svc", "pipeline"])
def test_looks_at_part_of_the_rows_are_told_but_not_tabled(
    many_rows, kind, grid_over_same_points, assert_same_scores
):
    X, y = many_rows
    estimator, space, _ = CASES[kind]
    search = quick(estimator, space, max_evals=2).fit(X, y)
    sizes = [look["n_samples"] for look in search.history_]
    assert min(sizes) < 1000
    assert sizes.count(1000) == len(search.cv_results_["params"]) <= 2
    assert_array_equal(search.cv_results_["n_samples"], 1000)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=2 / 333)


def test_looks_respect_weights_and_groups(many_rows, grid_over_same_points, assert_same_scores):
    X, y = many_rows
    fit_params = {"groups": np.arange(1000) // 10, "sample_weight": np.arange(1000) % 3}
    search = quick(svc(), C_GAMMA, cv=GroupKFold(3), max_evals=2).fit(X, y, **fit_params)
    grid = grid_over_same_points(search, X, y, **fit_params)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=0.02)


def test_looks_are_drawn_by_the_seed(many_rows):
    X, y = many_rows
    one, two = (quick(svc(), C_GAMMA, max_evals=2, random_state=4).fit(X, y) for _ in range(2))
    assert [h["params"] for h in one.history_] == [h["params"] for h in two.history_]
    assert [h["objective"] for h in one.history_] == [h["objective"] for h in two.history_]
