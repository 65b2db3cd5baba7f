"""Moore et al.'s PBP: its derivatives, its subproblem, its subgradients, and where it ends."""

from dataclasses import replace
from unittest.mock import Mock, patch

import numpy as np
import pytest
from helpers import make_data
from scipy.optimize import lsq_linear
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, LinearClassifier, LinearRegressor, value_and_grad
from hypermargin._core.budget import Workers
from hypermargin.adapters.model import read_model
from hypermargin.adapters.prepare import prepare
from hypermargin.methods import penalty
from hypermargin.methods.least_squares import Block, least, solve
from hypermargin.methods.penalty import Penalty, steepest
from hypermargin.problems.linear.tangent import Corners, Tangent, Untrained

MACHINES = {
    "LinearSVR": (LinearSVR(loss="squared_epsilon_insensitive", C=0.3, epsilon=0.2), 0),
    "groups": (
        LinearRegressor(
            loss="squared_epsilon_insensitive",
            C=0.3,
            epsilon=0.2,
            group_cost={"a": 0.5, "b": 2.0},
            group_epsilon={"a": 2.0, "b": 0.7},
        ),
        0,
    ),
    "squared": (LinearRegressor(loss="squared", C=0.3), 0),
    "Ridge": (Ridge(alpha=3.0), 0),
    "LinearSVC": (LinearSVC(C=0.3), 2),
    "one against the rest": (LinearSVC(C=0.3), 3),
    "margins": (LinearClassifier(C=0.3, class_cost=[0.5, 2.0], margin=[0.8, 1.5]), 2),
    "modified_huber": (LinearClassifier(C=0.3, loss="modified_huber", margin=[0.3, 0.5]), 2),
    "smooth_hinge": (LinearClassifier(C=0.3, loss="smooth_hinge", margin=[0.8, 1.5]), 2),
    "LogisticRegression": (LogisticRegression(C=0.3), 2),
}
COORDINATES = {
    "LinearSVR": [("C", None), ("epsilon", None)],
    "groups": [
        ("C", None), ("epsilon", None), ("group_cost", 0), ("group_epsilon", 0),
        ("group_epsilon", 1),
    ],
    "Ridge": [("alpha", None)],
    "margins": [("C", None), ("class_cost", 1), ("margin", 0), ("margin", 1)],
    "modified_huber": [("C", None), ("margin", 0), ("margin", 1)],
    "smooth_hinge": [("C", None), ("margin", 0), ("margin", 1)],
}  # fmt: skip


def untrained(name):
    """Return machines at weights of chance, their values and weights."""
    estimator, n_classes = MACHINES[name]
    X, y = make_data(n_classes, n=50, d=5)
    y = np.array(["abc"[label] for label in y]) if n_classes else y + 3.0
    groups = np.where(np.arange(50) % 3 == 0, "a", "b")
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    told = {"cost_groups": groups} if name == "groups" else {}
    problem = prepare(read_model(estimator), X, y, splits, told, 1e8, Workers(1)).problem
    machines = Untrained(problem, COORDINATES.get(name, [("C", None)]))
    rng = np.random.default_rng(0)
    jobs = [(f, c) for f in range(3) for c in range(len(problem.columns))]
    return machines, problem, {job: 0.5 * rng.normal(size=6) for job in jobs}


def values_of(problem):
    return {name: np.array(value, dtype=float) for name, value in problem.values.items()}


@pytest.mark.parametrize("name", MACHINES)
def test_gradients_of_untrained_machines_and_how_they_move(name):
    machines, problem, weights = untrained(name)
    params = values_of(problem)
    place = machines.at(params, weights)
    assert place.gradients.keys() == weights.keys()
    for job, tangent in place.tangents().items():

        def gradient(moved, params=params, job=job):
            return machines.at(params, {**weights, job: moved}).gradients[job]

        for k, e in enumerate(1e-6 * np.eye(6)):
            moved = (gradient(weights[job] + e) - gradient(weights[job] - e)) / 2e-6
            np.testing.assert_allclose(tangent.by_weights[:, k], moved, rtol=1e-5, atol=1e-5)
        for k, (hyperparameter, entry) in enumerate(machines.coordinates):
            ends = []
            for step in (1e-6, -1e-6):
                value = params[hyperparameter].copy()
                value[... if entry is None else entry] += step
                ends.append(gradient(weights[job], {**params, hyperparameter: value}))
            moved = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(
                tangent.by_hyperparameters[:, k], moved, rtol=1e-5, atol=1e-5
            )


