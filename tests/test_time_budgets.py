"""Time budgets: what a search returns when its time is up, and that training heeds the clock."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, KernelSVC, LinearClassifier
from hypermargin.methods import Method

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

NO_TIME = 1e-9
MODELS = [
    (SVC(), 2, {}),
    (SVC(), 4, {}),
    (SVR(), 0, {}),
    (KernelRidge(kernel="rbf"), 0, {}),
    (KernelSVC(loss="logistic"), 2, {}),
    (LinearSVC(), 3, {}),
    (LinearSVC(), 2, {"method": "gradient"}),
    (LinearSVC(), 2, {"method": "path"}),
    (LinearSVR(), 0, {}),
    (Ridge(), 0, {}),
    (RidgeClassifier(), 4, {}),
    (LogisticRegression(), 2, {}),
    (LogisticRegression(), 3, {}),
    (LinearClassifier(), 3, {}),
]


@pytest.mark.parametrize(("model", "n_classes", "options"), MODELS)
def test_without_time_the_score_is_that_of_a_model(model, n_classes, options):
    X, y = make_data(n_classes, n=150)
    search = GradientSearchCV(model, cv=3, time_budget=NO_TIME, **options)
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        search.fit(X, y)
    there = {name: [value] for name, value in search.best_params_.items()}
    theirs = GridSearchCV(model, there, cv=3).fit(X, y).best_score_
    assert search.best_score_ == pytest.approx(theirs, abs=0.01)


def test_without_time_a_score_on_some_rows_is_said_to_be_one():
    X, y = make_data(2, n=1200)
    search = GradientSearchCV(SVC(), cv=3, time_budget=NO_TIME)
    with pytest.warns(ConvergenceWarning, match="250 of the 1200 rows"):
        search.fit(X, y)
    assert search.cv_results_["n_samples"].tolist() == [250]
    assert search.best_score_ > np.bincount(y).max() / len(y) + 0.05


class OneEach(Method):
    """Evaluates a point of the first combination; the time is up in the evaluation of another."""

    def search(self, objective):
        if not objective.prepared.problem.kernel.hyperparameters:  # the linear kernel
            objective.budget.stop()
        objective(objective.space.bounds.mean(axis=1))


def test_time_that_ends_in_the_first_evaluation_of_a_combination_leaves_the_others():
    X, y = make_data(2, n=80)
    space = {"kernel": ["rbf", "linear"], "C": (0.1, 10.0)}
    search = GradientSearchCV(SVC(), space, method=OneEach(), cv=3)
    with pytest.warns(ConvergenceWarning, match="best point so far"):
        search.fit(X, y)
    assert search.best_params_["kernel"] == "rbf"
