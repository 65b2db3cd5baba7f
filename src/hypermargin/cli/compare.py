"""`hypermargin compare`: this search beside others, with the same time, folds and test rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GroupShuffleSplit,
    ParameterSampler,
    ShuffleSplit,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

from ..files import Mistake
from ..files.writing import beside, check_outputs
from .models import fit_params
from .problem import Problem, load
from .telling import Teller, params, table
from .timed import Fits, Late, Task
from .tune import fit, interruptible, introduction, make_search, reason

SECONDS = 30.0  # for each search, if nothing is said
KEPT_APART = 0.25  # of the rows, to test on
# what people search by hand: powers of ten around the defaults
RANGES = {"C": (-3, 4), "gamma": (-5, 2), "epsilon": (-3, 1), "alpha": (-4, 3), "coef0": (-2, 1)}
BOOSTING = {"learning_rate": (-2.5, 0), "max_leaf_nodes": (0.7, 2.3), "l2_regularization": (-6, 1)}
Point = dict[str, Any]
Ranges = Mapping[str, tuple[float, float]]


@dataclass
class Way:
    """A way to search: a model, and a source of points that is told the score of each."""

    model: Any
    prefix: str
    points: Callable[[], Iterator[Point]]
    tell: Callable[[Point, float], Any] = lambda point, score: None


@dataclass
class Outcome:
    """What a way has found: the best score after every evaluation, and the test score."""

    name: str
    params: Point = field(default_factory=dict)
    score: float = -np.inf
    test: float = np.nan
    seconds: float = 0.0
    evaluations: int = 0
    course: list[tuple[float, float]] = field(default_factory=list)

    def see(self, point: Point, score: float, seconds: float) -> None:
        """Take note of one evaluation."""
        self.evaluations += 1
        if score > self.score:
            self.params, self.score = point, score
        self.seconds = seconds
        self.course.append((seconds, self.score))


def run(options: Any) -> int:
    """Compare; return the exit code."""
    teller = Teller(options)
    check_outputs([options.picture], options.overwrite, [options.data])
    if options.picture:
        _check_picture(options.picture)
    whole = load(options)
    problem, test = _apart(whole, options.seed)
    budget = options.time_budget or SECONDS
    search, prefix = make_search(problem, options, 0)
    teller.aside(*introduction(problem, options, search))
    teller.aside(f"{len(test.y)} rows are kept apart to test on; {budget:g} s for each search")
    search.set_params(time_budget=budget)
    outcomes: list[Outcome] = []
    groups = fit_params(problem, "").get("groups")
    splits = list(search.cv.split(problem.X, problem.y, groups))
    jobs = options.jobs if options.jobs == -1 else effective_n_jobs(options.jobs)
    threads = threadpool_limits(jobs if jobs > 0 else None)
    fits = Fits(Task(problem, test, splits, search.scoring), jobs)
    with interruptible() as stop, teller.listening(), threads, closing(fits):
        try:
            _warm(search, problem)
            for name, way in _ways(problem, search, prefix, options.seed).items():
                try:
                    outcomes.append(_tried(name, way, fits, search, prefix))
                except Mistake:
                    raise
                except (AttributeError, ValueError, MemoryError) as error:
                    teller.note(f"{name} is left out: {reason(error)}")
                    continue
                teller.aside(f"  {name}: {outcomes[-1].seconds:.1f} s")
        except KeyboardInterrupt:
            if not outcomes:
                raise
    if options.picture:
        with beside(options.picture) as place:
            draw(outcomes, problem.score, place)
    teller.result(_result(outcomes, options, budget, stop), _lines(outcomes, problem.score, prefix))
    return 130 if stop.pressed else 0


def _apart(problem: Problem, seed: int) -> tuple[Problem, Problem]:
    """Return the rows to search on, and those to test on."""
    kind: Any = StratifiedShuffleSplit if problem.is_classification else ShuffleSplit
    kind = kind if problem.groups is None else GroupShuffleSplit
    splitter = kind(1, test_size=KEPT_APART, random_state=seed)
    groups = None if problem.groups is None else problem.groups.astype(str)
    try:
        rows = next(splitter.split(problem.X, problem.y, groups))
    except ValueError as error:
        raise Mistake(f"The rows are too few to keep some apart: {error}") from None
    return tuple(  # type: ignore[return-value]
        Problem(
            _safe_indexing(problem.X, part), problem.y[part], problem.takes, problem.task,
            None if problem.groups is None else problem.groups[part],
            None if problem.weights is None else problem.weights[part],
            list(problem.guessed),
        )
        for part in rows
    )  # fmt: skip


def _ways(problem: Problem, search: Any, prefix: str, seed: int) -> dict[str, Way | None]:
    """Return the ways by name; None is our own."""
    model, names = search.estimator, _tunable(search.estimator, prefix)
    ranges = {prefix + name: RANGES[name] for name in names}
    boosting, trees = _boosting(problem, model, seed)
    theirs = {trees + name: ends for name, ends in BOOSTING.items()}
    ways: dict[str, Way | None] = {
        "hypermargin": None,
        "defaults": Way(model, prefix, lambda: iter([{}])),
        "grid": Way(model, prefix, lambda: _grid(ranges, seed)),
        "random": Way(model, prefix, lambda: _random(ranges, seed)),
    }
    optuna = _optuna(model, prefix, ranges, seed)
    if optuna is not None:
        ways["optuna"] = optuna
    ways["boosting"] = Way(boosting, trees, lambda: _boosting_points(theirs, seed))
    return ways


def _tunable(model: Any, prefix: str) -> list[str]:
    """Return the hyperparameters that our search would tune, too."""
    machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
    kernel = getattr(machine, "kernel", None)
    no_width = kernel in (None, "linear", "tanimoto", "minmax", "auto")
    skipped = {"gamma"} if no_width else set()
    if kernel not in ("poly", "sigmoid"):
        skipped.add("coef0")
    return [name for name in RANGES if name in machine.get_params() and name not in skipped]


def _grid(ranges: Ranges, seed: int) -> Iterator[Point]:
    """Yield the points of ever finer grids, powers of ten first; each grid in a random order.

    A grid that the time cuts off would else have seen one corner only.
    """
    names, seen, rng = list(ranges), set(), np.random.RandomState(seed)
    for finer in (1, 2, 4):
        axes = [np.arange(low, high + 1e-9, 1 / finer) for low, high in ranges.values()]
        points = [powers for powers in product(*axes) if powers not in seen]
        seen.update(points)
        for place in rng.permutation(len(points)):
            yield {name: float(10.0**power) for name, power in zip(names, points[place])}


class _Log10:
    """A distribution whose logarithm is uniform."""

    def __init__(self, low: float, high: float):
        self.low, self.high = low, high

    def rvs(self, random_state: Any) -> float:
        """Draw a value."""
        return float(10.0 ** random_state.uniform(self.low, self.high))


def _random(ranges: Ranges, seed: int) -> Iterator[Point]:
    drawn = {name: _Log10(*ends) for name, ends in ranges.items()}
    return iter(ParameterSampler(drawn, 10**6, random_state=seed))


def _optuna(model: Any, prefix: str, ranges: Ranges, seed: int) -> Way | None:
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    asked: list[Any] = []

    def points() -> Iterator[Point]:
        while True:
            asked.append(study.ask())
            yield {
                name: asked[-1].suggest_float(name, 10.0**low, 10.0**high, log=True)
                for name, (low, high) in ranges.items()
            }

    return Way(model, prefix, points, lambda point, score: study.tell(asked[-1], score))


def _boosting(problem: Problem, model: Any, seed: int) -> tuple[Any, str]:
    """Return scikit-learn's boosting, behind what makes numbers of other columns; its prefix."""
    kind = (
        HistGradientBoostingClassifier
        if problem.is_classification
        else HistGradientBoostingRegressor
    )
    trees = kind(random_state=seed)
    if problem.X.dtype != object and not sparse.issparse(problem.X):
        return trees, ""
    before = [(name, clone(step)) for name, step in getattr(model, "steps", [])[:-1]]
    full = FunctionTransformer(_dense, accept_sparse=True)
    return Pipeline([*before, ("dense", full), ("trees", trees)]), "trees__"


