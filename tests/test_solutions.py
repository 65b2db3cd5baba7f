"""Trained machines against independent solvers: libsvm, and a general one for small duals."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from helpers import Differentiated, make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR

from hypermargin._core.budget import Budget, Effort, Workers
from hypermargin.kernels.gram import Gram
from hypermargin.kernels.points import Points
from hypermargin.kernels.precomputed import Precomputed
from hypermargin.losses.base import Dual
from hypermargin.methods.validation import validation_loss
from hypermargin.problems.exact.train import Start, Trained, train


def dual_objective(K, beta, dual):
    smooth = 0.5 * beta @ (K @ beta) + 0.5 * dual.ridge @ beta**2 - dual.target @ beta
    return smooth + dual.kink @ np.abs(beta)


def solve(K, dual, tol=1e-6, memory=1e9, budget=None, **more) -> Trained:
    """Train a single machine; the arrays of the result are those of its only fold."""
    budget = budget or Budget()
    gram = Gram(Points.of(K), Precomputed(), {}, memory, Workers(1), budget)
    team = Dual(*(np.atleast_2d(part) for part in astuple(dual)))
    trained = train(gram, np.arange(len(K)), team, True, Effort(tol, budget), **more)
    return replace(trained, beta=trained.beta[0], bias=trained.bias[0], values=trained.values[0])


def hinge(y, C):
    zero = np.zeros_like(y)
    return Dual(y, np.minimum(C * y, 0.0), np.maximum(C * y, 0.0), zero, zero)


def tube(y, C, epsilon):
    box = np.broadcast_to(C, y.shape).astype(float)
    return Dual(y, -box, box, np.full_like(y, epsilon), np.zeros_like(y))


@pytest.mark.parametrize("memory", [1e9, 3e5], ids=["in memory", "rows on demand"])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 5.0])
@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
def test_classifiers_agree_with_libsvm(C, gamma, memory):
    X, y = make_data(2, n=300)
    signs = 2.0 * y - 1
    K = rbf_kernel(X, gamma=gamma)
    ours = solve(K, hinge(signs, C), memory=memory)
    theirs = SVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    beta = np.zeros(len(y))
    beta[theirs.support_] = theirs.dual_coef_[0]
    expected = dual_objective(K, beta, hinge(signs, C))
    assert dual_objective(K, ours.beta, hinge(signs, C)) == pytest.approx(expected, rel=1e-6)
    assert abs(ours.beta.sum()) < 1e-9 * C
    outputs = K @ ours.beta + ours.bias
    np.testing.assert_allclose(ours.values, K @ ours.beta, atol=1e-10 * C)
    clear = abs(outputs) > 1e-4
    np.testing.assert_array_equal((outputs > 0)[clear], theirs.predict(X)[clear] == 1)


@pytest.mark.parametrize("memory", [1e9, 3e5], ids=["in memory", "rows on demand"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.8])
@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_regressors_agree_with_libsvm(C, epsilon, memory):
    X, y = make_data(0, n=200)
    K = rbf_kernel(X, gamma=0.3)
    dual = tube(y, C, epsilon)
    ours = solve(K, dual, memory=memory)
    theirs = SVR(C=C, gamma=0.3, epsilon=epsilon, tol=1e-6).fit(X, y)
    beta = np.zeros(len(y))
    beta[theirs.support_] = theirs.dual_coef_[0]
    assert dual_objective(K, ours.beta, dual) == pytest.approx(
        dual_objective(K, beta, dual), rel=1e-6
    )
    np.testing.assert_allclose(K @ ours.beta + ours.bias, theirs.predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(C=2.0, gamma=0.2, tol=1e-6),
        SVC(kernel="poly", coef0=1.0, C=0.3, gamma=0.2, tol=1e-6),
        SVC(kernel="linear", C=0.5, tol=1e-6),
        SVC(kernel="sigmoid", gamma=0.02, C=3.0, tol=1e-6),
        SVC(C=2.0, gamma=0.2, class_weight="balanced", tol=1e-6),
        SVR(C=2.0, gamma=0.2, epsilon=0.05, tol=1e-6),
        SVR(kernel="linear", C=0.2, tol=1e-6),
        KernelRidge(kernel="rbf", alpha=0.1, gamma=0.2),
        KernelRidge(kernel="poly", alpha=0.1),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_out_of_fold_outputs_are_those_of_the_estimator(estimator, n_classes):
    X, y = make_data(n_classes if isinstance(estimator, SVC) else 0, n=120)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    problem = Differentiated(estimator, X, y, sample_weight=weight)
    evaluation = problem.evaluate({}, Effort(1e-7))
    adapter, classes = problem.model.adapter, problem.prepared.targets.classes
    for fold, (train_rows, test) in enumerate(problem.prepared.splits):
        model = estimator.fit(X[train_rows], y[train_rows], sample_weight=weight[train_rows])
        outputs = evaluation.outputs[fold]
        if isinstance(estimator, SVC):
            np.testing.assert_allclose(
                adapter.decision_function(outputs, classes),
                model.decision_function(X[test]),
                atol=1e-4,
            )
        predicted = adapter.predict(outputs, classes)
        np.testing.assert_allclose(predicted, model.predict(X[test]), atol=1e-4)


def test_a_warm_start_ends_where_a_cold_one_does():
    X, y = make_data(3, n=120)
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"])
    far = problem.evaluate({"C": 50.0, "gamma": 1.0}).state
    warm = problem.evaluate({"C": 0.7, "gamma": 0.1}, warm=far).outputs
    cold = problem.evaluate({"C": 0.7, "gamma": 0.1}).outputs
    for a, b in zip(warm, cold, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_few_rows_start_many_without_having_seen_their_validation_rows():
    X, y = make_data(2, n=200)
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"])
    params = {"C": 2.0, "gamma": 0.3}
    few = np.arange(len(y)) % 2 == 0
    coarse = problem.prepared.problem.evaluate(params, Effort(1e-8), rows=few)
    for start in coarse.state.values():
        for fold, beta in zip(start.folds, start.beta, strict=True):
            used = start.rows[beta != 0]
            assert few[used].all()
            assert not np.isin(used, problem.prepared.splits[fold][1]).any()
    warm = problem.evaluate(params, warm=coarse.state).outputs
    for a, b in zip(warm, problem.evaluate(params).outputs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_working_sets_find_the_solution_of_the_whole():
    X, y = make_data(2, n=1500)
    signs = 2.0 * y - 1
    K = rbf_kernel(X, gamma=0.3)
    dual = hinge(signs, 5.0)
    small = solve(K, dual, tol=1e-8)  # begins with some hundred rows
    everything = Start(np.zeros((1, len(y))), np.arange(len(y)), complete=True)
    whole = solve(K, dual, tol=1e-8, start=everything)
    expected = dual_objective(K, whole.beta, dual)
    assert dual_objective(K, small.beta, dual) == pytest.approx(expected, rel=1e-10)
    assert small.bias == pytest.approx(whole.bias, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kink=st.sampled_from([0.0, 0.3]),
    ridge=st.sampled_from([0.0, 0.5]),
    rank=st.integers(1, 10),
)
def test_any_dual_of_the_family_is_minimised(seed, kink, ridge, rank):
    rng = np.random.default_rng(seed)
    n = 10
    Z = rng.normal(size=(n, rank))
    K = Z @ Z.T
    lower, upper = -rng.uniform(0.1, 2.0, n), rng.uniform(0.1, 2.0, n)
    dual = Dual(rng.normal(size=n), lower, upper, np.full(n, kink), np.full(n, ridge))
    ours = solve(K, dual, tol=1e-9)

    # the same with beta = p - q, p and q above zero, so that the kink is smooth
    def objective(z):
        beta = z[:n] - z[n:]
        value = dual_objective(K, beta, dual) + kink * (z.sum() - np.abs(beta).sum())
        slope = K @ beta + dual.ridge * beta - dual.target
        return value, np.concatenate([slope + kink, -slope + kink])

    theirs = minimize(
        objective,
        np.zeros(2 * n),
        jac=True,
        bounds=[(0, u) for u in upper] + [(0, -low) for low in lower],
        constraints={"type": "eq", "fun": lambda z: z[:n].sum() - z[n:].sum()},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert dual_objective(K, ours.beta, dual) <= theirs.fun + 1e-6 * (1 + abs(theirs.fun))
    assert (ours.beta >= lower - 1e-12).all() and (ours.beta <= upper + 1e-12).all()


def test_the_end_of_the_budget_stops_a_machine_that_would_run_on():
    X, y = make_data(2, n=400)
    K = 1e6 * rbf_kernel(X, gamma=1e-4)
    budget = Budget(0.0)
    trained = solve(K, hinge(2.0 * y - 1, 1e6), tol=1e-9, budget=budget)
    assert not trained.converged
    assert abs(trained.beta.sum()) <= 1e-6 * np.abs(trained.beta).sum()


def test_an_old_pullback_says_that_it_is_out_of_date():
    X, y = make_data(2)
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"])
    old = problem.evaluate({"C": 1.0, "gamma": 0.1})
    problem.evaluate({"C": 2.0, "gamma": 0.1})
    with pytest.raises(RuntimeError, match="out of date"):
        old.pullback([np.zeros_like(o) for o in old.outputs])


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("estimator", "n_classes"), [(SVC(), 2), (SVC(), 5), (SVR(), 0)], ids=["two", "five", "svr"]
)
def test_loose_and_threaded_training_is_near_the_exact_one(estimator, n_classes, workers):
    """Single precision, working sets, compiled rounds and threads, against exact training."""
    X, y = make_data(n_classes, n=1400)
    params = {"C": 3.0, "gamma": 0.4}
    problem = Differentiated(estimator, X, y, cv=4, tuned=list(params))
    exact, gradient, _ = problem.value_and_grad(params)
    expected = problem.evaluate(params).outputs
    problem.prepared.problem.workers = Workers(workers)
    problem.prepared.problem.release()
    loose = problem.evaluate(params, Effort(1e-3))
    for a, b in zip(loose.outputs, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-2)
    value, delta = validation_loss(loose, problem.criterion, problem.prepared, problem.weight)
    assert value == pytest.approx(exact, rel=1e-2)
    found = loose.pullback(delta)
    size = max(abs(gradient[name] * params[name]) for name in params)
    for name in params:
        difference = abs(found[name] - gradient[name]) * params[name]
        assert difference <= 0.1 * size + 5e-3 * value  # rows change sides within the gap


def test_evaluations_side_by_side_are_those_of_one_after_the_other():
    X, y = make_data(2, n=700)
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"]).prepared.problem
    problem.workers = Workers(3)
    points = [{"C": c, "gamma": g} for c in (0.5, 5.0, 50.0) for g in (0.05, 0.5, 5.0)]

    def outputs(params):
        found = problem.of_thread().evaluate(params, Effort(1e-3)).outputs
        return np.concatenate(found)

    alone = [outputs(params) for params in points]
    together = problem.map_evaluations(outputs, points, Budget())
    np.testing.assert_allclose(np.array(together), np.array(alone), atol=1e-6)


def test_the_same_point_at_a_finer_tolerance_uses_the_rows_that_are_there():
    X, y = make_data(2, n=1500)
    problem = Differentiated(SVC(), X, y, tuned=["C", "gamma"])
    params = {"C": 3.0, "gamma": 0.4}
    loose = problem.evaluate(params, Effort(1e-2))
    finer = problem.evaluate(params, Effort(1e-3), warm=loose.state).outputs
    cold = problem.evaluate(params).outputs
    for a, b in zip(finer, cold, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)
