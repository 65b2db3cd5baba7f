"""Sparse entries in parts or out of order, lists, constant targets, wrong shapes and names."""

import numpy as np
import pytest
from helpers import make_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR, value_and_grad
from hypermargin.criteria import Criterion


def in_parts(X):
    """Return a CSR matrix with every entry in two parts, and the last columns first."""
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    rows, columns = np.tile(rows, 2), np.tile(columns, 2)
    values = np.concatenate([0.3 * values, 0.7 * values])
    order = np.lexsort((-columns, rows))
    first = np.searchsorted(rows[order], np.arange(len(X) + 1))
    return sparse.csr_matrix((values[order], columns[order], first), shape=X.shape)


@pytest.mark.parametrize("model", [SVC(), KernelSVC(), LinearSVC(), LogisticRegression()])
def test_sparse_entries_in_parts_are_summed_and_the_users_are_left_alone(model):
    X, y = make_data(2, n=90)
    X = np.where(X > -0.5, X, 0.0)
    given, whole = in_parts(X), sparse.csr_matrix(X)
    before = [part.copy() for part in (given.data, given.indices, given.indptr)]
    found = GradientSearchCV(model, {"C": [0.5, 2.0]}, cv=3).fit(given, y)
    for was, part in zip(before, (given.data, given.indices, given.indptr), strict=True):
        assert_array_equal(was, part)
    expected = GradientSearchCV(model, {"C": [0.5, 2.0]}, cv=3).fit(whole, y)
    assert_allclose(found.decision_function(whole), expected.decision_function(whole), atol=1e-5)


@pytest.mark.parametrize("kind", [KernelSVC, KernelSVR])
def test_a_gamma_that_the_kernel_does_not_have_is_ignored(kind):
    X, y = make_data(2)
    with_gamma, without = (kind(kernel="linear", **more).fit(X, y) for more in ({"gamma": 0.1}, {}))
    assert_array_equal(with_gamma.predict(X), without.predict(X))


@pytest.mark.parametrize("model", [SVC(), LinearSVC(), KernelSVC()])
def test_probabilities_of_lists(model):
    X, y = make_data(2)
    search = GradientSearchCV(model, {"C": [1.0]}, cv=3).fit(X, y)
    assert_allclose(search.predict_proba(X[:5].tolist()), search.predict_proba(X[:5]))


@pytest.mark.parametrize(
    "loss", ["epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball"]
)
@pytest.mark.parametrize("value", [0.0, -3.0, 1e6])
def test_a_constant_target_is_predicted(loss, value):
    X, _ = make_data(0)
    y = np.full(len(X), value)
    assert_allclose(KernelSVR(loss=loss).fit(X, y).predict(X), y, atol=1e-6)
    search = GradientSearchCV(KernelSVR(loss=loss), {"C": (0.1, 10.0)}, cv=3, max_evals=2)
    assert_allclose(search.fit(X, y).predict(X), y, atol=1e-6)


class Answers(Criterion):
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, outputs, y, weight):
        return self.answer(outputs)


@pytest.mark.parametrize(
    "answer, message",
    [
        (lambda o: (1.0, np.zeros(len(o))), r"gradient of shape \(60,\); .* \(60, 1\)"),
        (lambda o: (1.0, o[:3]), r"gradient of shape \(3, 1\)"),
        (lambda o: (o[:, 0], o), "for a value; it must be a number"),
        (lambda o: ("a", o), "for a value; it must be a number"),
        (lambda o: 1.0, "returned float; it must return a value and a gradient"),
        (lambda o: (1.0, o, o), "returned tuple; it must return a value and a gradient"),
    ],
)
def test_a_criterion_that_answers_in_the_wrong_form_is_told_so(answer, message):
    X, y = make_data(2)
    with pytest.raises((TypeError, ValueError), match=message):
        GradientSearchCV(SVC(), criterion=Answers(answer), cv=3).fit(X, y)
    with pytest.raises((TypeError, ValueError), match=message):
        value_and_grad(SVC(), X, y, {"C": 1.0}, criterion=Answers(answer), cv=3)


@pytest.mark.filterwarnings("ignore:scoring=")
@pytest.mark.parametrize("other", [{"a": 1.0}, {"a": 1.0, "c": 1.0}, 1.0])
def test_a_scorer_whose_names_change_is_told_so(other):
    X, y = make_data(2)
    calls = []

    def score(model, X, y):
        calls.append(1)
        return {"a": 1.0, "b": 2.0} if len(calls) % 4 else other

    search = GradientSearchCV(SVC(), {"C": [1.0, 2.0]}, scoring=score, refit="a", cv=3)
    with pytest.raises(ValueError, match="must return the same names every time"):
        search.fit(X, y)
