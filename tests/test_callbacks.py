"""Callbacks of scikit-learn 1.9: what is called when, with what, and what an answer does."""

import re
from pathlib import Path

import numpy as np
import pytest
import sklearn
from helpers import C_GAMMA, quick, svc
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.fixes import parse_version

from hypermargin import GradientSearchCV
from hypermargin.methods import METHODS, Method, SgdDcd
from hypermargin.problems.exact.problem import CrossValidation

pytestmark = [
    pytest.mark.skipif(
        parse_version(sklearn.__version__) < parse_version("1.9"), reason="there are no callbacks"
    ),
    pytest.mark.filterwarnings("ignore"),
]
restates = pytest.mark.restates
LEAVES = "look", "evaluation"


class Recording:
    """Notes every call; `stop` is asked at the end of every task."""

    def __init__(self, stop=lambda search, context: False):
        self.calls, self.stop = [], stop

    def setup(self, estimator, context):
        self.calls.append(("setup", estimator, context, {}))

    def teardown(self, estimator, context):
        self.calls.append(("teardown", estimator, context, {}))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        given = {"X": X, "y": y, "metadata": metadata}
        self.calls.append(("begin", estimator, context, given))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        given = {"X": X, "y": y, "metadata": metadata}
        self.calls.append(("end", estimator, context, given))
        return self.stop(estimator, context)

    def names(self, hook="begin"):
        return [context.task_name for name, _, context, _ in self.calls if name == hook]


class PassedOn(Recording):
    max_propagation_depth = None


def counts(names):
    return {name: names.count(name) for name in dict.fromkeys(names)}


def path(context):
    return [] if context is None else [*path(context.parent), context.task_name]


@restates("test_search_callbacks_no_propagation")
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("rows", [80, 1000])
def test_every_task_has_its_hooks(binary, many_rows, refit, rows):
    callbacks = [Recording(), PassedOn()]
    search = quick(svc(), C_GAMMA, max_evals=4, refit=refit).set_callbacks(*callbacks)
    search.fit(*(binary if rows == 80 else many_rows))
    looks = sum(h["look"] for h in search.history_)
    for callback in callbacks:
        assert len(callback.names("setup")) == len(callback.names("teardown")) == 1
        found = counts(callback.names())
        assert counts(callback.names("end")) == found
        assert found["fit"] == found["search"] == found["combination"] == 1
        assert found.get("refit-with-best-params", 0) == refit
        assert found["look"] == looks
        settled = found.get("settle", 0)
        assert found["evaluation"] == len(search.history_) - looks + settled
        assert found["level"] == len({h["n_samples"] for h in search.history_}) + settled


def test_tasks_are_a_tree_whose_bounds_hold(many_rows):
    callback = Recording()
    space = {"kernel": ["rbf", "poly"], **C_GAMMA}
    quick(svc(), space, max_evals=3).set_callbacks(callback).fit(*many_rows)
    for name, _, context, _ in callback.calls:
        most, size = context.max_subtasks, len(context._children_map)
        assert most is None or size <= most
        if name == "begin" and context.task_name in LEAVES:
            kind = path(context)[-3]
            assert path(context)[:-3] == ["fit", "search"]
            assert kind in ("combination", "settle")
            assert path(context)[-2] == "level"
            assert most == 0
        if context.task_name in ("fit", "search", "combination"):
            assert most is not None
    assert counts(callback.names())["combination"] == 2


@pytest.mark.parametrize("name", [n for n in METHODS if n not in ("mpec", "penalty")])
def test_bounds_hold_for_every_method(binary, name):
    estimator = SVC() if name in ("gradient", "grid", "random") else LinearSVC(loss="hinge")
    space = {"C": (0.01, 10.0)}
    callback = Recording()
    method = SgdDcd(iterations=10) if name == "sgd-dcd" else name
    search = GradientSearchCV(estimator, space, method=method, max_evals=6, cv=3, random_state=0)
    search.set_callbacks(callback).fit(*binary)
    for _, _, context, _ in callback.calls:
        most = context.max_subtasks
        assert most is None or len(context._children_map) <= most


def test_a_method_may_look_as_often_as_it_likes(binary):
    class Looks(Method):
        def search(self, objective):
            level, middle = objective.on(None), objective.space.bounds.mean(axis=1)
            for _ in range(30):
                level.looks([middle, middle + 0.1])
            objective(middle)

    callback = Recording()
    quick(svc(), C_GAMMA, method=Looks(), max_evals=2).set_callbacks(callback).fit(*binary)
    assert counts(callback.names())["look"] == 60


