"""`hypermargin tune`: the hyperparameters of a model for a file."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from .._core.version import __version__
from ..files import Mistake
from ..files.machines import describe, machine_file
from ..files.models import Stored, check_model_path, write_model
from ..files.writing import check_outputs, write_history, write_text
from ..report import page
from ..search.estimate import Comparison
from ..search.search import GradientSearchCV
from .models import estimator, fit_params, folds, landmarks, machine_of
from .problem import Problem, load
from .scores import score_of, scorer
from .telling import Teller, counted, params


@dataclass
class Stop:
    """Whether Ctrl-C was pressed."""

    pressed: bool = False


def run(options: Any) -> int:
    """Tune, tell and write; return the exit code."""
    teller = Teller(options)
    check_model_path(options.out)
    outputs = [options.out, options.libsvm, options.liblinear, options.history, options.report]
    ranged = f"{options.libsvm}.range" if options.libsvm else None
    check_outputs([*outputs, ranged], options.overwrite, [options.data], options.checkpoint)
    problem = load(options)
    search, prefix = make_search(problem, options, 0 if teller.quiet else 1)
    _check_exports(search.estimator, options)
    teller.aside(*introduction(problem, options, search))
    with interruptible() as stop, teller.listening():
        begun = time.perf_counter()
        fit(search, problem, prefix)
        seconds = time.perf_counter() - begun
        compared = None
        if not stop.pressed and not options.time_budget:  # one more evaluation
            compared = defaults(search, problem, prefix)
    result = _result(search, problem, options, seconds, stop)
    result["defaults"] = None if compared is None else str(compared)
    try:
        result["written"] = write(search, problem, options, teller, compared)
    finally:  # a disk that is full takes nothing away from what was found
        teller.result(result, _lines(search, result, prefix))
    return 130 if stop.pressed else 0


def make_search(problem: Problem, options: Any, verbose: int) -> tuple[GradientSearchCV, str]:
    """Return the search that options ask for, and the prefix of the machine's parameters."""
    problem.score, problem.positive = score_of(problem, options.score, options.positive)
    scoring = problem.score
    if problem.positive is not None:
        scoring = scorer(problem.score, problem.positive)
    model, prefix = estimator(problem, options)
    rank = landmarks(problem, machine_of(model), getattr(options, "landmarks", None))
    more: dict[str, Any] = {}
    if getattr(options, "checkpoint", None) is not None:
        more["checkpoint"] = options.checkpoint
    search = GradientSearchCV(
        model, scoring=scoring, cv=folds(problem, options.folds, options.seed), rank=rank,
        n_jobs=options.jobs, time_budget=options.time_budget, random_state=options.seed,
        verbose=verbose, **more,
    )  # fmt: skip
    return search, prefix


def fit(search: Any, problem: Problem, prefix: str) -> None:
    """Fit a search; what its data cannot be is the user's mistake."""
    try:
        search.fit(problem.X, problem.y, **fit_params(problem, prefix))
    except (ValueError, TypeError, NotFittedError) as error:
        raise Mistake(reason(error)) from error


def reason(error: Exception) -> str:
    """Return what an error says in one line; of fits that failed, what the last of them said."""
    lines = str(error).split("\n")
    failed = [line for line in lines if re.match(r"\w+(Error|Exception): ", line)]
    return failed[-1].partition(": ")[2] if failed else " ".join(str(error).split())


def expected(search: Any) -> dict[str, float] | None:
    """Return the score to expect on new data, where there is an estimate."""
    try:
        found = search.score_estimate_
    except AttributeError:
        return None
    return {name: float(getattr(found, name)) for name in ("score", "low", "high", "level")}


