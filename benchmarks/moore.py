"""Experiments A and B of Moore, Bergeron and Bennett (2011) on public sets of molecules.

Features are standardised; where there are more than 100 they are replaced by 100 principal
components, in experiment A by 25.  For multi-group SVR rows are in five groups of equal size, by
the distance to the fifth nearest row: those that lie alone are the less certain ones.  All methods
have the same five folds and C in [1e-4, 1e3] / 2, epsilon up to the deviation of y, here from a
hundredth of it.  The grid has 7 times 7 points, about as many as the paper's fine one.  There are
three splits, where the paper has ten.
"""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from benchmarks._common import load_merged, table
from hypermargin import GradientSearchCV, LinearRegressor

SETS = ("blood_brain", "aqueous_solubility", "esol", "melting_point")
SIZES = {"blood_brain": (60, 150), "melting_point": (100, 200, 500, 1000, 2000, 4000)}
USUAL_SIZES = (100, 200, 500, 900)
COMPONENTS, FEW_COMPONENTS = 100, 25
N_GROUPS = 5
WAYS = {"grid": ("SVR",), "gradient": ("SVR", "multiSVR"), "penalty": ("SVR", "multiSVR")}


def drawn(name: str, size: int, seed: int, components: int) -> tuple[np.ndarray, ...]:
    """Return rows to tune on and rows to test on, features as in the paper."""
    X, y = load_merged(name)
    order = np.random.default_rng(seed).permutation(len(X))
    some, rest = order[:size], order[size:]
    scaler = StandardScaler().fit(X[some])
    # few rows may not show that a feature varies; far values are cut off, as in the paper
    Z, Z_rest = (np.clip(scaler.transform(X[rows]), -5.0, 5.0) for rows in (some, rest))
    if X.shape[1] > components:
        pca = PCA(min(components, size - 1), random_state=0).fit(Z)
        unit = np.sqrt(pca.explained_variance_.max())
        Z, Z_rest = pca.transform(Z) / unit, pca.transform(Z_rest) / unit
    middle, spread = y[some].mean(), y[some].std()
    return Z, (y[some] - middle) / spread, Z_rest, (y[rest] - middle) / spread


def lonely(X: np.ndarray) -> np.ndarray:
    """Return the fifth of the rows that each is in, by the distance to its fifth neighbour."""
    far = NearestNeighbors(n_neighbors=6).fit(X).kneighbors(X)[0][:, -1]
    return np.argsort(np.argsort(far)) * N_GROUPS // len(X)


def tuned(sample: tuple[np.ndarray, ...], method: str, model: str) -> dict[str, float]:
    """Return test error and seconds of one search."""
    X, y, X_test, y_test = sample
    space: dict[str, Any] = {"C": (5e-5, 5e2), "epsilon": (1e-2, 1.0)}
    if model == "multiSVR":
        space |= {"group_cost": None, "group_epsilon": None}
    search = GradientSearchCV(
        LinearRegressor(loss="squared_epsilon_insensitive", intercept_scaling=1.0),
        space,
        method=method,
        scoring="neg_mean_squared_error",
        cv=KFold(5, shuffle=True, random_state=0),
        max_evals=50,
        random_state=0,
    )
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points on a bound
        search.fit(X, y, cost_groups=lonely(X))
    seconds = time.perf_counter() - begun
    error = float(np.mean((search.predict(X_test) - y_test) ** 2))
    return {"error": error, "loss": -float(search.best_score_), "seconds": seconds}


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    results: dict[str, Any] = {}
    cells = [
        (name, size, FEW_COMPONENTS if size <= 150 else COMPONENTS)
        for name in SETS
        for size in SIZES.get(name, USUAL_SIZES)
    ]
    for name, size, components in cells:
        if only not in (None, name) or (quick and size > 200):
            continue
        for seed in range(1 if quick else 3):
            sample = drawn(name, size, seed, components)
            for method, models in WAYS.items():
                for model in models:
                    key = f"{name} {size} {method} {model}"
                    results.setdefault(key, []).append(tuned(sample, method, model))
    return results


def report(results: dict[str, Any]) -> str:
    columns = [(method, model) for method, models in WAYS.items() for model in models]
    cells = dict.fromkeys(tuple(key.split()[:2]) for key in results)
    rows = []
    for name, size in cells:
        row = [name, size]
        for what, digits in (("error", 3), ("seconds", 2)):
            for method, model in columns:
                found = [one[what] for one in results[f"{name} {size} {method} {model}"]]
                row.append(f"{np.mean(found):.{digits}f}")
        rows.append(row)
    names = [f"{method} {model}" for method, model in columns]
    heads = ["set", "rows", *(f"MSE, {n}" for n in names), *(f"s, {n}" for n in names)]
    return table(heads, rows)
