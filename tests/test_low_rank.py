"""Machines on landmarks: gradients, the limit of all landmarks, memory, time, sparse data."""

import numpy as np
import pytest
from helpers import Differentiated, assert_gradient, assert_loss_gradient, make_data
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin import CrossValidationLoss, GradientSearchCV, KernelSVC
from hypermargin._core.budget import Budget, Effort, Workers
from hypermargin.kernels.rbf import RBF
from hypermargin.methods.validation import validation_loss
from hypermargin.problems.landmarks.newton import line_search
from hypermargin.problems.landmarks.problem import LowRankCrossValidation, landmark_order

KERNEL_PARAMS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.2, "coef0": 1.0},
    "linear": {},
}
ESTIMATORS = {
    "svc": (SVC, {"C": 1.7}, 2),
    "svc, three classes": (SVC, {"C": 1.7}, 3),
    "svr": (SVR, {"C": 1.3, "epsilon": 0.2}, 0),
    "kernel ridge": (KernelRidge, {"alpha": 0.3}, 0),
}


class OnLandmarks(Differentiated):
    """The same problem on landmarks."""

    def __init__(self, *args, rank, smoothing=0.1, memory=1e9, workers=None, **kwargs):
        super().__init__(*args, rank=rank, **kwargs)
        p = self.prepared.problem
        low = LowRankCrossValidation(
            p.designs, p.folds, p.columns, p.kernel, p.loss, p.values, memory, workers,
            rank=rank, smoothing=smoothing,
        )  # fmt: skip
        object.__setattr__(self.prepared, "problem", low)


