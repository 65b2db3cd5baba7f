"""Experiments A and B of Moore, Bergeron and Bennett (2011) on public sets of molecules.

Features are standardised; where there are more than 100 they are replaced by 100 principal
components, in experiment A by 25.  For multi-group SVR rows are in five groups of equal size, by
the distance to the fifth nearest row: those that lie alone are the less certain ones.  All methods
have the same five folds and C in [1e-4, 1e3] / 2, epsilon up to the deviation of y, here from a
hundredth of it.  The fine grid has 7 times 7 points, about as many as the paper's, the coarse one
has the paper's two values of C and of epsilon, of every group in multi-group SVR.  That, and the
bilevel programmes, are for the smallest sizes.  Times are those of the processor.  Figures 4 to 9
are drawn into docs/images/moore.png.
"""

import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from benchmarks._common import RESULTS, ROOT, load_merged, measure_each, pyplot, table
from hypermargin import GradientSearchCV, LinearRegressor
from hypermargin.methods import Grid, Mpec

SETS = ("blood_brain", "aqueous_solubility", "esol", "melting_point")
SIZES = {"blood_brain": (60, 150), "melting_point": (100, 200, 500, 1000, 2000, 4000)}
USUAL_SIZES = (100, 200, 500, 900)
COMPONENTS, FEW_COMPONENTS = 100, 25
N_GROUPS = 5
SPLITS, FEW_SPLITS = 10, 2  # the fewer ones for times by the number of groups
SQUARED, ABSOLUTE = "squared_epsilon_insensitive", "epsilon_insensitive"
RANGES = {"C": (5e-5, 5e2), "epsilon": (1e-2, 1.0)}
TWO = {"C": (5e-2, 5.0), "epsilon": (1e-2, 1.0)}  # the ends are the paper's two values
GROUPS = {"group_cost": None, "group_epsilon": None}
EACH_TWO = {"group_cost": TWO["C"], "group_epsilon": TWO["epsilon"]}  # factors on 1
WAYS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "grid fine": (Grid(points=7), SQUARED, RANGES),
    "grid coarse": (Grid(points=2), SQUARED, TWO),
    "ImpGrad": ("gradient", SQUARED, RANGES),
    "PBP": ("penalty", SQUARED, RANGES),
    "ImpGrad, groups": ("gradient", SQUARED, {**RANGES, **GROUPS}),
    "PBP, groups": ("penalty", SQUARED, {**RANGES, **GROUPS}),
}
FOR_FEW_ROWS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "SLAMS": (Mpec("slams"), ABSOLUTE, RANGES),
    "EZ-SLAMS": (Mpec("ez-slams"), ABSOLUTE, RANGES),
    "IPOPT": (Mpec("ipopt"), ABSOLUTE, RANGES),
    "grid coarse, groups": (Grid(points=2), SQUARED, EACH_TWO),
}
FEW_ROWS = 100  # up to which these are tried
# cells where the fine grid had the lesser error on test rows: more splits, and grids whose values
# of C lie elsewhere, by shares of the factor between two of them
CLOSE = (("aqueous_solubility", 900), ("blood_brain", 150))
MORE_SPLITS = 40
SHARES = (0.25, 0.5, 0.75)
BETWEEN = (RANGES["C"][1] / RANGES["C"][0]) ** (1 / 6)


def moved(share: float) -> dict[str, tuple[float, float]]:
    """Return the ranges with C moved by a share of what is between two values of the fine grid."""
    low, high = RANGES["C"]
    return {**RANGES, "C": (low * BETWEEN**share, high * BETWEEN**share)}


CLOSELY: dict[str, tuple[Any, str, dict[str, Any]]] = {
    **{way: WAYS[way] for way in ("grid fine", "ImpGrad", "PBP")},
    **{f"grid moved by {share}": (Grid(points=7), SQUARED, moved(share)) for share in SHARES},
}


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


def tuned(
    sample: tuple[np.ndarray, ...],
    method: Any,
    loss: str,
    space: dict[str, Any],
    groups: np.ndarray | None = None,
) -> dict[str, float]:
    """Return test error, that of cross-validation and seconds of one search."""
    X, y, X_test, y_test = sample
    model = LinearRegressor(
        loss=loss, intercept_scaling=1.0, epsilon=1.0 if "C" not in space else 0
    )
    outer = "squared" if loss == SQUARED else "absolute"
    search = GradientSearchCV(
        model,
        space,
        method=method,
        scoring=f"neg_mean_{outer}_error",
        cv=KFold(5, shuffle=True, random_state=0),
        max_evals=1024 if isinstance(method, Grid) else 50,
        random_state=0,
    )
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points on a bound
        search.fit(X, y, cost_groups=lonely(X) if groups is None else groups)
    seconds = time.process_time() - begun
    error = float(np.mean((search.predict(X_test) - y_test) ** 2))
    return {"error": error, "loss": -float(search.best_score_), "seconds": seconds}


