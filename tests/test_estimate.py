"""The score to expect on new data."""

import pickle
import warnings

import numpy as np
import pytest
from helpers import C_GAMMA, imbalanced, make_data, quick, svc, svr
from sklearn import config_context, metrics
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV
from hypermargin.search.estimate import RESAMPLES, draws
from hypermargin.search.resampled import called, fast_scorer

pytestmark = pytest.mark.filterwarnings("ignore")

ONE_OR_TWO = ("f1", "precision", "recall", "jaccard", "roc_auc", "average_precision")
SCORES = {
    2: (*ONE_OR_TWO, "accuracy", "balanced_accuracy", "matthews_corrcoef", "neg_log_loss",
        "neg_brier_score"),
    3: ("accuracy", "f1_macro", "precision_micro", "recall_weighted", "jaccard_macro",
        "balanced_accuracy", "matthews_corrcoef", "neg_log_loss", "roc_auc_ovr"),
    0: ("r2", "neg_mean_squared_error", "neg_mean_absolute_error", "neg_root_mean_squared_error"),
}  # fmt: skip


@pytest.mark.parametrize(("classes", "scoring"), [(c, s) for c in SCORES for s in SCORES[c]])
def test_scores_of_drawn_rows_are_those_of_scikit_learn(classes, scoring):
    rng = np.random.default_rng(0)
    scorer = metrics.get_scorer(scoring)
    labels = np.array([1, 2, 4])[:classes] if classes else None  # one is the first label
    n, truth = 40, (rng.integers(classes, size=40) if classes else rng.normal(size=40))
    if scorer._response_method == "predict":
        response = rng.integers(classes, size=n) if classes else truth + rng.normal(size=n)
    else:
        P = rng.dirichlet(np.ones(classes), size=n).round(1)  # with equal ones
        P[:, -1] = 1.0 - P[:, :-1].sum(axis=1)
        response = P[:, 1] if classes == 2 else P
    fast = fast_scorer(scorer._score_func, scorer._kwargs, labels, response.ndim == 2)
    assert fast is not None

    def theirs(y, given, **arguments):
        shown = given if labels is None or given.dtype.kind != "i" else labels[given]
        return scorer._score_func(y if labels is None else labels[y], shown, **arguments)

    counts = rng.multinomial(n, np.full(n, 1 / n), size=5).astype(float)
    slow = called(theirs, scorer._kwargs, repeats=True)(counts, truth, [response])
    np.testing.assert_allclose(fast(counts, truth, [response]), slow, rtol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "classes", "options"),
    [
        (svc(), 2, {}),
        (svc(), 3, {"scoring": "f1_macro"}),
        (svc(), 2, {"scoring": "roc_auc"}),
        (svc(), 2, {"scoring": "neg_log_loss"}),
        (svc(), 2, {"space": {"C": None, "threshold": None}, "scoring": "f1"}),
        (svc(), 2, {"rank": 20}),
        (svr(), 0, {}),
        (svr(), 0, {"scoring": "neg_median_absolute_error"}),
        (LinearSVC(), 3, {}),
        (svc(), 2, {"scoring": ["accuracy", "f1"], "refit": "f1"}),
        (svc(), 2, {"method": "grid"}),
    ],
    ids=str,
)
def test_the_estimate_is_the_best_score_less_what_choosing_it_has_added(
    estimator, classes, options
):
    X, y = make_data(classes, n=80)
    search = quick(estimator, **options).fit(X, y)
    outside = search._read_outputs()
    scores = search.cv_results_["mean_test_f1" if "refit" in options else "mean_test_score"]
    found = outside.scores(np.ones((1, 80)))[0]
    np.testing.assert_allclose(found[: len(scores)], scores, rtol=1e-9)
    np.testing.assert_allclose(found, outside.found, rtol=1e-9)
    expected = search.score_estimate_
    assert expected.best_score == pytest.approx(search.best_score_)
    assert expected.score == pytest.approx(search.best_score_ - expected.optimism)
    assert 0 <= expected.optimism < 3 * expected.std_error
    assert expected.low < expected.score < expected.high
    looks = sum(np.isnan(row["score"]) for row in search.history_)  # all of these are on all rows
    assert expected.n_points == len(scores) + looks
    assert search.score_estimate_ is expected


