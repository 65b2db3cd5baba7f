"""`hypermargin compare` and `demo` show this search beside others."""

import csv
import json
import time
from contextlib import closing

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hypermargin.cli.main import main
from hypermargin.cli.problem import Problem
from hypermargin.cli.timed import Fits, Late, Task


class FitsHere(Fits):
    """Fits in this process, which takes no time to start."""

    def begin(self):
        pass

    def ask(self, step, *args, seconds):
        return getattr(self.task, step)(*args)


class Clock:
    """A clock that goes on by the same step whenever it is read, however busy the machine is."""

    def __init__(self, step):
        self.step, self.now = step, 0.0

    def perf_counter(self):
        self.now += self.step
        return self.now


class Endless(LogisticRegression):
    """A model whose fit never ends at a large C."""

    def fit(self, X, y):
        if self.C > 1:
            time.sleep(1000)
        return super().fit(X, y)


def test_a_fit_that_takes_too_long_is_ended():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    problem = Problem(X, y, {}, "classification")
    with closing(
        Fits(Task(problem, problem, [(np.arange(12), np.arange(4))], "accuracy"), 1)
    ) as fits:
        assert 0 <= fits.ask("fold", Endless(), "", 0, seconds=100) <= 1
        with pytest.raises(Late):
            fits.ask("fold", Endless(C=2), "", 0, seconds=0.01)
        assert fits._process is None  # the next one starts another


def test_what_was_not_evaluated_in_time_is_shown_so(tmp_path, monkeypatch, capsys):
    def late(fits, step, *args, seconds):
        raise Late

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hypermargin.cli.compare.Fits", FitsHere)
    monkeypatch.setattr(FitsHere, "ask", late)
    written("d.csv", 40)
    words = ["compare", "d.csv", "--time-budget", "0.1", "--jobs", "1", "--model", "ridge"]
    assert main([*words, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("no point was evaluated in time") == 5
    assert "nan" not in shown and "inf" not in shown


def written(path, n=60):
    rng = np.random.RandomState(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "kind", "weight", "y"])
        for k in range(n):
            a, b = rng.randn(2)
            writer.writerow([a, b, "uvw"[k % 3], 1 + k % 2, "yes" if a * b > 0 else "no"])


def test_ways_are_compared_on_one_budget(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hypermargin.cli.compare.Fits", FitsHere)
    monkeypatch.setattr("hypermargin.cli.compare.time", Clock(0.01))
    monkeypatch.chdir(tmp_path)
    written("d.csv")
    words = ["compare", "d.csv", "--time-budget", "0.3", "--jobs", "1", "--weights", "weight"]
    assert main([*words, "--json", "--picture", "p.svg"]) == 0
    result = json.loads(capsys.readouterr().out)
    ways = {way["way"]: way for way in result["ways"]}
    assert list(ways) == ["hypermargin", "defaults", "grid", "random", "optuna", "boosting"]
    assert ways["defaults"]["evaluations"] == 1
    assert ways["grid"]["evaluations"] == ways["boosting"]["evaluations"] > 1
    assert all(0 <= way["test_score"] <= 1 for way in ways.values())
    assert all(set(ways[name]["params"]) == {"svc__C", "svc__gamma"} for name in ("grid", "random"))
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_linear_models_are_compared_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hypermargin.cli.compare.Fits", FitsHere)
    monkeypatch.setattr("hypermargin.cli.compare.time", Clock(0.01))
    monkeypatch.chdir(tmp_path)
    written("d.csv")
    words = ["compare", "d.csv", "--time-budget", "0.2", "--jobs", "1", "--model", "logistic"]
    assert main([*words, "--quiet"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "test rows" in head
    assert [line.split()[0] for line in lines][:2] == ["hypermargin", "defaults"]


def test_ways_that_have_no_probabilities_are_left_out_of_a_score_of_them(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("hypermargin.cli.compare.Fits", FitsHere)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hypermargin.cli.compare.time", Clock(0.001))
    monkeypatch.setattr("hypermargin.cli.compare._boosting_points", lambda *_: iter([{}]))
    written("d.csv", 40)
    words = ["compare", "d.csv", "--time-budget", "0.1", "--jobs", "1", "--score", "neg_log_loss"]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [way["way"] for way in result["ways"]] == ["hypermargin", "boosting"]
    assert any("grid is left out" in note for note in result["notes"])


def test_the_demo_shows_a_search_and_a_grid(capsys, monkeypatch):
    monkeypatch.setattr("hypermargin.cli.demo.POINTS", 2)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("hypermargin ")
    assert out.splitlines()[2].startswith("grid ")
