"""Adjoints in compiled calls are those of one machine at a time, with free rows and without."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.svm import SVC, SVR

from hypermargin import CrossValidationLoss
from hypermargin.problems.exact.problem import _TrainedDesign


@pytest.mark.parametrize("C", [1e-3, 1.0], ids=["without free rows", "with some"])
@pytest.mark.parametrize(
    ("model", "n_classes", "epsilon"),
    [(SVC(), 3, {}), (SVR(), 0, {"epsilon": 0.1}), (SVR(), 0, {"epsilon": 0.9})],
    ids=["three classes", "narrow tube", "wide tube"],
)
def test_compiled_adjoints_are_the_same(monkeypatch, model, n_classes, epsilon, C):
    X, y = make_data(n_classes, n=90)
    at, hard = {"C": C, "gamma": 0.3, **epsilon}, []
    space = {name: (value / 10.0, 10.0 * value) for name, value in at.items()}
    loss = CrossValidationLoss(model, X, y, space, cv=3)
    easy = _TrainedDesign._easy_adjoints

    def count(self, delta, cotangent, E):
        hard.append(len(found := easy(self, delta, cotangent, E)))
        return found

    monkeypatch.setattr(_TrainedDesign, "_easy_adjoints", count)
    compiled = loss.value_and_grad(at)[1]
    monkeypatch.setattr(_TrainedDesign, "_easy_adjoints", lambda self, d, c, E: np.arange(len(E)))
    assert hard == [0]
    assert compiled == pytest.approx(loss.value_and_grad(at)[1], rel=1e-9, abs=1e-12)
