"""What widths are learned from, and what follows from what they gain."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from test_widths import ASKS, EACH, two_of_six

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.methods import asking
from hypermargin.search.log import Log

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def lessons_of(monkeypatch, X, y, cv, groups=None, model=None, space=ASKS):
    """Return the numbers of parts and the rows of every lesson, and the parts."""
    found, parts = {}, []
    lesson, begin = asking.Lessons.lesson, asking.Lessons.__init__

    def note_parts(self, objective, one, held, n_widths):
        parts[:] = held
        begin(self, objective, one, held, n_widths)

    def note_rows(self, key):
        found[key] = self.held[key].train
        return lesson(self, key)

    monkeypatch.setattr(asking.Lessons, "__init__", note_parts)
    monkeypatch.setattr(asking.Lessons, "lesson", note_rows)
    search = GradientSearchCV(model or KernelSVC(), space, cv=cv, max_evals=5, random_state=0)
    search.fit(X, y, groups=groups)
    return sorted(found.items()), parts


@pytest.mark.parametrize("cv", [StratifiedKFold(5), GroupKFold(5), KFold(4)], ids=str)
def test_a_lesson_has_met_no_row_that_it_is_asked_about(monkeypatch, cv):
    X, y = two_of_six(150)
    groups = np.random.default_rng(0).integers(0, 15, len(y))
    lessons, parts = lessons_of(monkeypatch, X, y, cv, groups)
    n_parts = len(parts)
    assert len(lessons) == n_parts * (n_parts - 1) // 2  # a lesson serves two parts
    for (number, other), rows in lessons:
        held = np.union1d(parts[number].test, parts[other].test)
        assert not np.intersect1d(rows, held).size
        assert len(rows) == len(y) - len(held)


def test_behind_transformers_a_lesson_serves_one_part(monkeypatch):
    """What another part's transformers have met is nothing that it may learn from."""
    X, y = two_of_six(100)
    space = {f"kernelsvc__{name}": spec for name, spec in ASKS.items()}
    model = make_pipeline(StandardScaler(), KernelSVC())
    lessons, parts = lessons_of(monkeypatch, X, y, StratifiedKFold(4), model=model, space=space)
    assert len(parts) == 4 and len(lessons) == 12
    for (number, other), rows in lessons:
        assert not np.intersect1d(rows, parts[number].test).size
        assert not np.intersect1d(rows, parts[other].test).size


def test_of_few_parts_each_learns_from_all_that_it_does_not_hold_out(monkeypatch):
    X, y = two_of_six(90)
    lessons, _ = lessons_of(monkeypatch, X, y, StratifiedKFold(3))
    assert [pair for pair, _ in lessons] == [(0, 0), (1, 1), (2, 2)]
    assert all(len(rows) == 60 for _, rows in lessons)


@pytest.mark.parametrize(
    ("gain", "asked", "kept", "clearly"),
    [(-0.1, True, False, False), (0.1, True, True, False), (0.3, True, True, True),
     (-0.1, False, True, True), (np.nan, True, False, False)],
)  # fmt: skip
def test_more_is_made_of_widths_that_gain_a_standard_error(gain, asked, kept, clearly):
    part = SimpleNamespace(held=SimpleNamespace(test=np.arange(10)))
    answer = asking.Answer(
        asked,
        np.arange(3),
        3,
        1,
        proxies=[part],
        each=asking.Tried(gains=[gain], errors=[0.2]),
        over_chance=[(1.0, 0.1)],
    )
    assert (answer.kept, answer.clearly) == (kept, clearly)


@pytest.mark.parametrize(
    ("each", "some", "told"),
    [(0.15, 0.1, "a width for each feature is kept"), (-0.1, 0.1, "some of the features is kept"),
     (0.25, 0.3, "some of the features is kept"), (-0.1, -0.1, "one for all features is kept")],
)  # fmt: skip
def test_one_width_for_some_features_is_for_when_that_gains_more(each, some, told):
    part = SimpleNamespace(held=SimpleNamespace(test=np.arange(10)))
    answer = asking.Answer(
        True,
        np.arange(3),
        3,
        1,
        proxies=[part],
        each=asking.Tried(gains=[each], errors=[0.2]),
        some=asking.Tried(gains=[some], errors=[0.2]),
        over_chance=[(1.0, 0.1)],
    )
    assert told in answer.why
    assert not answer.clearly


def test_features_that_matter_more_are_the_upper_of_two_groups():
    shares = np.array([0.3, 0.01, 0.2, 0.012, 0.25, 0.0, 0.011])
    np.testing.assert_array_equal(asking.upper(asking.logs(shares)), shares > 0.1)


@pytest.mark.parametrize("space", [ASKS, EACH])
def test_scores_in_folds_do_not_undo_the_answer(space):
    X, y = two_of_six(200)
    search = GradientSearchCV(KernelSVC(), space, cv=4, random_state=0).fit(X, y)
    assert search.widths_["kept"]
    assert all(np.ptp(params["gamma"]) > 0 for params in search.cv_results_["params"])
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert any(np.ptp(point["params"]["gamma"]) == 0 for point in search.history_)


def test_a_combination_that_ends_before_its_widths_keeps_what_it_has():
    def record(combination, theta):
        return SimpleNamespace(combination=combination, theta=np.array([theta]), succeeded=True)

    old = SimpleNamespace(objective=SimpleNamespace(outdated={np.array([1.0]).tobytes()}))
    runs, records = [old, old], [record(0, 1.0), record(0, 2.0), record(1, 1.0)]
    log = Log.__new__(Log)
    log.runs = runs
    assert log._current(records) == records[1:]


@pytest.fixture(scope="module")
def many_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4200, 4))
    return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0


@pytest.mark.parametrize("time_budget", [None, 1000.0])
def test_one_width_meets_many_rows_before_the_question_only_if_time_is_limited(
    many_rows, time_budget
):
    X, y = many_rows
    space = {"C": None, "gamma": "per_feature"}
    how = {"cv": 3, "random_state": 0, "time_budget": time_budget}
    search = GradientSearchCV(KernelSVC(), space, **how).fit(X, y)
    assert search.widths_["kept"]
    assert search.forecast_["n_samples"] < len(X)
    on_all = [row["params"]["gamma"] for row in search.history_ if row["n_samples"] == len(X)]
    alike = [np.ptp(np.log(widths)) < 1e-9 for widths in on_all]
    assert any(alike) == (time_budget is not None)
    assert not alike[-1]


def test_a_loss_of_zero_on_many_rows_ends_the_search(many_rows):
    X, y = many_rows
    apart = X + 40.0 * y[:, None]
    search = GradientSearchCV(SVC(), cv=3, max_evals=2, scoring="roc_auc", random_state=0)
    assert search.fit(apart, y).best_score_ == 1.0
