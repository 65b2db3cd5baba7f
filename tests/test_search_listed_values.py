"""Listed values are gone through as GridSearchCV goes through them."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def both(estimator, grid, X, y, **options):
    ours = GradientSearchCV(estimator, grid, **options).fit(X, y)
    theirs = GridSearchCV(estimator, grid, **options).fit(X, y)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.021
    )
    return ours, theirs


# Values that do not suit the estimator
# -------------------------------------


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
@pytest.mark.parametrize(
    "estimator, grid, said",
    [
        (SVC(), {"C": [0, 1, 2]}, r"InvalidParameterError: The 'C' parameter of SVC"),
        (SVC(), {"kernel": ["rbf", "rfb"]}, r"InvalidParameterError: The 'kernel' parameter"),
        (
            LinearSVC(),
            {"loss": ["hinge", "squared_hinge"], "dual": [True, False]},
            r"ValueError: Unsupported set of arguments",
        ),
        (SVC(), {"class_weight": [None, {"setosa": 2.0}]}, r"ValueError: The classes"),
    ],
)
def test_a_bad_value_is_scored_nan_and_the_others_are_searched(iris, estimator, grid, said):
    with pytest.warns(FitFailedWarning, match="5 fits failed") as caught:
        ours, _ = both(estimator, grid, *iris)
    first = next(str(one.message) for one in caught if one.category is FitFailedWarning)
    assert "Traceback (most recent call last)" in first
    assert re.search(said, first)
    scores = ours.cv_results_["mean_test_score"]
    assert np.isnan(scores).sum() == 1
    assert np.isfinite(ours.best_score_)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_bad_value_beside_a_range(iris):
    with pytest.warns(FitFailedWarning):
        search = GradientSearchCV(SVC(), {"kernel": ["rbf", "rfb"], "C": (0.1, 10)}).fit(*iris)
    assert search.best_params_["kernel"] == "rbf"
    bad = [params for params in search.cv_results_["params"] if params["kernel"] == "rfb"]
    assert bad == [{"kernel": "rfb"}]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_bad_value_is_not_the_best_of_a_search_whatever_its_score(iris):
    space = {"kernel": ["rfb", "rbf"], "C": (0.01, 10)}
    search = GradientSearchCV(SVC(), space, error_score=2.0, cv=3).fit(*iris)
    assert search.best_params_["kernel"] == "rbf"
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == 2.0
    assert search.best_score_ == scores[1:].max()


def test_a_bad_value_is_raised_on_demand(iris):
    search = GradientSearchCV(SVC(), {"C": [1, -1]}, error_score="raise")
    with pytest.raises(ValueError, match="The 'C' parameter of SVC"):
        search.fit(*iris)


def test_nothing_but_bad_values_is_an_error(iris):
    with pytest.raises(ValueError, match="All the 10 fits failed"):
        GradientSearchCV(SVC(), {"C": [0, -1]}, error_score=0.0).fit(*iris)


def test_a_value_that_the_estimator_accepts_and_we_do_not_is_refused(iris):
    search = GradientSearchCV(LogisticRegression(solver="saga"), {"l1_ratio": [0.0, 0.5]})
    with pytest.raises(ValueError, match=r"cannot be differentiated with l1_ratio=0\.5"):
        search.fit(*iris)


@pytest.mark.parametrize("grid", [{"C": [1.0, 2.0]}, {"C": [0.0, 1.0]}, {"kernel": ["rfb"]}])
@pytest.mark.parametrize(
    "change, said",
    [
        (lambda X, y: (X, None), "y cannot be None|the target y is None"),
        (lambda X, y: (X[:50], y[:50]), "y has one class only"),
        (lambda X, y: (X, X[:, 0]), "Unknown label type"),
    ],
    ids=["no labels", "one class", "numbers"],
)
def test_data_that_no_value_can_help_are_refused_in_a_sentence(iris, grid, change, said):
    X, y = change(*iris)
    if grid != {"C": [1.0, 2.0]}:
        said += "|parameter of SVC must be"
    with pytest.raises(ValueError, match=said) as caught:
        GradientSearchCV(SVC(), grid).fit(X, y)
    assert "fits failed" not in str(caught.value)


def test_a_listed_estimator_that_cannot_be_searched_is_refused_whatever_it_says(iris):
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", SVC())])
    search = GradientSearchCV(pipeline, {"machine": [SVC(), DummyClassifier(strategy="no")]})
    with pytest.raises(ValueError, match="estimator=DummyClassifier cannot be differentiated"):
        search.fit(*iris)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_what_a_transformer_raises_is_reported_with_its_type_and_place(iris):
    def broken(X):
        raise ArithmeticError("no such logarithm")

    pipeline = Pipeline([("f", FunctionTransformer()), ("m", SVC())])
    grid = {"f__func": [None, broken]}
    with pytest.warns(FitFailedWarning, match="ArithmeticError: no such logarithm") as caught:
        GradientSearchCV(pipeline, grid).fit(*iris)
    message = next(str(one.message) for one in caught if one.category is FitFailedWarning)
    assert "in broken" in message


@pytest.mark.parametrize("estimator", [Ridge(), KernelRidge()], ids=str)
def test_a_penalty_of_zero_is_refused_in_a_sentence(iris, estimator):
    X, y = iris
    with pytest.raises(ValueError, match=r"alpha=0\.0 must be positive here"):
        GradientSearchCV(estimator, {"alpha": [0, 1.0]}).fit(X, y)
    with pytest.raises(ValueError, match=r"alpha=\[1\.0, 2\.0\] must be a single number here"):
        GradientSearchCV(estimator, {"alpha": [[1.0, 2.0]]}).fit(X, np.c_[y, -y])
    search = GradientSearchCV(clone(estimator).set_params(alpha=0.0), {"alpha": (0.1, 10)})
    assert search.fit(X, y).best_params_["alpha"] >= 0.1


# How values can be given
# -----------------------


def test_tuples_of_anything_but_two_numbers_are_lists(iris):
    grid = {"kernel": ("linear", "rbf"), "C": [1, 10], "shrinking": (True, False)}
    both(SVC(), grid, *iris)
    both(SVC(), {"C": (0.1, 1, 10)}, *iris)
    both(SVC(), {"gamma": (0.1, "scale")}, *iris)
    both(SVC(), {"class_weight": (None, "balanced")}, *iris)


def test_param_grid_and_pre_dispatch_are_accepted(iris):
    search = GradientSearchCV(SVC(), param_grid={"C": [1.0]}, pre_dispatch="n_jobs").fit(*iris)
    assert search.best_params_ == {"C": 1.0}
    with pytest.raises(ValueError, match="space and param_grid"):
        GradientSearchCV(SVC(), {"C": [1.0]}, param_grid={"C": [1.0]}).fit(*iris)


@pytest.mark.parametrize("placeholder", [DummyClassifier(), None, "passthrough"], ids=str)
def test_a_placeholder_may_stand_where_the_machine_will(iris, placeholder):
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", placeholder)])
    grid = {"machine": [SVC(), LinearSVC()], "machine__C": [0.1, 1.0]}
    ours, theirs = both_of_steps(pipeline, grid, iris)
    assert type(ours.best_estimator_["machine"]) is type(theirs.best_estimator_["machine"])
    ranges = {"machine": [SVC(), LinearSVC()], "machine__C": (0.1, 10.0)}
    search = GradientSearchCV(pipeline, ranges, scoring="accuracy").fit(*iris)
    assert search.best_score_ >= ours.best_score_


def both_of_steps(pipeline, grid, iris):
    ours = GradientSearchCV(pipeline, grid, scoring="accuracy").fit(*iris)
    theirs = GridSearchCV(pipeline, grid, scoring="accuracy").fit(*iris)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )
    return ours, theirs


# Scorers
# -------


def test_of_equal_scores_of_listed_values_the_first_is_the_best(iris):
    def constant(estimator, X, y):
        return 0.5

    ours, theirs = both(SVC(), {"C": [10.0, 1.0, 0.1]}, *iris, scoring=constant)
    assert ours.best_index_ == theirs.best_index_ == 0


def test_listed_values_with_a_scorer_of_ones_own_are_no_descent_to_warn_of(iris):
    def own(estimator, X, y):
        return estimator.score(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GradientSearchCV(SVC(), {"C": [0.1, 1.0]}, scoring=own).fit(*iris)
    with pytest.warns(UserWarning, match="own has no smooth form"):
        GradientSearchCV(SVC(), {"C": (0.1, 1.0)}, scoring=own, max_evals=2).fit(*iris)


@pytest.mark.filterwarnings("ignore:scoring=counted has no smooth form")
@pytest.mark.parametrize("space", [None, {"C": [0.1, 1.0, 10.0]}], ids=["ranges", "list"])
def test_a_scorer_is_called_once_for_every_row_and_fold(iris, space):
    calls = []

    def counted(y, predicted):
        calls.append(len(y))
        return accuracy_score(y, predicted)

    search = GradientSearchCV(SVC(), space, scoring=make_scorer(counted), cv=3).fit(*iris)
    assert len(calls) == 3 * len(search.cv_results_["params"])


@pytest.mark.parametrize("train", [False, True])
def test_every_fold_has_a_line_at_verbose_3(iris, capsys, train):
    GradientSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=3, verbose=3, return_train_score=train).fit(*iris)
    printed = capsys.readouterr().out
    score = r"score=\(train=[\d.]+, test=[\d.]+\)" if train else r"score=[\d.]+"
    assert len(re.findall(rf"\[CV [123]/3\] END C=\S+ {score}", printed)) == 6
    GradientSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=3, verbose=2).fit(*iris)
    assert "[CV" not in capsys.readouterr().out


# Methods and tags
# ----------------


def test_without_a_refit_there_are_no_probabilities(iris):
    search = GradientSearchCV(SVC(), {"C": [1.0]}, refit=False).fit(*iris)
    for name in ("predict_proba", "predict_log_proba", "predict"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            getattr(search, name)
        assert f"`refit=False`. {name} is available only after" in str(caught.value.__cause__)


@pytest.mark.parametrize("estimator", [SVC(), LogisticRegression()], ids=str)
def test_logarithms_of_probabilities(iris, estimator):
    X, y = iris
    search = GradientSearchCV(estimator, {"C": [1.0]})
    assert hasattr(search, "predict_log_proba")
    search.fit(X, y)
    np.testing.assert_allclose(search.predict_log_proba(X), np.log(search.predict_proba(X)))


def test_searches_do_not_say_that_they_take_arrays_of_other_libraries():
    from sklearn.utils import get_tags

    assert get_tags(Ridge()).array_api_support
    assert not get_tags(GradientSearchCV(Ridge())).array_api_support
