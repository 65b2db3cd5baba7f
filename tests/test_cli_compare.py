"""`hypermargin compare` and `demo` show this search beside others."""

import csv
import json

import numpy as np

from hypermargin.cli.main import main


def written(path, n=60):
    rng = np.random.RandomState(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "kind", "weight", "y"])
        for k in range(n):
            a, b = rng.randn(2)
            writer.writerow([a, b, "uvw"[k % 3], 1 + k % 2, "yes" if a * b > 0 else "no"])


def test_ways_are_compared_on_one_budget(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written("d.csv")
    words = ["compare", "d.csv", "--time-budget", "0.3", "--jobs", "1", "--weights", "weight"]
    assert main([*words, "--json", "--picture", "p.svg"]) == 0
    result = json.loads(capsys.readouterr().out)
    ways = {way["way"]: way for way in result["ways"]}
    assert list(ways) == ["hypermargin", "defaults", "grid", "random", "optuna", "boosting"]
    assert ways["defaults"]["evaluations"] == 1
    assert all(0 <= way["test_score"] <= 1 for way in ways.values())
    assert all(set(ways[name]["params"]) == {"svc__C", "svc__gamma"} for name in ("grid", "random"))
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_linear_models_are_compared_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written("d.csv")
    words = ["compare", "d.csv", "--time-budget", "0.2", "--jobs", "1", "--model", "logistic"]
    assert main([*words, "--quiet"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "test rows" in head
    assert [line.split()[0] for line in lines][:2] == ["hypermargin", "defaults"]


def test_the_demo_shows_a_search_and_a_grid(capsys, monkeypatch):
    monkeypatch.setattr("hypermargin.cli.demo.POINTS", 2)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("hypermargin ")
    assert out.splitlines()[2].startswith("grid ")
