"""Price of a search: its time in units of one libsvm fit at the point found, with test errors.

Five folds, two cores, no refit; medians of three draws.  ijcnn1 and a9a are taken as they are, the
other sets are standardised before the clock starts.  `--only TEXT` runs some of the rows.
"""

from functools import partial
from statistics import median
from typing import Any, NamedTuple

from sklearn.svm import SVC, SVR

from benchmarks._common import SEEDS, Sample, draw, measure_each, medians, table, timed
from hypermargin import GradientSearchCV


class Case(NamedTuple):
    """A row of the table: a set, its number of training rows (None: all), what is to be reached."""

    name: str
    n: int | None
    floors: dict[str, float]

    @property
    def label(self) -> str:
        return self.name if self.n is None else f"{self.name} {self.n}"


CASES = (
    Case("ijcnn1", 2_000, {"price": 15, "test_error": 2.9}),
    Case("ijcnn1", 8_000, {"price": 3, "test_error": 1.75}),
    Case("ijcnn1", 16_000, {"price": 3, "test_error": 1.3}),
    Case("ijcnn1", 32_000, {"price": 3, "test_error": 1.0}),
    Case("magic04", 8_000, {"price": 2}),
    Case("covtype_binary", 8_000, {"price": 3}),
    Case("a9a", 8_000, {"price": 3}),
    Case("kin8nm", 4_000, {"price": 6}),
    Case("california_housing", 8_000, {"price": 6}),
    Case("pendigits", None, {"price": 6}),
    Case("usps", None, {"price": 6}),
)
QUICK = (
    Case("ijcnn1", 1_000, {}),
    Case("a9a", 600, {}),
    Case("kin8nm", 300, {}),
    Case("seeds", 150, {}),
)
COLUMNS = {
    "n": ("n", ".0f"),
    "evaluations": ("evaluations on all rows", ".0f"),
    "looks": ("on fewer", ".0f"),
    "search_seconds": ("search, s", ".2f"),
    "fit_seconds": ("one fit, s", ".3f"),
    "price": ("price", ".1f"),
    "test_error": ("test error, %", ".2f"),
    "r2": ("test r2", ".3f"),
}


def search(sample: Sample, seed: int) -> GradientSearchCV:
    """Return a search without refit, as it is measured everywhere."""
    model = SVR(cache_size=2000) if sample.is_regression else SVC(cache_size=2000)
    found = GradientSearchCV(model, cv=sample.folds(seed), n_jobs=2, refit=False, random_state=seed)
    return found.fit(sample.X, sample.y)


def compile_first(sample: Sample) -> None:
    """Search a few of the rows, so that no measured time holds a compilation."""
    search(sample._replace(X=sample.X[:1000], y=sample.y[:1000]), seed=0)


def fit_seconds(model: SVC | SVR, sample: Sample) -> float:
    """Return the median time of three fits, or the time of one that takes long."""
    seconds = [timed(lambda: model.fit(sample.X, sample.y))[0]]
    if seconds[0] <= 5:
        seconds += [timed(lambda: model.fit(sample.X, sample.y))[0] for _ in range(2)]
    return median(seconds)


def measure(sample: Sample, seed: int) -> dict[str, float]:
    """Return the figures of one search; the fit leaves the model to be tested."""
    n = len(sample.y)
    seconds, found = timed(lambda: search(sample, seed))
    model = found.estimator.set_params(**found.best_params_)
    one_fit = fit_seconds(model, sample)
    score = model.score(sample.X_test, sample.y_test)
    return {
        "n": n,
        "evaluations": len(found.cv_results_["params"]),
        "looks": sum(row["n_samples"] < n for row in found.history_),
        "search_seconds": seconds,
        "fit_seconds": one_fit,
        "price": seconds / one_fit,
        **({"r2": score} if sample.is_regression else {"test_error": 100 * (1 - score)}),
    }


def measure_case(case: Case, seeds: tuple[int, ...]) -> dict[str, Any]:
    compile_first(draw(case.name, case.n, seed=0, n_test=100))
    rows = [measure(draw(case.name, case.n, seed), seed) for seed in seeds]
    return {"median": medians(rows), "seeds": rows}


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    cases, seeds = (QUICK, SEEDS[:1]) if quick else (CASES, SEEDS)
    tasks = {case.label: partial(measure_case, case, seeds) for case in cases}
    return measure_each("speed", tasks, quick, only)


def report(results: dict[str, Any]) -> str:
    floors = {case.label: case.floors for case in CASES}

    def cell(label: str, key: str, form: str) -> str:
        if key not in results[label]["median"]:
            return ""
        floor = floors.get(label, {}).get(key)
        return f"{results[label]['median'][key]:{form}}" + (f" (floor {floor})" if floor else "")

    rows = [
        [label.split()[0], *(cell(label, key, form) for key, (_, form) in COLUMNS.items())]
        for label in results
    ]
    missed = [
        f"{label}, {key.replace('_', ' ')}"
        for label in results
        for key, floor in floors.get(label, {}).items()
        if results[label]["median"][key] > floor
    ]
    verdict = f"Floors missed: {'; '.join(missed) or 'none'}."
    return f"{table(['set', *(title for title, _ in COLUMNS.values())], rows)}\n\n{verdict}"
