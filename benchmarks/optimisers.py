"""Evaluations and smooth loss of every optimiser on ijcnn1, 2,000 rows, from C = gamma = 1.

The start and the stopping rule are those of Keerthi, Sindhwani and Chapelle (2006); no look before
the descent, so this compares optimisers, not searches.
"""

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import SVC

from benchmarks._common import load_merged, table
from hypermargin import value_and_grad
from hypermargin.methods.optimisers import OPTIMISERS

BOUNDS = np.log([[1e-2, 1e4], [1e-3, 1e2]])


def descend(X, y, seed: int, name: str) -> dict[str, float]:
    """Return the number of evaluations of one descent in log C and log gamma, and its end."""
    cv = StratifiedKFold(5, shuffle=True, random_state=seed)
    known: dict[bytes, tuple[float, np.ndarray]] = {}

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        if theta.tobytes() not in known:
            C, gamma = np.exp(theta)
            params = {"C": float(C), "gamma": float(gamma)}
            value, gradient = value_and_grad(SVC(), X, y, params, cv=cv, tol=1e-3)
            scaled = np.array([C * gradient["C"], gamma * gradient["gamma"]])
            known[theta.tobytes()] = value, scaled
        return known[theta.tobytes()]

    found = OPTIMISERS[name](objective, np.zeros(2), BOUNDS, 1e-3, None, None)
    return {"evaluations": len(known), "loss": found.value}


def run(quick: bool) -> dict[str, Any]:
    X, y = load_merged("ijcnn1")
    results: dict[str, Any] = {name: [] for name in OPTIMISERS}
    for seed in range(2 if quick else 6):
        few, _, y_few, _ = train_test_split(X, y, train_size=2000, stratify=y, random_state=seed)
        for name, rows in results.items():
            rows.append(descend(few, y_few, seed, name))
    return results


def report(results: dict[str, Any]) -> str:
    rows = []
    for name, found in results.items():
        evaluations = [row["evaluations"] for row in found]
        losses = " ".join(f"{row['loss']:.4f}" for row in found)
        rows.append([name, f"{np.mean(evaluations):.1f}", max(evaluations), losses])
    return table(["optimiser", "evaluations, mean", "most", "smooth loss at the end"], rows)
