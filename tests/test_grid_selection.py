"""Scorers, failures and the choice of the best: scikit-learn's tests, held to ours."""

import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import accuracy_score, confusion_matrix, make_scorer, recall_score
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV

restates = pytest.mark.restates


@pytest.fixture(scope="module")
def forty():
    return make_classification(n_samples=40, n_features=4, random_state=42)


class Failing(TransformerMixin, BaseEstimator):
    """A transformer that fails where its parameter is 2."""

    def __init__(self, parameter=None):
        self.parameter = parameter

    def fit(self, X, y=None):
        if self.parameter == 2:
            raise ValueError("failed as required")
        return self

    def transform(self, X):
        return X


FAILING = Pipeline([("first", Failing()), ("machine", SVC())])


# refit as a function
# -------------------


@restates("test_refit_callable")
def test_a_function_may_choose_the_row(forty):
    seen = {}

    def worst(results):
        seen.update(results)
        return results["mean_test_score"].argmin()

    grid = {"C": [1e-6, 0.1, 1]}
    search = GradientSearchCV(SVC(), grid, scoring="balanced_accuracy", refit=worst).fit(*forty)
    assert search.best_index_ == 0
    assert search.best_estimator_.C == 1e-6
    assert not hasattr(search, "best_score_")
    assert set(seen) == set(search.cv_results_)


@restates("test_refit_callable_invalid_type", "test_refit_callable_out_bound")
@pytest.mark.parametrize(
    "answer, error, message",
    [
        (None, TypeError, "best_index_ returned is not an integer"),
        (-1, IndexError, "best_index_ index out of range"),
        (2, IndexError, "best_index_ index out of range"),
    ],
)
def test_what_a_function_chooses_must_be_a_row(forty, answer, error, message):
    search = GradientSearchCV(
        LinearSVC(), {"C": [0.1, 1]}, scoring="precision", refit=lambda results: answer
    )
    with pytest.raises(error, match=message):
        search.fit(*forty)


@restates("test_refit_callable_multi_metric")
def test_a_function_may_choose_by_one_of_several_scores(forty):
    search = GradientSearchCV(
        SVC(),
        {"C": [1e-6, 0.1, 1]},
        scoring={"accuracy": make_scorer(accuracy_score), "balanced": "balanced_accuracy"},
        refit=lambda results: results["mean_test_balanced"].argmin(),
    ).fit(*forty)
    assert search.best_index_ == 0
    assert not hasattr(search, "best_score_")


# Scorers that are functions
# --------------------------


@restates("test_callable_multimetric_confusion_matrix")
def test_a_scorer_may_return_several_scores(forty):
    def counts(estimator, X, y):
        matrix = confusion_matrix(y, estimator.predict(X))
        return dict(zip(("tn", "fp", "fn", "tp"), matrix.ravel(), strict=True))

    search = GradientSearchCV(LinearSVC(), {"C": [0.1, 1]}, scoring=counts, refit="fp").fit(*forty)
    for name in ("tn", "fp", "fn", "tp"):
        assert f"mean_test_{name}" in search.cv_results_
    X, y = forty
    assert search.score(X, y) == confusion_matrix(y, search.predict(X))[0, 1]


@restates(
    "test_callable_multimetric_same_as_list_of_strings",
    "test_callable_single_metric_same_as_single_string",
)
@pytest.mark.parametrize("several", [False, True])
def test_a_function_and_the_name_of_its_score_choose_the_same(forty, several):
    def scorer(estimator, X, y):
        predicted = estimator.predict(X)
        recall = recall_score(y, predicted)
        return {"recall": recall, "accuracy": accuracy_score(y, predicted)} if several else recall

    def fitted(scoring, refit):
        return GradientSearchCV(LinearSVC(), {"C": [0.1, 1]}, scoring=scoring, refit=refit).fit(
            *forty
        )

    by_function = fitted(scorer, "recall" if several else True)
    for scoring in (["recall", "accuracy"], ["recall"]) if several else ("recall", ["recall"]):
        by_name = fitted(scoring, "recall")
        assert by_function.best_score_ == pytest.approx(by_name.best_score_)
        assert by_function.best_index_ == by_name.best_index_
        assert by_function.score(*forty) == pytest.approx(by_name.score(*forty))


