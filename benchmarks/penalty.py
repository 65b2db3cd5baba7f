"""Moore et al.'s PBP: its subproblem by its own and by general solvers, and whole searches.

2,000 rows, 100 features, five groups of rows with noise of their own: twelve hyperparameters.
Every solver is given the subproblems of one search; those of packages that are not installed are
left out.  The search is compared with the gradient method on the same folds.  Then draws of 200
rows, 50 features and five groups, of which one is noisy: whether multi-group SVR finds it, and what
that is worth on 2,000 other rows, against SVR.  Times are those of the processor, on one thread.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import lsq_linear

from benchmarks._common import table
from hypermargin import GradientSearchCV, LinearRegressor
from hypermargin._core.budget import one_blas_thread
from hypermargin.methods import least_squares, penalty

NOISE = np.array([0.3, 0.5, 0.8, 1.2, 2.5])  # of the groups, to compare times on
ONE_NOISY = np.array([0.3, 0.3, 0.3, 0.3, 3.0])  # to find the noisy one
GROUPS = {"C": None, "epsilon": None, "group_cost": None, "group_epsilon": None}
NOISY = 4


def grouped(
    n: int, d: int, seed: int, noise: np.ndarray = NOISE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return data whose groups differ in noise only."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    groups = rng.integers(len(noise), size=n)
    return X, X @ w + noise[groups] * rng.normal(size=n), groups


def searched(X, y, groups, method: Any, space: dict[str, Any]) -> tuple[Any, float]:
    model = LinearRegressor(loss="squared_epsilon_insensitive")
    search = GradientSearchCV(
        model, space, method=method, scoring="neg_mean_squared_error", random_state=0
    )
    begun = time.process_time()
    search.fit(X, y, cost_groups=groups)
    return search, time.process_time() - begun


def subproblems(X, y, groups, most: int) -> list[tuple]:
    """Return what the subproblem's solver was asked for in a search."""
    asked = []

    def recorded(*arguments):
        asked.append(arguments)
        return least_squares.solve(*arguments)

    with patch.object(penalty, "solve", recorded):
        searched(X, y, groups, "penalty", GROUPS)
    return asked[:: max(1, len(asked) // most)]


def as_programme(blocks, tau, unit, G, h) -> tuple[np.ndarray, ...]:
    """Return a subproblem as a quadratic programme of all weights and hyperparameters."""
    n = G.shape[1]
    corner = tau * unit * np.eye(n)
    diagonal, beside, q, last = [], [], [], np.zeros(n)
    for block in blocks:
        H, B, b = block.by_weights, block.by_hyperparameters, 2.0 * block.penalty
        diagonal.append(block.curvature + tau * block.unit * np.eye(len(H)) + b * H @ H)
        beside.append(b * H @ B)
        q.append(block.slope + b * H @ block.residual)
        corner += b * B.T @ B
        last += b * B.T @ block.residual
    P = block_diag(*diagonal, corner)
    side = np.vstack(beside)
    P[:-n, -n:], P[-n:, :-n] = side, side.T
    free = np.full(len(P) - n, np.inf)
    low, high = np.append(-free, h[:n]), np.append(free, -h[n:])
    return P, np.append(np.concatenate(q), last), low, high


def by_piqp(P, q, low, high) -> np.ndarray:
    piqp = importlib.import_module("piqp")
    solver = piqp.DenseSolver()
    solver.setup(P, q, x_l=low, x_u=high)
    solver.solve()
    return np.asarray(solver.result.x)


def by_clarabel(P, q, low, high) -> np.ndarray:
    clarabel = importlib.import_module("clarabel")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    bounded = np.flatnonzero(np.isfinite(low))
    some = sparse.eye(len(P), format="csc")[bounded]
    A = sparse.vstack([some, -some], format="csc")
    b, cones = np.append(high[bounded], -low[bounded]), [clarabel.NonnegativeConeT(A.shape[0])]
    upper = sparse.triu(sparse.csc_matrix(P), format="csc")
    return np.array(clarabel.DefaultSolver(upper, q, A, b, cones, settings).solve().x)


def by_scipy(P, q, low, high) -> np.ndarray:
    root = np.linalg.cholesky(P)
    return lsq_linear(root.T, -np.linalg.solve(root, q), (low, high + 1e-12)).x


GENERAL: dict[str, Callable] = {"piqp": by_piqp, "clarabel": by_clarabel, "scipy": by_scipy}


def least_time(function: Callable, arguments: tuple) -> tuple[float, Any]:
    """Return the least seconds of three calls, and what is returned."""
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        found = function(*arguments)
        seconds.append(time.process_time() - begun)
    return min(seconds), found


def compare_solvers(asked: list[tuple]) -> dict[str, dict[str, float]]:
    """Return the median seconds of every solver, and how far its objective is from ours."""
    found: dict[str, dict[str, list[float]]] = {}

    def keep(name: str, seconds: float, apart: float) -> None:
        of = found.setdefault(name, {"seconds": [], "above ours": []})
        of["seconds"].append(seconds)
        of["above ours"].append(apart)

    for arguments in asked:
        seconds, step = least_time(
            lambda blocks, *rest: least_squares.solve([block_again(b) for b in blocks], *rest),
            arguments,
        )
        keep("ours", seconds, 0.0)
        P, q, low, high = as_programme(*arguments)
        z = np.concatenate([*step.weights, step.hyperparameters])
        own = 0.5 * z @ P @ z + q @ z
        for name, solve in GENERAL.items():
            if importlib.util.find_spec(name) is None:
                continue
            seconds, z = least_time(solve, (P, q, low, high))
            keep(name, seconds, (0.5 * z @ P @ z + q @ z - own) / abs(own))
    return {
        name: {key: float(np.median(values)) for key, values in of.items()}
        for name, of in found.items()
    }


def block_again(block: least_squares.Block) -> least_squares.Block:
    """Return a block that remembers no factor."""
    return least_squares.Block(
        block.slope, block.curvature, block.residual, block.by_weights,
        block.by_hyperparameters, block.penalty, block.unit,
    )  # fmt: skip


def compare_searches(X, y, groups) -> dict[str, dict[str, float]]:
    found = {}
    for method in ("gradient", "penalty"):
        search, seconds = min((searched(X, y, groups, method, GROUPS) for _ in range(3)), key=_last)
        found[method] = {"seconds": seconds, "loss": -search.best_score_}
    return found


def _last(pair: tuple) -> float:
    return pair[-1]


def noisy_groups(draws: int, method: str) -> dict[str, float]:
    """Return how often the noisy group is found, and what groups are worth on new rows."""
    right, gains = 0, []
    for seed in range(draws):
        X, y, groups = grouped(2200, 50, seed, ONE_NOISY)
        train, test = slice(0, 200), slice(200, None)
        errors = []
        for space in ({"C": None, "epsilon": None}, GROUPS):
            search, _ = searched(X[train], y[train], groups[train], method, space)
            errors.append(np.mean((search.predict(X[test]) - y[test]) ** 2))
        best = search.best_params_
        costs, tubes = best["group_cost"], best["group_epsilon"]
        right += NOISY in (min(costs, key=costs.get), max(tubes, key=tubes.get))
        gains.append(1.0 - errors[1] / errors[0])
    return {"draws": draws, "found": int(right), "gain": float(np.mean(gains))}


def run(quick: bool) -> dict[str, Any]:
    data = grouped(400 if quick else 2000, 20 if quick else 100, 0)
    with one_blas_thread():  # as in a search
        solvers = compare_solvers(subproblems(*data, most=10))
    return {
        "solvers": solvers,
        "searches": compare_searches(*data),
        "groups": {m: noisy_groups(3 if quick else 20, m) for m in ("gradient", "penalty")},
    }


def report(results: dict[str, Any]) -> str:
    ours = results["solvers"]["ours"]["seconds"]
    solvers = [
        [
            name,
            f"{1e3 * of['seconds']:.1f}",
            f"{of['seconds'] / ours:.1f}",
            f"{of['above ours']:.1e}",
        ]
        for name, of in results["solvers"].items()
    ]
    searches = [
        [name, f"{of['seconds']:.2f}", f"{of['loss']:.5f}"]
        for name, of in results["searches"].items()
    ]
    groups = [
        [name, f"{of['found']} of {of['draws']}", f"{100 * of['gain']:.1f}"]
        for name, of in results["groups"].items()
    ]
    return "\n\n".join(
        [
            table(["subproblem", "ms", "times ours", "objective above ours, relative"], solvers),
            table(["search", "s", "mean squared error"], searches),
            table(["multi-group SVR", "noisy group found", "test MSE lower by, %"], groups),
        ]
    )