def test_gradients_of_untrained_machines_are_those_of_their_objectives():
    machines, problem, weights = untrained("groups")
    inner = problem.inner(values_of(problem), weights)
    for job, gradient in machines.at(values_of(problem), weights).gradients.items():
        np.testing.assert_allclose(gradient, inner[job][1], rtol=1e-9, atol=1e-9)


def random_blocks(rng, n_blocks=3, width=6, n=4, penalty=10.0):
    blocks = []
    for _ in range(n_blocks):
        V, H = (A.T @ A for A in rng.normal(size=(2, width + 2, width)))
        B = rng.normal(size=(width, n))
        r, g = rng.normal(size=(2, width))
        blocks.append(Block(g, V, r, H + np.eye(width), B, penalty, 0.7))
    return blocks


def stacked(blocks, tau, unit):
    """Return the subproblem as one of least squares: |A z - b|^2 / 2, weights before the rest."""
    width, n, t = len(blocks[0].slope), blocks[0].by_hyperparameters.shape[1], len(blocks)
    A, b = [], []
    for k, block in enumerate(blocks):
        own = slice(k * width, (k + 1) * width)
        L = np.linalg.cholesky(block.curvature + tau * block.unit * np.eye(width))
        outer, inner = np.zeros((2, width, t * width + n))
        outer[:, own] = L.T
        root = np.sqrt(2.0 * block.penalty)
        inner[:, own], inner[:, t * width :] = (
            root * block.by_weights,
            root * block.by_hyperparameters,
        )
        A += [outer, inner]
        b += [-np.linalg.solve(L, block.slope), -root * block.residual]
    last = np.zeros((n, t * width + n))
    last[:, t * width :] = np.sqrt(tau * unit) * np.eye(n)
    return np.vstack([*A, last]), np.concatenate([*b, np.zeros(n)])


@pytest.mark.parametrize("penalty", [1e-2, 10.0, 1e6])
@pytest.mark.parametrize("room", [10.0, 0.05])
def test_the_subproblem_is_solved_as_a_general_solver_does(penalty, room):
    blocks = random_blocks(np.random.default_rng(1), penalty=penalty)
    n, width = 4, 6
    low, high = np.full(n, -room), np.array([room, room, 0.0, room])
    G, h = np.vstack([np.eye(n), -np.eye(n)]), np.append(low, -high)
    step = solve(blocks, 0.3, 0.2, G, h)
    A, b = stacked(blocks, 0.3, 0.2)
    free = np.full(3 * width, np.inf)
    exact = lsq_linear(A, b, (np.append(-free, low), np.append(free, high + 1e-15)), tol=1e-14)
    z = np.concatenate([*step.weights, step.hyperparameters])
    assert np.sum((A @ z - b) ** 2) <= 2.0 * exact.cost * (1 + 1e-8)
    assert (G @ step.hyperparameters >= h - 1e-9).all()
    assert step.change < 0.0


def test_general_constraints_of_the_small_problem():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = rng.normal(size=(6, 4))
        S, c, G = A.T @ A, rng.normal(size=4), rng.normal(size=(5, 4))
        h = -rng.uniform(0.0, 0.3, size=5)
        x = least(S, c, G, h)
        assert (G @ x >= h - 1e-9).all()
        # the gradient is a combination of active constraints, with multipliers of their sign
        active = G[G @ x < h + 1e-7]
        found = lsq_linear(active.T, S @ x + c, (0.0, np.inf)) if len(active) else None
        gradient = S @ x + c if found is None else found.fun
        np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