def of_split(ways: dict[str, tuple], name: str, size: int, seed: int) -> dict[str, dict]:
    """Return what every way finds on one split."""
    sample = drawn(name, size, seed, FEW_COMPONENTS if size <= 150 else COMPONENTS)
    missing = {"IPOPT"} if importlib.util.find_spec("casadi") is None else set()
    return {way: tuned(sample, *how) for way, how in ways.items() if way not in missing}


def by_groups(seed: int) -> dict[str, dict[str, float]]:
    """Return the same with one to five groups, of 1,000 rows of melting_point."""
    sample = drawn("melting_point", 1000, seed, COMPONENTS)
    fifths, found = lonely(sample[0]), {}
    for number in range(1, N_GROUPS + 1):
        groups = np.minimum(fifths, number - 1)
        for way in ("ImpGrad", "PBP"):
            space = {**RANGES, **GROUPS} if number > 1 else RANGES
            found[f"{way} {number}"] = tuned(sample, WAYS[way][0], SQUARED, space, groups)
    return found


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    pyplot()  # says at once if it is missing
    cells = [(name, size) for name in SETS for size in SIZES.get(name, USUAL_SIZES)]
    tasks: dict[str, Callable[[], Any]] = {}

    def add(ways: dict[str, tuple], label: str, most: float, splits: range) -> None:
        for seed in splits:
            for name, size in cells:
                if size <= most:
                    tasks[f"{label}{name} {size} {seed}"] = partial(
                        of_split, ways, name, size, seed
                    )

    splits = range(1 if quick else SPLITS)
    add(WAYS, "", 200 if quick else np.inf, splits)
    few = range(0 if quick else FEW_SPLITS)
    tasks |= {f"groups {seed}": partial(by_groups, seed) for seed in few}
    add(FOR_FEW_ROWS, "few ", FEW_ROWS, splits)
    for name, size in CLOSE[: 0 if quick else None]:
        for seed in range(MORE_SPLITS):
            tasks[f"closely {name} {size} {seed}"] = partial(of_split, CLOSELY, name, size, seed)
    results = measure_each("moore", tasks, quick, only, keep=not quick)
    draw(results, quick)
    return results


Found = dict[tuple[str, int], dict[str, dict[str, np.ndarray]]]


def gathered(results: dict[str, Any]) -> Found:
    """Return what was found by set and size, then by way: an array over splits of each number."""
    found: Found = {}
    for label, of in results.items():
        if label.startswith(("groups", "closely")):
            continue
        name, size, _ = label.removeprefix("few ").split()
        ways = found.setdefault((name, int(size)), {})
        for way, numbers in of.items():
            for key, value in numbers.items():
                kept = ways.setdefault(way, {}).setdefault(key, np.empty(0))
                ways[way][key] = np.append(kept, value)
    order = [(name, size) for name in SETS for size in SIZES.get(name, USUAL_SIZES)]
    return {cell: found[cell] for cell in order if cell in found}


def group_seconds(results: dict[str, Any], way: str) -> np.ndarray:
    """Return the mean seconds with one group, two and so on."""
    of = [found for label, found in results.items() if label.startswith("groups")]
    each = [[one[f"{way} {n}"]["seconds"] for one in of] for n in range(1, N_GROUPS + 1)]
    return np.array([np.mean(seconds) for seconds in each]) if of else np.empty(0)


def against_grid(found: dict[str, dict[str, np.ndarray]], way: str, key: str) -> tuple:
    """Return by how much a way is above the fine grid, in percent, and the standard error."""
    grid, ours = found["grid fine"][key], found[way][key]
    apart = 100.0 * (ours - grid) / grid.mean()
    error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
    return float(apart.mean()), float(error)


def closer(results: dict[str, Any]) -> str:
    """Return how the close cells compare with every grid: on test rows, then on the folds.

    Splits share most of their rows, so that the standard error over them is too small; that of
    Nadeau and Bengio (2003), with the ratio of test rows to others, follows it.
    """
    rows = []
    for name, size in CLOSE:
        start = f"closely {name} {size} "
        splits = [of for label, of in results.items() if label.startswith(start)]
        ratio = len(load_merged(name)[0]) / size - 1.0
        grids = [way for way in CLOSELY if way.startswith("grid")] if splits else []
        for way, grid in ((way, grid) for way in ("ImpGrad", "PBP") for grid in grids):
            row = [name, str(size), way, grid]
            for key in ("error", "loss"):
                theirs, ours = (np.array([of[w][key] for of in splits]) for w in (grid, way))
                apart, n = 100.0 * (ours - theirs) / theirs.mean(), len(splits)
                wide = apart.std(ddof=1) * np.sqrt(1 / n + ratio)
                row.append(f"{apart.mean():+.2f} ± {apart.std(ddof=1) / np.sqrt(n):.2f}")
                row[-1] += f" ({wide:.2f})" if key == "error" else ""
                row.append(f"{np.sum(apart < 0)} of {n}")
            rows.append(row)
    return table(["set", "rows", "way", "grid", "test", "below", "folds", "below"], rows)


