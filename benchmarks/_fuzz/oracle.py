"""What must hold of a search, whatever it is given.

Every check yields sentences about what does not hold; a case without any is well.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split

import hypermargin
from benchmarks._fuzz.cases import Case, listening, quietly
from benchmarks._fuzz.certificate import violation
from benchmarks._fuzz.reference import (
    Fold,
    Unsettled,
    at_point,
    positive_definite,
    splits_of,
    unit_of_targets,
)
from hypermargin import GradientSearchCV, value_and_grad

Findings = Iterator[str]
SLACK = 3.0  # tolerances by which outputs of two good solutions may differ
ROUNDING = 1e-9
OWN = {"method", "rank", "criterion", "pooled"}  # options that GridSearchCV does not have
LONGEST = 600  # characters of one sentence

OURS = Path(hypermargin.__file__).parent


# --- input and output


def input_is_unchanged(case: Case, search: Any, before: tuple[Any, Any, dict]) -> Findings:
    after = (case.X, case.y, case.fit_params)
    for name, old, new in zip(("X", "y", "fit_params"), before, after):
        if not _same(old, new):
            yield f"{name} was changed"


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(_same(old[k], new[k]) for k in old)
    if sparse.issparse(old):
        names = ("data", "indices", "indptr") if old.format != "coo" else ("data", "row", "col")
        return all(np.array_equal(getattr(old, n), getattr(new, n)) for n in names)
    if hasattr(old, "equals"):
        return bool(old.equals(new))
    if isinstance(old, np.ndarray):
        kept = old.dtype == new.dtype and old.shape == new.shape
        return kept and (old.tobytes() == new.tobytes() or old.tolist() == new.tolist())
    return bool(old == new)


def results_are_finite(case: Case, search: Any, before: Any) -> Findings:
    if not hasattr(search, "best_index_"):
        return
    results, best = search.cv_results_, search.best_index_
    if not np.isfinite(results["objective"][best]):
        yield f"objective is {results['objective'][best]}"
    if np.isnan(search.best_score_) and not np.isnan(_plain_scores(case, search)).any():
        yield f"best_score_ is {search.best_score_}"
    if not search.refit:
        return
    predicted = np.asarray(search.predict(case.X))
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        yield "predictions are not finite"
    if predicted.shape[:1] != (case.n_rows,):
        yield f"predictions have the shape {predicted.shape}"
    if case.classes is not None and not set(predicted.tolist()) <= set(case.classes):
        yield "predictions are none of the classes"
    if case.classes is not None and hasattr(search, "predict_proba"):
        P = search.predict_proba(case.X)
        if P.shape != (case.n_rows, len(search.classes_)) or not np.allclose(P.sum(axis=1), 1.0):
            yield f"probabilities of shape {P.shape} do not sum to 1"


def _plain_scores(case: Case, search: Any) -> list[float]:
    """Return the scores of scikit-learn's own models at the best point, NaN where it fails."""
    scores = []
    for train, test in splits_of(case):
        fold = Fold(case, search.best_params_, train, test)
        try:
            scores.append(fold.score(fold.loose.model))
        except ValueError:
            scores.append(np.nan)
    return scores


def predictions_survive_pickling(case: Case, search: Any, before: Any) -> Findings:
    """Compare with the fitted model, pickled by itself: its data may lie in memory otherwise."""
    again = pickle.loads(pickle.dumps(search))
    if not search.refit:
        return
    alone = pickle.loads(pickle.dumps(search.best_estimator_))
    if not np.array_equal(again.predict(case.X), alone.predict(case.X)):
        yield "predictions differ after pickling"
    if case.classes is None or not hasattr(search, "predict_proba"):
        return
    if not np.array_equal(search.predict_proba(case.X), again.predict_proba(case.X)):
        yield "probabilities differ after pickling"


# --- scores and solutions


