"""Metadata routing through a search: scikit-learn's tests of metaestimators, held to ours."""

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_classification
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import accuracy_score, make_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metadata_routing import MetadataRouter

from hypermargin import GradientSearchCV

restates = pytest.mark.restates
X, Y = make_classification(n_samples=60, n_features=4, flip_y=0.2, random_state=42)
RNG = np.random.RandomState(0)
WEIGHT, EXTRA, GROUPS = RNG.rand(60), RNG.rand(60), np.arange(60) % 4
METADATA = {"sample_weight": WEIGHT, "metadata": EXTRA}


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Recorder(TransformerMixin, BaseEstimator):
    """A transformer that takes metadata, and notes them in a list that clones share."""

    seen: list = []

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y=None, sample_weight=None, metadata=None):
        given = {"sample_weight": sample_weight, "metadata": metadata}
        self.seen.append((len(X), {k: v for k, v in given.items() if v is not None}))
        return self

    def transform(self, X):
        return self.scale * X


class RecordingSVC(SVC):
    """A machine that notes the weights that it is fitted with."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        self.seen.append((len(X), sample_weight))
        return super().fit(X, y, sample_weight)


class Splitter(GroupKFold):
    """Folds of groups; notes what it is given."""

    def __init__(self):
        super().__init__(2)
        self.seen = []

    def split(self, X, y=None, groups=None, metadata=None):
        self.seen.append({"groups": groups, "metadata": metadata})
        yield from super().split(X, y, groups)

    def get_n_splits(self, X=None, y=None, groups=None, metadata=None):
        return 2


def pipeline():
    return Pipeline([("recorder", Recorder()), ("machine", SVC())])


def recording_scorer(seen):
    def score(y_true, y_pred, sample_weight=None, metadata=None):
        given = {"sample_weight": sample_weight, "metadata": metadata}
        seen.append((len(y_true), {k: v for k, v in given.items() if v is not None}))
        return accuracy_score(y_true, y_pred)

    return make_scorer(score)


@restates("test_default_request")
def test_nothing_is_requested_unasked():
    search = GradientSearchCV(SVC(), {"C": [0.1, 0.2]}, cv=KFold(2))
    assert isinstance(search.get_metadata_routing(), MetadataRouter)
    asked = search.get_metadata_routing().consumes("fit", ["sample_weight", "metadata", "groups"])
    assert not asked


@restates("test_error_on_missing_requests_for_sub_estimator")
@pytest.mark.parametrize("key", ["sample_weight", "metadata"])
def test_metadata_that_nobody_asked_for_are_an_error(key):
    for estimator, owner in ((pipeline(), "Recorder"), (SVC(), "SVC")):
        if owner == "SVC" and key == "metadata":
            continue  # an SVC knows of no such thing
        # scikit-learn 1.7 begins with the score of a pipeline
        asked = rf"\[{key}\] are passed .*({owner}\.fit|Pipeline\.score)"
        with pytest.raises(UnsetMetadataPassedError, match=asked):
            GradientSearchCV(estimator, {}).fit(X, Y, **{key: METADATA[key]})
    with pytest.raises(TypeError, match="unexpected argument"):
        GradientSearchCV(SVC(), {}).fit(X, Y, metadata=EXTRA)


@restates("test_setting_request_on_sub_estimator_removes_error")
@pytest.mark.parametrize("key", ["sample_weight", "metadata"])
def test_transformers_get_the_part_of_their_rows(key):
    model = pipeline()
    model["recorder"].set_fit_request(**{key: True})
    model["machine"].set_fit_request(sample_weight=False)
    scorer = make_scorer(accuracy_score).set_score_request(sample_weight=False)
    Recorder.seen.clear()
    search = GradientSearchCV(model, {"recorder__scale": [1.0, 2.0]}, cv=2, scoring=scorer)
    search.fit(X, Y, **{key: METADATA[key]})
    assert len(Recorder.seen) == 5  # two values, two folds, one refit
    for n_rows, given in Recorder.seen:
        assert given.keys() == {key}
        assert len(given[key]) == n_rows
        assert np.isin(given[key], METADATA[key]).all()


@pytest.mark.filterwarnings("ignore:RecordingSVC has its own fit")
@restates("test_setting_request_on_sub_estimator_removes_error")
def test_machines_get_the_weights_of_their_rows():
    scorer = make_scorer(accuracy_score).set_score_request(sample_weight=False)
    machine = RecordingSVC().set_fit_request(sample_weight=True)
    RecordingSVC.seen.clear()
    GradientSearchCV(machine, {"C": [0.1, 1.0]}, cv=2, scoring=scorer).fit(
        X, Y, sample_weight=WEIGHT
    )
    assert len(RecordingSVC.seen) == 5
    for n_rows, weight in RecordingSVC.seen:
        assert len(weight) == n_rows
        assert np.isin(weight, WEIGHT).all()
    plain = SVC().set_fit_request(sample_weight=True)
    ours = GradientSearchCV(plain, {"C": [0.1, 1.0]}, cv=2, scoring=scorer)
    theirs = GridSearchCV(plain, {"C": [0.1, 1.0]}, cv=2, scoring=scorer)
    for search in (ours, theirs):
        search.fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


@restates("test_non_consuming_estimator_works")
def test_routing_asks_nothing_of_those_who_want_nothing():
    search = GradientSearchCV(SVC(), {"C": [0.1, 0.2]}).fit(X, Y)
    assert np.isfinite(search.best_score_)


@restates("test_metadata_is_routed_correctly_to_scorer")
def test_scorers_get_the_part_of_their_rows():
    seen = []
    scorer = recording_scorer(seen).set_score_request(sample_weight=True)
    machine = SVC().set_fit_request(sample_weight=True)
    search = GradientSearchCV(machine, {"C": [0.1, 0.2]}, cv=2, scoring=scorer)
    search.fit(X, Y, sample_weight=WEIGHT)
    assert [n_rows for n_rows, _ in seen] == [30] * 4
    search.score(X, Y, sample_weight=WEIGHT)
    for n_rows, given in seen:
        assert given.keys() == {"sample_weight"}
        assert len(given["sample_weight"]) == n_rows
        assert np.isin(given["sample_weight"], WEIGHT).all()
    np.testing.assert_array_equal(seen[-1][1]["sample_weight"], WEIGHT)


@restates("test_multi_metric_search_forwards_metadata")
def test_each_of_several_scorers_gets_what_it_asked_for():
    seen = []
    scorer = recording_scorer(seen).set_score_request(sample_weight="weights", metadata="extra")
    search = GradientSearchCV(
        LinearSVC(), {"C": [1]}, cv=2, refit="accuracy",
        scoring={"own": scorer, "accuracy": "accuracy"},
    )  # fmt: skip
    search.fit(X, Y, weights=WEIGHT, extra=EXTRA)
    assert len(seen) == 2
    for n_rows, given in seen:
        assert given.keys() == {"sample_weight", "metadata"}
        assert len(given["sample_weight"]) == len(given["metadata"]) == n_rows
        assert np.isin(given["sample_weight"], WEIGHT).all()
        assert np.isin(given["metadata"], EXTRA).all()


@restates("test_metadata_is_routed_correctly_to_splitter")
def test_splitters_get_metadata_of_all_rows():
    cv = Splitter().set_split_request(groups=True, metadata=True)
    GradientSearchCV(SVC(), {"C": [0.1, 0.2]}, cv=cv).fit(X, Y, groups=GROUPS, metadata=EXTRA)
    assert len(cv.seen) == 1
    np.testing.assert_array_equal(cv.seen[0]["groups"], GROUPS)
    np.testing.assert_array_equal(cv.seen[0]["metadata"], EXTRA)


@restates("test_metadata_routed_to_group_splitter")
def test_groups_reach_the_folds_of_a_search_inside_of_folds():
    found = cross_validate(
        GradientSearchCV(SVC(), {"C": [0.1, 0.2]}, cv=GroupKFold(2)),
        X,
        Y,
        params={"groups": GROUPS},
        cv=GroupKFold(2),
        scoring=make_scorer(mean_squared_error, response_method="predict"),
        error_score="raise",
    )
    assert np.isfinite(found["test_score"]).all()
