"""Bad input is refused at once with a sentence that helps; a search cut short still delivers."""

import re
import time
import warnings

import numpy as np
import pytest
from helpers import C_GAMMA, quick
from scipy import sparse
from scipy.stats import norm, randint
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from hypermargin import GradientSearchCV, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

REFUSED = (TypeError, ValueError)


def refused(search, X, y, *words, error=REFUSED, **fit_params):
    """Assert that fitting fails with one sentence that has all the words; return it."""
    with pytest.raises(error) as caught:
        search.fit(X, y, **fit_params)
    message = str(caught.value)
    for word in words:
        assert re.search(word, message), f"{word!r} is not in: {message}"
    return message


# The space
# ---------


@pytest.mark.parametrize(
    "bounds",
    [
        (1.0, 0.1),
        (1.0, 1.0),
        (-1.0, 1.0),
        (-2.0, -1.0),
        (0.0, 1.0),
        (0.0, 1.0, "linear"),
        (-1.0, 1.0, "linear"),
        (np.nan, 1.0),
        (0.1, np.nan),
        (0.1, np.inf),
        (),
        (0.1, 1.0, "log", 3),
        ("0.1", "1"),
        (None, 1.0),
        ([0.1], [1.0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["C", "gamma"])
def test_bounds_that_make_no_sense(binary, name, bounds):
    refused(quick(SVC(), {name: bounds}), *binary, rf"\b{name}\b")


@pytest.mark.parametrize(
    "estimator, space, name",
    [
        (SVR(), {"epsilon": (-0.1, 1.0, "linear")}, "epsilon"),
        (SVR(), {"epsilon": (0.0, 1.0, "log")}, "epsilon"),
        (KernelRidge(), {"alpha": (-1.0, 1.0)}, "alpha"),
        (KernelRidge(kernel="rbf"), {"gamma": (5.0, 1.0)}, "gamma"),
        (make_pipeline(StandardScaler(), SVR()), {"svr__C": (5.0, 1.0)}, "svr__C"),
        (SVR(), [{"C": (0.1, 1.0)}, {"C": (1.0, 0.1)}], "C"),
    ],
)
def test_bounds_that_make_no_sense_elsewhere(regression, estimator, space, name):
    refused(quick(estimator, space), *regression, rf"\b{name}\b", error=ValueError)


def test_a_refused_pair_of_bounds_is_shown_with_what_would_be_right(binary):
    message = refused(quick(SVC(), {"C": (7.5, 0.25)}), *binary, error=ValueError)
    assert "7.5" in message
    assert "0.25" in message
    assert re.search("low|below|smaller|less|<|increas|greater", message)


@pytest.mark.parametrize("scale", ["lgo", "LOG", ""])
def test_an_unknown_scale_names_the_known_ones(binary, scale):
    refused(quick(SVC(), {"C": (0.1, 1.0, scale)}), *binary, r"\bC\b", "log", "linear")


@pytest.mark.parametrize("values", [[], np.array([]), np.ones((3, 2)), 1.0, "0.1,1", {"low": 1}])
def test_values_that_are_no_list_and_no_range(binary, values):
    refused(quick(SVC(), {"C": values}), *binary, r"\bC\b")


@pytest.mark.parametrize(
    "space", ["C", 5, [], [{"C": (0.1, 1.0)}, 0], ("C", "gamma"), [["C"]], {"C"}]
)
def test_a_space_that_is_no_dictionary(binary, space):
    refused(quick(SVC(), space), *binary, "space|dict")


def test_a_name_that_is_no_string(binary):
    refused(quick(SVC(), {1: (0.1, 1.0)}), *binary, "1")


@pytest.mark.parametrize(
    "estimator, name, valid",
    [
        (SVC(), "c", "C"),
        (SVC(), "epsilon", "gamma"),
        (SVC(), "svc__C", "C"),
        (make_pipeline(StandardScaler(), SVC()), "C", "svc__C"),
        (make_pipeline(StandardScaler(), SVC()), "svm__C", "svc__C"),
        (make_pipeline(StandardScaler(), SVC()), "svc__alpha", "svc__C"),
        (SVC(), "estimator__C", "C"),
    ],
)
def test_an_unknown_name_is_shown_with_the_known_ones(binary, estimator, name, valid):
    refused(quick(estimator, {name: (0.1, 1.0)}), *binary, rf"\b{name}\b", rf"\b{valid}\b")
    # For lists scikit-learn's own message does, which names one part of the name.
    refused(quick(estimator, {name: [0.1, 1.0]}), *binary, name.replace("__", "|"), "[Vv]alid")


@pytest.mark.parametrize("name", ["kernel", "degree", "shrinking", "cache_size", "max_iter"])
def test_a_range_for_what_is_not_continuous_asks_for_a_list(binary, name):
    refused(quick(SVC(kernel="poly"), {name: (1, 3)}), *binary, rf"\b{name}\b", "list")


def test_a_range_for_a_transformer_asks_for_a_list(binary):
    estimator = make_pipeline(StandardScaler(), SVC())
    space = {"standardscaler__with_mean": (0.0, 1.0), "svc__C": (0.1, 1.0)}
    refused(quick(estimator, space), *binary, "standardscaler__with_mean", "list")


def test_a_distribution_that_is_no_range(binary):
    refused(quick(SVC(), {"C": norm(0, 1)}), *binary, r"\bC\b")
    refused(quick(SVC(kernel="poly"), {"degree": randint(1, 4)}), *binary, "degree", "list")


# The estimator
# -------------


@pytest.mark.parametrize(
    "estimator",
    [
        NuSVC(),
        OneClassSVM(),
        GaussianNB(),
        Lasso(),
        RandomForestClassifier(),
        OneVsRestClassifier(SVC()),
        TransformedTargetRegressor(SVR()),
        make_pipeline(StandardScaler(), Lasso()),
        Pipeline([("scale", StandardScaler()), ("last", "passthrough")]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_estimator_that_cannot_be_differentiated_is_named_with_those_that_can(binary, estimator):
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    word = "passthrough" if last == "passthrough" else type(last).__name__
    refused(quick(estimator), *binary, word, r"\bSVC\b", r"\bSVR\b", r"\bKernelRidge\b")


@pytest.mark.parametrize("kernel", ["additive_chi2", "cosine", lambda a, b: 1.0])
def test_a_kernel_that_cannot_be_differentiated_is_named_with_those_that_can(regression, kernel):
    search = quick(KernelRidge(kernel=kernel), {"alpha": (0.1, 1.0)})
    refused(search, *regression, "kernel", "rbf", "poly")


def test_a_strength_for_each_target_cannot_be_kept(regression):
    X, y = regression
    search = quick(KernelRidge(kernel="rbf", alpha=[0.1, 0.2]), {"gamma": (0.1, 1.0)})
    refused(search, X, np.c_[y, -y], "alpha")


@pytest.mark.parametrize("estimator", [None, "svc", SVC, 1.0])
def test_something_that_is_no_estimator(binary, estimator):
    refused(quick(estimator), *binary, "estimator")


def test_an_invalid_value_of_the_estimator_itself(binary):
    refused(quick(SVC(kernel="rbff"), {"C": (0.1, 1.0)}), *binary, "rbff")
    refused(quick(SVC(gamma=-1.0), {"C": (0.1, 1.0)}), *binary, "gamma")
    refused(quick(SVC(C=-1.0), {"gamma": (0.1, 1.0)}), *binary, r"\bC\b")


# The arguments
# -------------


@pytest.mark.parametrize(
    "options",
    [
        {"max_evals": 0},
        {"max_evals": -3},
        {"max_evals": 2.5},
        {"max_evals": "many"},
        {"tol": -1.0},
        {"tol": "small"},
        {"tol": np.nan},
        {"time_budget": 0},
        {"time_budget": -1.0},
        {"time_budget": "1h"},
        {"memory_limit": 0},
        {"memory_limit": -1},
        {"memory_limit": "4GB"},
        {"random_state": "seed"},
        {"random_state": -1},
        {"n_jobs": "two"},
        {"verbose": "yes"},
        {"return_train_score": "yes"},
        {"refit": 3.5},
        {"error_score": "ignore"},
        {"scoring": "acuracy"},
        {"scoring": 3},
        {"cv": "three"},
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_named(binary, options):
    (name,) = options
    refused(quick(SVC(), C_GAMMA, **options), *binary, name)


@pytest.mark.parametrize("scoring", [[], {}, ()])
def test_no_metric_at_all(binary, scoring):
    refused(quick(SVC(), C_GAMMA, scoring=scoring, refit=False), *binary, "[Ee]mpty")


@pytest.mark.parametrize("cv", [0, 1, -2, 3.5, []])
def test_a_number_of_folds_that_makes_no_sense(binary, cv):
    refused(quick(SVC(), C_GAMMA, cv=cv), *binary, "cv|n_splits|fold|split")


def test_arguments_are_checked_when_fitting_not_before():
    """Otherwise clone and set_params, and with them every meta-estimator, would break."""
    clone(GradientSearchCV(Ridge(), {"nonsense": (3, 2)}, max_evals=-1, cv="x", tol="y"))


def test_a_metric_of_classes_for_a_regressor_is_refused(regression):
    refused(quick(SVR(), scoring="accuracy", error_score="raise"), *regression)


# The data
# --------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "estimator, space",
    [
        (SVC(), C_GAMMA),
        (SVC(), None),
        (SVR(), None),
        (KernelRidge(), None),
        (make_pipeline(StandardScaler(), SVC()), None),
    ],
    ids=["svc", "svc-default", "svr", "ridge", "pipeline"],
)
def test_holes_in_the_data(binary, estimator, space, bad):
    X, y = binary[0].copy(), binary[1]
    X[5, 1] = bad
    refused(quick(estimator, space), X, y, "NaN|nan|infinity", error=ValueError)


def test_holes_in_sparse_data(binary):
    X, y = binary[0].copy(), binary[1]
    X[5, 1] = np.nan
    refused(quick(SVC(), C_GAMMA), sparse.csr_array(X), y, "NaN", error=ValueError)


@pytest.mark.parametrize("estimator", [SVR(), KernelRidge()], ids=["svr", "ridge"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_holes_in_the_target(regression, estimator, bad):
    X, y = regression[0], regression[1].copy()
    y[3] = bad
    refused(quick(estimator), X, y, r"\by\b", "NaN|infinity", error=ValueError)


@pytest.mark.parametrize("space", [C_GAMMA, None, {"C": [1.0, 2.0]}], ids=["range", "none", "list"])
def test_one_class(binary, space):
    refused(quick(SVC(), space), binary[0], np.ones(80, dtype=int), "class", error=ValueError)


def test_training_rows_of_one_class_in_every_fold(binary):
    y = np.repeat([0, 1], 40)
    refused(quick(SVC(), C_GAMMA, cv=KFold(2)), binary[0], y, "class", error=ValueError)


@pytest.mark.parametrize("estimator", [SVC(), SVR(), KernelRidge()], ids=["svc", "svr", "ridge"])
def test_fewer_points_than_folds(binary, estimator):
    X, y = binary[0][:4], np.array([0, 1, 0, 1])
    refused(quick(estimator, cv=5), X, y, "5", "4|members", error=ValueError)


def test_a_real_target_for_a_classifier(regression):
    refused(quick(SVC(), C_GAMMA), *regression, "continuous|label", error=ValueError)


def test_a_table_of_targets_for_a_classifier(binary):
    X, y = binary
    refused(quick(SVC(), C_GAMMA), X, np.c_[y, 1 - y], error=ValueError)


def test_text_as_the_target_of_a_regression(regression):
    X, _ = regression
    refused(quick(SVR()), X, np.array(["a", "b"] * 35), error=ValueError)


@pytest.mark.parametrize("estimator", [SVC(), SVR(), KernelRidge()], ids=["svc", "svr", "ridge"])
def test_no_target(binary, estimator):
    refused(quick(estimator), binary[0], None, r"\by\b")


def test_data_and_target_of_different_length(binary):
    X, y = binary
    refused(quick(SVC(), C_GAMMA), X, y[:-1], "80", "79", error=ValueError)


@pytest.mark.parametrize(
    "X, words",
    [
        (np.zeros(80), []),
        (np.zeros((80, 0)), []),
        (np.zeros((0, 3)), []),
        (np.zeros((80, 2, 2)), []),
        (np.full((80, 2), "a"), []),
        (np.full((80, 2), 1j), ["[Cc]omplex"]),
    ],
    ids=["1d", "no columns", "no rows", "3d", "text", "complex"],
)
def test_data_that_are_no_table_of_numbers(binary, X, words):
    refused(quick(SVC()), X, binary[1][: len(X)], *words, error=ValueError)


@pytest.mark.parametrize("estimator", [SVC(), SVR(), KernelRidge()], ids=["svc", "svr", "ridge"])
def test_a_precomputed_kernel_that_is_not_square(binary, estimator):
    X, y = binary
    refused(quick(clone(estimator).set_params(kernel="precomputed")), X, y, "square|shape|kernel")


def test_a_precomputed_kernel_behind_a_step_that_cuts_rows_only(binary):
    """Such a step makes scikit-learn cut no columns; scores of the result would be nonsense."""
    X, y = binary
    estimator = make_pipeline(FunctionTransformer(), SVC(kernel="precomputed"))
    refused(quick(estimator, {"svc__C": (0.1, 1.0)}), X @ X.T, y, "square|recomputed|shape")


def test_columns_that_are_all_the_same_are_survived(binary):
    """A constant column, or nothing but constants, must not break the default ranges."""
    X, y = binary
    assert quick(SVC()).fit(np.c_[X, np.ones(80)], y).best_score_ > 0.5
    search = quick(SVC()).fit(np.ones((80, 2)), y)
    assert 0.4 < search.best_score_ < 0.6


def test_a_constant_target_is_survived(regression):
    search = quick(SVR(), scoring="neg_mean_squared_error").fit(regression[0], np.full(70, 3.0))
    assert search.best_score_ == pytest.approx(0.0, abs=1e-2)


def test_duplicated_rows_are_survived(binary):
    X, y = np.repeat(binary[0][:20], 4, axis=0), np.repeat(binary[1][:20], 4)
    assert np.isfinite(quick(SVC()).fit(X, y).best_score_)


@pytest.mark.parametrize(
    "weights",
    [np.ones(79), np.ones((80, 2)), np.full(80, np.nan), np.zeros(80)],
    ids=["short", "table", "nan", "zeros"],
)
@pytest.mark.parametrize("estimator", [SVC(), SVR()], ids=["svc", "svr"])
def test_weights_that_make_no_sense(binary, estimator, weights):
    X, y = binary
    refused(quick(estimator), X, y, "weight|inconsistent", sample_weight=weights, error=ValueError)


def test_groups_of_another_length(binary):
    X, y = binary
    search = quick(SVC(), C_GAMMA)
    refused(search, X, y, "inconsistent|length|groups", groups=np.zeros(79), error=ValueError)


@pytest.mark.parametrize(
    "X, y, estimator, space",
    [
        ("nan", "good", SVC(), C_GAMMA),
        ("good", "one", SVC(), C_GAMMA),
        ("good", "good", SVC(), {"C": (2.0, 1.0)}),
        ("good", "good", SVC(), {"Q": (1.0, 2.0)}),
        ("good", "good", Lasso(), None),
    ],
    ids=["data", "target", "bounds", "name", "estimator"],
)
def test_bad_input_is_refused_before_any_scorer_runs(binary, X, y, estimator, space):
    calls = []

    def spy(estimator, X, y):
        calls.append(1)
        return 1.0

    data = {"good": binary[0], "nan": np.where(binary[0] > 1, np.nan, binary[0])}[X]
    target = {"good": binary[1], "one": np.zeros(80, dtype=int)}[y]
    search = quick(estimator, space, scoring=spy)
    refused(search, data, target)
    assert not calls
    assert not {"cv_results_", "history_", "best_params_", "best_estimator_"} & set(vars(search))


def test_a_refused_fit_leaves_no_half_fitted_search(binary):
    X, y = binary
    search = quick(SVC(), C_GAMMA)
    refused(search, np.where(X > 1, np.nan, X), y)
    assert not hasattr(search, "best_estimator_")
    assert search.fit(X, y).best_score_ > 0.5


# value_and_grad
# --------------


@pytest.mark.parametrize(
    "params, word",
    [
        ({"Q": 1.0}, "Q"),
        ({"kernel": "rbf"}, "kernel"),
        ({"degree": 3}, "degree"),
        ({"C": -1.0}, "C"),
        ({"C": 0.0}, "C"),
        ({"C": np.nan}, "C"),
        ({"C": np.inf}, "C"),
        ({"C": "1"}, "C"),
        ({"C": [1.0]}, "C"),
        ({"C": (0.1, 1.0)}, "C"),
        ({"gamma": "scale"}, "gamma"),
    ],
    ids=str,
)
def test_value_and_grad_refuses_what_it_cannot_differentiate(binary, params, word):
    with pytest.raises(REFUSED, match=rf"\b{word}\b"):
        value_and_grad(SVC(kernel="poly"), *binary, params, cv=3)


def test_value_and_grad_names_the_estimators_it_can_differentiate(binary):
    with pytest.raises(REFUSED) as caught:
        value_and_grad(GaussianNB(), *binary, {"C": 1.0})
    for word in ("GaussianNB", "SVC", "SVR", "KernelRidge"):
        assert word in str(caught.value)


def test_value_and_grad_refuses_holes_in_the_data(binary):
    X, y = binary
    with pytest.raises(ValueError, match="NaN"):
        value_and_grad(SVC(), np.where(X > 1, np.nan, X), y, {"C": 1.0})


# A search cut short
# ------------------


def caught_while(action):
    """Run the action, which must let no Ctrl-C through; return its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action()
        except KeyboardInterrupt:
            pytest.fail("KeyboardInterrupt was let through")
    return caught


class InterruptedAt:
    """Scorer during whose n-th call the user presses Ctrl-C."""

    def __init__(self, n):
        self.n = n
        self.calls = 0

    def __call__(self, estimator, X, y):
        self.calls += 1
        if self.calls == self.n:
            raise KeyboardInterrupt
        return estimator.score(X, y)


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize(
    "estimator, space, data",
    [
        (SVC(), C_GAMMA, "binary"),
        (SVR(), {"C": (0.1, 10.0), "gamma": (1e-2, 1e1)}, "regression"),
        (make_pipeline(StandardScaler(), SVC()), {"svc__C": (0.1, 10.0)}, "binary"),
    ],
    ids=["svc", "svr", "pipeline"],
)
def test_an_interrupted_search_returns_the_best_so_far(request, estimator, space, data, after):
    X, y = request.getfixturevalue(data)
    scorer = InterruptedAt(3 * after + 2)
    search = quick(estimator, space, scoring=scorer, max_evals=20)
    caught = caught_while(lambda: search.fit(X, y))
    assert [w for w in caught if "nterrupt" in str(w.message)]
    table = search.cv_results_
    assert 1 <= len(table["params"]) < 20
    assert np.all(np.isfinite(table["mean_test_score"]))
    assert search.best_score_ == table["mean_test_score"].max()
    assert search.best_params_ == table["params"][search.best_index_]
    plain = clone(estimator).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), plain.predict(X))
    assert len(search.history_) >= 1


def test_an_interrupted_search_without_refit_keeps_its_table(binary):
    search = quick(SVC(), C_GAMMA, scoring=InterruptedAt(5), refit=False, max_evals=20)
    assert caught_while(lambda: search.fit(*binary))
    assert len(search.cv_results_["params"]) >= 1
    assert not hasattr(search, "best_estimator_")


def test_an_interrupted_search_over_lists_keeps_its_table(binary):
    space = {"kernel": ["rbf", "linear", "poly"], "C": [0.1, 1.0, 10.0]}
    search = quick(SVC(), space, scoring=InterruptedAt(8), max_evals=20)
    assert caught_while(lambda: search.fit(*binary))
    assert 1 <= len(search.cv_results_["params"]) < 9
    assert search.predict(binary[0]).shape == (80,)


class InterruptedTransformer(FunctionTransformer):
    """A transformer during whose fit the user presses Ctrl-C."""

    def fit(self, X, y=None):
        raise KeyboardInterrupt


def test_an_interrupt_before_anything_is_known_goes_through(binary):
    search = quick(make_pipeline(InterruptedTransformer(), SVC()), None)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*binary)
    assert not hasattr(search, "best_estimator_")


@pytest.mark.parametrize("budget", [1e-9, 0.01])
@pytest.mark.parametrize("space", [C_GAMMA, None, {"C": (0.1, 10.0), "kernel": ["rbf", "linear"]}])
def test_the_end_of_the_time_budget_returns_the_best_so_far(binary, budget, space):
    X, y = binary

    def slow(estimator, X, y):
        time.sleep(0.005)
        return estimator.score(X, y)

    search = quick(SVC(), space, scoring=slow, time_budget=budget, max_evals=60)
    caught = caught_while(lambda: search.fit(X, y))
    assert [w for w in caught if "time" in str(w.message)]
    assert 1 <= len(search.cv_results_["params"]) < 60
    assert np.isfinite(search.best_score_)
    assert search.predict(X).shape == (80,)


@pytest.mark.parametrize(
    "options", [{}, {"scoring": "f1"}, {"return_train_score": True}, {"scoring": "own"}]
)
def test_time_that_ends_before_all_rows_were_used_still_delivers(many_rows, options):
    X, y = many_rows
    if options.get("scoring") == "own":
        options = {"scoring": lambda estimator, X, y: estimator.score(X, y)}
    search = quick(SVC(), C_GAMMA, time_budget=1e-9, **options)
    caught = caught_while(lambda: search.fit(X, y))
    assert [w for w in caught if "time" in str(w.message)]
    assert len(search.cv_results_["params"]) >= 1
    assert set(search.best_params_) == set(C_GAMMA)
    assert search.score(X, y) > 0.6


def test_an_interrupt_before_all_rows_were_used_still_delivers(many_rows):
    X, y = many_rows
    calls = []

    def hit(true, predicted):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return float(np.mean(true == predicted))

    search = quick(SVC(), C_GAMMA, scoring=make_scorer(hit))
    caught = caught_while(lambda: search.fit(X, y))
    assert [w for w in caught if "nterrupt" in str(w.message)]
    assert np.isfinite(search.best_score_)
    assert search.predict(X).shape == (1000,)


def test_a_generous_time_budget_is_not_mentioned(binary):
    search = quick(SVC(), C_GAMMA, time_budget=600.0)
    caught = caught_while(lambda: search.fit(*binary))
    assert not [w for w in caught if "time_budget" in str(w.message)]


def test_a_small_memory_limit_is_kept_to_or_refused_by_name(binary):
    """Whichever it is, the process must not be killed and the user must know why."""
    search = quick(SVC(), C_GAMMA, memory_limit=0.01)  # 80 rows take five times as much
    try:
        search.fit(*binary)
    except (MemoryError, ValueError) as error:
        assert "memory_limit" in str(error)
    else:
        assert search.best_score_ > 0.5


# Bounds that hold the result back
# --------------------------------


def bound_warnings(search, X, y):
    """Fit and return the warnings about bounds."""
    caught = caught_while(lambda: search.fit(X, y))
    return [str(w.message) for w in caught if "bound" in str(w.message)]


@pytest.mark.parametrize(
    "estimator, space, name, end",
    [
        (KernelRidge(kernel="rbf", gamma=0.5), {"alpha": (10.0, 1e3)}, "alpha", 10.0),
        (SVR(gamma=0.5, epsilon=0.1), {"C": (1e-4, 1e-3)}, "C", 1e-3),
        (SVR(C=1.0, gamma=0.5), {"epsilon": (1.0, 3.0)}, "epsilon", 1.0),
        (
            make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.5)),
            {"kernelridge__alpha": (10.0, 1e3)},
            "kernelridge__alpha",
            10.0,
        ),
    ],
    ids=["lower", "upper", "tube", "pipeline"],
)
def test_a_hyperparameter_that_ends_on_its_bound_is_named(regression, estimator, space, name, end):
    search = quick(estimator, space, max_evals=20)
    told = bound_warnings(search, *regression)
    assert search.best_params_[name] == pytest.approx(end, rel=1e-2)
    assert [message for message in told if re.search(rf"\b{name}\b", message)], told


def test_only_the_hyperparameter_on_its_bound_is_named(regression):
    space = {"alpha": (1.0, 1e2), "gamma": (1e-3, 1e2)}
    search = quick(KernelRidge(kernel="rbf"), space, max_evals=30)
    told = bound_warnings(search, *regression)
    assert [message for message in told if "alpha" in message]
    assert not [message for message in told if "gamma" in message]


def test_a_result_inside_the_bounds_is_not_warned_about(regression):
    space = {"alpha": (1e-5, 1e3), "gamma": (1e-3, 1e2)}
    search = quick(KernelRidge(kernel="rbf"), space, max_evals=30)
    assert not bound_warnings(search, *regression)


def test_the_ends_of_a_list_are_no_bounds(regression):
    search = quick(KernelRidge(kernel="rbf", gamma=0.5), {"alpha": [10.0, 100.0]})
    assert not bound_warnings(search, *regression)
