"""What a search will take on all rows, said before it begins there."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import SVC, LinearSVC

import hypermargin.methods.forecast as forecast
import hypermargin.methods.objective as objective
from hypermargin import GradientSearchCV

X, y = make_classification(900, 6, flip_y=0.1, random_state=0)


def search(model=None, **arguments):
    return GradientSearchCV(model or SVC(), cv=3, refit=False, random_state=0, **arguments)


def test_a_search_tells_what_it_expected():
    found = search().fit(X, y)
    assert set(found.forecast_) == {"seconds", "memory", "n_samples"}
    assert 0 < found.forecast_["n_samples"] < len(y)
    assert found.forecast_["seconds"] > 0
    assert found.forecast_["memory"] < 3 * 4 * len(y) ** 2  # K in single precision, and blocks


def test_one_level_has_no_forecast_not_even_an_old_one():
    found = search().fit(X, y)
    assert not hasattr(found.fit(X[:200], y[:200]), "forecast_")
    assert not hasattr(search(LinearSVC()).fit(X, y), "forecast_")


def test_hours_are_warned_of_unless_time_is_limited(monkeypatch):
    monkeypatch.setattr(forecast, "LONG_SEARCH", 0.0)
    with pytest.warns(UserWarning, match="will take about .* on all rows.  With rank"):
        search().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(time_budget=600).fit(X, y)


def test_linear_machines_are_not_told_of_landmarks(monkeypatch):
    monkeypatch.setattr(forecast, "LONG_SEARCH", 0.0)
    space = {"C": None, "class_weight": {1: (0.1, 10.0)}}
    with pytest.warns(UserWarning, match="on all rows.  time_budget=SECONDS"):
        search(LinearSVC(), space=space).fit(X, y)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "5 seconds"), (89, "89 seconds"), (600, "10 minutes"), (7200, "2 hours"), (4e5, "5 days")],
)
def test_times_in_words(seconds, words):
    assert forecast.in_words(seconds) == words


def test_memory_grows_with_the_square_of_the_rows():
    found = [search().fit(np.vstack([X] * k) + 0.0, np.tile(y, k)).forecast_ for k in (1, 2)]
    assert found[1]["memory"] > 2 * found[0]["memory"]


def test_memory_of_landmarks_grows_with_their_number():
    few, many = (search(rank=rank).fit(X, y).forecast_["memory"] for rank in (50, 200))
    assert many - few == pytest.approx(4 * 150 * len(y))


def test_what_is_compiled_on_the_way_is_not_foreseen():
    problem = SimpleNamespace(growth=2.0, memory_on=lambda n_rows: 0.0)
    taken = [forecast.Taken(250, [3.0, 0.01, 0.01, 0.02], [])]
    found = forecast.foresee(problem, taken, 2500, evaluations=4)
    assert found.seconds < 4 * 0.015 * 100


def expected(counts, seconds=(0.0, 0.01)):
    """Return the seconds of an evaluation on 4,000 rows, of those on 250 and on 1,000."""
    problem = SimpleNamespace(growth=2.0, memory_on=lambda n_rows: 0.0)
    taken = [forecast.Taken(n, [s], [c]) for n, s, c in zip((250, 1000), seconds, counts)]
    found = forecast.foresee(problem, taken, 4000, evaluations=1)
    assert found.n_samples == 1000
    return found.seconds


@pytest.mark.parametrize(
    ("counts", "power"), [((100, 400), 2.0), ((100, 200), 1.0), ((100, 900), 2.0), ((50, 50), 1.0)]
)
def test_time_grows_with_the_support_vectors_but_not_more_slowly_than_rows(counts, power):
    assert expected(counts) == pytest.approx(0.01 * 4**power)


def test_what_few_rows_take_as_well_does_not_grow():
    assert expected((100, 400), (0.008, 0.01)) < 0.7 * expected((100, 400))
    assert expected((100, 400), (0.08, 0.01)) >= 0.01


def test_support_vectors_are_counted_on_every_level(monkeypatch):
    """Noise has many, and classes that are far apart have few, however many rows there are."""
    rng = np.random.default_rng(0)
    labels, seen = np.arange(2500) % 2, []
    foresee = forecast.foresee
    monkeypatch.setattr(objective, "foresee", lambda *args: seen.append(args[1]) or foresee(*args))
    for apart in (4.0, 0.3):
        X = rng.normal(size=(2500, 2)) + apart * labels[:, None]
        search(space={"C": (0.1, 10.0), "gamma": (0.05, 1.0)}).fit(X, labels)
    few, many = ([np.median(level.support) / level.n_rows for level in taken] for taken in seen)
    assert len(few) == len(many) == 2
    assert max(few) < 0.5 * min(many)