def test_the_best_of_many_coins_is_a_coin():
    """Labels that rows do not tell: the best of many points looks good by chance."""
    best, score, covered = [], [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 5)), np.arange(60) % 2
        search = GradientSearchCV(SVC(), method="random", max_evals=25, cv=4, random_state=seed)
        expected = search.fit(X, y).score_estimate_
        best.append(search.best_score_)
        score.append(expected.score)
        covered.append(expected.low <= 0.5 <= expected.high)
    assert np.mean(score) - 0.5 < 0.5 * (np.mean(best) - 0.5)
    assert np.mean(covered) >= 0.75


def test_groups_are_drawn_whole():
    rng = np.random.default_rng(0)
    X, y = make_data(2, n=30)
    X, y, groups = np.repeat(X, 6, axis=0), np.repeat(y, 6), np.repeat(np.arange(30), 6)
    X = X + 1e-3 * rng.normal(size=X.shape)
    alone = quick(svc(), C_GAMMA, cv=KFold(3)).fit(X, y).score_estimate_
    search = quick(svc(), C_GAMMA, cv=GroupKFold(3)).fit(X, y, groups=groups)
    together = search.score_estimate_
    assert (alone.n_samples, together.n_samples) == (180, 30)
    # six rows alike are one piece of evidence
    assert together.std_error > 1.7 * alone.std_error


def test_weights_of_rows_count():
    X, y = make_data(2, n=80)
    weight = np.where(np.arange(80) % 2, 1.0, 0.0)  # every other row counts
    with config_context(enable_metadata_routing=True):
        scorer = metrics.make_scorer(metrics.accuracy_score).set_score_request(sample_weight=True)
        model = svc().set_fit_request(sample_weight=False)
        search = quick(model, C_GAMMA, scoring=scorer).fit(X, y, sample_weight=weight)
    outside = search._read_outputs()
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(outside.scores(np.ones((1, 80)))[0][: len(scores)], scores)
    assert search.score_estimate_.n_samples == 40


def test_an_interval_has_a_width_where_no_row_is_wrong():
    X = np.r_[np.full((30, 1), -1.0), np.full((30, 1), 1.0)] + 0.01 * np.arange(60)[:, None] / 60
    y = np.repeat([0, 1], 30)
    for scoring in ("accuracy", "roc_auc", "f1"):
        expected = quick(svc(), {"C": (0.1, 10)}, scoring=scoring).fit(X, y).score_estimate_
        assert expected.score == expected.high == 1.0
        assert 0.85 < expected.low < 0.98


def test_a_test_of_few_rows_varies_by_itself():
    expected = quick(svc(), C_GAMMA).fit(*make_data(2)).score_estimate_
    low, high = expected.interval(n_test=20)
    assert low < expected.low < expected.high < high
    assert expected.interval(level=0.5)[0] > expected.low
    assert expected.interval() == (expected.low, expected.high)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"scoring": lambda model, X, y: model.score(X, y)}, "fitted in every fold"),
        ({"refit": lambda results: 0}, "refit is a function"),
        ({"scoring": ["accuracy", "f1"], "refit": False}, "several scores without refit"),
        ({"criterion": "zero_one"}, "chosen by the criterion"),
    ],
)
def test_where_there_is_none_one_sentence_says_so(options, why):
    search = quick(svc(), C_GAMMA, max_evals=2, **options).fit(*make_data(2))
    with pytest.raises(AttributeError, match=f"^There is no score_estimate_: .*{why}.*[.]$"):
        _ = search.score_estimate_
    assert not hasattr(quick(svc()), "score_estimate_")


