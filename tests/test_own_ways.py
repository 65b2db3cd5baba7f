"""Subclasses that answer in ways of their own, and estimators that the space replaces."""

import pytest
from helpers import make_data
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV, KernelSVC, value_and_grad
from hypermargin.adapters.model import read_model


class Half(SVC):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X[::2], y[::2])


class Opposite(SVC):
    def predict(self, X):
        return 1 - super().predict(X)


class Tripled(LinearSVC):
    def decision_function(self, X):
        return 3.0 - super().decision_function(X)


class Worst(LogisticRegression):
    def score(self, X, y, sample_weight=None):
        return -super().score(X, y, sample_weight)


class First(LinearSVC):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X[:20], y[:20])


class Backwards(Pipeline):
    def predict(self, X):
        return 1 - super().predict(X)


class Plain(SVC):
    """Changes nothing but a default."""

    def __init__(self, C=3.0, gamma="scale"):
        super().__init__(C=C, gamma=gamma)


CASES = [
    (Half(), None),
    (Opposite(), None),
    (Tripled(), "roc_auc"),
    (Worst(), None),
    (First(), "accuracy"),
    (Backwards([("svc", SVC())]), "accuracy"),
]


@pytest.mark.parametrize("model, scoring", CASES, ids=lambda case: type(case).__name__)
def test_what_a_subclass_does_in_its_own_way_is_scored_and_refitted(model, scoring):
    X, y = make_data(2, n=90)
    name = "svc__C" if isinstance(model, Pipeline) else "C"
    search = GradientSearchCV(model, {name: (0.1, 10.0)}, scoring=scoring, cv=3, max_evals=3)
    with pytest.warns(UserWarning, match="has its own"):
        search.fit(X, y)
    grid = GridSearchCV(model, {name: [search.best_params_[name]]}, scoring=scoring, cv=3).fit(X, y)
    assert_allclose(search.best_score_, grid.best_score_)
    fitted = clone(model).set_params(**search.best_params_).fit(X, y)
    assert_array_equal(search.predict(X), fitted.predict(X))
    assert search.calibration_ is None


def test_a_score_of_its_own_is_not_asked_where_another_one_is():
    X, y = make_data(2, n=90)
    search = GradientSearchCV(Worst(), {"C": [1.0]}, scoring="accuracy", cv=3).fit(X, y)
    assert search.best_score_ > 0.5


def test_a_subclass_that_does_nothing_otherwise_is_read_off_the_outputs():
    assert read_model(Plain()).own_methods == ()


def test_another_search_is_not_taken_for_a_machine():
    with pytest.raises(ValueError, match="estimator=LogisticRegressionCV cannot be"):
        GradientSearchCV(LogisticRegressionCV()).fit(*make_data(2))


@pytest.mark.parametrize("model", [Half(), Tripled()], ids=lambda model: type(model).__name__)
def test_own_outputs_have_no_gradient(model):
    with pytest.raises(ValueError, match=r"has its own .* give .*SVC"):
        value_and_grad(model, *make_data(2), {"C": 1.0})


def test_a_listed_value_may_lift_what_keeps_the_estimator_from_being_searched():
    X, y = make_data(2)
    model = LinearSVC(penalty="l1", dual=False)
    search = GradientSearchCV(model, {"penalty": ["l2"], "C": None}, cv=3).fit(X, y)
    assert search.best_estimator_.penalty == "l2"


def test_every_listed_estimator_descends_on_its_own_criterion():
    X, y = make_data(2, n=120)
    space = {"model": [SVC(), LogisticRegression()], "model__C": [1.0]}
    options = {"scoring": "neg_log_loss", "cv": 3}
    both = GradientSearchCV(Pipeline([("model", SVC())]), space, **options).fit(X, y)
    for model in space["model"]:
        alone = GradientSearchCV(model, {"C": [1.0]}, **options).fit(X, y)
        at = [type(m) is type(model) for m in both.cv_results_["param_model"]].index(True)
        assert_allclose(both.cv_results_["objective"][at], alone.cv_results_["objective"][0])


def test_a_threshold_wraps_what_has_replaced_the_estimator():
    X, y = make_data(2)
    space = {"model": [SVC()], "threshold": None, "model__C": [1.0]}
    search = GradientSearchCV(Pipeline([("model", KernelSVC())]), space, cv=3).fit(X, y)
    assert search.best_estimator_.threshold == search.best_params_["threshold"]


@pytest.mark.parametrize("limits", [[-1, 7], [7, -1]])
def test_doubts_are_those_of_the_best_combination(limits, recwarn):
    X, y = make_data(0)
    space = {"max_iter": limits, "C": [1.0]}
    search = GradientSearchCV(SVR(), space, cv=3, refit=False).fit(X, y)
    said = any("max_iter=7 is not applied" in str(w.message) for w in recwarn)
    assert said == (search.best_params_["max_iter"] == 7)
