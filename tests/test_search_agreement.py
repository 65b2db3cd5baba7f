"""Scores are those of scikit-learn's own cross-validation at the same points."""

import numpy as np
import pytest
from helpers import C_GAMMA, RIDGE_SPACE, SVR_SPACE, quick, ridge, svc, svr
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_validate

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


COUNTING = {"accuracy": 1 / 26, "balanced_accuracy": 1 / 24}


@pytest.mark.parametrize(
    "estimator",
    [
        svc(),
        svc(class_weight="balanced"),
        svc(class_weight={1: 5}),
        svc(kernel="linear"),
        svc(kernel="poly", degree=2, coef0=1.0),
        svc(kernel="sigmoid"),
        svc(probability=True, random_state=0),
    ],
    ids=["rbf", "balanced", "dict", "linear", "poly", "sigmoid", "probability"],
)
@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_classification_scores_agree_with_cross_validate(
    binary, estimator, scoring, assert_same_scores
):
    X, y = binary
    # Below, every row would be a support vector on its bound: the bias is not determined then.
    space = {"C": (1.0, 1e2), "gamma": (1e-2, 1e-1)}
    if estimator.kernel == "linear":
        del space["gamma"]
    search = quick(estimator, space, scoring=scoring, max_evals=4).fit(X, y)
    rows = search.cv_results_["params"]
    runs = [
        cross_validate(clone(estimator).set_params(**row), X, y, cv=3, scoring=scoring)[
            "test_score"
        ]
        for row in rows
    ]
    theirs = {f"split{i}_test_score": np.array([run[i] for run in runs]) for i in range(3)}
    assert_same_scores(search.cv_results_, theirs, unit=COUNTING.get(scoring), atol=1e-2)


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_squared_error", "neg_mean_absolute_error"])
@pytest.mark.parametrize(
    "estimator, space",
    [
        (svr(), SVR_SPACE),
        (svr(kernel="linear"), {"C": (1e-2, 1e1), "epsilon": (1e-2, 1.0)}),
        (ridge(), RIDGE_SPACE),
        (ridge(kernel="poly", degree=2), RIDGE_SPACE | {"coef0": (0.1, 2.0)}),
        (ridge(kernel="linear"), {"alpha": (1e-3, 1e1)}),
    ],
    ids=["svr", "svr-linear", "ridge", "ridge-poly", "ridge-linear"],
)
def test_regression_scores_agree_with_cross_validate(
    regression, estimator, space, scoring, assert_same_scores
):
    X, y = regression
    search = quick(estimator, space, scoring=scoring, max_evals=4).fit(X, y)
    runs = [
        cross_validate(clone(estimator).set_params(**row), X, y, cv=3, scoring=scoring)[
            "test_score"
        ]
        for row in search.cv_results_["params"]
    ]
    theirs = {f"split{i}_test_score": np.array([run[i] for run in runs]) for i in range(3)}
    assert_same_scores(search.cv_results_, theirs)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_scores_of_several_classes_agree_with_grid_search(
    three_classes, shape, break_ties, grid_over_same_points, assert_same_scores
):
    if shape == "ovo" and break_ties:
        pytest.skip("scikit-learn does not allow it")
    X, y = three_classes
    estimator = svc(decision_function_shape=shape, break_ties=break_ties)
    search = quick(estimator, C_GAMMA).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=1 / 30)
    assert search.decision_function(X).shape == (90, 3)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
def test_hyperparameters_outside_the_space_keep_their_meaning(
    binary, gamma, grid_over_same_points, assert_same_scores
):
    X, y = binary[0] * [1, 1, 3, 10], binary[1]
    search = quick(svc(gamma=gamma), {"C": (1e-1, 1e2)}).fit(X, y)
    assert search.best_estimator_.gamma == gamma
    assert list(search.best_params_) == ["C"]
    grid = grid_over_same_points(search, X, y)
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=COUNTING["accuracy"])


def test_train_scores_agree_with_grid_search(case, grid_over_same_points, assert_same_scores):
    estimator, space, X, y = case
    search = quick(estimator, space, return_train_score=True).fit(X, y)
    grid = grid_over_same_points(search, X, y)
    assert any(key.startswith("split0_train") for key in grid.cv_results_)
    unit = 1 / 26 if is_classifier(estimator) else None
    assert_same_scores(search.cv_results_, grid.cv_results_, unit=unit)


def test_weights_of_classes_go_by_name(binary, grid_over_same_points, assert_same_scores):
    X, y = binary[0], np.array(["no", "yes"])[binary[1]]
    search = quick(svc(class_weight={"yes": 3.0}), {"C": (1.0, 1e2)}).fit(X, y)
    assert_same_scores(
        search.cv_results_, grid_over_same_points(search, X, y).cv_results_, unit=1 / 26
    )


def test_several_targets_of_the_ridge(regression, grid_over_same_points, assert_same_scores):
    X, y = regression
    y = np.c_[y, X[:, 0] - 2 * y]
    search = quick(ridge(), RIDGE_SPACE).fit(X, y)
    assert search.predict(X).shape == (70, 2)
    assert_same_scores(search.cv_results_, grid_over_same_points(search, X, y).cv_results_)


def test_search_finds_what_a_fine_grid_finds(case):
    """Thirty evaluations must do at least about as well as a grid of a hundred points."""
    estimator, space, X, y = case
    search = quick(estimator, space, max_evals=30).fit(X, y)
    grid = {
        name: np.geomspace(low, high, 7 if len(space) == 2 else 5)
        for name, (low, high) in space.items()
    }
    best = GridSearchCV(estimator, grid, cv=3).fit(X, y).best_score_
    slack = 2.01 / len(X) if is_classifier(estimator) else 0.02
    assert search.best_score_ >= best - slack