def test_rows_at_a_corner_have_the_share_that_descends():
    """Of all shares those with the shortest gradient; the gradient is moved by rows at corners."""
    rng = np.random.default_rng(3)
    (block,) = random_blocks(rng, 1)
    corners = Corners(rng.normal(size=(5, 6)), rng.uniform(size=5), rng.normal(size=(5, 4)))
    tangent = Tangent(block.residual, block.by_weights, block.by_hyperparameters, corners)
    middle = tangent.with_shares(np.full(5, 0.4)).by_weights
    block = replace(block, slope=-2.0 * block.penalty * middle @ block.residual)
    none = np.zeros((0, 4))
    (p,), length = steepest([block], [tangent], np.ones(4), none, 2.0)
    assert ((p >= 0.0) & (p <= 1.0)).all() and p.any()

    def squared_length(p):
        at, r = tangent.with_shares(p), 2.0 * block.penalty * block.residual
        by_weights = block.slope + at.by_weights @ r
        moved = at.by_hyperparameters.T @ r
        return by_weights @ by_weights / block.unit + moved @ moved / 2.0

    assert length == pytest.approx(squared_length(p))
    assert all(squared_length(q) >= length for q in rng.uniform(size=(200, 5)))
    assert squared_length(np.zeros(5)) > length < squared_length(np.ones(5))


@pytest.mark.parametrize(
    "estimator, options",
    [
        (SVC(), {}),
        (LinearSVR(), {}),
        (LinearSVC(loss="hinge"), {}),
        (LinearSVC(), {"space": {"C": None, "threshold": None}}),
    ],
)
def test_what_it_is_not_for(estimator, options):
    X, y = make_data(0 if isinstance(estimator, LinearSVR) else 2)
    with pytest.raises(ValueError, match=r"^method='penalty' (is for linear|has no threshold)"):
        GradientSearchCV(estimator, method="penalty", **options).fit(X, y)


def test_features_that_are_too_many_are_refused():
    X, y = make_data(2, d=601)
    with pytest.raises(ValueError, match=r"^method='penalty' is for 600 features at most"):
        GradientSearchCV(LinearSVC(), method="penalty", cv=3).fit(X, y)


@pytest.mark.parametrize("logarithms", [True, False])
def test_hyperparameters_stay_in_their_bounds(logarithms):
    X, y = make_data(0, n=60, d=10)
    space = {"C": (1e-3, 2e-3), "epsilon": (0.5, 1.0)}
    search = GradientSearchCV(
        MACHINES["LinearSVR"][0], space, method=Penalty(logarithms), cv=3, random_state=0
    ).fit(X, y)
    for record in search.history_:
        assert 1e-3 <= record["params"]["C"] <= 2e-3 and 0.5 <= record["params"]["epsilon"] <= 1.0
    assert search.best_params_["C"] == pytest.approx(2e-3)


# --- where it ends


def small_sets(classifies):
    """Return a small set that was measured and one that is drawn (`run contract` has more)."""
    if classifies:
        found = [load_breast_cancer(return_X_y=True), make_data(2, n=60, d=20, seed=2)]
    else:
        found = [load_diabetes(return_X_y=True), make_data(0, n=60, d=20, seed=2)]
    for X, y in found:
        rows = np.random.default_rng(0).permutation(len(X))[:75]
        X, y = X[rows], y[rows] > 0 if classifies else y[rows]
        yield scale(X), y if classifies else scale(y)


TWO = {"C": (1e-4, 1e2), "epsilon": (1e-2, 1.5)}
CLAIMS = {
    "LinearRegressor": (LinearRegressor(loss="squared_epsilon_insensitive"), TWO, 13**2),
    "squared": (LinearRegressor(loss="squared"), {"C": (1e-4, 1e2)}, 31),
    "Ridge": (Ridge(), {"alpha": (1e-2, 1e4)}, 31),
    "LinearSVC": (LinearSVC(), {"C": (1e-4, 1e2)}, 31),
    "LogisticRegression": (LogisticRegression(), {"C": (1e-4, 1e2)}, 31),
}


def end_of(estimator, space, X, y, **options):
    """Return the least smooth loss of machines that were trained: looks have no score."""
    search = GradientSearchCV(estimator, space, cv=3, random_state=0, **options).fit(X, y)
    return min(r["objective"] for r in search.history_ if not np.isnan(r["score"]))


