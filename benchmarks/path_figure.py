"""The picture of the README: the search path on the contours of the smooth and the hard loss.

After figure 1 of Keerthi, Sindhwani and Chapelle (2006); written to docs/images/path.png.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks._common import RESULTS, ROOT, pyplot, table
from hypermargin import GradientSearchCV, value_and_grad

PICTURE = ROOT / "docs" / "images" / "path.png"
QUICK_PICTURE = RESULTS / "path.quick.png"
C_RANGE = (-2, 4)  # powers of ten
GAMMA_RANGE = (-5, 1)
NAMES = ("svc__C", "svc__gamma")


def smooth_loss(model: BaseEstimator, X, y, cv, points: list[dict[str, float]]) -> np.ndarray:
    return np.array([value_and_grad(model, X, y, params, cv=cv)[0] for params in points])


def hard_error(model: BaseEstimator, X, y, cv, points: list[dict[str, float]]) -> np.ndarray:
    """Return the share of misclassified rows over the same folds."""
    one_by_one = [{key: [value] for key, value in params.items()} for params in points]
    grid = GridSearchCV(model, one_by_one, cv=cv, n_jobs=2, refit=False).fit(X, y)
    return 1 - grid.cv_results_["mean_test_score"]


def run(quick: bool) -> dict[str, Any]:
    """Return both losses on a grid and the path, and draw them."""
    plt = pyplot()
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC())
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    size = 9 if quick else 25
    C, gamma = np.logspace(*C_RANGE, size), np.logspace(*GAMMA_RANGE, size)
    points = [dict(zip(NAMES, (c, g))) for g in gamma for c in C]
    search = GradientSearchCV(model, cv=cv, random_state=0).fit(X, y)
    results = {
        "C": C.tolist(),
        "gamma": gamma.tolist(),
        "smooth": smooth_loss(model, X, y, cv, points).reshape(size, size).tolist(),
        "hard": hard_error(model, X, y, cv, points).reshape(size, size).tolist(),
        "looks": [place(row["params"]) for row in search.history_ if row["look"]],
        "descents": descents(search.history_),
        "best": place(search.best_params_),
        "picture": str((QUICK_PICTURE if quick else PICTURE).relative_to(ROOT)),
    }
    draw(plt, results)
    return results


def descents(history: list[dict[str, Any]]) -> list[list[list[float]]]:
    """Return the points of every descent; one begins where a look has been."""
    looks = [row["params"] for row in history if row["look"]]
    paths: list[list[list[float]]] = []
    for row in history:
        if row["gradient"] is not None:
            if row["params"] in looks or not paths:
                paths.append([])
            paths[-1].append(place(row["params"]))
    return paths


def place(params: dict[str, float]) -> list[float]:
    return [float(params[name]) for name in NAMES]


def draw(plt: Any, results: dict[str, Any]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    titles = {"smooth": "smooth cross-validation loss", "hard": "cross-validation error"}
    for ax, (key, title) in zip(axes, titles.items()):
        contours(ax, results, key)
        path(ax, results)
        ax.set(xscale="log", yscale="log", xlabel="C", title=title)
    axes[0].set_ylabel("gamma")
    axes[0].legend(loc="lower left", framealpha=0.9)
    picture = ROOT / results["picture"]
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


def contours(ax, results: dict[str, Any], key: str) -> None:
    """Draw a loss with levels that lie closer near its minimum, where the choice is made."""
    loss = np.array(results[key])
    lowest, highest = loss.min(), loss.max()
    levels = lowest + (highest - lowest) * np.linspace(0, 1, 16) ** 2
    args = results["C"], results["gamma"], loss, levels
    ax.contourf(*args, cmap="Blues", alpha=0.75)
    ax.contour(*args, colors="0.5", linewidths=0.4)


def path(ax, results: dict[str, Any]) -> None:
    ax.plot(*zip(*results["looks"]), ".", color="0.35", markersize=5, label="looks")
    for number, points in enumerate(results["descents"]):
        style = {"marker": "s", "color": "black", "fillstyle": "none", "linewidth": 1}
        ax.plot(*zip(*points), **style, markersize=5, label=None if number else "descents")
    ax.plot(*results["best"], "s", color="red", markersize=6, label="best")


def report(results: dict[str, Any]) -> str:
    return table(
        ["looks", "evaluations", "best C", "best gamma", "picture"],
        [
            [
                len(results["looks"]),
                sum(len(points) for points in results["descents"]),
                *(f"{value:.3g}" for value in results["best"]),
                results["picture"],
            ]
        ],
    )
