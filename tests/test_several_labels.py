"""RidgeClassifier with several labels that a row has or has not."""

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hypermargin import GradientSearchCV, value_and_grad


@pytest.fixture(scope="module")
def labelled():
    return make_multilabel_classification(n_samples=120, n_classes=4, random_state=1)


@pytest.mark.parametrize("scoring", [None, "f1_macro", "jaccard_samples"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_listed_values_are_scored_as_in_grid_search(labelled, scoring, class_weight):
    X, y = labelled
    estimator, grid = RidgeClassifier(class_weight=class_weight), {"alpha": [0.1, 10.0, 1000.0]}
    ours = GradientSearchCV(estimator, grid, scoring=scoring).fit(X, y)
    theirs = GridSearchCV(estimator, grid, scoring=scoring).fit(X, y)
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert not hasattr(ours, "predict_proba")


@pytest.mark.filterwarnings("ignore:scoring=.* has no smooth form")
@pytest.mark.parametrize("method", ["gradient", "curve"])
def test_a_range_is_searched(labelled, method):
    X, y = labelled
    pipeline = make_pipeline(StandardScaler(), RidgeClassifier())
    name = "ridgeclassifier__alpha"
    ours = GradientSearchCV(pipeline, {name: (1e-2, 1e4)}, method=method, scoring="f1_micro")
    ours.fit(X, y)
    grid = GridSearchCV(pipeline, {name: np.logspace(-2, 4, 13)}, scoring="f1_micro").fit(X, y)
    assert ours.best_score_ >= grid.best_score_ - 0.01


def test_the_gradient_is_that_of_differences(labelled):
    X, y = labelled

    def value(alpha):
        return value_and_grad(
            RidgeClassifier(), X, y, {"alpha": alpha}, criterion="neg_mean_squared_error", tol=1e-8
        )

    derivative = value(20.0)[1]["alpha"]
    step = 0.02
    difference = (value(20.0 + step)[0] - value(20.0 - step)[0]) / (2 * step)
    assert derivative == pytest.approx(difference, rel=1e-4)


def test_a_threshold_is_for_two_classes(labelled):
    with pytest.raises(ValueError, match="threshold is for two classes; y has several labels"):
        GradientSearchCV(RidgeClassifier(), {"alpha": None, "threshold": None}).fit(*labelled)
