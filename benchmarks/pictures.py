"""The pictures of docs/pictures.md: one of every display of `hypermargin.plot`.

Data are scikit-learn's own.  Written to docs/images.
"""

import warnings
from typing import Any

from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks._common import RESULTS, ROOT, pyplot, table
from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.plot import (
    CalibrationDisplay,
    ConvergenceDisplay,
    HyperparameterDisplay,
    PathDisplay,
    RelevanceDisplay,
    SearchesDisplay,
    ThresholdDisplay,
    TimeDisplay,
)


def fitted(model: Any, X: Any, y: Any, space: Any = None, **options: Any) -> GradientSearchCV:
    with warnings.catch_warnings(action="ignore"):
        return GradientSearchCV(model, space, cv=5, random_state=0, **options).fit(X, y)


def run(quick: bool) -> dict[str, Any]:
    """Return the files of all pictures."""
    plt = pyplot()
    cancer, y = load_breast_cancer(return_X_y=True, as_frame=True)
    cancer.columns = [name.replace(" ", "_") for name in cancer.columns]
    wine, kind = load_wine(return_X_y=True, as_frame=True)
    wine = wine.iloc[:, :8]
    machine = make_pipeline(StandardScaler(), SVC())
    fitted(machine, cancer, y)  # compiles, so that times are not those of that
    search = fitted(machine, cancer, y)
    linear = fitted(LinearSVC(), StandardScaler().fit_transform(cancer), y)
    few = cancer[["mean_texture", "mean_smoothness", "mean_symmetry"]]
    threshold = fitted(
        machine,
        few,
        1 - y,
        {"svc__C": None, "svc__gamma": None, "threshold": None},
        scoring="f1",
    )
    doubtful = fitted(machine, few, y)
    wide = wine.assign(**(wine - wine.mean()) / wine.std())
    widths = fitted(KernelSVC(), wide, kind, {"C": None, "gamma": "always_per_feature"})
    others = {m: fitted(machine, cancer, y, method=m, max_evals=30) for m in ("random", "grid")}
    displays = {
        "path": PathDisplay.from_estimator(search),
        "path_evaluated": PathDisplay.from_estimator(search, data=(cancer, y)),
        "convergence": ConvergenceDisplay.from_estimator(search),
        "hyperparameter": HyperparameterDisplay.from_estimator(search, "svc__gamma"),
        "curve": HyperparameterDisplay.from_estimator(linear),
        "threshold": ThresholdDisplay.from_estimator(threshold),
        "cost": ThresholdDisplay.from_estimator(threshold, costs=(1, 10)),
        "calibration": CalibrationDisplay.from_estimator(doubtful),
        "relevance": RelevanceDisplay.from_estimator(widths),
        "time": TimeDisplay.from_estimator(search),
        "searches": SearchesDisplay.from_estimators({"gradient": search, **others}),
    }
    folder = RESULTS if quick else ROOT / "docs" / "images"
    files = {}
    for name, display in displays.items():
        file = folder / (f"plot_{name}.quick.png" if quick else f"plot_{name}.png")
        display.figure_.savefig(file, dpi=110)
        files[name] = str(file.relative_to(ROOT))
    plt.close("all")
    return files


def report(results: dict[str, Any]) -> str:
    return table(["picture", "file"], results.items())