def problem_of(kind, kernel, n=80, weighted=False, **kwargs):
    estimator, loss_params, n_classes = ESTIMATORS[kind]
    X, y = make_data(n_classes, n=n)
    weight = np.random.default_rng(0).uniform(0.3, 2.0, n) if weighted else None
    params = {**loss_params, **KERNEL_PARAMS[kernel]}
    made = OnLandmarks(
        estimator(kernel=kernel), X, y, sample_weight=weight, tuned=list(params), **kwargs
    )
    return made, params


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("kernel", KERNEL_PARAMS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_every_gradient_component_is_exact(kind, kernel, weighted):
    problem, params = problem_of(kind, kernel, rank=25, weighted=weighted)
    assert_gradient(problem, params)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_gradients_are_exact_when_kernel_values_do_not_fit_into_memory(kind):
    # 5,000 bytes hold the values of a few rows only, or of none
    problem, params = problem_of(kind, "rbf", rank=25, weighted=True, memory=5e3)
    assert_gradient(problem, params)


def test_machines_that_share_a_preconditioner_have_exact_gradients(monkeypatch):
    monkeypatch.setattr("hypermargin.problems.landmarks.newton.DIRECT", 0.0)
    monkeypatch.setattr("hypermargin.problems.landmarks.features.ROWS_PER_LANDMARK", (1, 1))
    problem, params = problem_of("svc", "rbf", n=150, rank=25)
    assert_gradient(problem, params)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_with_all_rows_as_landmarks_and_sharp_corners_it_is_the_exact_problem(kind):
    estimator, loss_params, n_classes = ESTIMATORS[kind]
    X, y = make_data(n_classes)
    params = {**loss_params, "gamma": 0.3}
    exact = Differentiated(estimator(kernel="rbf"), X, y, tuned=list(params))
    low = OnLandmarks(
        estimator(kernel="rbf"), X, y, rank=len(y), smoothing=1e-4, tuned=list(params)
    )
    ours, theirs = low.evaluate(params), exact.evaluate(params)
    for a, b in zip(ours.outputs, theirs.outputs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_single_precision_gives_the_same_gradient():
    problem, params = problem_of("svc", "rbf", n=300, rank=40)
    value, gradient, _ = problem.value_and_grad(params)
    rough = problem.evaluate(params, Effort(1e-3))
    delta = validation_loss(rough, problem.criterion, problem.prepared, problem.weight)[1]
    found = rough.pullback(delta)
    assert found.keys() == gradient.keys()
    for name in gradient:
        assert found[name] == pytest.approx(gradient[name], rel=0.05, abs=1e-3 * value)


def test_sparse_data_give_what_dense_data_give():
    X, y = make_data(2)
    params = {"C": 1.7, "gamma": 0.3}
    dense = OnLandmarks(SVC(), X, y, rank=20, tuned=list(params))
    thin = OnLandmarks(SVC(), sparse.csr_matrix(X), y, rank=20, tuned=list(params))
    assert thin.value(params) == pytest.approx(dense.value(params), rel=1e-8)
    assert_gradient(thin, params)


def test_a_warm_start_from_fewer_rows_and_other_values_ends_at_the_same_outputs():
    problem, params = problem_of("svr", "rbf", n=200, rank=30)
    low, few = problem.prepared.problem, np.arange(200) % 3 > 0
    start = low.evaluate({**params, "gamma": 0.7, "C": 5.0}, Effort(1e-3), rows=few)
    assert sorted(np.concatenate(start.test)) == list(np.flatnonzero(few))
    warm, cold = problem.evaluate(params, warm=start.state), problem.evaluate(params)
    assert warm.converged
    for a, b in zip(warm.outputs, cold.outputs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_outputs_at_training_rows_and_of_the_expansion_agree():
    problem, params = problem_of("svc, three classes", "rbf", rank=30)
    evaluation = problem.evaluate(params)
    X, members = make_data(3, n=80)[0], problem.prepared.problem.columns[1].members
    start = evaluation.state[2, 1]
    assert members[start.landmarks].all()
    expected = rbf_kernel(X, X[start.landmarks], gamma=params["gamma"]) @ start.alpha + start.bias
    np.testing.assert_allclose(evaluation.outputs_at(2, np.arange(80))[:, 1], expected, atol=1e-9)


def test_on_all_rows_it_is_a_machine_with_landmarks_as_support_vectors():
    X, y = make_data(2, n=200)
    params = {"C": 1.7, "gamma": 0.3}
    problem = OnLandmarks(SVC(), X, y, rank=200, smoothing=1e-3, tuned=list(params))
    low = problem.prepared.problem
    warm = problem.evaluate(params).state
    (machine,) = low.refit(params, Effort(1e-9), warm, weight=np.ones(len(y)))
    outputs = rbf_kernel(X, X[machine.rows], gamma=0.3) @ machine.beta + machine.bias
    exact = SVC(C=1.7, gamma=0.3, tol=1e-6).fit(X, y).decision_function(X)
    np.testing.assert_allclose(outputs, exact, atol=1e-2)


def test_a_budget_that_has_ended_gives_outputs_of_machines_that_have_not_converged():
    problem, params = problem_of("svc", "rbf", rank=25)
    evaluation = problem.prepared.problem.evaluate(params, Effort(1e-6, Budget(0.0)))
    assert not evaluation.converged
    assert all(np.isfinite(outputs).all() for outputs in evaluation.outputs)
    assert all(np.isfinite(v).all() for v in evaluation.pullback(evaluation.outputs).values())


def test_workers_do_not_change_the_result():
    one, params = problem_of("svc", "rbf", n=300, rank=25)
    two, _ = problem_of("svc", "rbf", n=300, rank=25, workers=Workers(2))
    assert two.value(params) == pytest.approx(one.value(params), rel=1e-10)


def test_only_the_latest_pullback_can_be_used():
    problem, params = problem_of("svc", "rbf", rank=25)
    old = problem.evaluate(params)
    problem.evaluate(params)
    with pytest.raises(RuntimeError, match="out of date"):
        old.pullback(old.outputs)


def test_landmarks_have_the_classes_in_their_proportions():
    strata = np.repeat([0, 1, 2], [899, 100, 1])
    rows = np.random.default_rng(0).permutation(1000)
    order = landmark_order(strata, rows)
    assert sorted(order) == list(range(1000))
    assert set(strata[order[:3]]) == {0, 1, 2}
    assert (strata[order[:50]] == 1).sum() == 5


@pytest.mark.parametrize("kind", ["svc", "svc, three classes", "svr"])
def test_folds_have_landmarks_among_their_training_rows_and_share_most_of_them(kind):
    problem, params = problem_of(kind, "rbf", n=300, rank=60)
    low, state = problem.prepared.problem, problem.evaluate(params).state
    for (f, c), start in state.items():
        used = start.landmarks[start.alpha != 0]
        assert (low.folds[f].of_column(low.columns[c])[used] > 0).all()
    of_folds = [low.landmarks_of(f, 60) for f in range(len(low.folds))]
    n_trained = sum(fold.weight.astype(bool).sum() for fold in low.folds)
    assert sum(map(len, of_folds)) == pytest.approx(60 * n_trained / 300, abs=len(low.folds))
    assert len(np.unique(np.concatenate(of_folds))) <= 75


def test_a_kernel_that_is_not_positive_definite_is_refused():
    X, y = make_data(2)
    problem = OnLandmarks(SVC(kernel="sigmoid"), X, y, rank=40, tuned=["C", "gamma", "coef0"])
    with pytest.raises(FloatingPointError, match="not positive definite"):
        problem.value({"C": 1.0, "gamma": 3.0, "coef0": -1.0})


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_kernel_that_is_not_finite_is_refused_and_the_search_goes_on(n_workers, monkeypatch):
    class Breaking(RBF):
        def block(self, rows, cols, params, out=None):
            block = super().block(rows, cols, params, out)
            block *= np.nan if params["gamma"] > 1.0 else 1.0
            return block

    monkeypatch.setattr(
        "hypermargin.problems.landmarks.features.BLOCK_BYTES", 1
    )  # chunks for both workers
    problem, params = problem_of("svc", "rbf", n=200, rank=20, workers=Workers(n_workers))
    low, budget = problem.prepared.problem, Budget()
    low.kernel = Breaking()
    with pytest.raises(FloatingPointError, match="not finite"):
        low.evaluate({**params, "gamma": 2.0}, Effort(1e-3, budget))
    assert not budget.expired()
    assert low.evaluate(params, Effort(1e-3, budget)).converged


def test_fewer_landmarks_than_classes_are_refused():
    with pytest.raises(ValueError, match="rank=1 must be at least 2"):
        problem_of("svc", "rbf", rank=1)


@pytest.mark.parametrize(
    "slopes", [lambda t: t - 0.02, lambda t: np.tanh(5.0 * (t - 7.0)), lambda t: t**3 - 0.5]
)
def test_line_search_ends_where_the_slope_is_small(slopes):
    start = np.atleast_1d(slopes(np.zeros(2)))
    t = line_search(slopes, start)
    assert (np.abs(slopes(t)) <= 0.1 * np.abs(start)).all()


@pytest.mark.parametrize(
    ("estimator", "n_classes"),
    [(SVC(), 2), (SVC(class_weight="balanced"), 3), (make_pipeline(StandardScaler(), SVR()), 0)],
    ids=str,
)
def test_a_search_on_landmarks_gives_a_model_on_landmarks(estimator, n_classes):
    X, y = make_data(n_classes, n=1200)
    low, exact = (
        GradientSearchCV(estimator, cv=3, random_state=0, max_evals=4, rank=rank).fit(X, y)
        for rank in (120, None)
    )
    machine = low.best_estimator_
    machine = machine[-1] if isinstance(machine, Pipeline) else machine
    cold = (SVC if n_classes else SVR)(gamma=1).fit(X, y)
    assert set(vars(machine)) == set(vars(cold))
    assert len(np.unique(machine.support_)) <= 120
    assert low.best_score_ > exact.best_score_ - 0.05
    assert low.score(X, y) > exact.score(X, y) - 0.05


def test_a_search_on_landmarks_may_refit_exactly():
    X, y = make_data(2, n=900)
    search = GradientSearchCV(SVC(), cv=3, rank=50, exact_refit=True, max_evals=2, random_state=0)
    machine = search.fit(X, y).best_estimator_
    plain = SVC(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(machine.support_, plain.support_)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SVC(kernel="sigmoid"), "kernel='sigmoid'"),
        (SVC(kernel="precomputed"), "kernel='precomputed'"),
        (KernelRidge(kernel="rbf"), "KernelRidge"),
        (SVC(probability=True), "probability"),
    ],
    ids=str,
)
def test_what_cannot_be_on_landmarks_is_refused_by_name(estimator, message):
    X, y = make_data(2)
    with pytest.raises(ValueError, match=message):
        GradientSearchCV(estimator, rank=20).fit(X @ X.T, y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "modified_huber", "squared"])
def test_every_loss_has_its_derivatives_on_landmarks(loss):
    X, y = make_data(2, n=80)
    found = CrossValidationLoss(
        KernelSVC(loss=loss), X, y, {"C": None, "gamma": None}, cv=3, rank=20, tol=1e-10
    )
    at = found.start + np.array([0.3, -0.2])
    assert_loss_gradient(found, at, h=1e-4, rel=1e-4, near=1e-6)


def test_a_threshold_is_found_on_landmarks():
    X, y = make_data(2, n=60)
    space = {"C": (0.1, 10.0), "threshold": (-1.0, 1.0, "linear")}
    search = GradientSearchCV(
        SVC(kernel="linear"), space, rank=6, cv=3, max_evals=4, scoring="precision_macro"
    ).fit(X, y)
    above = search.decision_function(X) > search.best_params_["threshold"]
    assert (search.predict(X) == search.classes_[above.astype(int)]).all()