def test_what_is_kept_is_small_and_survives_a_pickle():
    X, y = make_data(2, n=200)
    search = quick(svc(), C_GAMMA).fit(X, y)
    again = pickle.loads(pickle.dumps(search))
    assert again.score_estimate_ == search.score_estimate_
    assert search._read_outputs().n_points == 1  # the others have served


def test_the_same_data_give_the_same_estimate():
    X, y = make_data(3, n=80)
    first, second = (quick(svc(), C_GAMMA).fit(X, y).score_estimate_ for _ in range(2))
    assert first == second


def test_the_comparison_is_with_the_estimator_as_it_was_given_on_the_same_folds():
    X, y = make_data(2, n=120)
    poor = svc(gamma=30.0)
    search = quick(poor, C_GAMMA).fit(X, y)
    comparison = search.compare_default(X, y)
    predicted = cross_val_predict(clone(poor), X, y, cv=3)
    assert comparison.default == pytest.approx(np.mean(predicted == y))
    expected = search.score_estimate_
    tuned = expected.best_score - expected.optimism  # trained on as many rows as the default
    assert comparison.difference == pytest.approx(tuned - comparison.default)
    assert 0 < comparison.std_error < 0.1
    assert "more than the" in str(comparison)


def test_a_comparison_needs_the_same_folds():
    X, y = make_data(2)
    search = quick(svc(), C_GAMMA, cv=KFold(3, shuffle=True)).fit(X, y)
    with pytest.raises(ValueError, match="other folds"):
        search.compare_default(X, y)


def test_many_rows_are_drawn_in_parts():
    X, y = imbalanced(n=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GradientSearchCV(LinearSVC(), {"C": [0.01, 1.0]}, cv=3).fit(X, y)
    drawn = draws(search._read_outputs(), 0)
    assert drawn.shape == (RESAMPLES, 2)
    p = search.best_score_
    assert drawn.std(axis=0)[0] == pytest.approx(np.sqrt(p * (1 - p) / 3000), rel=0.15)


def test_a_search_whose_score_fails_can_be_pickled_and_says_why_there_is_no_estimate():
    X, y = make_data(2)
    y = np.array(["no", "perhaps"])[y]  # this score wants labels 0 and 1
    search = GradientSearchCV(LinearSVC(), scoring="average_precision", cv=3, max_evals=3)
    again = pickle.loads(pickle.dumps(search.fit(X, y)))
    with pytest.raises(AttributeError, match=r"score_estimate_.*pos_label"):
        again.score_estimate_  # noqa: B018


def test_a_fold_whose_rows_have_no_weight_can_be_pickled():
    X, y = make_data(0, n=24)
    weight = np.ones(24)
    weight[:6] = 0.0  # the first of four folds
    search = GradientSearchCV(SVR(), cv=KFold(4), max_evals=3).fit(X, y, sample_weight=weight)
    assert pickle.loads(pickle.dumps(search)).best_params_ == search.best_params_


def test_a_tuned_model_that_predicts_as_the_given_one_is_no_worse():
    rng = np.random.RandomState(0)
    X = rng.randn(100, 3)
    y = X[:, 0] + 1.5 * rng.randn(100) > 0
    search = GradientSearchCV(RidgeClassifier(), cv=KFold(5)).fit(X, y)
    assert search.score_estimate_.optimism > 0
    search = GradientSearchCV(RidgeClassifier(**search.best_params_), cv=KFold(5)).fit(X, y)
    compared = search.compare_default(X, y)
    assert (compared.difference, compared.std_error) == (0, 0)
    assert "tells them apart" in str(compared)
    # where rows tell them apart, choosing has added no more than these differ by chance
    given = RidgeClassifier(alpha=200.0)
    search = GradientSearchCV(given, cv=KFold(5)).fit(X, y)
    compared = search.compare_default(X, y)
    assert compared.std_error > 0
    assert search.best_score_ - compared.score <= compared.std_error + 1e-12
