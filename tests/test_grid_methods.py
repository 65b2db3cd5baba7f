"""What a search can be asked for, before and after its fit: scikit-learn's tests, held to ours."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_blobs, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.utils import get_tags

from hypermargin import GradientSearchCV

restates = pytest.mark.restates
FOUR = np.array([[-1, -1], [-2, -1], [1, 1], [2, 1]]), np.array([1, 1, 2, 2])


class Scoreless(LinearSVC):
    """A LinearSVC that has no score."""

    @property
    def score(self):
        raise AttributeError


@pytest.fixture(scope="module")
def noisy():
    return make_classification(n_samples=100, flip_y=0.2, random_state=0)


@restates("test_grid_search_no_score")
def test_an_estimator_without_a_score_needs_scoring():
    X, y = make_blobs(random_state=0, centers=2)
    grid = {"C": [0.1, 1, 10]}
    plain = GradientSearchCV(LinearSVC(random_state=0), grid, scoring="accuracy").fit(X, y)
    scoreless = GradientSearchCV(Scoreless(random_state=0), grid, scoring="accuracy").fit(X, y)
    assert scoreless.best_params_ == plain.best_params_
    assert scoreless.score(X, y) == plain.score(X, y)
    with pytest.raises(TypeError, match="no scoring"):
        GradientSearchCV(Scoreless(), grid).fit([[1]], [1])


@restates("test_grid_search_score_method")
def test_score_is_that_of_the_scorer(noisy):
    def scored(estimator, scoring):
        return GradientSearchCV(estimator, {"C": [0.1]}, scoring=scoring).fit(*noisy).score(*noisy)

    accuracy, area = scored(LinearSVC(), "accuracy"), scored(LinearSVC(), "roc_auc")
    assert scored(LinearSVC(), None) == pytest.approx(accuracy)
    assert scored(Scoreless(), "roc_auc") == pytest.approx(area, abs=1e-3)
    assert len({accuracy, area, 1.0}) == 3


@restates("test_classes__property")
def test_classes_are_those_of_the_refitted_classifier():
    X, y = np.arange(100).reshape(10, 10), np.array([0] * 5 + [1] * 5)
    search = GradientSearchCV(LinearSVC(), {"C": [0.1, 1, 10]})
    assert not hasattr(search, "classes_")
    search.fit(X, y)
    np.testing.assert_array_equal(search.classes_, search.best_estimator_.classes_)
    assert not hasattr(GradientSearchCV(Ridge(), {"alpha": [1.0, 2.0]}).fit(X, y), "classes_")
    unfitted = GradientSearchCV(LinearSVC(), {"C": [0.1]}, refit=False).fit(X, y)
    assert not hasattr(unfitted, "classes_")


@restates("test_no_refit")
@pytest.mark.parametrize("scoring", [None, ["accuracy", "precision"]])
def test_a_search_without_a_refit_selects_and_does_not_predict(scoring):
    search = GradientSearchCV(SVC(), {"C": [1, 2, 3]}, refit=False, cv=2, scoring=scoring)
    search.fit(*FOUR)
    assert not hasattr(search, "best_estimator_")
    assert hasattr(search, "best_index_") == hasattr(search, "best_params_") == (scoring is None)
    for name in (
        "predict", "predict_proba", "predict_log_proba", "transform", "inverse_transform",
    ):  # fmt: skip
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            getattr(search, name)(FOUR[0])
        assert isinstance(caught.value.__cause__, AttributeError)
        assert f"`refit=False`. {name} is available only after" in str(caught.value.__cause__)


@restates("test_no_refit")
@pytest.mark.parametrize("refit", [True, "recall", "accuracy"])
def test_several_scores_need_the_name_of_one_of_them(refit):
    scoring = {"acc": "accuracy", "prec": "precision"}
    with pytest.raises(ValueError, match="the parameter refit must be set to a scorer key"):
        GradientSearchCV(SVC(), {}, refit=refit, scoring=scoring).fit(*FOUR)


@restates("test_refit")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_nothing_that_was_fitted_is_fitted_again():
    class Once(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            assert not hasattr(self, "mean_")
            return super().fit(X, y, sample_weight)

    X, y = np.arange(100).reshape(10, 10), np.array([0] * 5 + [1] * 5)
    pipeline = Pipeline([("once", Once()), ("machine", SVC())])
    grid = [{"machine__C": [0.5, 1.0], "once__with_std": [True, False]}]
    GradientSearchCV(pipeline, grid, scoring="precision", error_score="raise").fit(X, y)
    assert not hasattr(pipeline["once"], "mean_")


@restates("test_search_cv_score_samples_error")
def test_a_method_that_the_estimator_does_not_have(noisy):
    search = GradientSearchCV(SVC(), {"C": [1.0]}).fit(*noisy)
    with pytest.raises(AttributeError, match="'GradientSearchCV' has no attribute") as caught:
        search.score_samples(noisy[0])
    assert str(caught.value.__cause__) == "'SVC' object has no attribute 'score_samples'"


@restates("test_unsupported_sample_weight_scorer")
def test_a_scorer_that_takes_no_weights_is_named(noisy):
    def fake(y_true, y_pred):
        return 0.5

    X, y = noisy
    search = GradientSearchCV(LogisticRegression(), {"C": [1, 10]})
    for scoring in (fake, make_scorer(fake)):
        search.set_params(scoring=scoring)
        with pytest.warns(UserWarning, match="does not support sample_weight"):
            search.fit(X, y, sample_weight=np.ones_like(y))
    search.set_params(scoring={"fake": make_scorer(fake), "accuracy": "accuracy"}, refit=False)
    with pytest.warns(UserWarning, match=r"The scoring fake=.* does not support sample_weight"):
        search.fit(X, y, sample_weight=np.ones_like(y))


@restates("test_pickle")
def test_a_fitted_search_survives_pickling(noisy):
    search = GradientSearchCV(SVC(), cv=2).fit(*noisy)
    again = pickle.loads(pickle.dumps(search))
    for method in ("predict", "predict_proba", "decision_function"):
        there, here = getattr(again, method)(noisy[0]), getattr(search, method)(noisy[0])
        np.testing.assert_array_equal(there, here)
    assert again.best_params_ == search.best_params_


@restates("test_n_features_in")
def test_the_number_of_features_is_known_after_the_fit(noisy):
    search = GradientSearchCV(SVC(), {"C": [3, 4]})
    assert not hasattr(search, "n_features_in_")
    assert search.fit(*noisy).n_features_in_ == noisy[0].shape[1]


@restates(
    "test_search_cv_pairwise_property_delegated_to_base_estimator",
    "test_search_cv__pairwise_property_delegated_to_base_estimator",
)
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_a_search_says_whether_it_takes_a_matrix_of_pairs(kernel):
    for estimator in (SVC(kernel=kernel), SVR(kernel=kernel)):
        tags = get_tags(GradientSearchCV(estimator, {"C": [10]}))
        assert tags.input_tags.pairwise == (kernel == "precomputed")


@restates("test_search_cv_pairwise_property_equivalence_of_precomputed")
def test_a_kernel_and_its_matrix_give_the_same_predictions(noisy):
    X, y = noisy
    K = rbf_kernel(X, gamma=0.05)
    plain = GradientSearchCV(SVC(gamma=0.05), {"C": [10.0]}, cv=2).fit(X, y)
    given = GradientSearchCV(SVC(kernel="precomputed"), {"C": [10.0]}, cv=2).fit(K, y)
    assert given.best_score_ == plain.best_score_
    np.testing.assert_array_equal(given.predict(K), plain.predict(X))


@restates("test_search_html_repr")
def test_the_diagram_shows_the_best_estimator_after_a_refit(noisy):
    pipeline = Pipeline([("scale", StandardScaler()), ("clf", DummyClassifier())])
    grid = {"clf": [SVC(), LogisticRegression()]}
    search = GradientSearchCV(pipeline, param_grid=grid, refit=False)
    with config_context(display="diagram"):
        assert "<div>DummyClassifier</div>" in search._repr_html_()
        assert "<div>DummyClassifier</div>" in search.fit(*noisy)._repr_html_()
        shown = search.set_params(refit=True).fit(*noisy)._repr_html_()
    assert "<div>DummyClassifier</div>" not in shown
    assert f"<div>{type(search.best_params_['clf']).__name__}</div>" in shown


@restates("test_score_rejects_params_with_no_routing_enabled")
def test_score_takes_no_metadata_without_routing(noisy):
    search = GradientSearchCV(LinearSVC(), {"C": [1]}, cv=2).fit(*noisy)
    with pytest.raises(ValueError, match="is only supported if"):
        search.score(*noisy, metadata=1)


@restates("test_grid_search_groups")
def test_groups_reach_the_splitter():
    X, y = make_classification(n_samples=15, random_state=0)
    groups = np.arange(15) % 3
    search = GradientSearchCV(LinearSVC(), {"C": [1]}, cv=LeaveOneGroupOut())
    with pytest.raises(ValueError, match=r"The 'groups' parameter should not be None\."):
        search.fit(X, y)
    assert search.fit(X, y, groups=groups).n_splits_ == 3
    GradientSearchCV(LinearSVC(), {"C": [1]}, cv=3).fit(X, y, groups=groups)


@restates("test_search_cv_verbose_3")
@pytest.mark.parametrize("train", [False, True])
def test_scores_of_folds_are_printed(noisy, capsys, train):
    GradientSearchCV(
        LinearSVC(), {"C": [0.1]}, scoring="accuracy", verbose=3, cv=3, return_train_score=train
    ).fit(*noisy)
    wanted = "score=(train=" if train else "score=0."
    assert capsys.readouterr().out.count(wanted) == 3
