"""Hypergradients against central differences: every kernel, estimator, hyperparameter and score."""

import numpy as np
import pytest
from helpers import (
    CLASSIFICATION,
    KERNEL_PARAMS,
    REGRESSION,
    Differentiated,
    assert_gradient,
    central_difference,
    is_smooth_around,
    make_data,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin import value_and_grad

ESTIMATORS = {
    "svc": (SVC, {"C": 1.7}, 2, CLASSIFICATION),
    "svc, three classes": (SVC, {"C": 1.7}, 3, CLASSIFICATION),
    "svr": (SVR, {"C": 1.3, "epsilon": 0.2}, 0, REGRESSION),
    "kernel ridge": (KernelRidge, {"alpha": 0.3}, 0, REGRESSION),
}
CASES = [
    pytest.param(kind, kernel, scoring, id=f"{kind}-{kernel}-{scoring}")
    for kind, (*_, scores) in ESTIMATORS.items()
    for kernel in KERNEL_PARAMS
    for scoring in scores
]


def problem_of(kind, kernel, scoring, weights, memory=1e9, seed=0):
    estimator, loss_params, n_classes, _ = ESTIMATORS[kind]
    X, y = make_data(n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    sample_weight = rng.uniform(0.3, 2.0, len(y)) if weights else None
    if kernel == "precomputed":
        X = rbf_kernel(X, gamma=0.3)
    params = {**loss_params, **KERNEL_PARAMS[kernel]}
    problem = Differentiated(
        estimator(kernel=kernel),
        X,
        y,
        scoring=scoring,
        sample_weight=sample_weight,
        memory=memory,
        tuned=list(params),
    )
    return problem, params


@pytest.mark.parametrize(("kind", "kernel", "scoring"), CASES)
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_every_gradient_component_is_exact(kind, kernel, scoring, weights):
    problem, params = problem_of(kind, kernel, scoring, weights)
    assert_gradient(problem, params)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_gradients_are_exact_when_the_kernel_matrix_does_not_fit_into_memory(kind, kernel):
    problem, params = problem_of(kind, kernel, None, True, memory=2e4)
    assert_gradient(problem, params)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(list(ESTIMATORS)),
    kernel=st.sampled_from(["rbf", "rbf", "poly", "sigmoid", "linear"]),
    weighted=st.booleans(),
    seed=st.integers(0, 10_000),
    log_loss=st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=2),
    log_kernel=st.lists(st.floats(-1.5, 1.5), min_size=2, max_size=2),
    score=st.integers(0, 2),
)
def test_gradients_are_exact_anywhere(kind, kernel, weighted, seed, log_loss, log_kernel, score):
    estimator, loss_params, n_classes, scores = ESTIMATORS[kind]
    X, y = make_data(n_classes, n=40, seed=seed)
    params = {
        **{name: v * np.exp(z) for (name, v), z in zip(loss_params.items(), log_loss)},
        **{name: v * np.exp(z) for (name, v), z in zip(KERNEL_PARAMS[kernel].items(), log_kernel)},
    }
    weight = np.random.default_rng(seed).uniform(0.3, 2.0, len(y)) if weighted else None
    problem = Differentiated(
        estimator(kernel=kernel),
        X,
        y,
        scoring=scores[score],
        sample_weight=weight,
        tuned=list(params),
    )
    assume(is_smooth_around(problem, params))
    assert_gradient(problem, params)


