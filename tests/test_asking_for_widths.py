"""Whether a width for each feature pays, and what widths say of the features."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, LeaveOneOut, PredefinedSplit, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_widths import ASKS, EACH, two_of_six

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def fitted(X, y, space=ASKS, model=None, **options):
    options = {"cv": 3, "random_state": 0, **options}
    return GradientSearchCV(model or KernelSVC(), space, **options).fit(X, y)


@pytest.mark.parametrize("seed", [0, 1])
def test_of_pure_noise_one_width_is_kept(seed):
    rng = np.random.default_rng(seed)
    search = fitted(rng.normal(size=(100, 60)), rng.integers(0, 2, 100), cv=5)
    gamma = search.best_params_["gamma"]
    assert not search.widths_["kept"]
    np.testing.assert_array_equal(gamma, gamma[0])
    assert search.best_score_ < 0.75
    assert not search.relevance_["droppable"].any()
    assert "one for all features is kept" in search.widths_["why"]


@pytest.mark.parametrize("model", [KernelSVC(), KernelSVR()])
def test_asking_begins_with_the_search_of_one_width(model):
    """Widths that may be of no account have a wide range; one for all is not looked for there."""
    X, y = two_of_six(120, regression=isinstance(model, KernelSVR))
    looks = []
    for gamma in (None, "per_feature"):
        search = fitted(X, y, {"C": None, "gamma": gamma}, model)
        visits = [visit["params"] for visit in search.history_ if visit["gradient"] is None]
        looks.append([(params["C"], np.mean(params["gamma"])) for params in visits])
    np.testing.assert_allclose(*looks)


@pytest.mark.parametrize("model", [KernelSVC(), KernelSVR(loss="squared")])
def test_where_few_features_matter_widths_are_kept(model):
    X, y = two_of_six(300, regression=isinstance(model, KernelSVR))
    table = pd.DataFrame(X, columns=list("abcdef"))
    search = fitted(table, y, model=model)
    assert search.widths_["kept"] and search.widths_["asked"]
    assert search.widths_["gain"] > search.widths_["std_error"] > 0
    found = pd.DataFrame(search.relevance_).set_index("feature")
    assert set(found.relevance.nlargest(2).index) == {"b", "e"}
    assert found.relevance.sum() == pytest.approx(1.0)
    assert (found.std_error > 0).all()
    assert not found.droppable[["b", "e"]].any() and found.droppable.sum() >= 2


def test_the_question_can_be_skipped():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 8)), rng.integers(0, 2, 100)
    search = fitted(X, y, EACH)
    assert search.widths_["kept"] and not search.widths_["asked"]
    assert "as was asked" in search.widths_["why"]
    assert search.relevance_["relevance"].shape == (8,)


def test_relevance_has_no_unit():
    X, y = two_of_six(200)
    scale = np.array([1.0, 0.5, 1.0, 1.0, 2.0, 1.0])
    for search in (fitted(X, y, max_evals=20), fitted(X * scale, y, max_evals=20)):
        assert set(np.argsort(search.relevance_["relevance"])[-2:]) == {1, 4}


def test_of_groups_that_leak_nothing_is_learned():
    """Every group has a code of its own: widths for it would serve rows of that group only."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 8)
    label = rng.integers(0, 2, 30)[groups]
    X = np.column_stack([rng.normal(size=(30, 1))[groups], rng.normal(size=(240, 7))])
    search = GradientSearchCV(KernelSVC(), ASKS, cv=GroupKFold(5)).fit(X, label, groups=groups)
    assert "a width for each feature is kept" not in search.widths_["why"]


@pytest.mark.parametrize(
    "cv", [LeaveOneOut(), TimeSeriesSplit(4), PredefinedSplit(np.arange(60) % 2 - 1)], ids=str
)
def test_folds_of_all_kinds_can_be_asked(cv):
    X, y = two_of_six(60)
    search = fitted(X, y, cv=cv, max_evals=5)
    assert search.widths_["n_held"] >= 20
    assert np.isfinite(search.widths_["gain"]) and search.widths_["std_error"] > 0


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss"])
def test_the_question_is_asked_of_the_score_that_counts(scoring):
    X, y = two_of_six(200)
    assert fitted(X, y, scoring=scoring, max_evals=20).widths_["kept"]


def test_many_classes_weights_and_transformers():
    X, y = two_of_six(240, regression=True)
    y = np.digitize(y, [-0.7, 0.7])
    weight = np.random.default_rng(1).uniform(0.0, 2.0, len(y)).round()
    pipeline = make_pipeline(StandardScaler(), KernelSVC())
    space = {f"kernelsvc__{name}": spec for name, spec in ASKS.items()}
    search = GradientSearchCV(pipeline, space, cv=3, max_evals=20)
    search.fit(X, y, kernelsvc__sample_weight=weight)
    assert search.widths_["kept"]
    assert set(np.argsort(search.relevance_["relevance"])[-2:]) == {1, 4}


def test_a_criterion_of_the_user():
    def squares(outputs, y):
        off = outputs - np.where(y > 0, 1.0, -1.0)
        return float(np.mean(off**2)), 2 * off / len(y)

    assert fitted(*two_of_six(150), criterion=squares, max_evals=10).widths_["kept"]


def test_time_that_ends_early_leaves_one_width():
    X, y = two_of_six(400)
    search = fitted(X, y, time_budget=0.05)
    assert np.isfinite(search.best_score_)


def test_the_answer_is_printed(capsys):
    fitted(*two_of_six(100), verbose=1, max_evals=5)
    assert "[widths] with a width for each feature the variance of" in capsys.readouterr().out


def test_columns_of_noise_are_the_least_relevant_and_get_no_width():
    """All real features matter alike: a width for each gains nothing, one for them does."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 400)
    real = rng.normal(size=(400, 20)) + (2 * y[:, None] - 1) * 2 / np.sqrt(20)  # twonorm
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search = fitted(np.hstack([real, rng.normal(size=(400, 20))]), y, cv=5)
    assert not any("gamma" in str(each.message) for each in told)  # no bound of a range was met
    found = search.relevance_["relevance"]
    assert found[:20].min() > found[20:].max()
    assert search.widths_["why"].endswith("one width for some of the features is kept.")
    noise = np.arange(40) >= 20
    np.testing.assert_array_equal(search.relevance_["droppable"], noise)
    gamma = search.best_params_["gamma"]
    np.testing.assert_array_equal(gamma[~noise], gamma[0])
    assert gamma[noise].max() < 1e-3 * gamma[0]
