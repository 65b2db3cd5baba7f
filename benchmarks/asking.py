"""Whether asking if widths pay loses against knowing: one width, a width each, and the default.

Twenty-two small sets in two halves: constants were chosen on the first, and the second was looked
at afterwards.  Errors in percent; of regressions a hundred times the root mean squared error in
units of the target's deviation.  "loss" is that of asking against the better of the two means,
"oracle's" that of an oracle which knows all splits but the one.  Then pure noise, and twonorm with
twenty columns of noise: do all real features come first?
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks._common import Sample, load_merged, measure_each, table, timed
from benchmarks.widths import error_of, search

CHOSEN = (
    ("heart", 160),
    ("parkinsons", 117),
    ("breast_cancer_wisconsin", 410),
    ("pendigits", 600),
    ("boston_housing", 300),
    ("waveform", 400),
    ("blood_brain", 125),
    ("svmguide1", 500),
    ("winequality_red", 600),
    ("abalone", 600),
    ("freesolv", 400),
)
CHECKED = (
    ("diabetes", 460),
    ("ionosphere", 210),
    ("seeds", 126),
    ("concrete", 618),
    ("bodyfat", 150),
    ("twonorm", 400),
    ("breast_cancer_ljubljana", 160),
    ("esol", 600),
    ("aqueous_solubility", 600),
    ("bbbp", 800),
    ("power_plant", 600),
)
QUICK = (("heart", 100),)
CHOICES = {"one": None, "each": "always_per_feature", "asks": "per_feature"}
SPLITS = 4
NOISE = (100, 60)  # rows and columns
DRAWS = 10
TWONORM = 400  # rows
N_REAL = N_NOISE = 20


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    seeds = range(1 if quick else SPLITS)
    tasks: dict[str, Callable[[], Any]] = {
        name: partial(of_set, name, n, seeds) for name, n in (QUICK if quick else CHOSEN + CHECKED)
    }
    tasks["pure noise"] = partial(noise, 2 if quick else DRAWS)
    tasks["noisy twonorm"] = partial(noisy_twonorm, 1 if quick else DRAWS)
    return measure_each("asking", tasks, quick, only, keep=True)


def drawn(name: str, n: int, seed: int) -> Sample:
    X, y = load_merged(name)
    labels = None if y.dtype.kind == "f" else y
    n_test = min(5000, len(y) - n)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n, test_size=n_test, stratify=labels, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    if labels is None:
        y, y_test = (100.0 * (part - y.mean()) / y.std() for part in (y, y_test))
    return Sample(scaler.transform(X), y, scaler.transform(X_test), y_test)


def of_set(name: str, n: int, seeds: range) -> dict[str, list[float]]:
    """Return errors and seconds of every choice, split by split."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        sample = drawn(name, n, seed)
        for label, gamma in CHOICES.items():
            model = search(sample, "rbf", gamma, seed)
            seconds, _ = timed(partial(model.fit, sample.X, sample.y))
            found.setdefault(label, []).append(error_of(model, sample))
            found.setdefault(f"{label}, s", []).append(seconds)
            if label == "asks":
                found.setdefault("kept", []).append(float(model.widths_["kept"]))
    return found


def noise(draws: int) -> dict[str, float]:
    """Return how often a width for each of many columns of noise is kept."""
    kept = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=NOISE), rng.integers(0, 2, NOISE[0])
        model = search(Sample(X, y, X[:0], y[:0]), "rbf", "per_feature", seed).fit(X, y)
        kept.append(model.widths_["kept"])
    return {"kept": float(np.sum(kept)), "of": float(draws)}


def noisy_twonorm(draws: int) -> dict[str, list[float]]:
    """Return errors on twonorm with columns of noise, and whether all of these come last."""
    found: dict[str, list[float]] = {"clean, one": [], "noisy, one": [], "noisy, asks": []}
    found |= {"in order": [], "kept": []}
    for seed in range(draws):
        clean = drawn("twonorm", TWONORM, seed)
        rng = np.random.default_rng(seed)
        parts = [np.hstack([X, rng.normal(size=(len(X), N_NOISE))]) for X in clean[::2]]
        noisy = Sample(parts[0], clean.y, parts[1], clean.y_test)
        for label, sample, gamma in (
            ("clean, one", clean, None),
            ("noisy, one", noisy, None),
            ("noisy, asks", noisy, "per_feature"),
        ):
            model = search(sample, "rbf", gamma, seed).fit(sample.X, sample.y)
            found[label].append(error_of(model, sample))
        share = model.relevance_["relevance"]
        found["in order"].append(float(share[:N_REAL].min() > share[N_REAL:].max()))
        found["kept"].append(float(model.widths_["kept"]))
    return found


def oracle(found: dict[str, list[float]]) -> float:
    """Return the mean error of the choice that is better on the other splits.

    The lesser of two means of noisy numbers is too small; this is what knowing the set would give.
    """
    errors = np.array([found["one"], found["each"]])
    if errors.shape[1] == 1:
        return float(errors.min())
    others = errors.sum(axis=1, keepdims=True) - errors
    return float(np.take_along_axis(errors, others.argmin(axis=0)[None], axis=0).mean())


def report(results: dict[str, Any]) -> str:
    lines, sums = [], dict[str, list[list[float]]]()
    for name, f in results.items():
        if "one" not in f:
            continue
        one, each, asks = (float(np.mean(f[label])) for label in CHOICES)
        half = "chosen on" if name in dict(CHOSEN) else "checked on"
        loss, times = asks - min(one, each), sum(f["asks, s"]) / sum(f["one, s"])
        sums.setdefault(half, []).append([loss, oracle(f) - min(one, each), times])
        kept = f"{sum(f['kept']):.0f} of {len(f['kept'])}"
        numbers = [f"{x:.2f}" for x in (one, each, asks, loss, oracle(f) - min(one, each))]
        lines.append([name, half, *numbers, kept, f"{times:.1f}"])
    for half, rows in sums.items():
        loss, of_oracle, times = np.mean(rows, axis=0)
        line = ["mean", half, "", "", "", f"{loss:.2f}", f"{of_oracle:.2f}"]
        lines.append([*line, "", f"{times:.1f}"])
    header = ["set", "half", "one width", "each", "asks", "loss", "oracle's", "kept"]
    header.append("times one width")
    told = [table(header, lines)]
    if "pure noise" in results:
        f = results["pure noise"]
        told.append(f"Pure noise: widths were kept in {f['kept']:.0f} of {f['of']:.0f} draws.")
    if "noisy twonorm" in results:
        f = {key: np.array(values) for key, values in results["noisy twonorm"].items()}
        errors = ", ".join(f"{k} {f[k].mean():.2f} %" for k in f if "," in k)
        told.append(
            f"twonorm with {N_NOISE} columns of noise, {TWONORM} rows: {errors}; all real features "
            f"first in {f['in order'].sum():.0f} of {len(f['in order'])} draws."
        )
    return "\n\n".join(told)
