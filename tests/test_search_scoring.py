"""Metrics and scorers: any metric, several at once, scorers of one's own."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from helpers import C_GAMMA, CASES, SVR_SPACE, make_data, quick, svc, svr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import (
    accuracy_score,
    cohen_kappa_score,
    confusion_matrix,
    d2_absolute_error_score,
    make_scorer,
    recall_score,
)
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC, SVR

from hypermargin import value_and_grad

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


# One metric
# ----------


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


# Several metrics
# ---------------


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


# Scorers of one's own
# --------------------


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


@pytest.mark.parametrize(
    "scoring", ["neg_median_absolute_error", make_scorer(d2_absolute_error_score)]
)
def test_a_median_of_errors_is_descended_on_by_absolute_ones(scoring):
    """Squares would follow a few targets far out, of which the median knows nothing."""
    X, y = make_data(0)
    y[:3] += 100.0
    with pytest.warns(UserWarning, match="descends on the smooth absolute error"):
        search = quick(SVR(), scoring=scoring, max_evals=2).fit(X, y)
    expected = value_and_grad(
        SVR(), X, y, search.best_params_, scoring="neg_mean_absolute_error", cv=search.cv
    )
    found = search.cv_results_["objective"][search.best_index_]
    assert found == pytest.approx(expected[0], rel=1e-2)
