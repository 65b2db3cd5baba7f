"""Whether asking if widths pay loses against knowing: one width, a width each, and the default.

Twenty-two small sets in two halves: constants were chosen on the first, and the second was looked
at afterwards.  Errors in percent; of regressions a hundred times the root mean squared error in
units of the target's deviation.  "loss" is that of asking against the better of the two means,
"oracle's" that of an oracle which knows all splits but the one.  Then pure noise, and twonorm with
twenty columns of noise: do all real features come first?
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks._common import Sample, load_merged, measure_each, table
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
    for name, n in (("heart", 100), ("bodyfat", 100)):  # compiles
        of_set(name, n, range(1))
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
    """Return errors and CPU seconds of every choice, split by split."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        sample = drawn(name, n, seed)
        for label, gamma in CHOICES.items():
            model = search(sample, "rbf", gamma, seed)
            begun = process_time()  # other work on the machine does not count
            model.fit(sample.X, sample.y)
            found.setdefault(f"{label}, s", []).append(process_time() - begun)
            found.setdefault(label, []).append(error_of(model, sample))
            if label == "asks":
                found.setdefault("kept", []).append(float(model.widths_["kept"]))
                some = "some of the features is kept" in model.widths_["why"]
                found.setdefault("some", []).append(float(some))
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


def too_small(found: dict[str, list[float]]) -> float:
    """Return by how much the lesser of both means would be too small if both choices were alike.

    The standard error of their difference over splits is s; the lesser of two normal numbers with
    the same mean is less than it by s / sqrt(2 pi).
    """
    off = np.subtract(found["one"], found["each"])
    if len(off) == 1:
        return float("nan")
    return float(off.std(ddof=1) / np.sqrt(len(off)) / np.sqrt(2.0 * np.pi))


def report(results: dict[str, Any]) -> str:
    lines, sums = [], dict[str, list[list[float]]]()
    seconds: dict[str, list[tuple[float, float]]] = {}
    for name, f in results.items():
        if "one" not in f:
            continue
        one, each, asks = (float(np.mean(f[label])) for label in CHOICES)
        half, least = "chosen on" if name in dict(CHOSEN) else "checked on", min(one, each)
        asked, alone = sum(f["asks, s"]), sum(f["one, s"])
        times = asked / alone
        seconds.setdefault(half, []).append((asked, alone))
        losses = [asks - least, oracle(f) - least, one - least, each - least]
        sums.setdefault(half, []).append([*losses, 0.5 * (one + each) - least, too_small(f), times])
        kept = f"{sum(f['kept']):.0f} of {len(f['kept'])}"
        if sum(f.get("some", [])):
            kept += f", {sum(f['some']):.0f} of them some"
        numbers = [f"{x:.2f}" for x in (one, each, asks, *losses[:2])]
        lines.append([name, half, *numbers, kept, f"{times:.1f}"])
    header = ["set", "half", "one width", "each", "asks", "loss", "oracle's", "kept"]
    told = [table([*header, "times one width"], lines), means(sums), times_told(seconds)]
    if "pure noise" in results:
        f = results["pure noise"]
        told.append(f"Pure noise: widths were kept in {f['kept']:.0f} of {f['of']:.0f} draws.")
    if "noisy twonorm" in results:
        told.append(of_twonorm(results["noisy twonorm"]))
    return "\n\n".join(told)


def means(sums: dict[str, list[list[float]]]) -> str:
    """Tell the mean losses against the better of both choices, with standard errors over sets."""
    labels = ("asking", "an oracle", "always one width", "always a width each", "one at random",
              "two choices that are alike, by noise", "times one width")  # fmt: skip
    columns = [np.array(rows).T for rows in sums.values()]
    lines = []
    for k, label in enumerate(labels):
        found = [column[k] for column in columns]
        errors = [np.std(x, ddof=1) / np.sqrt(len(x)) if len(x) > 1 else np.nan for x in found]
        lines.append([label, *(f"{x.mean():.2f} ({e:.2f})" for x, e in zip(found, errors))])
    return table(["mean over sets", *sums], lines)


def times_told(seconds: dict[str, list[tuple[float, float]]]) -> str:
    """Tell how much longer asking takes: in the median set, and all sets together."""
    told = []
    for half, pairs in seconds.items():
        ratios = [asked / alone for asked, alone in pairs]
        asked, alone = np.sum(pairs, axis=0)
        told.append(f"{half}: {median(ratios):.1f} in the median, {asked / alone:.1f} all together")
    return f"Times one width, {'; '.join(told)}."


def of_twonorm(found: dict[str, list[float]]) -> str:
    f = {key: np.array(values) for key, values in found.items()}
    errors = ", ".join(f"{k} {f[k].mean():.2f} %" for k in f if "," in k)
    off = f["noisy, asks"] - f["clean, one"]
    error = off.std(ddof=1) / np.sqrt(len(off)) if len(off) > 1 else np.nan
    return (
        f"twonorm with {N_NOISE} columns of noise, {TWONORM} rows: {errors} (asking less clean: "
        f"{off.mean():.2f}, standard error {error:.2f}); all real features first in "
        f"{f['in order'].sum():.0f} of {len(f['in order'])} draws."
    )
