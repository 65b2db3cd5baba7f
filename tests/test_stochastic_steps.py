"""Stochastic steps of C: their machines, what they end at, and what they refuse."""

import warnings

import numpy as np
import pytest
from helpers import make_data
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, minmax_scale
from sklearn.svm import SVC, LinearSVC

from hypermargin import GradientSearchCV, LinearClassifier
from hypermargin.methods import BilevelSgd, SgdDcd
from hypermargin.methods.sgd_dcd import DualDescent
from hypermargin.methods.stochastic import Sheet

SPACE = {"C": (1e-4, 1e6)}  # the paper's
METHODS = ["sgd-dcd", "bilevel-sgd"]


def searched(method, X, y, estimator=None, weight=None, space=SPACE, **options):
    options = {"cv": 3, "random_state": 0, "max_evals": 5, **options}
    search = GradientSearchCV(estimator or LinearSVC(loss="hinge"), space, method=method, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The best C", UserWarning)
        return search.fit(X, y, **({} if weight is None else {"sample_weight": weight}))


def costs(search):
    return [record["params"]["C"] for record in search.history_]


# --- the machines


def trained(C, exact=True):
    """Return a machine that is trained to the end on all rows of a small set."""
    X, y = make_data(2, n=60)
    sign, one, none = np.where(y > 0, 1.0, -1.0), np.ones(60), np.arange(0)
    machine = DualDescent(exact, None, 1, Sheet.of(X, 1.0), sign, one, one, none, one[:0])
    for _ in range(4000):
        machine.work(C, 1)
    return machine


def test_machines_are_those_of_liblinear():
    X, y = make_data(2, n=60)
    theirs = LinearSVC(loss="hinge", C=0.3, tol=1e-10, max_iter=1_000_000).fit(X, y)
    expected = np.append(theirs.coef_, theirs.intercept_)
    np.testing.assert_allclose(trained(0.3).weights, expected, atol=1e-6)


@pytest.mark.parametrize("C", [0.05, 0.3, 2.0])
def test_the_exact_slope_is_that_of_central_differences(C):
    up, down = (trained(C * factor).weights for factor in (1.0 + 1e-6, 1.0 - 1e-6))
    slope = (up - down) / (2e-6 * C)
    np.testing.assert_allclose(trained(C).slope, slope, atol=1e-4 * (1.0 + np.abs(slope).max()))


def test_the_printed_slope_leaves_the_free_rows_out():
    exact, printed = trained(0.3), trained(0.3, exact=False)
    np.testing.assert_array_equal(np.unique(printed.rate), [0.0, 1.0])
    np.testing.assert_allclose(exact.weights, printed.weights, atol=1e-8)
    assert np.linalg.norm(printed.slope) > 2.0 * np.linalg.norm(exact.slope)


# --- what searches end at


def small_sets():
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X[::3], y[::3]
    X, y = load_wine(return_X_y=True)
    yield "wine", X, y == 1
    X, y = load_iris(return_X_y=True)
    yield "iris", X, y == 1
    yield "drawn", *make_classification(300, 10, flip_y=0.15, class_sep=0.7, random_state=0)


def outer_loss(method, X, y, **options):
    """Return the least smooth hinge loss that a search has come to."""
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    options = {"criterion": "smooth_hinge", "refit": False, "cv": cv, "max_evals": 40, **options}
    options["space"] = {"C": (1e-3, 1e2)}
    search = searched(method, minmax_scale(X, (-1, 1)), y, **options)
    return min(record["objective"] for record in search.history_)


# by which factors bilevel-sgd misses, and so do the printed steps: C stays too small
MISSES = {"breast cancer": 1.6, "wine": 3.0, "iris": 1.06, "drawn": 1.02}


@pytest.mark.parametrize("name", MISSES)
def test_the_loss_is_near_that_of_a_dense_grid(name):
    X, y = next((X, y) for label, X, y in small_sets() if label == name)
    least = outer_loss("grid", X, y)
    for method in ("sgd-dcd", "random", "gradient"):
        assert outer_loss(method, X, y) <= 1.02 * least, method
    printed = SgdDcd(as_printed=True, jacobian="paper")
    for method in ("bilevel-sgd", printed):
        found = outer_loss(method, X, y)
        assert found <= MISSES[name] * least
        assert found > 1.2 * least or MISSES[name] < 1.2  # else this says too little of it


# --- how they go


@pytest.mark.parametrize(
    "method", [BilevelSgd(), SgdDcd(as_printed=True, jacobian="paper"), SgdDcd(as_printed=True)]
)
def test_the_steps_are_those_of_the_paper(method):
    X, y = make_data(2, n=90, d=4)
    seen = []
    method = type(method)(**{**vars(method), "watch": seen.append, "iterations": 30})
    searched(method, X, y)
    assert [step.iteration for step in seen] == list(range(1, 31))
    C = np.array([step.C for step in seen])
    assert C[0] == pytest.approx(1e-4)
    lengths, t = np.abs(np.diff(C)), np.arange(1, 30)
    inside = C[1:] > 1.01e-4
    moved = np.isclose(lengths, 1.0 / (t * 2.0)) | (lengths == 0.0)
    assert (moved | ~inside).all() and lengths.max() > 0.0
    assert [len(outputs) for outputs in seen[-1].outputs] == [30, 30, 30]


@pytest.mark.parametrize("method", METHODS)
def test_sparse_rows_are_the_same_rows(method):
    X, y = make_data(2, n=90)
    X[np.abs(X) < 0.5] = 0.0
    np.testing.assert_allclose(
        costs(searched(method, X, y)), costs(searched(method, sparse.csr_matrix(X), y))
    )


@pytest.mark.parametrize("method", METHODS)
def test_rows_without_weight_take_no_part(method):
    X, y = make_data(2, n=60)
    folds = [(np.flatnonzero(np.arange(60) % 3 != k), np.arange(k, 60, 3)) for k in range(3)]
    plain = searched(method, X, y, cv=folds)
    rubbish, labels = 100.0 * np.ones((9, X.shape[1])), np.arange(9) % 2
    more = [(np.r_[a, 60:64], np.r_[b, 64:69]) for a, b in folds]
    weight = np.r_[np.ones(60), np.zeros(9)]
    weighted = searched(method, np.vstack([X, rubbish]), np.r_[y, labels], cv=more, weight=weight)
    np.testing.assert_allclose(costs(plain), costs(weighted))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "estimator",
    [
        LinearClassifier(loss="hinge"),
        LinearClassifier(loss="hinge", class_cost={0: 2.0, 1: 1.0, 2: 0.5}, fit_intercept=False),
    ],
    ids=["three classes", "weights of classes"],
)
def test_classes_and_their_weights(method, estimator):
    X, y = make_data(3, n=90)
    search = searched(method, X, y, estimator)
    assert search.score(X, y) > 0.5 and 1 <= len(search.history_) <= 5