@restates("test_callable_multimetric_error_on_invalid_key")
def test_a_function_must_return_the_score_that_leads(forty):
    search = GradientSearchCV(
        LinearSVC(), {"C": [0.1, 1]}, scoring=lambda e, X, y: {"bad": 1}, refit="good"
    )
    with pytest.raises(ValueError, match="the parameter refit must be set to a scorer key or"):
        search.fit(*forty)


@restates("test_searchcv_raise_warning_with_non_finite_score")
@pytest.mark.parametrize("train", [False, True])
def test_scores_that_are_not_finite_are_said_and_come_last(forty, train):
    class Sometimes:
        calls = 0

        def __call__(self, estimator, X, y):
            self.calls += 1
            return np.nan if self.calls % 5 == 0 else 1.0

    search = GradientSearchCV(
        SVC(), {"C": [2, 3, 5, 8]}, scoring=Sometimes(), cv=3, return_train_score=train
    )
    with pytest.warns(UserWarning) as caught:
        search.fit(*forty)
    parts = ["test", "train"] if train else ["test"]
    assert len(caught) == len(parts)
    for one, part in zip(caught, parts, strict=True):
        assert f"One or more of the {part} scores are non-finite" in str(one.message)
    ranks, bad = (
        search.cv_results_["rank_test_score"],
        np.isnan(search.cv_results_["mean_test_score"]),
    )
    assert bad.any()
    assert (ranks[bad] == ranks.max()).all()
    assert (ranks[~bad] < ranks.max()).all()


# Fits that fail
# --------------


@restates("test_grid_search_failing_classifier", "test_callable_multimetric_error_failing_clf")
@pytest.mark.parametrize("error_score", [0.0, 0.1, np.nan])
@pytest.mark.parametrize("scoring", ["accuracy", lambda e, X, y: {"acc": 1.0}], ids=["name", "own"])
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_fits_that_fail_have_the_error_score(forty, error_score, scoring):
    search = GradientSearchCV(
        FAILING, [{"first__parameter": [0, 1, 2]}], scoring=scoring, refit=False,
        error_score=error_score,
    )  # fmt: skip
    message = re.compile(
        "5 fits failed.+total of 15.+The score on these train-test partitions for these parameters "
        f"will be set to {re.escape(str(error_score))}.+5 fits failed with the following error.+"
        "ValueError.+failed as required",
        flags=re.DOTALL,
    )
    with pytest.warns(FitFailedWarning, match=message):
        search.fit(*forty)
    name = "score" if scoring == "accuracy" else "acc"
    for number in range(5):
        scores = search.cv_results_[f"split{number}_test_{name}"]
        np.testing.assert_array_equal(scores[2], error_score)
        assert (scores[:2] > 0.1).all()
    ranks = search.cv_results_[f"rank_test_{name}"]
    assert (ranks[:2] <= 2).all()
    assert ranks[2] == 3
    if scoring == "accuracy":
        assert search.best_index_ != 2


@restates(
    "test_grid_search_classifier_all_fits_fail", "test_callable_multimetric_clf_all_fits_fail"
)
@pytest.mark.parametrize("scoring", [None, lambda e, X, y: {"acc": 1.0}], ids=["own", "several"])
def test_it_is_an_error_if_every_fit_fails(forty, scoring):
    search = GradientSearchCV(
        FAILING, [{"first__parameter": [2] * 3}], error_score=0.1, refit=False, scoring=scoring
    )
    message = re.compile(
        "All the 15 fits failed.+your model is misconfigured.+ValueError: failed as required",
        flags=re.DOTALL,
    )
    with pytest.raises(ValueError, match=message):
        search.fit(*forty)


@restates("test_grid_search_failing_classifier_raise")
def test_what_fails_is_raised_on_demand(forty):
    search = GradientSearchCV(
        FAILING, {"first__parameter": [0, 1, 2]}, refit=False, error_score="raise"
    )
    with pytest.raises(ValueError, match="failed as required"):
        search.fit(*forty)