def scores_are_those_of_scikit_learn(case: Case, search: Any, before: Any) -> Findings:
    """Compare every fold's score at the best point with scikit-learn's own."""
    # on landmarks, and along LIBLINEAR's path, machines are others on purpose
    others = "rank" in case.options or case.options.get("method") == "path"
    if others or not hasattr(search, "best_index_"):
        return
    results, best = search.cv_results_, search.best_index_
    if results["n_samples"][best] < case.n_rows:
        return
    name = case.options["scoring"][0] if isinstance(case.options["scoring"], list) else "score"
    for number, (train, test) in enumerate(splits_of(case)):
        if not positive_definite(case, search.best_params_, train):
            continue
        ours = float(results[f"split{number}_test_{name}"][best])
        if np.isnan(ours):
            continue
        fold = Fold(case, search.best_params_, train, test)
        delta = _reach(case, fold, float(results["tol"][best]))
        low, high = fold.bounds(delta)
        margin = ROUNDING * (1.0 + abs(ours))
        if not low - margin <= ours <= high + margin:
            if not fold.trusted:
                raise Unsettled
            yield f"fold {number} has {ours:.6g}, scikit-learn {low:.6g} to {high:.6g}"


def _reach(case: Case, fold: Fold, tol: float) -> float:
    """Return how far outputs may be from precise ones.

    That is some times our tolerance, or what scikit-learn's solver is off at ten times its own:
    what a gap in the optimum does to outputs depends on the data.
    """
    outputs = fold.precise.outputs(fold.rows[0])
    largest = float(np.abs(outputs).max(initial=0.0))
    ours = tol * (unit_of_targets(case, fold.train) if hasattr(case.machine, "kernel") else largest)
    return SLACK * max(ours, fold.error_of_loose, fold.rounding) + ROUNDING * (1.0 + largest)


def refit_is_that_of_scikit_learn(case: Case, search: Any, before: Any) -> Findings:
    """Compare the outputs of the fitted model with a precise fit of scikit-learn's."""
    if "rank" in case.options or not search.refit:
        return
    rows, weight = np.arange(case.n_rows), case.fit_params.get(case.prefix + "sample_weight")
    given = getattr(case.machine, "kernel", "") == "precomputed"
    if given and weight is not None and not np.all(weight):
        return  # scikit-learn's models then read columns of other rows
    if not positive_definite(case, search.best_params_, rows):
        return
    fold = Fold(case, search.best_params_, rows, rows)
    X = fold.rows[0]
    precise = fold.precise
    best = getattr(search.best_estimator_, "estimator_", search.best_estimator_)
    ours = type(precise)(best, precise.threshold, True).outputs(case.X)
    tol = float(getattr(case.machine, "tol", 1e-6))
    reach = _reach(case, fold, tol)
    apart = float(np.abs(_unsaturated(case, ours) - _unsaturated(case, precise.outputs(X))).max())
    if not apart <= reach:
        if not fold.trusted:
            raise Unsettled
        yield f"outputs differ by {apart:.3g}, more than {reach:.3g}"


def _unsaturated(case: Case, outputs: np.ndarray) -> np.ndarray:
    """Cut outputs off where the logistic loss is less than the rounding of others."""
    logistic = isinstance(case.machine, LogisticRegression)
    logistic |= getattr(case.machine, "loss", "") == "logistic"
    return np.clip(outputs, -30.0, 30.0) if logistic else outputs


def solution_is_optimal(case: Case, search: Any, before: Any) -> Findings:
    """Check a kernel machine of our own by the conditions of its optimum."""
    if not search.refit or case.is_pipeline:
        return
    machine, rows = search.best_estimator_, np.arange(case.n_rows)
    if not positive_definite(case, search.best_params_, rows):
        return
    weight = case.fit_params.get("sample_weight")
    reach = SLACK * getattr(machine, "tol", 0.0) * unit_of_targets(case, rows) + ROUNDING
    if case.classes is None:
        reach += ROUNDING * float(np.abs(machine.predict(case.X)).max())
    off, largest = violation(machine, case.X, case.y, weight, reach)
    if off > reach + SLACK * getattr(machine, "tol", 0.0) * largest:
        yield f"a coefficient is off by {off:.3g} of its cost, at a tolerance of {reach:.3g}"


