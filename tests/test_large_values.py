"""Values so large that what is computed of them overflows: refused in one sentence."""

import numpy as np
import pytest
from helpers import make_data
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV


@pytest.mark.parametrize(
    "model",
    [SVC(), LinearSVC(), LogisticRegression(), SVR(), LinearSVR(), Ridge(), KernelRidge()],
)
@pytest.mark.parametrize("size", [1e154, 1e200, 1e300])
def test_data_that_overflow_are_refused_in_a_sentence(model, size):
    X, y = make_data(2, n=40)
    with pytest.raises(ValueError, match=r"X has values as large as .*scale it"):
        GradientSearchCV(model, cv=3).fit(size * X, y)


@pytest.mark.parametrize("model", [SVR(), LinearSVR(), Ridge(), KernelRidge()])
def test_targets_that_overflow_are_refused_in_a_sentence(model):
    X, y = make_data(0, n=40)
    with pytest.raises(ValueError, match=r"y has values as large as .*scale it"):
        GradientSearchCV(model, cv=3).fit(X, 1e101 * y)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_transformers_may_bring_them_down():
    X, y = make_data(2, n=40)
    search = GradientSearchCV(make_pipeline(MinMaxScaler(), SVC()), cv=3, max_evals=2)
    assert np.isfinite(search.fit(1e160 * X, y).best_score_)