@restates(
    "test_search_callbacks_receive_sample_weight", "test_search_callbacks_receive_search_instance"
)
def test_hooks_get_the_search_the_data_and_the_weights(binary):
    X, y = binary
    weight, callback = np.arange(len(y)) % 3, Recording()
    search = quick(svc(), C_GAMMA, max_evals=2).set_callbacks(callback)
    search.fit(X, y, sample_weight=weight)
    assert {id(estimator) for _, estimator, _, _ in callback.calls} == {id(search)}
    for name, _, _, given in callback.calls:
        if name in ("begin", "end"):
            assert_array_equal(given["X"], X)
            assert_array_equal(given["y"], y)
            assert_array_equal(given["metadata"]["sample_weight"], weight)


@pytest.mark.parametrize("after", ["look", "evaluation", "level", "combination"])
def test_true_stops_the_search_with_the_best_so_far(many_rows, after):
    whole = quick(svc(), {"kernel": ["rbf", "poly"], **C_GAMMA}, max_evals=2).fit(*many_rows)
    callback = Recording(lambda search, context: context.task_name == after)
    search = clone(whole).set_callbacks(callback).fit(*many_rows)
    assert len(search.history_) < len(whole.history_)
    known = [h["params"] for h in whole.history_]
    assert all(h["params"] in known for h in search.history_)
    assert search.predict(many_rows[0]).shape == many_rows[1].shape
    scored = [h["score"] for h in search.history_ if np.isfinite(h["score"])]
    assert search.best_score_ == max(scored)


@pytest.mark.filterwarnings("error:The search:sklearn.exceptions.ConvergenceWarning")
def test_who_stops_a_search_is_not_warned(binary):
    callback = Recording(lambda search, context: search.progress_["n_evaluations"] == 2)
    search = quick(svc(), C_GAMMA).set_callbacks(callback).fit(*binary)
    assert len(search.cv_results_["params"]) == 2


def test_callbacks_can_read_the_best_so_far(binary):
    seen = []

    def note(search, context):
        if context.task_name == "evaluation":
            seen.append(dict(search.progress_))

    search = quick(svc(), C_GAMMA, max_evals=5, scoring="roc_auc")
    search.set_callbacks(Recording(note)).fit(*binary)
    assert [one["n_evaluations"] for one in seen[:5]] == [1, 2, 3, 4, 5]
    scores = [one["best_score"] for one in seen]
    assert scores == sorted(scores)
    assert scores[-1] == search.best_score_ == search.progress_["best_score"]
    assert seen[-1]["best_params"] == search.best_params_
    assert seen[-1]["stage"].startswith("all 80 rows")


@restates("test_search_callbacks_propagation")
def test_callbacks_go_with_the_refit(binary):
    steps = make_pipeline(StandardScaler(), LogisticRegression())
    cases = {
        "passed on": (steps, {"logisticregression__C": (0.01, 100.0)}),
        "without a fit": (LogisticRegression(), {"C": (0.01, 100.0)}),
        "not supported": (SVC(), {"C": (0.01, 100.0)}),
    }
    inner = {}
    for name, (estimator, space) in cases.items():
        callback, here = PassedOn(), Recording()
        GradientSearchCV(estimator, space, cv=3).set_callbacks(callback, here).fit(*binary)
        own = [c for _, _, c, _ in callback.calls if c.task_name in here.names()]
        assert own
        inner[name] = [c for kind, _, c, _ in callback.calls if kind == "begin"]
        ends = [c for kind, _, c, _ in callback.calls if kind == "end"]
        assert len(ends) == len(inner[name])
        assert len(inner[name]) >= len(here.names())
    assert len({c.estimator_name for c in inner["passed on"]}) > 1
    assert {c.estimator_name for c in inner["without a fit"]} == {"GradientSearchCV"}
    refits = [c for c in inner["passed on"] if c.source_task_name == "refit-with-best-params"]
    assert [c.estimator_name for c in refits] == ["Pipeline"]


def test_a_search_inside_of_another_joins_its_tree(binary):
    callback = PassedOn()
    inner = quick(svc(), {"C": (0.1, 10.0)}, max_evals=2)
    GridSearchCV(inner, {"tol": [1e-2, 1e-3]}, cv=2).set_callbacks(callback).fit(*binary)
    assert len(callback.names("setup")) == 1
    assert callback.names().count("combination") == 5  # two points, two folds, and the refit