def balanced(n=40, seed=3):
    """Two classes with as many rows each, also in every fold."""
    rng = np.random.default_rng(seed)
    y = np.tile([0, 1], n // 2)
    return rng.normal(size=(n, 3)) + 0.7 * y[:, None], y


def test_no_free_support_vector():
    X, y = balanced()
    problem = Differentiated(SVC(), X, y, cv=4, tuned=["C", "gamma"])
    params = {"C": 1e-3, "gamma": 0.2}
    assert all((abs(p) == 2).sum() == (p != 0).sum() for p in problem.partition(params))
    assert_gradient(problem, params)


def test_regression_without_a_support_vector():
    X, y = make_data(0)
    problem = Differentiated(SVR(), X, y, tuned=["C", "epsilon", "gamma"])
    params = {"C": 1.0, "epsilon": 50.0, "gamma": 0.3}
    assert all((p == 0).all() for p in problem.partition(params))
    value, gradient, _ = problem.value_and_grad(params)
    assert np.isfinite(value)
    assert gradient == pytest.approx({"C": 0.0, "epsilon": 0.0, "gamma": 0.0}, abs=1e-12)


@pytest.mark.parametrize("same_label", [True, False])
def test_duplicate_points(same_label):
    X, y = make_data(2, n=30)
    X, y = np.vstack([X, X]), np.concatenate([y, y if same_label else 1 - y])
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"])
    assert_gradient(problem, {"C": 0.8, "gamma": 0.5})


@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_more_free_points_than_features(kind):
    estimator, loss_params, n_classes, _ = ESTIMATORS[kind]
    X, y = make_data(n_classes, d=1, n=50)
    problem = Differentiated(estimator(kernel="linear"), X, y, tuned=list(loss_params))
    assert_gradient(problem, dict(loss_params))


def test_rank_deficient_free_block():
    # a polynomial of degree one in one feature has rank two, whatever is free
    X, y = make_data(0, d=1, n=40)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    tuned = ["C", "epsilon", "gamma", "coef0"]
    problem = Differentiated(SVR(kernel="poly", degree=1), X, y, tuned=tuned)
    assert_gradient(problem, {"C": 0.05, "epsilon": 0.1, "gamma": 1.0, "coef0": 0.5})


@pytest.mark.parametrize("C", [1e-3, 1e-1, 1e2, 1e5])
def test_the_edges_of_C(C):
    X, y = make_data(2, n=50, seed=5)
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"])
    assert_gradient(problem, {"C": C, "gamma": 0.5})


@pytest.mark.parametrize("gamma", [1e-5, 1e-3, 1e1])
@pytest.mark.parametrize("kind", list(ESTIMATORS))
def test_the_edges_of_gamma(kind, gamma):
    estimator, loss_params, n_classes, _ = ESTIMATORS[kind]
    X, y = make_data(n_classes, n=45, seed=6)
    params = {**loss_params, "gamma": gamma}
    problem = Differentiated(estimator(kernel="rbf"), X, y, tuned=list(params))
    assert_gradient(problem, params)


def test_constant_data_give_a_finite_zero_gradient():
    _, y = make_data(2)
    value, gradient = value_and_grad(SVC(), np.ones((len(y), 2)), y, {"C": 1.0, "gamma": 1.0})
    assert np.isfinite(value)
    assert gradient == pytest.approx({"C": 0.0, "gamma": 0.0}, abs=1e-9)


def test_rows_without_weight_take_no_part():
    X, y = make_data(2)
    weight = np.ones(len(y))
    weight[::7] = 0.0
    problem = Differentiated(SVC(), X, y, sample_weight=weight, tuned=["C", "gamma"])
    assert_gradient(problem, {"C": 2.0, "gamma": 0.3})


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 3.5}])
def test_class_weights(class_weight):
    X, y = make_data(2)
    problem = Differentiated(SVC(class_weight=class_weight), X, y, tuned=["C", "gamma"])
    assert_gradient(problem, {"C": 0.9, "gamma": 0.3})


def test_several_targets_of_kernel_ridge():
    X, y = make_data(0)
    Y = np.column_stack([y, np.sin(y), 2 * y + X[:, 0]])
    problem = Differentiated(KernelRidge(kernel="rbf"), X, Y, tuned=["alpha", "gamma"])
    assert_gradient(problem, {"alpha": 0.4, "gamma": 0.2})


def test_the_primitive_speaks_of_the_numbers_themselves():
    X, y = make_data(3)
    model = make_pipeline(StandardScaler(), SVC(kernel="poly"))
    params = {"svc__C": 0.7, "svc__gamma": 0.3, "svc__coef0": 0.8}
    cv = KFold(4, shuffle=True, random_state=1)
    _, gradient = value_and_grad(model, X, y, params, cv=cv, tol=1e-12)
    for name in params:

        def f(z, name=name):
            return value_and_grad(model, X, y, {**params, name: z}, cv=cv, tol=1e-12)[0]

        assert gradient[name] == pytest.approx(central_difference(f, params[name]), rel=1e-5)


def test_a_kernel_so_narrow_that_outputs_are_rounding_gives_no_signal():
    X, y = make_data(2, n=45)
    value, gradient = value_and_grad(SVC(), X, y, {"C": 1.0, "gamma": 1e4})
    assert value == pytest.approx(0.5, abs=0.1)
    assert gradient == pytest.approx({"C": 0.0, "gamma": 0.0}, abs=1e-6)
