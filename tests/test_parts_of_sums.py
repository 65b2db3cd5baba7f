"""What kernels of a sum say and are worth, and models on landmarks of estimators of our own."""

import numpy as np
import pandas as pd
import pytest
from helpers import make_data
from sklearn.metrics import accuracy_score, r2_score

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR
from hypermargin.kernels import RBF, Laplacian, Linear, Sum


def table(n=150):
    X = np.random.default_rng(0).normal(size=(n, 4))
    return pd.DataFrame(X, columns=list("abcd")), X[:, 0] + np.sin(2 * X[:, 1])


KERNEL = Sum([("signal", RBF(columns=["a", "b"])), ("noise", RBF(columns=["c", "d"]))])


def test_parts_of_r2_add_up_but_for_the_mean_error():
    X, y = table()
    weight = np.linspace(0.5, 1.5, len(y))
    model = KernelSVR(C=10.0, kernel=KERNEL).fit(X[:100], y[:100])
    parts = model.scores_by_kernel(X, y, weight)
    off = np.average(model.predict(X) - y, weights=weight)
    spread = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    whole = r2_score(y, model.predict(X), sample_weight=weight)
    assert sum(parts.values()) - off**2 / spread == pytest.approx(whole)
    assert parts["signal"] > 0.5 > parts["noise"]
    assert np.isnan(model.scores_by_kernel(X[:3], [1.0, 1.0, 1.0])["noise"])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_part_of_accuracy_is_what_would_be_lost(n_classes):
    X, y = table()
    labels = np.digitize(y, [0.0] if n_classes == 2 else [-0.7, 0.7])
    model = KernelSVC(kernel=KERNEL).fit(X, labels)
    parts, outputs = model.scores_by_kernel(X, labels), model.outputs_by_kernel(X)
    assert parts["signal"] > 0.2 > parts["noise"]
    without = model._outputs(X) - outputs["noise"] + outputs["noise"].mean(axis=0)
    score = accuracy_score(labels, model._labels(without))
    assert parts["noise"] == pytest.approx(model.score(X, labels) - score)


def test_labels_of_another_length_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelSVR(kernel=KERNEL).fit(X, y).scores_by_kernel(X, y[:5])


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (KernelSVC(kernel=0.5 * RBF(columns=[0]) + Linear()), 2),
        (KernelSVC(kernel="linear"), 2),
        (KernelSVC(kernel="laplacian", loss="squared_hinge"), 3),
        (KernelSVC(kernel=Laplacian(), multi_class="ovr"), 3),
        (KernelSVR(kernel="matern32"), 0),
        (KernelSVR(loss="squared"), 0),
    ],
)
def test_our_own_machines_are_refitted_on_landmarks(model, classes):
    X, y = make_data(classes, n=150)
    search = GradientSearchCV(model, cv=3, rank=30, max_evals=8, random_state=0).fit(X, y)
    best = search.best_estimator_
    assert len(best.support_) <= 30
    assert search.score(X, y) > search.best_score_ - 0.05


def test_with_all_rows_as_landmarks_the_model_is_the_exact_one():
    X, y = make_data(0, n=80)
    search = GradientSearchCV(KernelSVR(loss="squared"), cv=3, rank=80, max_evals=8).fit(X, y)
    exact = KernelSVR(loss="squared", **search.best_params_).fit(X, y)
    np.testing.assert_allclose(search.predict(X), exact.predict(X), atol=0.02 * y.std())


def test_features_that_several_kernels_read_are_told_once():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    y = np.sin(2 * X["a"]) + np.sin(2 * X["c"]) > 0
    kernel = RBF(columns=["a", "b", "c"], ard=True) + Laplacian(columns=["c", "d"], ard=True)
    search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, random_state=0).fit(X, y)
    found = pd.DataFrame(search.relevance_).set_index("feature")
    assert list(found.index) == ["a", "b", "c", "d"]
    assert set(found.relevance.nlargest(2).index) == {"a", "c"}


def test_the_answer_names_groups_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    kernel = RBF(ard=["one", "one", "other", "other"])
    search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, random_state=0)
    search.fit(X, X[:, 0] * X[:, 1] > 0)
    assert "a width for each group of features" in search.widths_["why"]
    assert set(search.relevance_["feature"]) == {"one", "other"}


def noisy_sum(ask):
    return Sum([(n, RBF(columns=[n])) for n in "abcd"], ask=ask)


def test_the_average_kernel_is_kept_where_weights_do_not_pay():
    X, _ = table()
    y = X.sum(axis=1) + 3.0 * np.random.default_rng(1).normal(size=len(X))
    search = GradientSearchCV(KernelSVR(kernel=noisy_sum(True)), cv=3, random_state=0).fit(X, y)
    assert not search.weights_["kept"]
    assert search.weights_["asked"]
    assert "the average kernel is kept" in search.weights_["why"]
    weights = list(search.best_params_["kernel__weights"].values())
    assert max(weights) < 1.5 * min(weights)
    assert not hasattr(search, "widths_")


@pytest.mark.parametrize("ask", [False, True])
def test_weights_are_kept_where_they_pay_and_kernels_are_ranked(ask):
    X, y = table(150)
    search = GradientSearchCV(KernelSVR(kernel=noisy_sum(ask)), cv=3, random_state=0).fit(X, y)
    assert search.weights_["kept"]
    assert search.weights_["asked"] == ask
    found = pd.DataFrame(search.relevance_).set_index("kernel")
    assert set(found.relevance.nlargest(2).index) == {"a", "b"}
    assert found.relevance.sum() == pytest.approx(1.0)
    assert set(found.index[found.droppable]) <= {"c", "d"}
    assert (found.std_error >= 0).all()