@pytest.mark.parametrize("criterion", [None, "squared_labels"])
@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.filterwarnings("ignore:The best")
def test_it_ends_near_the_best_point_of_a_dense_grid(name, criterion):
    """By its own outer loss; smooth errors of classes are not convex, and flat."""
    estimator, space, n_points = CLAIMS[name]
    classifies = hasattr(estimator, "decision_function")
    if criterion and not classifies:
        pytest.skip("of labels")
    for X, y in small_sets(classifies):
        own = end_of(estimator, space, X, y, method="penalty", criterion=criterion)
        grid = end_of(
            estimator, space, X, y, method="grid", max_evals=n_points, criterion=criterion
        )
        assert own <= 1.02 * grid, X.shape


@pytest.mark.filterwarnings("ignore:The best")
def test_the_noisy_group_is_found_and_counts_for_less():
    rng, noise = np.random.default_rng(0), np.array([0.3, 0.3, 3.0])
    X, w, groups = rng.normal(size=(1150, 30)), rng.normal(size=30), rng.integers(3, size=1150)
    y = X @ w / 5.0 + noise[groups] * rng.normal(size=1150)
    errors = []
    for space in ({"C": None, "epsilon": None}, {"C": None, "group_cost": None, "epsilon": None}):
        model = LinearRegressor(loss="squared_epsilon_insensitive")
        search = GradientSearchCV(model, space, method="penalty", cv=5, random_state=0)
        search.fit(X[:150], y[:150], cost_groups=groups[:150])
        errors.append(np.mean((search.predict(X[150:]) - y[150:]) ** 2))
    costs = search.best_params_["group_cost"]
    assert min(costs, key=costs.get) == 2
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.filterwarnings("ignore:The best")
def test_what_is_scored_are_trained_machines_and_not_weights_that_know_rows_left_out():
    rng = np.random.default_rng(0)  # so many numbers are in single precision, trained coarsely
    X = rng.normal(size=(700, 100)) * np.geomspace(1.0, 0.05, 100)
    y = scale(X @ rng.normal(size=100) + 0.3 * rng.normal(size=700))
    model, space = MACHINES["LinearSVR"][0], {"C": (1e-3, 100.0), "epsilon": (0.01, 1.0)}
    search = GradientSearchCV(model, space, method="penalty", cv=3, random_state=0).fit(X, y)
    found = [record for record in search.history_ if not np.isnan(record["score"])]
    for record in found[:: max(1, len(found) // 8)]:
        alone, _ = value_and_grad(model, X, y, record["params"], cv=3)
        assert record["objective"] == pytest.approx(alone, rel=2e-3)


@pytest.mark.filterwarnings("ignore:The best")
def test_steps_that_hardly_gain_anything_are_not_followed_for_long():
    rng, noise = np.random.default_rng(3), np.array([0.3, 0.5, 0.8, 1.2, 2.5])
    X, w = rng.normal(size=(800, 40)), rng.normal(size=40) / np.sqrt(40)
    groups = rng.integers(5, size=800)
    y = X @ w + noise[groups] * rng.normal(size=800)
    space = {"C": None, "epsilon": None, "group_cost": None, "group_epsilon": None}
    steps, ends = [], []
    for patience in (penalty.RECENT_STEPS, 10**6):
        model = LinearRegressor(loss="squared_epsilon_insensitive")
        search = GradientSearchCV(
            model, space, method="penalty", scoring="neg_mean_squared_error", random_state=0
        )
        with (
            patch.object(penalty, "RECENT_STEPS", patience),
            patch.object(penalty, "solve", Mock(side_effect=penalty.solve)) as solve,
        ):
            ends.append(-search.fit(X, y, cost_groups=groups).best_score_)
        steps.append(solve.call_count)
    assert steps[0] < 0.75 * steps[1]
    assert ends[0] < 1.001 * ends[1]


@pytest.mark.parametrize("level", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("estimator", [Ridge(), LinearRegressor(loss="squared")])
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:The best")
def test_targets_that_are_all_equal_leave_nothing_to_gain(estimator, level):
    X = np.random.default_rng(0).normal(size=(60, 3))
    search = GradientSearchCV(estimator, method="penalty", scoring="neg_mean_squared_error")
    assert search.fit(X, np.full(60, level)).best_score_ > -1e-3 * max(level, 1.0) ** 2
