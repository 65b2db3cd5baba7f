"""Kernel machines of one class against the rest, with costs of their own."""

import numpy as np
import pytest
from helpers import central_difference, make_data
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC, LinearClassifier, value_and_grad
from hypermargin.adapters.model import read_model
from hypermargin.criteria import CRITERIA

COSTS = [0.3, 1.0, 8.0]


@pytest.fixture(scope="module")
def data():
    return make_data(3, n=90)


def test_there_is_a_machine_for_each_class_as_in_scikit_learn(data):
    X, y = data
    ours = KernelSVC(multi_class="ovr", tol=1e-6).fit(X, y)
    theirs = OneVsRestClassifier(SVC(tol=1e-6)).fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=0, atol=1e-5
    )
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert len(ours.dual_coef_) == len(ours.intercept_) == 3


@pytest.mark.parametrize("given", [COSTS, dict(zip(range(3), COSTS, strict=True))], ids=type)
def test_every_machine_may_have_its_own_cost(data, given):
    X, y = data
    ours = KernelSVC(2.0, multi_class="ovr", machine_cost=given, tol=1e-6).fit(X, y)
    for k, cost in enumerate(COSTS):
        alone = SVC(C=2.0 * cost, tol=1e-6).fit(X, y == k).decision_function(X)
        np.testing.assert_allclose(ours.decision_function(X)[:, k], alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge", "logistic", "squared"])
@pytest.mark.parametrize("criterion", ["accuracy", "neg_log_loss", "smooth_hinge"])
def test_gradients_by_the_costs_are_derivatives(data, loss, criterion):
    model = KernelSVC(multi_class="ovr", loss=loss)
    how = {"criterion": criterion, "cv": 3, "tol": 1e-9}
    params = {"C": 0.7, "gamma": 0.2, "machine_cost": np.array(COSTS)}
    gradient = value_and_grad(model, *data, params, **how)[1]
    for k in range(3):

        def f(z, k=k):
            costs = np.where(np.arange(3) == k, z, COSTS)
            return value_and_grad(model, *data, {**params, "machine_cost": costs}, **how)[0]

        found = gradient["machine_cost"][k]
        assert found == pytest.approx(central_difference(f, COSTS[k]), rel=1e-5, abs=1e-9)


def test_costs_of_machines_are_searched_and_refitted(data):
    X, y = data
    search = GradientSearchCV(
        KernelSVC(multi_class="ovr"), {"gamma": None, "machine_cost": None}, cv=3
    ).fit(X, y)
    assert list(search.best_params_["machine_cost"]) == [0, 1, 2]
    theirs = cross_val_score(KernelSVC(multi_class="ovr", **search.best_params_), X, y, cv=3)
    assert search.best_score_ == pytest.approx(theirs.mean(), abs=1e-12)
    again = clone(search.best_estimator_).set_params(tol=1e-6).fit(X, y)
    np.testing.assert_allclose(
        search.decision_function(X), again.decision_function(X), rtol=0, atol=2e-2
    )
    P = search.predict_proba(X)
    np.testing.assert_array_equal(search.classes_[P.argmax(axis=1)], search.predict(X))


@pytest.mark.parametrize("criterion", ["squared_labels", "smooth_hinge"])
@pytest.mark.parametrize("kind", [KernelSVC, LinearClassifier], ids=lambda kind: kind.__name__)
def test_machines_that_say_what_they_are_trained_to_have_no_outer_loss(kind, criterion):
    """Labels are 1 and -1 for every machine: outputs that are just these are as good as can be."""
    model = kind(multi_class="ovr") if kind is KernelSVC else kind()
    outputs, y = 2.0 * np.eye(3) - 1.0, np.arange(3)
    read, _ = read_model(model).adapter.contrasted(outputs)
    value, _ = CRITERIA[criterion](read, y, np.ones(3))
    at_margin = np.log(2.0) / 12.0 if criterion == "smooth_hinge" else 0.0
    assert value == pytest.approx(at_margin)


def test_both_ways_can_be_listed(data):
    space = {"multi_class": ["ovo", "ovr"], "C": (0.1, 10.0)}
    search = GradientSearchCV(KernelSVC(), space, cv=3).fit(*data)
    assert {p["multi_class"] for p in search.cv_results_["params"]} == {"ovo", "ovr"}
    assert search.best_estimator_.multi_class == search.best_params_["multi_class"]


def test_two_classes_have_one_machine_either_way(data):
    X, y = make_data(2)
    pair, rest = (KernelSVC(multi_class=way, tol=1e-6).fit(X, y) for way in ("ovo", "ovr"))
    np.testing.assert_array_equal(pair.decision_function(X), rest.decision_function(X))


def test_a_fold_may_lack_a_class(data):
    X, y = data
    train, test = np.flatnonzero(y != 2), np.flatnonzero(y == 2)
    folds = [(np.arange(0, 90, 2), np.arange(1, 90, 2)), (train[::2], np.append(train[1::2], test))]
    search = GradientSearchCV(KernelSVC(multi_class="ovr"), {"C": (0.1, 10.0)}, cv=folds)
    best = search.fit(X, y).best_params_
    theirs = cross_val_score(KernelSVC(multi_class="ovr", **best), X, y, cv=folds)
    assert search.best_score_ == pytest.approx(theirs.mean(), abs=1e-12)


def test_every_class_can_have_a_search_and_widths_of_its_own(data):
    X, y = data
    space = {"C": None, "gamma": "always_per_feature"}
    search = GradientSearchCV(KernelSVC(), space, cv=3, max_evals=20)
    model = OneVsRestClassifier(search).fit(X, y)
    widths = [np.array(search.best_params_["gamma"]) for search in model.estimators_]
    assert all(each.shape == X.shape[1:] for each in widths)
    assert len({each.tobytes() for each in widths}) == 3
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machine_cost": COSTS}, r"^machine_cost=\[0.3, 1.0, 8.0\] is for machines of one class "),
        ({"multi_class": "ovr", "machine_cost": COSTS[:2]}, "has 2 values, but there are 3 class"),
        ({"multi_class": "rest"}, "The 'multi_class' parameter of KernelSVC must be a str among"),
    ],
)
def test_what_does_not_fit_is_refused(data, options, message):
    for estimator in (KernelSVC(**options), GradientSearchCV(KernelSVC(**options), cv=3)):
        with pytest.raises(ValueError, match=message):
            estimator.fit(*data)


def test_costs_of_machines_need_machines_of_classes(data):
    search = GradientSearchCV(KernelSVC(), {"machine_cost": None})
    with pytest.raises(ValueError, match=r"^Invalid parameter 'machine_cost' in space"):
        search.fit(*data)
    X, y = make_data(2)
    with pytest.raises(ValueError, match="is for more than two classes"):
        KernelSVC(multi_class="ovr", machine_cost=[1, 2]).fit(X, y)
