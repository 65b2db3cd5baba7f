"""Kernels that are not for all data say so before any work is done, and of rows to predict."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.kernels import KERNELS, RBF


class OfPositive(RBF):
    """A kernel that is for positive numbers only."""

    def check(self, points):
        if points.X.min() <= 0:
            raise ValueError("X must be positive.")


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setitem(KERNELS, "of_positive", OfPositive)
    constraint = KernelSVC._parameter_constraints["kernel"][0]
    monkeypatch.setattr(constraint, "options", {*constraint.options, "of_positive"})
    return "of_positive"


def test_bad_data_are_refused_by_fit_predict_and_search(kernel):
    X, y = make_data(2)
    model = KernelSVC(kernel=kernel, gamma=0.5)
    for fit in (model.fit, GradientSearchCV(model, cv=3).fit):
        with pytest.raises(ValueError, match="X must be positive"):
            fit(X, y)
    fitted = model.fit(np.exp(X), y)
    with pytest.raises(ValueError, match="X must be positive"):
        fitted.predict(X)


def test_what_transformers_make_is_checked(kernel):
    X, y = make_data(2)
    model = KernelSVC(kernel=kernel, gamma=0.5)
    search = GradientSearchCV(make_pipeline(FunctionTransformer(np.exp), model), cv=3, max_evals=3)
    assert search.fit(X, y).best_score_ > 0.5
    with pytest.raises(ValueError, match="X must be positive"):
        GradientSearchCV(make_pipeline(StandardScaler(), model), cv=3).fit(np.exp(X), y)
