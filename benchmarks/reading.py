"""How fast LIBSVM text is read, beside scikit-learn's reader.

Files of about 100 MB are written, of numbers with few digits, with all digits, and of binary
features as text has them; both readers must find the same.  Seconds are of processor time, the
best of three.
"""

import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks._common import table
from hypermargin.files import read_svmlight

FORMATS = {"six digits": "%.6g", "all digits": "%.17g", "ones": "%.0f"}
BLOCK, PER_ROW, FEATURES = 1000, 60, 20_000
TIMES = 3


def write(path: Path, style: str, megabytes: float) -> None:
    rng = np.random.RandomState(0)
    with open(path, "w") as file:
        while file.tell() < megabytes * 1e6:
            steps = rng.randint(1, FEATURES // PER_ROW, size=(BLOCK, PER_ROW)).cumsum(axis=1)
            values = np.ones_like(steps) if style == "%.0f" else rng.randn(*steps.shape)
            for row, of in zip(steps.tolist(), values.tolist()):
                words = " ".join(f"{k}:{style % v}" for k, v in zip(row, of))
                file.write(f"{rng.choice((-1, 1))} {words}\n")


def seconds(read: Any, path: Path) -> tuple[float, Any]:
    best, found = np.inf, None
    for _ in range(TIMES):
        begun = process_time()
        found = read(path)
        best = min(best, process_time() - begun)
    return best, found


def run(quick: bool) -> dict[str, Any]:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, style in FORMATS.items():
            path = Path(folder, "data.libsvm")
            write(path, style, 5 if quick else 100)
            read_svmlight(path)  # compiles, or loads what was compiled
            ours, matrix = seconds(read_svmlight, path)
            theirs, (X, y) = seconds(lambda path: load_svmlight_file(str(path)), path)
            same = all(
                np.array_equal(getattr(X, part), getattr(matrix.X, part))
                for part in ("data", "indices", "indptr")
            )
            results[name] = {
                "megabytes": path.stat().st_size / 1e6, "ours": ours,
                "theirs": theirs, "same": bool(same and np.array_equal(y, matrix.y)),
            }  # fmt: skip
    return results


def report(results: dict[str, Any]) -> str:
    return table(
        ["numbers", "MB", "ours, s", "scikit-learn, s", "times as fast", "same result"],
        [
            [name, f"{r['megabytes']:.0f}", f"{r['ours']:.2f}", f"{r['theirs']:.2f}",
             f"{r['theirs'] / r['ours']:.1f}", "yes" if r["same"] else "no"]
            for name, r in results.items()
        ],
    )  # fmt: skip