def defaults(search: Any, problem: Problem, prefix: str) -> Comparison | None:
    """Compare with the model's default parameters, where that can be done."""
    try:
        return search.compare_default(problem.X, problem.y, **fit_params(problem, prefix))
    except (AttributeError, ValueError):
        return None


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Remember whether Ctrl-C was pressed; the search ends by it with the best so far."""
    stop = Stop()

    def pressed(number: int, frame: FrameType | None) -> None:
        stop.pressed = True
        signal.default_int_handler(number, frame)

    try:
        before = signal.signal(signal.SIGINT, pressed)
    except ValueError:  # not in the main thread, where no signals arrive
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def introduction(problem: Problem, options: Any, search: Any) -> list[str]:
    """Return what is known before the search begins."""
    n_rows, n_features = problem.X.shape
    size = f"{counted(n_rows, 'row')}, {counted(n_features, 'feature')}"
    lines = [f"{options.data}: {size}, {problem.task}"]
    return lines + [f"guessed: {guess}" for guess in problem.guessed]


def _check_exports(model: Any, options: Any) -> None:
    """Refuse, before any work is done, a model that a format cannot hold."""
    machine = machine_of(model)
    linear = not hasattr(machine, "kernel")
    if options.liblinear and not linear:
        raise Mistake("--liblinear is for linear models; --model linear is one.")
    if options.libsvm and linear:
        raise Mistake("--libsvm is for machines with a kernel; --model svm is one.")
    if options.libsvm and machine.kernel not in ("rbf", "linear", "poly", "sigmoid"):
        raise Mistake(f"--libsvm: LIBSVM has no kernel {machine.kernel!r}.")
    if options.libsvm and type(machine).__name__ not in ("SVC", "SVR"):
        raise Mistake(f"--libsvm: LIBSVM has no {type(machine).__name__}.")
    before = [type(step).__name__ for _, step in getattr(model, "steps", [])[:-1]]
    for name in ("SimpleImputer", "ColumnTransformer"):
        if (options.libsvm or options.liblinear) and name in before:
            raise Mistake(
                "Model files of LIBSVM and LIBLINEAR take numbers without gaps; these data have "
                "gaps, categories or text, so write the model with --out."
            )


def write(
    search: Any, problem: Problem, options: Any, teller: Teller, compared: Comparison | None
) -> dict[str, str]:
    """Write the files that were asked for; return what was written where."""
    written: dict[str, str] = {}
    if options.out:
        about = {"takes": problem.takes, "task": problem.task, "score": problem.score,
                 "positive": problem.positive, "version": __version__}  # fmt: skip
        calibration = getattr(search, "calibration_", None)
        write_model(options.out, Stored(search.best_estimator_, calibration, about))
        written["model"] = options.out
        if options.out.lower().endswith(".joblib"):
            teller.note(f"{options.out} is a pickle, which can run any code when it is read.")
    for program in ("libsvm", "liblinear"):
        path = getattr(options, program)
        if path:
            _export(search.best_estimator_, problem, program, path, teller)
            written[program] = path
    if options.history:
        write_history(options.history, search.history_)
        written["history"] = options.history
    if options.report:
        write_text(options.report, page(search, compared, search._warned))
        written["report"] = options.report
    return written


def _export(model: Any, problem: Problem, program: str, path: str, teller: Teller) -> None:
    file = machine_file(model, problem.X.shape[1], program)
    write_text(path, file.text)
    if file.labels:
        teller.note(f"{path} has numbers for the classes: {describe(file.labels)}.")
    if file.ranges is not None:
        write_text(f"{path}.range", file.ranges)
        teller.note(
            f"features must be scaled before svm-predict sees them: svm-scale -r {path}.range DATA."
        )
    elif problem.takes["what"] == "table":
        names = [one["name"] for one in problem.takes["columns"]]
        teller.note(f"feature 1 of {path} is {names[0]!r}, and so on in the order of the columns.")


def _result(
    search: Any, problem: Problem, options: Any, seconds: float, stop: Stop
) -> dict[str, Any]:
    best, results = search.best_index_, search.cv_results_
    scores = [results[f"split{k}_test_score"][best] for k in range(search.n_splits_)]
    spread = float(np.std(scores) / np.sqrt(max(len(scores) - 1, 1)))
    looks = sum(step["look"] for step in search.history_)
    on_all = sum(n == problem.X.shape[0] for n in results["n_samples"])
    return {
        "data": str(options.data),
        "rows": int(problem.X.shape[0]),
        "features": int(problem.X.shape[1]),
        "task": problem.task,
        "model": type(machine_of(search.estimator)).__name__,
        "guessed": problem.guessed,
        "best_params": search.best_params_,
        "score": {"name": problem.score, "mean": search.best_score_, "standard_error": spread},
        "expected": expected(search),
        "evaluations": on_all,
        "evaluations_on_fewer_rows": len(search.history_) - looks - on_all,
        "looks": looks,
        "seconds": seconds,
        "interrupted": stop.pressed,
        "written": {},
    }


def _lines(search: Any, result: dict[str, Any], prefix: str) -> list[str]:
    """Return the result as a short table."""
    score = result["score"]
    lines = [
        f"model    {result['model']}, {params(search.best_params_, prefix)}",
        f"score    {score['name']} {score['mean']:.4f} in {search.n_splits_} folds, standard error "
        f"{score['standard_error']:.4f}",
    ]
    if (new := result["expected"]) is not None:
        lines.append(
            f"expected {new['score']:.4f} on new data ({new['low']:.4f} to {new['high']:.4f} with "
            f"{100 * new['level']:g} %)"
        )
    if result["defaults"] is not None:
        lines.append(f"defaults {result['defaults']}")
    lines.append(
        f"time     {result['seconds']:.1f} s, {counted(result['evaluations'], 'evaluation')} on "
        f"all rows, {result['evaluations_on_fewer_rows']} on fewer, {result['looks']} looks"
        + (", interrupted" if result["interrupted"] else "")
    )
    lines += [f"written  {path} ({what})" for what, path in result["written"].items()]
    return lines
