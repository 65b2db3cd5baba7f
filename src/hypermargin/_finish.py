"""From the best point to a fitted, calibrated estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from ._adapters import Model, read_model
from ._linear import LinearCrossValidation
from ._linear_adapters import LinearAdapter
from ._log import Entry, warn
from ._refit import NotSolved, can_install, leaves_bias_open, own_solver, solved_by
from ._scoring import calibration

FEW = 1000  # rows up to which libsvm refits: it takes no time, and is bit-equal to a cold fit


def fit_best(
    best: Any,
    entry: Entry,
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    on_landmarks: bool,
    exactly: bool,
) -> None:
    """Fit the estimator of the best point on all rows.

    Where that may take long, training begins with the machines of the folds.  With `on_landmarks`
    the search had these, and the estimator has them, too, unless it is to be fitted `exactly`.
    """
    model = read_model(best)
    if model.adapter.linear:
        if not _install(model, entry, X):
            best.fit(X, y, **fit_params)
        return
    prepared = entry.prepared
    # libsvm would stop at max_iter, and that is what was asked for
    ours = can_install(model.machine) and model.machine.max_iter == -1
    if on_landmarks:
        ours = not exactly
    elif prepared is not None:
        ours = ours and (prepared.n_rows > FEW or leaves_bias_open(entry.state))
    if ours and prepared is not None:
        values = model.bare(entry.record["params"])
        try:
            solver = own_solver(prepared, values, entry.state, model.machine)
            with solved_by(model.machine, solver):
                best.fit(X, y, **fit_params)
                return
        except NotSolved:
            if on_landmarks:
                warn(
                    "The model on landmarks did not converge on all rows; it is refitted exactly.",
                    ConvergenceWarning,
                )
    best.fit(X, y, **fit_params)


def _install(model: Model, entry: Entry, X: Any) -> bool:
    """Give a linear model the weights of the machine that was trained on all rows all along.

    They are trained to the estimator's own tolerance first.  Returns whether that can be done.
    """
    prepared, adapter = entry.prepared, model.adapter
    assert isinstance(adapter, LinearAdapter)
    if prepared is None or model.transformers is not None or not adapter.installs:
        return False
    if "fit" in model.own_methods:
        return False
    assert isinstance(prepared.problem, LinearCrossValidation)
    problem, values = prepared.problem, model.bare(entry.point)
    found = problem.refit(values, float(model.machine.tol), entry.state)
    if found is None:
        return False
    dtype = problem.designs[0].points.dtype
    adapter.install(model.machine, *found, prepared.targets, dtype)
    validate_data(model.machine, X, skip_check_array=True)
    return True


def calibrate(fitted: Any, entry: Entry, threshold: float | None) -> tuple[Any, float | None]:
    """Fit a sigmoid to the out-of-fold outputs of the best point, for `predict_proba`.

    Returns it, and the probability from which `predict` says the second of two classes; None where
    there is none of ours.
    """
    prepared, evaluation = entry.prepared, entry.evaluation
    if prepared is None or evaluation is None or prepared.targets.classes is None:
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