@restates("test_search_callbacks_with_partial_fit_failures")
def test_combinations_that_cannot_be_fitted_have_their_hooks(binary):
    callback = Recording()
    search = quick(svc(), {"C": [1.0, -1.0], "gamma": [0.1]}, refit=False, error_score=0.0)
    search.set_callbacks(callback).fit(*binary)
    assert counts(callback.names())["combination"] == 2
    assert counts(callback.names()) == counts(callback.names("end"))


def test_the_end_of_the_time_and_an_interrupt_end_all_tasks(many_rows, monkeypatch):
    callback = Recording()
    quick(svc(), C_GAMMA, time_budget=0.05).set_callbacks(callback).fit(*many_rows)
    assert counts(callback.names()) == counts(callback.names("end"))
    trained, count = CrossValidation.evaluate, 0

    def evaluate(self, *args, **how):
        nonlocal count
        count += 1
        if count == 30:
            raise KeyboardInterrupt
        return trained(self, *args, **how)

    monkeypatch.setattr(CrossValidation, "evaluate", evaluate)
    callback = Recording()
    quick(svc(), C_GAMMA).set_callbacks(callback).fit(*many_rows)
    assert counts(callback.names()) == counts(callback.names("end"))


def test_an_error_of_a_callback_is_the_users(binary):
    def fail(search, context):
        raise RuntimeError("of a callback")

    search = quick(svc(), C_GAMMA, n_jobs=2).set_callbacks(Recording(fail))
    with pytest.raises(RuntimeError, match="of a callback"):
        search.fit(*binary)


def test_the_progress_bar_of_scikit_learn(many_rows, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    search = quick(svc(), C_GAMMA, max_evals=3).set_callbacks(ProgressBar()).fit(*many_rows)
    said = capsys.readouterr().out
    assert "GradientSearchCV - search" in said
    assert "GradientSearchCV - level" in said
    assert search.best_score_ > 0.5


def test_the_scoring_monitor_of_scikit_learn(binary):
    from sklearn.callback import ScoringMonitor

    X, y = binary
    plain = quick(svc(), C_GAMMA, max_evals=6).fit(X, y)
    monitor = ScoringMonitor(scoring="accuracy")
    search = clone(plain).set_callbacks(monitor).fit(X, y)
    assert [h["objective"] for h in search.history_] == [h["objective"] for h in plain.history_]
    rows = monitor.get_logs().data
    evaluations = [row for row in rows if row["task_name"] == "evaluation"]
    assert len(evaluations) >= 6
    assert all(0.5 < row["accuracy"] <= 1.0 for row in rows)
    (root,) = [row for row in rows if row["task_name"] == "fit"]
    assert root["accuracy"] == search.score(X, y)


def test_models_are_fitted_for_those_who_ask_only(binary, monkeypatch):
    fits = []

    def so_far(self, log):
        fits.append(len(log.records))

    monkeypatch.setattr(GradientSearchCV, "_so_far", so_far)
    quick(svc(), C_GAMMA, max_evals=3).set_callbacks(Recording()).fit(*binary)
    assert not fits

    class Asks(Recording):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            assert fitted_estimator is None or context.task_name in (
                "fit",
                "refit-with-best-params",
            )

    quick(svc(), C_GAMMA, max_evals=3).set_callbacks(Asks()).fit(*binary)
    assert fits


def test_the_page_on_progress_runs(binary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = binary
    names = {"X": X, "y": y}
    page = Path(__file__).parent.parent / "docs" / "progress.md"
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(block, names)
    assert names["search"].best_score_ > 0.5
    assert (tmp_path / "search.jsonl").exists()


def test_a_model_of_the_search_so_far_can_be_used(binary):
    X, y = binary
    seen = []

    class Asks(Recording):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None and context.task_name == "evaluation":
                best = fitted_estimator.best_params_
                alone = SVC(**best).fit(X, y)
                assert_array_equal(fitted_estimator.predict(X), alone.predict(X))
                assert fitted_estimator.predict_proba(X).shape == (len(y), 2)
                seen.append(fitted_estimator.score(X, y))

    search = GradientSearchCV(SVC(), C_GAMMA, cv=StratifiedKFold(3), max_evals=4, random_state=0)
    search.set_callbacks(Asks()).fit(X, y)
    assert len(seen) >= 4
    assert search.score(X, y) == seen[-1]