# --- gradients


def gradient_is_that_of_differences(case: Case, search: Any, before: Any) -> Findings:
    """Compare value_and_grad with slopes to both sides, at two distances.

    Machines meet corners, where slopes to both sides differ; the gradient is then between them.
    """
    if not hasattr(search, "best_params_"):
        return
    at = {n: v for n, v in search.best_params_.items() if isinstance(v, float)}
    known = {n: v for n, v in search.best_params_.items() if n not in at and n != "threshold"}
    estimator = case.estimator if not known else at_point(case, known)[0]
    options = _options_of_value(case)
    if not at or options is None:
        return

    def evaluate(**moved: float) -> tuple[float, dict]:
        point = {**at, **moved}
        found, late = listening(value_and_grad, estimator, case.X, case.y, point, **options)
        if late:
            raise Unsettled
        return found

    try:
        here, gradient = evaluate()
    except (ValueError, TypeError) as error:
        # the score, or what is tuned, has no derivative
        if "smooth form" in str(error) or "cannot be differentiated" in str(error):
            return
        raise
    if not np.isfinite([here, *gradient.values()]).all():
        yield f"value {here} and gradient {gradient} are not finite"
        return
    for name, x in at.items():
        slopes = []
        for step in (1e-4, 1e-5):
            h = step * (abs(x) or 1.0)
            up, down = evaluate(**{name: x + h})[0], evaluate(**{name: x - h})[0]
            slopes += [(up - here) / h, (here - down) / h]
        noise = (ROUNDING * (abs(here) + abs(x * gradient[name])) + 1e-15) / h
        slack = noise + 1e-3 * max(map(abs, slopes)) + abs(slopes[2] - slopes[3])
        if not min(slopes) - slack <= gradient[name] <= max(slopes) + slack:
            yield f"d/d{name} at {at} is {gradient[name]:.6g}, by differences {slopes}"


def _options_of_value(case: Case) -> dict[str, Any] | None:
    scoring = case.options["scoring"]
    if callable(scoring) and not hasattr(scoring, "_score_func"):
        return None
    return {
        "scoring": scoring[0] if isinstance(scoring, list) else scoring,
        "cv": splits_of(case),
        "pooled": case.options.get("pooled", True),
        "sample_weight": case.fit_params.get(case.prefix + "sample_weight"),
        "tol": 1e-9,
    }


# --- validation rows


def validation_targets_do_not_move_outputs(case: Case, search: Any, before: Any) -> Findings:
    """Train one fold twice, with other targets on its validation rows.

    Linear machines of all folds are solved side by side until the last of them is good enough:
    there outputs may move within the tolerance, else by rounding only.
    """
    if not hasattr(search, "best_params_"):
        return
    full = [split for split in splits_of(case) if _has_all_classes(case, split[0])]
    if not full:
        return
    train, test = full[0]
    only_there = np.setdiff1d(test, train)
    y = np.array(case.y)
    moved = y.copy()
    moved[only_there] = np.roll(y[only_there], 1, axis=0)
    if case.classes is None:
        moved = moved.astype(float)
        moved[only_there] = 1000.0 * moved[only_there] + 7.0
    first, second = (_outputs(case, search, labels, train, test) for labels in (y, moved))
    if first is None or second is None:
        return
    linear = not hasattr(case.machine, "kernel")
    share = SLACK * search.cv_results_["tol"][search.best_index_] if linear else ROUNDING
    far = np.abs(first - second).max(initial=0.0)
    if far > share * (1.0 + np.abs(first).max(initial=0.0)):
        # as transformers may be, and not by as much each time
        repeats = [_outputs(case, search, y, train, test) for _ in range(3)]
        by_chance = max(np.abs(first - again).max(initial=0.0) for again in repeats)
        if far > 10 * by_chance:
            yield f"outputs of a fold move by {far:.3g} with the targets of its validation rows"
    yield from _equal_rows(case, first, test)