def _dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


def _boosting_points(ranges: Ranges, seed: int) -> Iterator[Point]:
    """Yield the defaults, and then points at random."""
    yield {}
    for point in _random(ranges, seed):
        yield {k: round(v) if k.endswith("max_leaf_nodes") else v for k, v in point.items()}


def _tried(name: str, way: Way | None, fits: Fits, search: Any, prefix: str) -> Outcome:
    """Let one way search, and test what it has found."""
    outcome, task = Outcome(name), fits.task
    if way is None:
        begun = time.perf_counter()
        fit(search, task.train, prefix)
        outcome.seconds = time.perf_counter() - begun
        outcome.params, outcome.score = search.best_params_, float(search.best_score_)
        outcome.evaluations = len(search.cv_results_["params"])
        outcome.course = _course(search)
        outcome.test = float(get_scorer(search.scoring)(search, task.test.X, task.test.y))
        return outcome
    fits.begin()
    begun = time.perf_counter()
    with suppress(Late):
        _evaluate(outcome, way, fits, begun + search.time_budget)
    outcome.seconds = time.perf_counter() - begun
    if outcome.evaluations:
        fits.begin()
        begun, best = time.perf_counter(), clone(way.model).set_params(**outcome.params)
        with suppress(Late):  # this fit comes after the search, and may take as long
            outcome.test = fits.ask("final", best, way.prefix, seconds=search.time_budget)
        outcome.seconds += time.perf_counter() - begun
    return outcome