def exponent(found: Found, way: str, least: int = 500) -> float:
    """Return the power of the rows that the time of melting_point grows with."""
    cells = [(size, ways[way]) for (name, size), ways in found.items() if name == "melting_point"]
    points = [(np.log(n), np.log(of["seconds"].mean())) for n, of in cells if n >= least]
    x, y = np.transpose(points) if len(points) > 1 else np.full((2, 2), np.nan)
    return float(np.polyfit(x, y, 1)[0]) if len(points) > 1 else np.nan


def draw(results: dict[str, Any], quick: bool) -> None:
    """Draw Figures 4 to 9."""
    plt, found = pyplot(), gathered(results)
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5))
    small = {name: ways for (name, size), ways in found.items() if size <= FEW_ROWS}
    shown = ["grid fine", "SLAMS", "EZ-SLAMS", "IPOPT", "ImpGrad", "PBP"]
    for axis, key, title in (
        (axes[0, 0], "error", "4: test MSE, experiment A"),
        (axes[0, 1], "seconds", "5: seconds, experiment A"),
    ):
        for k, way in enumerate(shown):
            heights = [np.mean(of[way][key]) if way in of else 0.0 for of in small.values()]
            axis.bar(np.arange(len(small)) + 0.13 * (k - 2.5), heights, 0.13, label=way)
        axis.set_xticks(range(len(small)), [name.split("_")[0] for name in small])
        axis.set_title(title)
    axes[0, 1].set_yscale("log")
    axes[0, 0].legend(fontsize=7)
    by_size = [(axes[0, 2], "aqueous_solubility", "6"), (axes[1, 0], "melting_point", "7")]
    for axis, name, number in by_size:
        lines(axis, found, name, "error", ["grid fine", "ImpGrad, groups", "PBP, groups"])
        axis.set_title(f"{number}: test MSE, {name}")
    lines(axes[1, 1], found, "melting_point", "seconds", ["ImpGrad, groups", "PBP, groups"])
    axes[1, 1].set_yscale("log")
    axes[1, 1].set_title("8: seconds, 12 hyperparameters, melting_point")
    for way in ("ImpGrad", "PBP"):
        seconds = group_seconds(results, way)
        axes[1, 2].plot(np.arange(1, len(seconds) + 1), seconds, "o-", label=way)
    axes[1, 2].set_title("9: seconds by groups, 1,000 rows")
    for axis in axes.ravel()[2:]:
        axis.legend(fontsize=7)
    figure.tight_layout()
    folder = RESULTS if quick else ROOT / "docs" / "images"
    figure.savefig(folder / f"moore{'.quick' if quick else ''}.png", dpi=70)
    plt.close(figure)


def lines(axis: Any, found: Found, name: str, key: str, ways: list[str]) -> None:
    for way in ways:
        cells = [(size, of[way][key]) for (of_set, size), of in found.items() if of_set == name]
        means = [values.mean() for _, values in cells]
        bars = [values.std() / np.sqrt(len(values)) for _, values in cells]
        axis.errorbar([size for size, _ in cells], means, bars, fmt="o-", label=way)
    axis.set_xscale("log")


def report(results: dict[str, Any]) -> str:
    found = gathered(results)
    errors, apart, seconds = [], [], []
    for (name, size), ways in found.items():
        n = len(ways["ImpGrad"]["error"])
        means = {way: f"{of['error'].mean():.3f}" for way, of in ways.items()}
        errors.append([name, size, n, *(means.get(way, "") for way in (*WAYS, *FOR_FEW_ROWS))])
        times = {way: f"{of['seconds'].mean():.2f}" for way, of in ways.items()}
        seconds.append([name, size, *(times.get(way, "") for way in (*WAYS, *FOR_FEW_ROWS))])
        row: list[Any] = [name, size]
        for way in ("ImpGrad", "PBP"):
            for key in ("error", "loss"):
                row.append("{:+.2f} ± {:.2f}".format(*against_grid(ways, way, key)))
        apart.append(row)
    names = [*WAYS, *FOR_FEW_ROWS]
    heads = ["ImpGrad, test", "ImpGrad, folds", "PBP, test", "PBP, folds"]
    grow = ", ".join(f"{way}: n^{exponent(found, way):.2f}" for way in WAYS)
    by_number = [
        [way, *(f"{s:.2f}" for s in group_seconds(results, way))] for way in ("ImpGrad", "PBP")
    ]
    return "\n\n".join(
        [
            "Test MSE, means",
            table(["set", "rows", "splits", *names], errors),
            "Above the fine grid, %, and the standard error of the difference",
            table(["set", "rows", *heads], apart),
            "Seconds of the processor, means",
            table(["set", "rows", *names], seconds),
            f"Time of melting_point from 500 rows on: {grow}",
            "Seconds of 1,000 rows of melting_point by the number of groups",
            table(["way", *map(str, range(1, N_GROUPS + 1))], by_number),
            "Close cells: above a grid on test rows, %, below it in how many splits; on the folds",
            closer(results),
        ]
    )
