"""CrossValidationLoss: the objective of a search, for an optimiser of one's own."""

import numpy as np
import pytest
from helpers import central_difference, make_data
from scipy.optimize import minimize
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import CrossValidationLoss, GradientSearchCV, KernelSVC, value_and_grad

MODELS = {
    "SVC": (SVC(), 2, {}),
    "three classes": (SVC(), 3, {"scoring": "balanced_accuracy"}),
    "threshold": (SVC(), 2, {"space": {"C": None, "threshold": None}, "scoring": "f1"}),
    "class weights": (SVC(gamma=0.1), 3, {"space": {"class_weight": None}}),
    "margins": (KernelSVC(), 2, {"space": {"margin": {1: (0.5, 2.0)}, "gamma": None}}),
    "SVR": (SVR(), 0, {}),
    "linear": (LinearSVC(), 2, {"scoring": "roc_auc"}),
    "Ridge": (Ridge(), 0, {"criterion": "neg_mean_absolute_error"}),
    "pipeline": (make_pipeline(StandardScaler(), SVC()), 2, {}),
    "not pooled": (SVC(), 2, {"pooled": False}),
    "landmarks": (SVC(), 2, {"rank": 30, "random_state": 0}),
}


@pytest.fixture(params=MODELS)
def made(request):
    estimator, n_classes, options = MODELS[request.param]
    X, y = make_data(n_classes, n=80)
    return CrossValidationLoss(estimator, X, y, cv=3, tol=1e-11, **options)


def test_gradients_by_vectors_are_derivatives(made):
    at = made.start + 0.1
    value, gradient = made.value_and_grad(at)
    assert value == made(at)
    for k in range(len(at)):

        def f(z, k=k):
            return made(np.where(np.arange(len(at)) == k, z, at))

        # small steps: on landmarks a row is near the end of a rounded corner
        expected = central_difference(f, at[k], 1e-5)
        assert gradient[k] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_vectors_and_dicts_are_two_forms_of_a_point(made):
    at = made.start + 0.1
    params = made.params(at)
    assert set(params) == set(made._combination.ranges)
    assert len(made.names) == len(at) == len(made.bounds)
    assert (made.bounds[:, 0] < made.start).all() and (made.start < made.bounds[:, 1]).all()
    named = {
        name: {label: value[label] for label in made._combination.ranges[name] or value}
        if isinstance(value, dict)
        else value
        for name, value in params.items()
    }
    np.testing.assert_allclose(made.vector(named), at, rtol=1e-12)
    value, gradient = made.value_and_grad(named)
    assert value == pytest.approx(made(at), rel=1e-9)
    assert set(gradient) == set(params)


def test_it_is_the_objective_of_the_search():
    X, y = make_data(2, n=80)
    folds = StratifiedKFold(3)
    search = GradientSearchCV(SVC(), cv=folds, scoring="f1").fit(X, y)
    loss = CrossValidationLoss(SVC(), X, y, cv=folds, scoring="f1")
    records = [r for r in search.history_ if r["gradient"] is not None]
    assert records
    for record in records:
        value, gradient = loss.value_and_grad(record["params"])
        assert value == pytest.approx(record["objective"], rel=0.02)
        assert set(gradient) == set(record["gradient"])


def test_the_shorthand_agrees():
    X, y = make_data(3, n=80)
    loss = CrossValidationLoss(SVC(), X, y, {"C": None, "class_weight": None}, cv=3)
    for weights in (1.5, [1.0, 2.0, 0.5], {0: 1.0, 1: 2.0, 2: 0.5}):
        params = {"C": 2.0, "class_weight": weights}
        value, gradient = loss.value_and_grad(params)
        expected, slopes = value_and_grad(SVC(), X, y, params, cv=3)
        assert value == pytest.approx(expected, rel=1e-5)
        assert gradient["C"] == pytest.approx(slopes["C"], rel=1e-3)
        assert type(gradient["class_weight"]) is type(slopes["class_weight"])


def test_an_optimiser_of_scipy_descends():
    X, y = make_data(0, n=80)
    loss = CrossValidationLoss(SVR(), X, y, cv=KFold(3))
    found = minimize(loss.value_and_grad, loss.start, jac=True, bounds=loss.bounds)
    assert found.fun < 0.95 * loss(loss.start)
    model = SVR(**loss.params(found.x)).fit(X, y)
    assert model.score(X, y) > 0.5


def test_outputs_are_those_of_models_fitted_in_the_folds():
    X, y = make_data(2, n=80)
    folds = list(StratifiedKFold(4).split(X, y))
    loss = CrossValidationLoss(SVC(), X, y, cv=folds)
    found = loss.outputs({"C": 2.0, "gamma": 0.1})
    for (rows, outputs), (train, test) in zip(found, folds, strict=True):
        np.testing.assert_array_equal(np.sort(rows), test)
        model = SVC(C=2.0, gamma=0.1, tol=1e-6).fit(X[train], y[train])
        np.testing.assert_allclose(outputs[:, 0], model.decision_function(X[rows]), atol=1e-3)


def test_points_outside_the_bounds_can_be_evaluated():
    X, y = make_data(2, n=80)
    loss = CrossValidationLoss(SVC(), X, y, {"C": (0.5, 2.0), "gamma": (0.1, 0.2)})
    far = loss.vector({"C": 50.0, "gamma": 0.5})
    assert loss(far) == pytest.approx(loss({"C": 50.0, "gamma": 0.5}), rel=1e-6)


@pytest.mark.parametrize(
    "point, words",
    [
        ({"C": 1.0}, "must name"),
        ({"C": 1.0, "gamma": 0.1, "coef0": 0.0}, "must name"),
        ({"C": -1.0, "gamma": 0.1}, "'C'"),
        ({"C": 1.0, "gamma": "scale"}, "gamma"),
        ([1.0], "2 finite numbers"),
        ([np.nan, 0.0], "2 finite numbers"),
    ],
)
def test_wrong_points_are_refused(point, words):
    loss = CrossValidationLoss(SVC(), *make_data(2, n=40))
    with pytest.raises(ValueError, match=words):
        loss(point)


@pytest.mark.parametrize("space", [{"C": [1, 2]}, [{"C": None}, {"gamma": None}], {"kernel": None}])
def test_wrong_spaces_are_refused(space):
    with pytest.raises((ValueError, TypeError), match="space"):
        CrossValidationLoss(SVC(), *make_data(2, n=40), space)
