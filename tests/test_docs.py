"""Code in the documentation runs."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import central_difference, make_data
from sklearn import metrics
from sklearn.svm import SVC

from hypermargin import GradientSearchCV
from hypermargin.criteria import CRITERIA

ROOT = Path(__file__).parent.parent


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def test_the_readme_runs_from_top_to_bottom():
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks("README.md"):
            exec(block, names)
    assert names["search"].best_params_["C"] == names["search"].best_estimator_.C
    assert set(names["gradient"]) == {"C", "gamma"}


def test_the_criterion_of_the_documentation_is_picked_up(monkeypatch):
    (block,) = blocks("docs/extending.md")
    names: dict = {}
    exec(block, names)
    criterion = names["SquaredHinge"]()
    outputs, y = np.random.default_rng(0).normal(size=(12, 1)), np.arange(12) % 2
    _, gradient = criterion(outputs, y, np.ones(12))

    def f(z):
        moved = outputs.copy()
        moved[3, 0] = z
        return criterion(moved, y, np.ones(12))[0]

    assert gradient[3, 0] == pytest.approx(central_difference(f, outputs[3, 0]), rel=1e-6)
    monkeypatch.setitem(CRITERIA, "neg_hinge_loss", criterion)
    scorer = metrics.make_scorer(
        metrics.hinge_loss, greater_is_better=False, response_method="decision_function"
    )
    X, y = make_data(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no word of a missing smooth form
        GradientSearchCV(SVC(), {"C": (0.01, 1e3)}, scoring=scorer, cv=3).fit(X, y)


def test_the_page_on_measures_runs():
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    for block in blocks("docs/measures.md"):
        exec(block, names)
    assert set(names["gradient"]) == {"C", "class_weight", "threshold"}
    assert (names["search"].predict(X) == names["second"]).all()


def test_the_page_on_linear_models_runs():
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    for block in blocks("docs/linear.md"):
        exec(block, names)
    curve = names["search"].curve_
    assert curve["C"][0] <= names["simplest"] <= curve["C"][-1]
    pyplot = pytest.importorskip("matplotlib.pyplot")
    names["plot_curve"](curve, pyplot.figure().gca())
    pyplot.close("all")


def test_the_documentation_lists_all_criteria():
    page = (ROOT / "docs" / "measures.md").read_text()
    for name, criterion in CRITERIA.items():
        assert f"`{name}`" in page
        assert f"`{type(criterion).__name__}(" in page
