"""Nine kernels of groups of columns: ours beside himalaya's multiple-kernel ridge, 900 rows.

Root mean squared errors on other rows, in units of the target's standard deviation, and CPU seconds
on one thread; one draw.  himalaya (0.4.11, pip install himalaya) searches the
weights, by a hundred random draws of them or by its hypergradient, and ten ridges; the widths are
its default, one over the number of columns.  Ours tunes the parameters of the kernels as well.
"average" has the same weight for all kernels.  `--only TEXT` runs the parts whose label has it.
"""

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from time import process_time
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks._common import SEEDS, Sample, draw, measure_each, read_results, table
from hypermargin import GradientSearchCV, KernelSVR
from hypermargin.kernels import RBF, Linear, Sum

N_ROWS = 900
N_DRAWS = 100  # of the weights
ALPHAS = np.logspace(-5, 4, 10)
Part = tuple[str, str, Sequence[int]]  # the name of a kernel, its kind and its columns


def additive(n: int, seed: int) -> Sample:
    """Four of nine groups of three columns matter, smooth ones and rough ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 3000, 27))
    smooth = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + np.sin(X[:, 3] + X[:, 4])
    rough = np.sin(4.0 * X[:, 6]) + np.abs(X[:, 9] - X[:, 10])
    y = smooth + rough + 0.5 * rng.normal(size=len(X))
    y /= y[:n].std()
    return Sample(X[:n], y[:n], X[n:], y[n:])


def by_groups() -> list[Part]:
    return [(f"group{k}", "rbf", range(3 * k, 3 * k + 3)) for k in range(9)]


def by_columns() -> list[Part]:
    return [*((f"column{k}", "rbf", [k]) for k in range(8)), ("all", "rbf", range(8))]


def by_kinds() -> list[Part]:
    """Bits, counts and numbers of molecules, alone and together, linear and not."""
    groups = {"bits": range(208), "counts": range(208, 224), "numbers": range(224, 228)}
    parts = [(f"{name}_{kind}", kind, at) for name, at in groups.items() for kind in KINDS]
    both = [("described", "rbf", range(208, 228)), ("all_rbf", "rbf", range(228))]
    return [*parts, *both, ("all_linear", "linear", range(228))]


KINDS: dict[str, Any] = {"rbf": RBF, "linear": Linear}
SETS: dict[str, tuple[Callable[[int, int], Sample], Callable[[], list[Part]]]] = {
    "additive": (additive, by_groups),
    "concrete": (partial(draw, "concrete"), by_columns),
    "aqueous_solubility": (partial(draw, "aqueous_solubility"), by_kinds),
}


def ours(parts: list[Part], seed: int, loss: str, average: bool = False) -> Any:
    kernel = Sum([(name, KINDS[kind](columns=list(at))) for name, kind, at in parts])
    model = KernelSVR(kernel=kernel, loss=loss)
    folds = KFold(5, shuffle=True, random_state=seed)
    space = {"C": None} if average else None
    return GradientSearchCV(model, space, cv=folds, random_state=seed)


def himalaya(parts: list[Part], seed: int, solver: str, params: dict[str, Any]) -> Any:
    library = importlib.import_module("himalaya.kernel_ridge")
    kernels = [(n, library.Kernelizer(kind), list(at)) for n, kind, at in parts]
    folds = KFold(5, shuffle=True, random_state=seed)
    model = library.MultipleKernelRidgeCV(
        kernels="precomputed", solver=solver, cv=folds, random_state=seed,
        fit_intercept=solver == "random_search",  # the other has none yet
        solver_params={"progress_bar": False, **params},
    )  # fmt: skip
    return make_pipeline(library.ColumnKernelizer(kernels), model)


def ways(n_draws: int) -> dict[str, Callable[[list[Part], int], Any]]:
    """Return what is compared, as far as it is installed."""
    found: dict[str, Callable[[list[Part], int], Any]] = {
        "ours, average": partial(ours, loss="squared", average=True),
        "ours, squared": partial(ours, loss="squared"),
        "ours, epsilon-insensitive": partial(ours, loss="epsilon_insensitive"),
    }
    if importlib.util.find_spec("himalaya") is not None:
        searched = {"alphas": ALPHAS}
        average = {**searched, "n_iter": 1}
        random = {**searched, "n_iter": n_draws}
        found |= {
            "himalaya, average": partial(himalaya, solver="random_search", params=average),
            "himalaya, random": partial(himalaya, solver="random_search", params=random),
            "himalaya, gradient": partial(
                himalaya, solver="hyper_gradient", params={"max_iter": n_draws}
            ),
        }
    return found


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    seeds, n_draws = (SEEDS[:1], 3) if quick else (SEEDS[:1], N_DRAWS)
    n_rows = 200 if quick else N_ROWS
    tasks = {
        f"{name}: {label}": partial(of_draws, name, way, seeds, n_rows)
        for name in SETS
        for label, way in ways(n_draws).items()
    }
    measure_each("multiple_kernels", tasks, quick, only, keep=True)
    return read_results("multiple_kernels", quick)  # those of what is not installed here, too


def of_draws(
    name: str, way: Callable[[list[Part], int], Any], seeds: Sequence[int], n_rows: int
) -> dict[str, float]:
    """Return error and time, means over draws; what is compiled is so before."""
    sample, parts = SETS[name]
    way(parts(), 0).fit(*sample(150, 0)[:2])
    errors, seconds = [], []
    for seed in seeds:
        X, y, X_test, y_test = sample(n_rows, seed)
        model, middle = way(parts(), seed), y.mean()
        with threadpool_limits(1):  # so that threads that wait do not count
            begun = process_time()
            model.fit(X, y - middle)
            seconds.append(process_time() - begun)
        off = np.asarray(model.predict(X_test)).ravel() + middle - y_test
        errors.append(float(np.sqrt(np.mean(off**2))))
    return {"error": mean(errors), "seconds": mean(seconds)}


def report(results: dict[str, Any]) -> str:
    labels = list(dict.fromkeys(key.partition(": ")[2] for key in results))
    sets = list(dict.fromkeys(key.partition(": ")[0] for key in results))
    lines = [
        [label, *(f"{r['error']:.3f}, {r['seconds']:.1f} s" if (r := results.get(f"{s}: {label}"))
                  else "" for s in sets)]
        for label in labels
    ]  # fmt: skip
    return table(["error, CPU time", *sets], lines)