def _course(search: Any) -> list[tuple[float, float]]:
    """Return the best score so far after every evaluation of our search."""
    course, clock, best = [], 0.0, -np.inf
    for step in search.history_:
        clock += step["seconds"]
        best = max(best, step["score"] if np.isfinite(step["score"]) else -np.inf)
        if np.isfinite(best):
            course.append((clock, float(best)))
    return course


def _evaluate(outcome: Outcome, way: Way, fits: Fits, end: float) -> None:
    """Evaluate points until there are no more, or the time is up.

    A fit that is under way then has as long again as the longest before it; after that, it is Late.
    """
    begun, longest = time.perf_counter(), 0.0
    for point in way.points():
        model, scores = clone(way.model).set_params(**point), []
        for fold in range(len(fits.task.splits)):
            now = time.perf_counter()
            if now >= end:
                return
            more = end - now + longest
            scores.append(fits.ask("fold", model, way.prefix, fold, seconds=more))
            longest = max(longest, time.perf_counter() - now)
        way.tell(point, float(np.mean(scores)))
        outcome.see(point, float(np.mean(scores)), time.perf_counter() - begun)


def _warm(search: Any, problem: Problem) -> None:
    """Let our functions be compiled, or loaded, before the clock starts: a small search."""
    rows = np.random.RandomState(0).permutation(len(problem.y))[:200]
    small = clone(search).set_params(cv=2, max_evals=2, rank=None)
    with suppress(ValueError):  # what the small one lacks, the other has, or says
        small.fit(_safe_indexing(problem.X, rows), problem.y[rows])


def _result(outcomes: list[Outcome], options: Any, budget: float, stop: Any) -> dict[str, Any]:
    rows = [
        {"way": one.name, "params": one.params, "score": one.score, "test_score": one.test,
         "seconds": one.seconds, "evaluations": one.evaluations}
        for one in outcomes
    ]  # fmt: skip
    return {"data": str(options.data), "time_budget": budget, "ways": rows,
            "interrupted": stop.pressed, "picture": options.picture}  # fmt: skip


def _lines(outcomes: list[Outcome], score: str, prefix: str) -> list[str]:
    rows = [
        [one.name, _digits(one.score), _digits(one.test), f"{one.seconds:.1f}",
         str(one.evaluations), _found(one, prefix)]
        for one in outcomes
    ]  # fmt: skip
    head = ["", f"{score}, folds", "test rows", "seconds", "evaluations", "found"]
    return table(head, rows)


def _digits(score: float) -> str:
    return f"{score:.4f}" if np.isfinite(score) else "-"


def _found(one: Outcome, prefix: str) -> str:
    if not one.evaluations:
        return "no point was evaluated in time"
    return params(one.params, prefix) or "as they are"


def _check_picture(path: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Mistake('--picture needs matplotlib: pip install "hypermargin[plot]".') from None
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise Mistake(f"--picture {path} should end in .png, .svg or .pdf.")


def draw(outcomes: list[Outcome], score: str, path: Path) -> None:
    """Draw the best score so far against the time, one line for each way."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    marks = "osD^vP"
    for place, one in enumerate(outcomes):
        if not one.course:
            continue
        seconds, best = np.array(one.course).T
        axes.step(seconds, best, where="post", lw=1.6, marker=marks[place % 6], ms=4,
                  markevery=[len(best) - 1], label=f"{one.name} (test {one.test:.3f})")  # fmt: skip
    axes.set(xscale="log", xlabel="seconds", ylabel=f"best {score} of the folds")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