def _has_all_classes(case: Case, rows: Any) -> bool:
    """Whether some rows have all classes, with some weight."""
    if case.classes is None:
        return True
    weight = np.asarray(case.fit_params.get(case.prefix + "sample_weight", np.ones(case.n_rows)))
    y = np.asarray(case.y).ravel()[rows]
    return len(np.unique(y[weight[rows] > 0])) == len(case.classes)


def _outputs(case: Case, search: Any, y: Any, train: Any, test: Any) -> np.ndarray | None:
    """Return the outputs of one fold at the best point, as a scorer is told them."""
    seen: list[np.ndarray] = []

    def look(truth: Any, outputs: np.ndarray) -> float:
        seen.append(np.array(outputs))
        return 0.0

    method = "decision_function" if is_classifier(case.estimator) else "predict"
    point = {name: [value] for name, value in search.best_params_.items()}
    given = {k: v for k, v in case.fit_params.items() if k != "groups"}
    one = GradientSearchCV(
        case.estimator, point, cv=[(train, test)], refit=False, random_state=0,
        scoring=make_scorer(look, response_method=method), rank=case.options.get("rank"),
    )  # fmt: skip
    if listening(one.fit, case.X, y, **given)[1]:
        raise Unsettled
    return seen[-1] if seen else None


def _equal_rows(case: Case, outputs: np.ndarray, test: Any) -> Findings:
    """Equal rows have equal outputs, to the bit: else ties would be decided by rounding."""
    if case.is_pipeline or getattr(case.machine, "kernel", None) == "precomputed":
        return
    X = _safe_split(case.estimator, *indexable(case.X, case.y), test)[0]
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    _, group = np.unique(X, axis=0, return_inverse=True)
    for number in np.unique(group):
        same = outputs[group.ravel() == number]
        if (same != same[0]).any():
            yield f"equal rows have outputs that differ by {np.ptp(same, axis=0).max():.3g}"
            return


# --- refusals


def refusal(case: Case, error: BaseException) -> Findings:
    """Yield what is wrong with an error that a search has raised."""
    kind, text = type(error), str(error).strip()
    innermost = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    theirs = quietly(_grid_refuses, case)
    if theirs is not None and theirs == (kind, text):
        return
    says_so = kind is FloatingPointError and "did not converge" in text
    if says_so:
        return
    if not issubclass(kind, (ValueError, TypeError)):
        yield f"raises {kind.__name__}: {text[:200]}"
    elif OURS in innermost.parents and ("\n" in text or len(text) > LONGEST):
        yield f"refuses in more than one sentence: {text[:200]}"
    elif OURS not in innermost.parents and "sklearn" not in innermost.parts:
        yield f"raises what {innermost.name} says: {text[:200]}"
    elif theirs is None and case.fault is None and not OWN & case.options.keys():
        yield f"refuses what GridSearchCV does: {text[:300]}"


def _grid_refuses(case: Case) -> tuple[type, str] | None:
    """Return how GridSearchCV refuses the same data at two points; None if it does not."""
    names = {"scoring", "cv", "refit", "error_score", "return_train_score"}
    options = {k: v for k, v in case.options.items() if k in names}
    strength = "alpha" if hasattr(case.machine, "alpha") else "C"
    grid = GridSearchCV(case.estimator, {case.prefix + strength: [0.5, 1.0]}, **options)
    try:
        grid.fit(case.X, case.y, **case.fit_params)
    except Exception as error:
        return type(error), str(error).strip()
    worked = np.isfinite(grid.cv_results_["mean_test_" + _first(case)]).any()
    return None if worked else (ValueError, "")


def _first(case: Case) -> str:
    scoring = case.options["scoring"]
    return scoring[0] if isinstance(scoring, list) else "score"


Check = Callable[[Case, Any, Any], Findings]
CHECKS: tuple[Check, ...] = (
    input_is_unchanged,
    results_are_finite,
    predictions_survive_pickling,
    scores_are_those_of_scikit_learn,
    refit_is_that_of_scikit_learn,
    solution_is_optimal,
    gradient_is_that_of_differences,
    validation_targets_do_not_move_outputs,
)
