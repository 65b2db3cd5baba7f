"""What the benchmarks share: data, splits, timing, tables and the files of results."""

import importlib.util
import json
import os
import platform
from collections.abc import Callable, Iterable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("hypermargin", "numpy", "scipy", "scikit-learn", "numba")


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


def load_merged(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X (dense float64) and y of all rows, an official test part included."""
    data = load(name)
    X, y = data.X, data.y
    if data.X_test is not None:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    return np.asarray(X, dtype=np.float64), y


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
