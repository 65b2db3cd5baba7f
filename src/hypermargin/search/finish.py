"""From the best point to a fitted, calibrated estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, validate_data

from .._core.budget import Budget, Effort, one_blas_thread
from .._core.warn import warn
from ..adapters.linear import LinearAdapter
from ..adapters.model import Model, read_model
from ..adapters.prepare import Prepared
from ..kernels import Precomputed
from ..problems.landmarks.problem import LowRankCrossValidation
from ..problems.linear.problem import LinearCrossValidation
from .log import Run
from .records import Record
from .refit import OwnSolver, can_install, leaves_bias_open, limited, solved_by
from .scoring import calibration

# seconds for which libsvm may go on with a refit when time is up, as nobody wants half a model; so
# few rows are in its cache, and it takes about a fifth of them
MOMENT = 0.5
COLD_ROWS = 1000  # rows up to which libsvm refits: it takes no time, and is bit-equal to a cold fit


def fit_best(
    best: Any,
    run: Run,
    record: Record,
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    on_landmarks: bool,
    exactly: bool,
    budget: Budget,
) -> None:
    """Fit the estimator of the best point on all rows, as far as that goes until the budget ends.

    With many rows training begins with the machines of the folds; so it does with few where libsvm
    does not come to an end.  With `on_landmarks` the search had these, and
    the estimator has them, too, unless it is to be fitted `exactly`.
    """
    model = read_model(best)
    if model.adapter.linear:
        if not _install(model, run, record, X, budget):
            best.fit(X, y, **fit_params)
        return
    prepared = run.prepared
    # libsvm would stop at max_iter, and that is what was asked for
    ours = can_install(model.machine) and model.machine.max_iter == -1
    if on_landmarks:
        ours = can_install(model.machine) and not exactly
    few = prepared is not None and prepared.n_rows <= COLD_ROWS and not on_landmarks
    few = few and not leaves_bias_open(record.state)
    if ours and few and _fit_by_libsvm(best, model, X, y, fit_params, budget):
        return
    if ours and prepared is not None:
        solver = OwnSolver(prepared, run.point(record), record.state, model.machine, budget)
        try:
            with solved_by(model.machine, solver):
                best.fit(X, y, **fit_params)
            if not solver.converged and (record.fault is None or budget.expired()):
                _warn_unfinished(budget)
            return
        except FloatingPointError:  # libsvm computes in double precision throughout
            pass
    if hasattr(model.machine, "begin_at"):
        problem, landmarks = getattr(prepared, "problem", None), None
        if on_landmarks and not exactly and isinstance(problem, LowRankCrossValidation):
            landmarks = {"rank": problem.rank, "seed": problem.seed}
        with model.machine.begin_at(None if on_landmarks else record.state, budget, landmarks):
            best.fit(X, y, **fit_params)
        return
    if prepared is not None and prepared.problem.loss.linear:
        X, y, fit_params = _affordable(X, y, fit_params, prepared, record.n_samples, budget)
    with limited(model.machine, len(y), budget.left):
        best.fit(X, y, **fit_params)


def _affordable(
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    prepared: Prepared,
    least: int,
    budget: Budget,
) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return the rows that a linear system can be solved for in the time that is left.

    It cannot be stopped halfway, and half of one would be of no use.  They are at least as many as
    the point was evaluated on, `least`.
    """
    n = prepared.n_rows
    # the model of a given matrix would expect all rows
    whole = isinstance(prepared.model.adapter.kernel(), Precomputed)
    if whole or least == n or budget.left is None or budget.wanted <= budget.left:
        return X, y, fit_params
    share = (budget.left / budget.wanted) ** (1.0 / prepared.problem.growth)
    few = int(np.clip(share * n, least, n))
    rows = np.sort(np.random.RandomState(0).permutation(n)[:few])
    warn(
        f"The refit on all {n} rows would take about {budget.wanted:.2g} s, more than time_budget "
        f"leaves; the model is fitted on {few} of them. Give more time, or refit=False.",
        ConvergenceWarning,
    )
    of_rows = _check_method_params(X, params=dict(fit_params), indices=rows)
    return _safe_indexing(X, rows), _safe_indexing(y, rows), of_rows


def _fit_by_libsvm(
    best: Any, model: Model, X: Any, y: Any, fit_params: Mapping[str, Any], budget: Budget
) -> bool:
    """Fit by libsvm for a second at most, or until time is up; return whether it has converged."""
    seconds = 1.0 if budget.left is None else max(MOMENT, min(1.0, budget.left))
    # threads of BLAS would share products of two rows, and on a busy machine wait for each other
    with limited(model.machine, len(y), seconds), warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best.fit(X, y, **fit_params)
    return model.machine.fit_status_ == 0


def _warn_unfinished(budget: Budget) -> None:
    why, advice = "did not converge", "Scale the data or narrow the space."
    if budget.expired():
        why, advice = "was stopped by time_budget", "Give more time."
    warn(
        f"The refit on all rows {why}; the model is as far as it was trained. {advice}",
        ConvergenceWarning,
    )


def _install(model: Model, run: Run, record: Record, X: Any, budget: Budget) -> bool:
    """Give a linear model the weights of the machine that was trained on all rows all along.

    They are trained to the estimator's own tolerance first.  Returns whether that can be done.
    """
    prepared, adapter = run.prepared, model.adapter
    assert isinstance(adapter, LinearAdapter)
    if prepared is None or model.transformers is not None:
        return False
    elsewhere = prepared.sample is not None  # rows that no `fit` can be given
    if not elsewhere and (not adapter.installs or "fit" in model.own_methods):
        return False
    assert isinstance(prepared.problem, LinearCrossValidation)
    problem = prepared.problem
    effort = Effort(float(model.machine.tol), budget)
    found = problem.refit(run.point(record), effort, record.state)
    if not all(solution.converged for solution in found):
        if not budget.expired() and not elsewhere:
            return False
        _warn_unfinished(budget)
    dtype = problem.designs[0].points.dtype
    weights, made = np.array([s.weights for s in found]), max(s.iterations for s in found)
    adapter.install(weights, made, prepared.targets, dtype)
    validate_data(model.machine, X, skip_check_array=True)
    return True


def calibrate(
    fitted: Any, run: Run, record: Record, threshold: float | None
) -> tuple[Any, float | None]:
    """Fit a sigmoid to the out-of-fold outputs of the best point, for `predict_proba`.

    Returns it, and the probability from which `predict` says the second of two classes; None where
    there is none of ours.
    """
    prepared, evaluation = run.prepared, record.outputs
    if prepared is None or evaluation is None or prepared.targets.classes is None:
        return None, None
    if prepared.sample is not None:  # of rows in many places only some outputs are here
        return None, None
    if prepared.model.own_methods:  # its outputs may be others than those of the folds
        return None, None
    machine = read_model(fitted).machine
    moved = getattr(machine, "threshold", 0.0) if threshold is None else threshold
    found, cut = calibration(prepared, evaluation, range(len(evaluation.test)), moved), None
    if found is not None and len(prepared.targets.classes) == 2:
        # without a threshold, probabilities are made to agree with the sign of the output
        plain = threshold is None and moved == 0.0
        cut = 0.5 if plain else float(found.probabilities(np.array([[moved]]))[0, 1])
    if hasattr(machine, "calibration_"):
        machine.calibration_ = found
    elif hasattr(machine, "predict_proba"):  # SVC(probability=True) has a sigmoid of its own
        cut = None
    return found, cut