def test_transformers_inside_of_folds():
    X, y = make_data(2, n=90)
    pipe = make_pipeline(StandardScaler(), LinearSVC(loss="hinge"))
    search = GradientSearchCV(
        pipe, {"linearsvc__C": (1e-4, 1e6)}, method="sgd-dcd", cv=3, random_state=0
    ).fit(X, y)
    assert search.best_score_ > 0.6 and len(search.history_) > 10


def test_iterations_end_when_the_cost_stays():
    X, y = make_data(2, n=90)
    seen = []
    searched(SgdDcd(iterations=None, watch=seen.append), X, y)
    late = np.array([step.C for step in seen[len(seen) // 2 + 1 :]])
    assert 32 <= len(seen) <= 2000
    assert len(seen) == 2000 or np.ptp(late) < 0.25 * late[-1]


# --- what they refuse


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("estimator", [SVC(), LinearSVC(), LinearClassifier(loss="logistic")])
def test_other_models_are_refused_in_one_sentence(method, estimator):
    with pytest.raises(
        ValueError, match=rf"^method='{method}' is for linear models with loss='hin"
    ):
        searched(method, *make_data(2), estimator)


def test_steps_that_diverge_end_with_a_warning():
    with pytest.warns(ConvergenceWarning, match="diverged in iteration"):
        search = searched(BilevelSgd(inner_step=1e30, iterations=150), *make_data(2))
    assert np.isfinite(search.best_score_) and search.best_params_["C"] >= 1e-4


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (SgdDcd, {"jacobian": "none"}), (SgdDcd, {"rows": 0}), (SgdDcd, {"iterations": 0}),
        (SgdDcd, {"step": -1.0}), (BilevelSgd, {"inner_step": np.inf}),
        (BilevelSgd, {"iterations": 1.5}), (SgdDcd, {"watch": 3}),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(kind, given):
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=rf"^{name}={value!r} must be"):
        kind(**given)


@pytest.mark.parametrize("kind", [SgdDcd, BilevelSgd])
def test_who_interrupts_has_the_best_point_so_far(kind):
    def interrupt(step):
        if step.iteration == 40:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="was interrupted"):
        search = searched(kind(watch=interrupt), *make_data(2), max_evals=20)
    assert 5 < len(search.history_) < 20 and search.score(*make_data(2)) > 0.5
