"""Pictures of a search show what it has found."""

import re
import warnings

import matplotlib
import numpy as np
import pytest
from helpers import C_GAMMA, imbalanced, make_data, quick, svc, svr
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC, plot
from hypermargin.kernels import RBF, Linear

matplotlib.use("Agg")
import matplotlib.pyplot as plt

pytestmark = pytest.mark.filterwarnings("ignore")
ONE_SEARCH = [plot.PathDisplay, plot.ConvergenceDisplay, plot.HyperparameterDisplay,
              plot.ThresholdDisplay, plot.CalibrationDisplay, plot.TimeDisplay]  # fmt: skip


@pytest.fixture(scope="module")
def search():
    return GradientSearchCV(SVC(), cv=3, max_evals=8, random_state=0).fit(*make_data(2, n=120))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("display", ONE_SEARCH)
def test_a_display_draws_on_given_axes_or_its_own(display, search):
    shown = display.from_estimator(search)
    assert shown.ax_.figure is shown.figure_
    assert shown.ax_.get_xlabel()
    ax = plt.figure().add_subplot()
    assert shown.plot(ax=ax).ax_ is ax
    assert display.from_estimator(search, ax=ax).figure_ is ax.figure
    shown.figure_.canvas.draw()


@pytest.mark.parametrize("display", [*ONE_SEARCH, plot.RelevanceDisplay])
def test_what_is_not_fitted_is_not_drawn(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(quick(svc()))


@pytest.mark.parametrize(
    "draw, why",
    [
        (lambda s: plot.PathDisplay.from_estimator(s, "C", "C"), "x='C' and y='C' are the same"),
        (lambda s: plot.PathDisplay.from_estimator(s, data=np.ones(3)), "a tuple of X and y"),
        (
            lambda s: plot.PathDisplay.from_estimator(s, data=(np.ones((3, 4)), [0, 1, 1])),
            "has 3 rows",
        ),
        (lambda s: plot.ThresholdDisplay.from_estimator(s, costs=5), "costs=5 must be two numbers"),
        (lambda s: plot.SearchesDisplay.from_estimators(s), "must be a dict of fitted searches"),
    ],
)
def test_what_cannot_be_drawn_is_told_in_a_sentence(search, draw, why):
    with pytest.raises((ValueError, TypeError), match=re.escape(why)) as told:
        draw(search)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("display", [*ONE_SEARCH, plot.RelevanceDisplay])
def test_searches_of_others_are_not_drawn(display):
    X, y = make_data(2, n=40)
    grid = GridSearchCV(SVC(), {"C": [1.0]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="give a fitted GradientSearchCV"):
        display.from_estimator(grid)


def test_a_report_needs_a_best_point(tmp_path):
    X, y = make_data(2, n=40)
    both = {"scoring": ["accuracy", "f1"], "refit": False, "max_evals": 2}
    with pytest.raises(ValueError, match="without refit has no best point"):
        quick(svc(), C_GAMMA, **both).fit(X, y).report(tmp_path / "r.html")


def test_the_path_goes_through_all_visited_points_to_the_best(search):
    shown = plot.PathDisplay.from_estimator(search, "gamma", "C")
    assert shown.names == ("gamma", "C")
    assert len(shown.points) == len(search.history_)
    assert shown.best.tolist() == [search.best_params_["gamma"], search.best_params_["C"]]
    assert (shown.ax_.get_xscale(), shown.ax_.get_yscale()) == ("log", "log")
    assert f"interpolated from {len(search.history_)} visited" in shown.about


def test_contours_can_be_evaluated(search):
    shown = plot.PathDisplay.from_estimator(search, data=make_data(2, n=120))
    C, gamma, loss = shown.grid
    assert loss.shape == (len(gamma), len(C)) == (12, 12)
    assert "evaluated" in shown.about
    # as low as the search has found it, about, near the best point
    near = (
        np.abs(np.log(C / shown.best[0])).argmin(),
        np.abs(np.log(gamma / shown.best[1])).argmin(),
    )
    best = search.cv_results_["objective"][search.best_index_]
    assert loss[near[1], near[0]] == pytest.approx(best, rel=0.2)


def test_a_path_of_one_hyperparameter_is_refused_in_a_sentence():
    one = quick(svc(), {"C": (0.1, 10)}).fit(*make_data(2))
    with pytest.raises(ValueError, match="two hyperparameters"):
        plot.PathDisplay.from_estimator(one)
    with pytest.raises(ValueError, match="'nu' is no number that this search has varied"):
        plot.HyperparameterDisplay.from_estimator(one, "nu")
    plot.HyperparameterDisplay.from_estimator(one, "C")


def test_listed_values_of_the_best_point_have_the_path_alone():
    found = quick(svc(), {"kernel": ["rbf", "sigmoid"], "C": None, "gamma": None}).fit(
        *make_data(2)
    )
    shown = plot.PathDisplay.from_estimator(found)
    best = found.best_params_["kernel"]
    assert len(shown.points) == sum(row["params"]["kernel"] == best for row in found.history_)


def test_a_linear_model_shows_its_whole_curve():
    linear = GradientSearchCV(LogisticRegression(), cv=3).fit(*make_data(2, n=120))
    shown = plot.HyperparameterDisplay.from_estimator(linear)
    assert shown.is_curve
    np.testing.assert_array_equal(shown.scores, linear.curve_["score"])


def test_convergence_ends_at_the_best_score(search):
    shown = plot.ConvergenceDisplay.from_estimator(search, x="seconds")
    assert shown.scores.max() == pytest.approx(search.best_score_)
    assert (np.diff(shown.steps) >= 0).all()
    with pytest.raises(ValueError, match="x='hours'"):
        plot.ConvergenceDisplay.from_estimator(search, x="hours")


def test_thresholds_tell_what_the_model_has():
    X, y = imbalanced()
    space = {"C": (0.1, 10), "threshold": (-1, 1)}
    search = quick(svc(), space, scoring="f1").fit(X, y)
    shown = plot.ThresholdDisplay.from_estimator(search)
    outputs = search._best_outputs
    for k in (0, 40, 150):
        said = outputs.decisions[:, 0] >= shown.thresholds[k]
        assert shown.curves["F1"][k] == pytest.approx(f1_score(outputs.y, said))
    assert shown.chosen == pytest.approx(search.best_params_["threshold"])
    costs = plot.ThresholdDisplay.from_estimator(search, costs=(1, 10)).curves["mean cost"]
    assert costs[-1] == pytest.approx(np.mean(y == 0))  # all are called
    with pytest.raises(ValueError, match="costs="):
        plot.ThresholdDisplay.from_estimator(search, costs=(1, -10))


def test_probabilities_of_three_classes_are_calibrated():
    search = quick(svc()).fit(*make_data(3, n=150))
    shown = plot.CalibrationDisplay.from_estimator(search)
    away = (shown.observed - shown.predicted) / shown.std_error
    assert np.abs(away).mean() < 2
    with pytest.raises(ValueError, match="two classes"):
        plot.ThresholdDisplay.from_estimator(search)


def test_a_regression_has_no_probabilities():
    search = quick(svr(), {"C": None, "gamma": None}).fit(*make_data(0))
    with pytest.raises(ValueError, match="classifier"):
        plot.CalibrationDisplay.from_estimator(search)
    plot.ConvergenceDisplay.from_estimator(search)


def test_kernels_show_relevance_and_weights():
    X, y = make_data(2, n=80)
    search = quick(KernelSVC(kernel=0.5 * RBF(columns=[0, 1]) + Linear())).fit(X, y)
    shown = plot.RelevanceDisplay.from_estimator(search)
    weights = search.best_params_["kernel__weights"]
    assert dict(zip(shown.labels, shown.weights)) == pytest.approx(weights)
    with pytest.raises(ValueError, match="no relevance_"):
        plot.RelevanceDisplay.from_estimator(quick(svc()).fit(X, y))


def test_searches_are_shown_side_by_side(search):
    other = quick(svc(), method="random").fit(*make_data(2, n=120))
    shown = plot.SearchesDisplay.from_estimators({"ours": search, "random": other})
    assert [text.get_text() for text in shown.ax_.get_legend().get_texts()] == ["ours", "random"]
    styles = {(line.get_linestyle(), line.get_marker()) for line in shown.ax_.get_lines()[::2]}
    assert len(styles) >= 2  # not by colour alone
    third = quick(svc(), scoring="f1").fit(*make_data(2))
    with pytest.raises(ValueError, match="different scores"):
        plot.SearchesDisplay.from_estimators({"a": search, "b": third})
    with pytest.raises(ValueError, match="empty"):
        plot.SearchesDisplay.from_estimators({})


def test_optuna_gets_the_trials_and_draws_them():
    space = {"kernel": ["rbf", "poly"], "C": (0.1, 10), "class_weight": {1: (0.5, 2)}}
    search = quick(svc(), space).fit(*make_data(2))
    study = search.to_optuna()
    assert len(study.trials) == len(search.cv_results_["params"])
    assert study.best_value == pytest.approx(search.best_score_)
    assert {"kernel", "C", "class_weight[1]"} <= set(study.best_params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from optuna.visualization.matplotlib import plot_optimization_history, plot_slice

        plot_optimization_history(study)
        plot_slice(study, params=["C"])


def test_failures_are_failures_in_optuna():
    search = quick(svc(), {"kernel": ["rbf", "rbfff"], "C": [1.0]}).fit(*make_data(2))
    states = [trial.state.name for trial in search.to_optuna().trials]
    assert sorted(states) == ["COMPLETE", "FAIL"]
