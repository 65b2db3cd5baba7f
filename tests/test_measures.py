"""Losses, costs, margins, thresholds and measures: what scikit-learn's SVC does not have."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from helpers import Differentiated, assert_gradient, imbalanced, make_data
from scipy import sparse
from sklearn import metrics
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from hypermargin import (
    GradientSearchCV,
    KernelSVC,
    KernelSVR,
    LinearClassifier,
    LinearRegressor,
    check_gradient,
    criteria,
)
from hypermargin.criteria import (
    CRITERIA,
    ExpectedCost,
    PrecisionAtRecall,
    RecallAtPrecision,
    SmoothError,
    SmoothFBeta,
    WeightedError,
    criterion_for,
)
from hypermargin.criteria.ranking import SmoothCounts
from hypermargin.losses import CLASSIFICATION, REGRESSION
from hypermargin.methods.validation import validation_loss

OF_CLASSES = [name for name, criterion in CRITERIA.items() if criterion.for_classifiers]
OF_NUMBERS = [name for name in CRITERIA if name not in OF_CLASSES]


def knobs_of(loss, n_classes=2):
    by_class = [name for name, part in CLASSIFICATION[loss].by_part.items() if part == "class"]
    found = {name: np.linspace(0.7, 1.6, n_classes) for name in by_class}
    return found | ({"threshold": 0.15} if n_classes == 2 else {})


# --- gradients


class Remembered(Differentiated):
    """A problem that trains at each point once: the machines do not depend on the criterion."""

    def __init__(self, *args):
        super().__init__(*args)
        self.evaluations = {}

    def value(self, params, warm=None):
        point = tuple((name, np.asarray(value).tobytes()) for name, value in params.items())
        if point not in self.evaluations:
            self.evaluations[point] = self.evaluate(params, warm=warm)
        found = self.evaluations[point]
        return validation_loss(found, self.criterion, self.prepared, self.weight)[0]


@cache
def problem_with(loss):
    return Remembered(KernelSVC(loss=loss), *make_data(2))


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("name", OF_CLASSES)
def test_every_knob_of_every_loss_has_an_exact_gradient(loss, name):
    problem = problem_with(loss)
    problem.criterion = CRITERIA[name]
    assert_gradient(problem, {"C": 1.3, "gamma": 0.3, **knobs_of(loss)})


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("score", ["accuracy", "f1_macro", "neg_brier_score"])
def test_three_classes_have_exact_gradients(loss, score):
    X, y = make_data(3)
    problem = Differentiated(KernelSVC(loss=loss), X, y, scoring=score)
    assert_gradient(problem, {"C": 1.3, "gamma": 0.3, **knobs_of(loss, 3)})


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_regression_losses_have_exact_gradients(loss, name, weighted):
    X, y = make_data(0)
    weight = np.random.default_rng(1).uniform(0.3, 2.0, len(y)) if weighted else None
    problem = Differentiated(KernelSVR(loss=loss), X, y, sample_weight=weight)
    problem.criterion = CRITERIA[name]
    extra = {"epsilon": 0.12} if "epsilon" in loss else {}
    extra = {"quantile": 0.7} if loss == "pinball" else extra
    assert_gradient(problem, {"C": 1.3, "gamma": 0.3, **extra})


# --- solutions: the primal objective of the loss equals the dual one


def slack(loss, margin, y, o):
    short = margin * y * y - y * o if loss == "squared" else np.maximum(0.0, margin - y * o)
    return {
        "hinge": short,
        "squared_hinge": short**2,
        "modified_huber": np.where(short <= 2 * margin, short**2, 4 * margin * (short - margin)),
        "squared": (margin - y * o) ** 2,
        "smooth_hinge": np.logaddexp(0.0, 12.0 * (margin - y * o)) / 12.0,
        "logistic": np.logaddexp(0.0, -y * o),
    }[loss]


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_no_other_machine_has_a_lower_primal_objective(loss):
    X, y = make_data(2, n=80)
    sign = np.where(y == 1, 1.0, -1.0)
    margins = (1.0, 1.0) if loss == "logistic" else (1.4, 0.7)
    margin = np.where(y == 1, margins[1], margins[0])
    cost = 1.5 * np.where(y == 1, 2.0, 0.5)
    model = KernelSVC(
        1.5, gamma=0.4, loss=loss, class_cost=(0.5, 2.0), margin=margins, tol=1e-9
    ).fit(X, y)
    K = rbf_kernel(X, gamma=0.4)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]

    def primal(beta, bias):
        o = K @ beta + bias
        return 0.5 * beta @ K @ beta + cost @ slack(loss, margin, sign, o)

    least = primal(beta, model.intercept_[0])
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            moved = beta + size * rng.normal(size=len(beta)) * np.abs(beta).max()
            assert primal(moved, model.intercept_[0] + size * rng.normal()) >= least - 1e-7 * least


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_hinge_loss_with_class_costs_is_svc_with_class_weights(form, n_classes):
    X, y = make_data(n_classes, n=90)
    cost = np.linspace(0.5, 2.0, n_classes)
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    ours = KernelSVC(2.0, class_cost=cost, tol=1e-7).fit(form(X), y, sample_weight=weight)
    theirs = SVC(C=2.0, class_weight=dict(enumerate(cost)), tol=1e-7)
    theirs.fit(form(X), y, sample_weight=weight)
    np.testing.assert_allclose(
        ours.decision_function(form(X)), theirs.decision_function(form(X)), atol=1e-4
    )
    np.testing.assert_array_equal(ours.predict(form(X)), theirs.predict(form(X)))


def test_the_epsilon_insensitive_loss_is_svr():
    X, y = make_data(0, n=90)
    ours = KernelSVR(3.0, epsilon=0.2, tol=1e-7).fit(X, y)
    theirs = SVR(C=3.0, epsilon=0.2, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_pinball_loss_fits_a_quantile(quantile):
    X, y = make_data(0, n=300)
    model = KernelSVR(1.0, gamma=0.05, loss="pinball", quantile=quantile, tol=1e-6).fit(X, y)
    below = np.mean(y < model.predict(X) - 1e-4), np.mean(y < model.predict(X) + 1e-4)
    assert below[0] <= quantile <= below[1]


def test_the_squared_loss_is_a_linear_system():
    X, y = make_data(0)
    model = KernelSVR(0.8, gamma=0.3, loss="squared").fit(X, y)
    n = len(y)
    A = np.ones((n + 1, n + 1))
    A[:n, :n] = rbf_kernel(X, gamma=0.3) + np.eye(n) / (2 * 0.8)
    A[n, n] = 0.0
    expected = np.linalg.solve(A, np.append(y, 0.0))
    np.testing.assert_allclose(model.dual_coef_[0], expected[:n], atol=1e-8)
    assert model.intercept_[0] == pytest.approx(expected[n])


# --- estimators


@parametrize_with_checks(
    [
        KernelSVC(),
        KernelSVC(loss="logistic"),
        KernelSVR(),
        KernelSVR(loss="squared"),
        LinearClassifier(),
        LinearClassifier(loss="logistic"),
        LinearRegressor(),
    ],
    # as with SVC, what differs is within the tolerance that machines are trained to
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "gamma='scale', and a tolerance"
        for kind in ("dense", "sparse")
        if hasattr(estimator, "kernel")
    },
)
def test_estimators_are_scikit_learns(estimator, check):
    check(estimator)


def test_a_threshold_moves_predictions_and_nothing_else():
    X, y = make_data(2)
    plain, moved = KernelSVC().fit(X, y), KernelSVC(threshold=0.3).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), moved.decision_function(X))
    np.testing.assert_array_equal(moved.predict(X), (plain.decision_function(X) > 0.3).astype(int))
    assert not hasattr(plain, "predict_proba")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"class_cost": (1.0, 0.0)}, "class_cost.*must be positive"),
        ({"class_cost": (1.0, 2.0, 3.0)}, "class_cost.*3 values, but there are 2 classes"),
        ({"class_cost": {"no": 2.0}}, "class_cost names 'no', which is none of the classes"),
        ({"margin": -1.0}, "margin.*must be positive"),
        ({"margin": (1.0, np.nan)}, "margin.*must be positive"),
    ],
)
def test_bad_values_are_named(params, message):
    X, y = make_data(2)
    with pytest.raises(ValueError, match=message):
        KernelSVC(**params).fit(X, y)
    with pytest.raises(ValueError, match=message):
        GradientSearchCV(KernelSVC(**params), {"C": None}, cv=3).fit(X, y)


def test_a_threshold_is_for_two_classes():
    X, y = make_data(3)
    with pytest.raises(ValueError, match="two classes"):
        KernelSVC(threshold=0.1).fit(X, y)
    for estimator in (KernelSVC(), SVC()):
        with pytest.raises(ValueError, match="two classes"):
            GradientSearchCV(estimator, {"C": None, "threshold": None}, cv=3).fit(X, y)


# --- searches


def test_a_tuned_threshold_raises_f1_and_is_given_back_as_scikit_learns_own():
    X, y = imbalanced()
    knobs = {"C": None, "gamma": None}
    without = GradientSearchCV(SVC(), knobs, scoring="f1", cv=5).fit(X, y)
    within = GradientSearchCV(SVC(), {**knobs, "threshold": None}, scoring="f1", cv=5).fit(X, y)
    assert within.best_score_ > without.best_score_ + 0.02
    model = within.best_estimator_
    assert isinstance(model, FixedThresholdClassifier)
    assert isinstance(model.estimator_, SVC)
    threshold = within.best_params_["threshold"]
    expected = (model.estimator_.decision_function(X) >= threshold).astype(int)
    np.testing.assert_array_equal(within.predict(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(within)).predict(X), expected)


def test_knobs_are_fitted_for_scorers_that_are_plain_functions():
    X, y = imbalanced(n=150)

    def accuracy(model, X, y):
        return model.score(X, y)

    for estimator, knobs in ((SVC(), ["class_weight"]), (KernelSVC(), ["margin"])):
        space = dict.fromkeys(["C", "threshold", *knobs])
        search = GradientSearchCV(estimator, space, scoring=accuracy, cv=3, max_evals=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.n_features_in_ == 3


def test_the_threshold_of_a_pipeline_wraps_all_of_it():
    X, y = imbalanced()
    space = {"svc__C": None, "threshold": (-1.0, 1.0)}
    search = GradientSearchCV(make_pipeline(StandardScaler(), SVC()), space, scoring="f1", cv=3)
    search.fit(X, y)
    assert isinstance(search.best_estimator_, FixedThresholdClassifier)
    assert -1.0 <= search.best_params_["threshold"] <= 1.0
    assert search.score(X, y) == metrics.f1_score(y, search.predict(X))


def test_class_costs_come_back_as_class_weights():
    X, y = imbalanced()
    labels = np.array(["no", "yes"])[y]
    space = {"gamma": None, "class_weight": (0.1, 100.0)}
    search = GradientSearchCV(SVC(), space, scoring="balanced_accuracy", cv=5).fit(X, labels)
    weights = search.best_params_["class_weight"]
    assert set(weights) == {"no", "yes"}
    assert weights["yes"] > weights["no"]
    cold = SVC(**search.best_params_).fit(X, labels)
    np.testing.assert_array_equal(search.predict(X), cold.predict(X))


def test_tuned_class_weights_come_in_place_of_the_estimators_own():
    X, y = imbalanced()
    space = {"C": (0.5, 2.0), "class_weight": (0.9, 1.1)}
    plain, balanced = (
        GradientSearchCV(SVC(class_weight=w), space, cv=3, max_evals=2).fit(X, y)
        for w in (None, "balanced")
    )
    np.testing.assert_allclose(plain.cv_results_["objective"], balanced.cv_results_["objective"])


def test_costs_margins_and_threshold_of_our_own_estimator_are_tuned_together():
    X, y = imbalanced()
    space = {"gamma": None, "class_cost": None, "margin": None, "threshold": None}
    search = GradientSearchCV(KernelSVC(), space, scoring="f1", cv=3, max_evals=10).fit(X, y)
    found = search.best_params_
    assert len(found["class_cost"]) == len(found["margin"]) == 2
    assert search.best_estimator_.threshold == found["threshold"]
    assert (
        search.cv_results_["param_class_cost"][0] == search.cv_results_["params"][0]["class_cost"]
    )


@pytest.mark.parametrize("estimator", [SVC(), KernelSVC(), make_pipeline(StandardScaler(), SVC())])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_come_without_another_fit(estimator, n_classes):
    X, y = make_data(n_classes, n=150)
    search = GradientSearchCV(estimator, scoring="neg_log_loss", cv=3, max_evals=5).fit(X, y)
    P = search.predict_proba(X)
    assert P.shape == (150, n_classes)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert search.score(X, y) == pytest.approx(-metrics.log_loss(y, P))
    assert search.score(X, y) > -np.log(n_classes)
    assert -np.log(n_classes) < search.best_score_ < 0
    if n_classes == 2:  # the sigmoid rises with the output
        order = np.argsort(search.decision_function(X))
        assert (np.diff(P[order, 1]) >= 0).all()


def test_a_criterion_of_ones_own_is_descended_on():
    X, y = make_data(2)

    def squares(outputs, y):
        residual = outputs - np.where(y == 1, 1.0, -1.0)
        return float(np.mean(residual**2)), 2 * residual / len(y)

    assert (
        check_gradient(squares, np.random.default_rng(0).normal(size=20), np.arange(20) % 2) < 1e-6
    )
    search = GradientSearchCV(SVC(), criterion=squares, cv=3).fit(X, y)
    named = GradientSearchCV(SVC(), criterion="squared_labels", cv=3).fit(X, y)
    assert search.best_index_ == np.argmin(search.cv_results_["objective"])
    half = 0.5 * min(search.cv_results_["objective"])
    assert half == pytest.approx(min(named.cv_results_["objective"]), rel=0.02)


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        ("nonsense", "criterion='nonsense' is unknown"),
        (lambda o, y: 1.0, "must return a value and a gradient"),
        (lambda o, y: (1.0, np.zeros(3)), "of the outputs' shape"),
        (lambda o, y: (1.0, np.full(len(o), np.nan)), "not finite"),
        ("r2", "is for regressors"),
        (PrecisionAtRecall, r"is a class; give PrecisionAtRecall\(...\)"),
        (ExpectedCost(costs=1.0 - np.eye(3)), "costs are for 3 classes, but y has 2"),
    ],
)
def test_criteria_that_cannot_be_used_are_refused(criterion, message):
    X, y = make_data(2)
    with pytest.raises((ValueError, TypeError), match=message):
        GradientSearchCV(SVC(), {"C": None}, criterion=criterion, cv=3).fit(X, y)


@pytest.mark.parametrize("criterion", ["f1", "roc_auc", WeightedError(eta=0.1)])
def test_criteria_of_two_classes_are_refused_for_three(criterion):
    X, y = make_data(3)
    with pytest.raises(ValueError, match=r"criterion=.* is for two classes, y has 3"):
        GradientSearchCV(SVC(), {"C": None}, criterion=criterion, cv=3).fit(X, y)


def test_without_a_refit_there_are_no_probabilities_and_it_is_said():
    X, y = make_data(2)
    search = GradientSearchCV(
        SVC(), {"C": None}, scoring="neg_log_loss", cv=3, max_evals=2, refit=False
    ).fit(X, y)
    with pytest.raises(AttributeError, match="refit=False"):
        search.score(X, y)
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'") as caught:
        search.predict_proba(X)
    assert "refit=False" in str(caught.value.__cause__)


def test_a_quantile_is_a_fraction():
    X, y = make_data(0)
    space = {"C": None, "quantile": (0.1, 2.0)}
    with pytest.raises(ValueError, match=r"quantile.*between 0 and 1"):
        GradientSearchCV(KernelSVR(loss="pinball"), space, cv=3).fit(X, y)


def test_criteria_are_checked_as_functions_are():
    rng = np.random.default_rng(0)
    labels = np.array(["no", "yes", "perhaps"])[np.arange(30) % 3]
    assert check_gradient(WeightedError(eta=0.2), rng.normal(size=30), np.arange(30) % 2) < 1e-5
    assert check_gradient(CRITERIA["f1_macro"], rng.normal(size=(30, 3)), labels) < 1e-5
    assert check_gradient(CRITERIA["huber"], rng.normal(size=30), rng.normal(size=30)) < 1e-5


def test_a_function_and_weights_are_told():
    X, y = make_data(2)
    search = GradientSearchCV(SVC(), {"C": None}, criterion=lambda o, y: (0.0, 0.0 * o), cv=3)
    with pytest.raises(ValueError, match=r"cannot take sample_weight; derive a class from"):
        search.fit(X, y, sample_weight=np.arange(1.0, 61.0))


def test_a_wrong_gradient_is_told():
    def wrong(outputs, y):
        return float(np.sum(outputs**2)), outputs

    assert check_gradient(wrong, np.arange(1.0, 5.0), np.zeros(4)) > 0.4


@pytest.mark.parametrize("pooled", [True, False])
def test_folds_are_pooled_or_averaged(pooled):
    X, y = imbalanced()
    search = GradientSearchCV(SVC(), scoring="roc_auc", cv=4, pooled=pooled, max_evals=5).fit(X, y)
    loss = 1.0 - search.cv_results_["mean_test_score"]
    difference = np.abs(search.cv_results_["objective"] - loss)
    assert difference.max() < (0.02 if not pooled else 0.2)


# --- measures


def outputs_of(seed=0, n=400):
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=n) < 0.3).astype(int)
    return (rng.normal(size=n) + y)[:, None], y


@pytest.mark.parametrize("t", [1e3, 1e5])
def test_ranking_measures_approach_the_hard_ones(t):
    outputs, y = outputs_of()
    one = np.ones(len(y))
    hard = {
        "roc_auc": metrics.roc_auc_score(y, outputs[:, 0]),
        "average_precision": metrics.average_precision_score(y, outputs[:, 0]),
    }
    for name, score in hard.items():
        value = type(CRITERIA[name])(t=t)(outputs, y, one)[0]
        assert 1.0 - value == pytest.approx(score, abs=20 / t)


@pytest.mark.parametrize(
    "name", ["f1", "precision", "recall", "jaccard", "matthews_corrcoef", "balanced_accuracy"]
)
@pytest.mark.parametrize("average", ["binary", "macro", "weighted", "micro"])
def test_measures_of_counts_approach_the_hard_ones(name, average):
    outputs, y = outputs_of()
    kind = type(CRITERIA[name])
    by_class = hasattr(kind, "average")
    sharp = kind(t=1e7, average=average) if by_class else kind(t=1e7)
    arguments = {"average": average} if by_class else {}
    hard = sharp.score_func(y, (outputs[:, 0] > 0).astype(int), **arguments)
    assert 1.0 - sharp(outputs, y, np.ones(len(y)))[0] == pytest.approx(hard, abs=1e-4)


def test_means_over_rows_approach_the_hard_ones():
    outputs, y = outputs_of()
    one, sign = np.ones(len(y)), np.where(y == 1, 1.0, -1.0)
    error = np.mean((outputs[:, 0] > 0) != y)
    assert criteria.ZeroOne(mu=1e7)(outputs, y, one)[0] == pytest.approx(error, abs=1e-4)
    hinge = np.maximum(0.0, 1.0 - sign * outputs[:, 0]).mean()
    assert criteria.SmoothHinge(mu=1e7)(outputs, y, one)[0] == pytest.approx(hinge, abs=1e-4)
    fbeta = metrics.fbeta_score(y, outputs[:, 0] > 0, beta=2.0)
    assert 1.0 - SmoothFBeta(t=1e7, beta=2.0)(outputs, y, one)[0] == pytest.approx(fbeta, abs=1e-4)
    pinball = metrics.mean_pinball_loss(y, outputs, alpha=0.9)
    found = criteria.SmoothPinball(t=1e7, alpha=0.9)(outputs, y.astype(float), one)[0]
    assert found == pytest.approx(pinball, abs=1e-4)


def test_thresholds_that_follow_from_the_outputs():
    outputs, y = outputs_of()
    one = np.ones(len(y))
    precision, recall, _ = metrics.precision_recall_curve(y, outputs[:, 0])
    at_recall = 1.0 - PrecisionAtRecall(t=1e5, recall=0.8)(outputs, y, one)[0]
    assert at_recall == pytest.approx(precision[recall >= 0.8][-1], abs=0.02)
    at_precision = 1.0 - RecallAtPrecision(t=1e5, precision=0.5)(outputs, y, one)[0]
    assert at_precision == pytest.approx(recall[precision >= 0.5].max(), abs=0.02)
    even = 1.0 - type(CRITERIA["break_even"])(t=1e5)(outputs, y, one)[0]
    rank = np.argsort(-outputs[:, 0])[: y.sum()]
    assert even == pytest.approx(y[rank].mean(), abs=0.02)


def test_a_precision_that_cannot_be_met_costs_more_than_everything():
    outputs, y = outputs_of()
    value, gradient = RecallAtPrecision(precision=0.999)(-outputs, y, np.ones(len(y)))
    assert value > 1.0
    assert np.isfinite(gradient).all()
    assert gradient.any()


def test_smooth_counts_are_sums_over_pairs():
    rng = np.random.default_rng(0)
    x, w, q = rng.normal(size=50), rng.uniform(size=50), rng.normal(size=20)
    u = np.clip((q[:, None] - x) / 0.3, -1, 1)
    counts, slopes = SmoothCounts(x, w, 0.3)(q)
    np.testing.assert_allclose(counts, (0.5 + 0.75 * u - 0.25 * u**3) @ w)
    np.testing.assert_allclose(slopes, 0.75 * (1 - u**2) @ w / 0.3, atol=1e-10)


def test_costs_of_errors():
    outputs, y = outputs_of()
    one, predicted = np.ones(len(y)), (outputs[:, 0] > 0).astype(int)
    wrong = [(y == k) & (predicted != k) for k in (0, 1)]
    eta = 0.05
    expected = (wrong[1].sum() + eta * wrong[0].sum()) / (y.sum() + eta * (1 - y).sum())
    assert WeightedError(t=1e7, eta=eta)(outputs, y, one)[0] == pytest.approx(expected, abs=1e-4)
    costs = ((0.0, 1.0), (5.0, 0.0))
    expected = (wrong[0] + 5 * wrong[1]).mean()
    assert ExpectedCost(t=1e7, costs=costs)(outputs, y, one)[0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", criteria.__all__)
def test_public_criteria_have_an_example(name):
    kind = getattr(criteria, name)
    assert f">>> from hypermargin.criteria import {name}" in kind.__doc__
    assert name == "Criterion" or kind in map(type, CRITERIA.values())


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("WeightedError", {"eta": 0}, "eta=0 must be a positive number"),
        ("WeightedError", {"eta": "much"}, "eta='much' must be a positive number"),
        ("ExpectedCost", {"costs": [[0, 1]]}, "costs=.* must be a square table"),
        ("ExpectedCost", {"costs": [[0, 1], [0, 0]]}, "costs=.* costs no more than the right"),
        ("ExpectedCost", {"costs": [[0, -1], [1, 0]]}, "costs=.* costs no more than the right"),
        ("PrecisionAtRecall", {"recall": 0.0}, "recall=0.0 must be a number between 0 and 1"),
        ("PrecisionAtRecall", {"recall": 1.1}, "recall=1.1 must be a number between 0 and 1"),
        ("RecallAtPrecision", {"precision": 1.0}, "precision=1.0 must be a number between 0 and 1"),
        ("SmoothFBeta", {"beta": -1.0}, "beta=-1.0 must be a positive number"),
        ("SmoothF1", {"average": "samples"}, "average='samples' must be one of"),
        ("SmoothF1", {"positive": 2}, "positive=2 must be 0 or 1"),
        ("SmoothPinball", {"alpha": 2.0}, "alpha=2.0 must be a number between 0 and 1"),
        ("HuberLoss", {"delta": np.nan}, "delta=nan must be a positive number"),
        ("ZeroOne", {"mu": 0.0}, "mu=0.0 must be a positive number"),
        ("SmoothError", {"t": -1.0}, "t=-1.0 must be a positive number"),
    ],
)
def test_bad_arguments_of_criteria_are_named(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(criteria, name)(**arguments)


def test_a_criterion_with_arguments_is_descended_on():
    X, y = imbalanced()
    search = GradientSearchCV(
        SVC(), {"C": None, "gamma": None}, criterion=PrecisionAtRecall(recall=0.6), cv=3
    )
    search = pickle.loads(pickle.dumps(clone(search).fit(X, y)))
    assert search.criterion == PrecisionAtRecall(recall=0.6)
    assert search.best_index_ == np.argmin(search.cv_results_["objective"])


def test_full_recall_moves_with_the_least_output():
    outputs, y = outputs_of(n=40)
    criterion, one = PrecisionAtRecall(recall=1.0), np.ones(40)

    def loss(flat, y):
        value, gradient = criterion(flat[:, None], y, one)
        return value, gradient[:, 0]

    assert check_gradient(loss, outputs[:, 0], y) < 1e-5
    above = outputs[:, 0] >= outputs[y == 1].min()
    sharp = PrecisionAtRecall(recall=1.0, t=1e6)(outputs, y, one)[0]
    assert 1.0 - sharp == pytest.approx(y[above].mean(), abs=1e-3)


def test_scorers_with_arguments_find_their_smooth_form():
    classes = np.array(["no", "yes"])
    scorer = metrics.make_scorer(metrics.fbeta_score, beta=2.0, pos_label="no")
    criterion, is_own = criterion_for(scorer, True, classes)
    assert is_own
    assert criterion == SmoothFBeta(beta=2.0, positive=0)
    with pytest.raises(ValueError, match=r"pos_label=1.*none of the classes"):
        criterion_for(metrics.get_scorer("f1"), True, classes)
    with pytest.raises(ValueError, match="average='macro'"):
        criterion_for(metrics.get_scorer("f1"), True, np.arange(3))
    pinball = metrics.make_scorer(metrics.mean_pinball_loss, alpha=0.9, greater_is_better=False)
    assert criterion_for(pinball, False)[0].alpha == 0.9


@pytest.mark.parametrize("score", ["f1", "roc_auc", "average_precision", "neg_brier_score"])
def test_no_word_of_a_missing_smooth_form(score):
    X, y = imbalanced()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GradientSearchCV(SVC(), {"C": (0.1, 10.0)}, scoring=score, cv=3, max_evals=4).fit(X, y)


def test_outputs_that_are_whole_numbers_have_the_gradient_of_the_same_as_floats():
    outputs = np.random.default_rng(0).integers(-3, 4, size=(12, 3))
    y, weight = np.arange(12) % 3, np.ones(12)
    whole, same = (SmoothError()(o, y, weight)[1] for o in (outputs, outputs.astype(float)))
    np.testing.assert_array_equal(whole, same)
