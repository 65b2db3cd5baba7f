"""A width for each feature against one for all: test errors, time and evaluations.

Errors are in percent, of regressions the root mean squared error in units of the target's standard
deviation.  keerthi-2006 (Table 1, Grad and Grad-ARD) has 2.87 and 2.65 on 2,000 rows of ijcnn1, and
8.17 and 3.49 on splice.
"""

from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import draw, medians, table, timed
from hypermargin import GradientSearchCV, KernelSVC, KernelSVR

CASES = (
    ("ijcnn1", 2000),
    ("ijcnn1", 8000),
    ("splice", 1900),
    ("madelon", 1560),
    ("diabetes", 460),
    ("magic04", 8000),
    ("kin8nm", 4000),
    ("california_housing", 8000),
)
QUICK = (("splice", 1000),)
KERNELS = ("rbf", "laplacian")
DRAWS = 3


def run(quick: bool) -> dict[str, Any]:
    results = {}
    for name, n in QUICK if quick else CASES:
        for kernel in KERNELS:
            rows = [one_draw(name, n, kernel, seed) for seed in range(1 if quick else DRAWS)]
            results[f"{name}, {n}, {kernel}"] = medians(rows)
            print(name, n, kernel, results[f"{name}, {n}, {kernel}"], flush=True)
    return results


def one_draw(name: str, n: int, kernel: str, seed: int) -> dict[str, float]:
    sample = draw(name, n, seed)
    found: dict[str, float] = {}
    for label, gamma in (("one", None), ("each", "per_feature")):
        model = KernelSVR(kernel=kernel) if sample.is_regression else KernelSVC(kernel=kernel)
        space = {"C": None, "gamma": gamma} | ({"epsilon": None} if sample.is_regression else {})
        search = GradientSearchCV(model, space, cv=sample.folds(seed), random_state=seed)
        seconds, _ = timed(partial(search.fit, sample.X, sample.y))
        found |= {label: error_of(search, sample), f"{label}, s": seconds}
    return found


def error_of(search: Any, sample: Any) -> float:
    if sample.is_regression:
        off = search.predict(sample.X_test) - sample.y_test
        return float(np.sqrt(np.mean(off**2)))
    return 100.0 * (1.0 - search.score(sample.X_test, sample.y_test))


def report(results: dict[str, Any]) -> str:
    header = ["set, rows, kernel", "one width", "a width each", "one, s", "each, s", "times"]
    lines = []
    for case, found in results.items():
        one, each, first, second = (found[k] for k in ("one", "each", "one, s", "each, s"))
        numbers = [f"{one:.3g}", f"{each:.3g}", f"{first:.1f}", f"{second:.1f}"]
        lines.append([case, *numbers, f"{second / first:.1f}"])
    return table(header, lines)
