"""Squared losses have no minimum where the kernel is far from positive definite and C is large."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import sigmoid_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rows(seed, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * rng.uniform(0.3, 3.0, 4) + 1.0
    return X, X[:, 0] - X[:, 1] ** 2 + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("max_evals", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_search_of_few_evaluations_finds_some(seed, max_evals):
    X, y = rows(seed)
    model = make_pipeline(MinMaxScaler(), KernelSVC(kernel="sigmoid", loss="squared_hinge"))
    search = GradientSearchCV(model, max_evals=max_evals, random_state=0, cv=3)
    assert np.isfinite(search.fit(X, y > np.median(y)).best_score_)


@pytest.mark.parametrize("seed", range(3))
def test_regressions(seed):
    X, y = rows(seed)
    model = KernelSVR(kernel="sigmoid", loss="squared_epsilon_insensitive")
    model = make_pipeline(MinMaxScaler(), model)
    search = GradientSearchCV(model, max_evals=2, random_state=0, cv=3)
    assert np.isfinite(search.fit(X, y).best_score_)


def test_a_given_matrix():
    X, y = rows(0)
    K = sigmoid_kernel(X, gamma=0.5, coef0=-1.0)
    model = KernelSVC(kernel="precomputed", loss="squared_hinge")
    search = GradientSearchCV(model, {"C": None}, max_evals=2, random_state=0, cv=3)
    assert np.isfinite(search.fit(K, y > np.median(y)).best_score_)


def test_other_losses_and_kernels_keep_their_range():
    X, y = rows(0)
    squared = {"loss": "squared_hinge"}
    pairs = [
        (KernelSVC(**squared), KernelSVC()),
        (KernelSVC(kernel="sigmoid"), SVC(kernel="sigmoid")),
    ]
    for one, other in pairs:
        first, second = (
            GradientSearchCV(m, {"C": None}, max_evals=1, random_state=0, cv=3).fit(X, y > 0)
            for m in (one, other)
        )
        assert first.history_[0]["params"]["C"] == pytest.approx(second.history_[0]["params"]["C"])
