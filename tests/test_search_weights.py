"""Weights of rows, groups and routed metadata reach whoever asked for them."""

import numpy as np
import pytest
from helpers import C_GAMMA, CASES, quick, svc
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from hypermargin import value_and_grad

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def weights_of(n, seed=0):
    """Draw whole weights from one to three."""
    return np.random.RandomState(seed).randint(1, 4, size=n)


# Weights
# -------


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


def test_a_scorer_without_weights_is_warned_about(binary):
    scorer = make_scorer(lambda t, p: float(np.mean(t == p)))
    with pytest.warns(UserWarning, match="does not support sample_weight"):
        quick(svc(), C_GAMMA, scoring=scorer, max_evals=2).fit(*binary, sample_weight=np.ones(80))


# Groups
# ------


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


# Metadata routing
# ----------------


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
