"""A metric that is learned from the gradients of a machine."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR, LearnedMetric
from hypermargin.kernels import GeneralisedGaussian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 6))
ALONG = np.array([1.0, 1.0, -1.0, 1.0, 0.0, 0.0])
Y = np.sin(X @ ALONG) + 0.1 * RNG.normal(size=240)
NEW = RNG.normal(size=(400, 6))
TRUTH = np.sin(NEW @ ALONG)


@parametrize_with_checks([LearnedMetric()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("y", [Y, Y > 0.3, np.digitize(Y, [-0.5, 0.5])])
def test_the_first_direction_is_that_in_which_targets_change(y):
    first = LearnedMetric().fit(X, y).components_[0]
    assert abs(first @ ALONG) > 0.95 * np.linalg.norm(first) * np.linalg.norm(ALONG)


def test_directions_do_not_depend_on_units_of_the_target_or_the_place_of_rows():
    metric = LearnedMetric().fit(X, Y)
    other = LearnedMetric().fit(X + 50.0, 1e4 * Y - 3e5)
    np.testing.assert_allclose(
        np.abs(metric.transform(NEW)), np.abs(other.transform(NEW)), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(
    "rows",
    [sparse.csr_matrix(X), X[:5], np.ones((40, 3))],
    ids=["sparse", "more features than rows", "constant"],
)
def test_rows_that_say_nothing_of_directions_are_left_as_they_are(rows):
    metric = LearnedMetric().fit(rows, Y[: rows.shape[0]])
    assert metric.components_ is None
    assert (metric.transform(rows) != rows).sum() == 0


def test_targets_that_do_not_change_leave_rows_as_they_are():
    assert LearnedMetric().fit(X, np.ones(240)).components_ is None


def test_machines_with_the_metric_are_those_behind_it():
    model = KernelSVR(C=3.0, gamma=0.2, metric="gradients").fit(X, Y)
    behind = make_pipeline(LearnedMetric("numbers"), KernelSVR(C=3.0, gamma=0.2)).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), behind.predict(NEW))


@pytest.mark.parametrize("whole", [KernelSVR(metric="gradients"), None])
def test_the_metric_is_learned_inside_folds(whole):
    # targets that are noise have directions, too, which must not be known to rows that are scored
    noise, rows = RNG.normal(size=60), RNG.normal(size=(60, 20))
    model = whole or make_pipeline(StandardScaler(), KernelSVR(metric="gradients"))
    search = GradientSearchCV(model, cv=3, scoring="r2").fit(rows, noise)
    assert search.best_score_ < 0.15


def test_a_search_scores_what_its_estimator_makes_of_the_folds():
    model = KernelSVC(metric="gradients")
    search = GradientSearchCV(model, cv=3).fit(X, Y > 0.3)
    again = GradientSearchCV(
        model.set_params(**search.best_params_), {"C": [search.best_params_["C"]]}, cv=3
    )
    assert again.fit(X, Y > 0.3).best_score_ == pytest.approx(search.best_score_, abs=0.01)
    fitted = clone(search.best_estimator_).fit(X, Y > 0.3)
    assert (fitted.predict(NEW) == search.predict(NEW)).mean() > 0.99


def test_auto_measures_distances_in_other_directions_where_that_pays():
    search = GradientSearchCV(KernelSVR(kernel="auto"), cv=3, random_state=0).fit(X, Y)
    assert search.best_params_["metric"] == "gradients"
    plain = GradientSearchCV(KernelSVR(kernel=GeneralisedGaussian()), cv=3).fit(X, Y)
    errors = [np.mean((s.predict(NEW) - TRUTH) ** 2) for s in (search, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_a_pipeline_of_scikit_learn_has_it_too():
    model = make_pipeline(LearnedMetric(), SVC())
    space = {"learnedmetric": [LearnedMetric(), "passthrough"], "svc__C": None, "svc__gamma": None}
    search = GradientSearchCV(model, space, cv=3).fit(X, Y > 0.3)
    assert isinstance(search.best_params_["learnedmetric"], LearnedMetric)


def test_a_matrix_of_similarities_has_no_features():
    with pytest.raises(ValueError, match="metric='gradients' and kernel='precomputed'"):
        KernelSVC(kernel="precomputed", metric="gradients").fit(X @ X.T, Y > 0)
