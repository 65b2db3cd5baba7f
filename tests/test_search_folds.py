"""Any splitter, list or generator gives the folds; they are drawn once and stay the same."""

import numpy as np
import pytest
from helpers import C_GAMMA, CASES, SVR_SPACE, quick, svc, svr
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
)

from hypermargin import GradientSearchCV

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize(
    "cv, n_splits",
    [
        (2, 2),
        (StratifiedKFold(3, shuffle=True, random_state=1), 3),
        (KFold(4, shuffle=True, random_state=1), 4),
        (ShuffleSplit(3, test_size=0.3, random_state=1), 3),
        (ShuffleSplit(1, test_size=0.3, random_state=1), 1),
        (ShuffleSplit(2, train_size=0.4, test_size=0.3, random_state=1), 2),
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=1), 4),
        (PredefinedSplit(np.r_[np.full(50, -1), np.zeros(30)]), 1),
        ([(np.arange(40), np.arange(40, 80)), (np.arange(20, 80), np.arange(20))], 2),
    ],
    ids=[
        "int",
        "stratified",
        "kfold",
        "shuffle",
        "one",
        "partial",
        "repeated",
        "predefined",
        "list",
    ],
)
def test_any_splitter_gives_the_scores_of_grid_search(
    binary, cv, n_splits, grid_over_same_points, assert_same_scores
):
    X, y = binary
    search = quick(svc(), C_GAMMA, cv=cv, max_evals=4).fit(X, y)
    assert search.n_splits_ == n_splits
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 20)


BOOTSTRAP = np.random.RandomState(0).randint(0, 80, 80)


@pytest.mark.parametrize(
    "fold",
    [
        (BOOTSTRAP, np.setdiff1d(np.arange(80), BOOTSTRAP)),
        (np.arange(40), np.r_[40:80, np.full(10, 40), 41]),
        (np.arange(80), np.arange(80)),
        (np.arange(60), np.arange(40, 80)),
        (np.random.RandomState(0).permutation(60), np.arange(79, 59, -1)),
    ],
    ids=["drawn twice", "tested twice", "all", "overlapping", "out of order"],
)
@pytest.mark.parametrize("kind", ["svc", "pipeline"])
def test_rows_may_be_in_a_fold_twice_in_both_parts_or_out_of_order(
    binary, kind, fold, grid_over_same_points, assert_same_scores
):
    X, y = binary
    estimator, space, _ = CASES[kind]
    search = quick(estimator, space, cv=[fold]).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / len(fold[1]))


def test_five_folds_by_default(binary):
    search = GradientSearchCV(svc(), C_GAMMA, max_evals=2).fit(*binary)
    assert search.n_splits_ == 5


def test_masks_and_generators_may_give_the_folds(binary):
    X, y = binary
    mask = np.arange(80) % 3 == 0
    masked = quick(svc(), C_GAMMA, cv=[(~mask, mask), (mask, ~mask)]).fit(X, y)
    pairs = [
        (np.flatnonzero(~mask), np.flatnonzero(mask)),
        (np.flatnonzero(mask), np.flatnonzero(~mask)),
    ]
    indexed = quick(svc(), C_GAMMA, cv=pairs).fit(X, y)
    generated = quick(svc(), C_GAMMA, cv=(pair for pair in pairs)).fit(X, y)
    for other in (indexed, generated):
        assert_array_equal(
            masked.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
        )


def test_time_ordered_folds(regression, grid_over_same_points, assert_same_scores):
    X, y = regression
    search = quick(svr(), SVR_SPACE, cv=TimeSeriesSplit(3)).fit(X, y)
    assert_same_scores(search.cv_results_, grid_over_same_points(search, X, y).cv_results_)


def test_leave_one_out(binary):
    X, y = binary[0][:24], binary[1][:24]
    search = quick(svc(), {"C": (1e-1, 1e1)}, cv=LeaveOneOut(), max_evals=3).fit(X, y)
    assert search.n_splits_ == 24
    plain = clone(search.estimator).set_params(**search.best_params_)
    again = cross_val_score(plain, X, y, cv=LeaveOneOut()).mean()
    assert search.best_score_ == pytest.approx(again, abs=1.01 / 24)


class OneTime:
    """Splitter that can be asked for its folds only once."""

    def __init__(self):
        self.folds = iter(KFold(3, shuffle=True, random_state=0).split(np.zeros(80)))

    def split(self, X, y=None, groups=None):
        yield from self.folds

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


def test_folds_are_drawn_once(binary):
    X, y = binary
    once = quick(svc(), C_GAMMA, cv=OneTime()).fit(X, y)
    plain = quick(svc(), C_GAMMA, cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert len(once.cv_results_["params"]) > 1
    assert_array_equal(once.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_shuffled_folds_stay_the_same_through_the_search(binary):
    """The same point must score the same in every row, or the search chases noise."""
    X, y = binary
    space = {"C": [1.0, 1.0, 1.0], "gamma": [0.1]}
    search = quick(svc(), space, cv=KFold(3, shuffle=True), max_evals=20).fit(X, y)
    assert np.ptp(search.cv_results_["split0_test_score"]) == 0
