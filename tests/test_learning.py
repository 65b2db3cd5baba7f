"""What a model gains by the rows that its folds were not trained on."""

import pickle

import numpy as np
import pytest
from helpers import C_GAMMA, make_data, quick, svc
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV
from hypermargin.search.learning import parts_of

pytestmark = pytest.mark.filterwarnings("ignore")


def linear_data(seed, n=200, p=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X.sum(axis=1) + rng.normal(size=n)


def test_the_gain_is_that_of_a_learning_curve_that_is_known():
    found, true = [], []
    for seed in range(8):
        X, y = linear_data(seed)
        search = GradientSearchCV(
            Ridge(), {"alpha": [1e-6]}, scoring="neg_mean_squared_error", cv=5
        ).fit(X, y)
        found.append(search.score_estimate_.gain)
        new = linear_data(100 + seed, n=5000)
        by_folds = [
            search.score(*new) - search.scorer_(Ridge(1e-6).fit(X[train], y[train]), *new)
            for train, _ in KFold(5).split(X)
        ]
        true.append(np.mean(by_folds))
    assert 0.04 < np.mean(true) < 0.07  # p / (m - p) or so on m rows, p of them features
    # the curve bends more than one over the number of rows does
    assert 0.9 * np.mean(true) < np.mean(found) < 1.8 * np.mean(true)


@pytest.mark.parametrize(
    ("cv", "number"),
    [
        (KFold(5), 5),
        (KFold(4), 4),
        (KFold(10), 5),
        (LeaveOneOut(), 5),
        (RepeatedKFold(n_splits=5, n_repeats=2), 5),
        (KFold(3), 3),
        (ShuffleSplit(5, test_size=0.3, random_state=0), 1),
        (TimeSeriesSplit(5), 0),
    ],
    ids=str,
)
def test_folds_are_left_out_together_where_they_are_trained_on_each_other(cv, number):
    n = 40
    splits = list(cv.split(np.zeros((n, 1))))
    parts = parts_of(splits, n)
    if number <= 1:
        assert len(parts) < 4
        return
    assert len(parts) == number
    left_out = np.concatenate([rows for rows, _ in parts])
    np.testing.assert_array_equal(np.sort(left_out), np.arange(n))
    for rows, trained in parts:
        assert not trained[rows].any()
        assert trained.sum() == n - len(rows)


@pytest.mark.parametrize(
    ("model", "classes", "options"),
    [
        (svc(), 2, {}),
        (svc(), 3, {"scoring": "f1_macro"}),
        (svc(), 2, {"scoring": "neg_log_loss"}),
        (svc(), 2, {"rank": 20}),
        (svc(), 2, {"scoring": ["accuracy", "f1"], "refit": "f1"}),
        (make_pipeline(StandardScaler(), SVC()), 2, {}),
        (LinearSVC(), 3, {}),
        (svc(), 2, {"cv": GroupKFold(5)}),
    ],
    ids=str,
)
def test_it_is_part_of_the_estimate_and_survives_a_pickle(model, classes, options):
    X, y = make_data(classes, n=80)
    more = {"groups": np.arange(80) // 4} if "cv" in options else {}
    search = quick(model, **{"cv": 5, **options}).fit(X, y, **more)
    again = pickle.loads(pickle.dumps(search))
    expected = search.score_estimate_
    assert again.score_estimate_ == expected
    assert expected.gain != 0.0
    whole = expected.best_score - expected.optimism + expected.gain
    assert expected.score == pytest.approx(min(whole, 1.0))
    assert "gain" in str(expected)


def test_there_is_none_with_three_folds_or_where_the_time_was_up():
    X, y = make_data(2, n=80)
    assert quick(svc(), C_GAMMA, cv=3).fit(X, y).score_estimate_.gain == 0.0
    late = GradientSearchCV(svc(), C_GAMMA, cv=5, time_budget=1e-6).fit(X, y)
    assert late.score_estimate_.gain == 0.0


def test_classes_too_rare_to_be_left_out_twice_leave_no_gain():
    X, y = make_data(2, n=60)
    y = np.where(np.arange(60) < 5, 2, y)  # one row in every fold
    search = GradientSearchCV(svc(), C_GAMMA, cv=5, max_evals=2, scoring="roc_auc_ovr")
    assert np.isfinite(search.fit(X, y).score_estimate_.score)
