"""What the benchmarks share: data, splits, timing, tables and the files of results."""

import importlib.util
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("hypermargin", "numpy", "scipy", "scikit-learn", "numba", "optuna")
# Draws on which no choice in the package was made; the seeds 0 to 7 served for that.
SEEDS = (100, 101, 102)
N_TEST = 30_000  # most rows to test on
AS_THEY_ARE = ("ijcnn1", "a9a")  # scaled by their authors; the others are standardised


class Skip(Exception):
    """A benchmark cannot run here; the message says what is missing."""


# --- data


def load(name: str) -> Any:
    """Return the data set `name` as an object with X, y, X_test and y_test.

    The sets lie in the folder that HYPERMARGIN_DATA names, by default in shared/data next to the
    checkout, together with the load.py that reads them.
    """
    folder = Path(os.environ.get("HYPERMARGIN_DATA", ROOT.parent / "shared" / "data"))
    loader = folder / "load.py"
    if not loader.exists() or not (folder / f"{name}.npz").exists():
        raise Skip(f"no data set {name!r} in {folder} (HYPERMARGIN_DATA names another folder)")
    spec = importlib.util.spec_from_file_location("hypermargin_data", loader)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(name)


@lru_cache(maxsize=1)
def load_all(name: str) -> tuple[Any, np.ndarray]:
    """Return X as it is stored, dense or sparse, and y of all rows, official test part included."""
    data = load(name)
    if data.X_test is None:
        return data.X, data.y
    stack = sparse.vstack if sparse.issparse(data.X) else np.vstack
    return stack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])


def load_merged(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X (dense float64) and y of all rows, an official test part included."""
    X, y = load_all(name)
    return np.asarray(X, dtype=np.float64), y


class Sample(NamedTuple):
    """Rows to tune on, and others to test on."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f"

    def folds(self, seed: int) -> KFold | StratifiedKFold:
        kind = KFold if self.is_regression else StratifiedKFold
        return kind(5, shuffle=True, random_state=seed)


def draw(name: str, n: int | None, seed: int, n_test: int = N_TEST) -> Sample:
    """Draw n training rows, stratified by class, and test rows from the others.

    With n = None the official parts are taken.  Features are standardised by the training part,
    and the targets of a regression get unit variance.
    """
    if n is None:
        data = load(name)
        X, X_test, y, y_test = data.X, data.X_test, data.y, data.y_test
    else:
        X, y = load_all(name)
        labels = None if y.dtype.kind == "f" else y
        n_test = min(n_test, len(y) - n)
        X, X_test, y, y_test = train_test_split(
            X, y, train_size=n, test_size=n_test, stratify=labels, random_state=seed
        )
    X, X_test = X.astype(np.float64), X_test.astype(np.float64)
    if name not in AS_THEY_ARE:
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    if y.dtype.kind == "f":
        y, y_test = y / y.std(), y_test / y.std()
    return Sample(X, y, X_test, y_test)


# --- timing


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and its value."""
    start = perf_counter()
    value = function()
    return perf_counter() - start, value


def median_seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """Return the median time of several calls."""
    return median(timed(function)[0] for _ in range(repeats))


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each column of a list of equal rows."""
    return {key: float(median(row[key] for row in rows)) for key in rows[0]}


# --- results


def measure_each(
    name: str,
    tasks: Mapping[str, Callable[[], Any]],
    quick: bool,
    only: str | None = None,
    keep: bool = False,
) -> dict[str, Any]:
    """Run the tasks whose label contains `only`, and store after each what there is so far.

    A long run that is interrupted thus leaves what it has measured.  With `only` or `keep`,
    results of the last run stay until there are new ones in their place.
    """
    results = read_results(name, quick) if only or keep else {}
    for label, task in tasks.items():
        if only is None or only in label:
            results[label] = task()
            write_results(name, results, quick)
    return {label: results[label] for label in tasks if label in results}


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; floats that want a special format come as strings."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _path(name: str, quick: bool) -> Path:
    return RESULTS / f"{name}{'.quick' if quick else ''}.json"


def read_results(name: str, quick: bool = False) -> dict[str, Any]:
    """Return the results of the last run, or an empty dict."""
    path = _path(name, quick)
    return json.loads(path.read_text())["results"] if path.exists() else {}


def write_results(name: str, results: dict[str, Any], quick: bool = False) -> None:
    """Store results with what one must know to compare them: versions, cores and date."""
    content = {
        "benchmark": name,
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in PACKAGES},
        "cpu_count": os.cpu_count(),
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    _path(name, quick).write_text(json.dumps(content, indent=1) + "\n")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# --- figures


def pyplot() -> Any:
    """Return matplotlib's pyplot without a window system, before anything long has begun."""
    try:
        import matplotlib
    except ImportError:
        raise Skip("matplotlib is missing: pip install -e '.[bench]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
