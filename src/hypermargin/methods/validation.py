"""A criterion applied to the outputs of folds, and what is wrong with one that cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.spread import typical_deviation
from ..adapters.base import Targets
from ..adapters.prepare import Prepared
from ..criteria.base import Criterion
from ..problems.base import Evaluation


def check_finite(
    criterion: Criterion, value: float, delta: Sequence[np.ndarray], settings: Mapping[str, Any]
) -> None:
    """Say so if a criterion is undefined at a point, or has no gradient there."""
    if not np.isfinite(value):
        raise FloatingPointError(f"the validation loss is {value} at {settings}.")
    if not all(np.isfinite(of_fold).all() for of_fold in delta):
        raise FloatingPointError(
            f"criterion={criterion!r} returned a gradient that is not finite at {settings}, beside "
            f"the value {value:.6g}."
        )


def check_defined(
    criterion: Criterion,
    targets: Targets,
    tests: Sequence[np.ndarray],
    weight: np.ndarray,
    pooled: bool,
) -> None:
    """Say so if the criterion is undefined on the rows, or on a fold, that it is applied to."""
    parts = {"all folds together": np.concatenate(tests)}
    if not pooled:
        parts = {f"fold {number}": test for number, test in enumerate(tests)}
    remedy = "folds that validate on it" if pooled else "stratified folds, or pooled=True"
    for part, rows in parts.items():
        rows = rows[weight[rows] > 0]
        if not len(rows):
            raise ValueError(
                f"the sample_weight of all validation rows of {part} is zero; give some of them "
                "weight."
            )
        if targets.classes is None:
            continue
        missing = criterion.missing(np.isin(np.arange(len(targets.classes)), targets.y[rows]))
        if missing is not None:
            raise ValueError(
                f"the validation rows of {part} have none of class "
                f"{targets.classes.tolist()[missing]!r} with a positive sample_weight, without "
                f"which {criterion.label} is undefined; use {remedy}."
            )


def _checked(criterion: Criterion, found: Any, outputs: np.ndarray) -> tuple[float, np.ndarray]:
    """Return what a criterion has found, or say what is wrong with it."""
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"criterion={criterion!r} returned {type(found).__name__}; it must return a value and "
            "a gradient."
        )
    value, gradient = found
    if np.shape(value) != () or not np.issubdtype(np.asarray(value).dtype, np.number):
        raise ValueError(
            f"criterion={criterion!r} returned {value!r} for a value; it must be a number."
        )
    if np.shape(gradient) != outputs.shape:
        raise ValueError(
            f"criterion={criterion!r} returned a gradient of shape {np.shape(gradient)}; it must "
            f"have that of the outputs, {outputs.shape}."
        )
    return float(value), np.asarray(gradient, dtype=float)


def validation_loss(
    evaluation: Evaluation,
    criterion: Criterion,
    prepared: Prepared,
    weight: np.ndarray,
    pooled: bool = True,
) -> tuple[float, list[np.ndarray]]:
    """Apply a criterion to the outputs of all folds; return its gradient fold by fold.

    Folds are pooled, or the criterion is applied to each and averaged.
    """
    if evaluation.validate is not None:
        return evaluation.validate(criterion)
    y, outputs, test = prepared.targets.y, evaluation.outputs, evaluation.test

    def apply(folds: Sequence[int]) -> tuple[float, np.ndarray]:
        read, pull = prepared.contrasted(outputs, folds)
        rows = np.concatenate([test[f] for f in folds])
        value, delta = _checked(criterion, criterion(read, y[rows], weight[rows]), read)
        return value, pull(delta)

    if not pooled:
        parts = [apply([f]) for f in range(len(test))]
        value = float(np.mean([part[0] for part in parts]))
        return value, [part[1] / len(parts) for part in parts]
    value, delta = apply(range(len(test)))
    return value, np.split(delta, np.cumsum([len(rows) for rows in test])[:-1])


def left_by(evaluation: Evaluation | None, prepared: Prepared) -> float:
    """Return the standard deviation of what outputs leave of targets, but for a few rows far out.

    Zero if it is not known here.
    """
    if evaluation is None or evaluation.validate is not None:
        return 0.0
    y = prepared.targets.y
    off = [
        y[rows].reshape(len(rows), -1) - o for rows, o in zip(evaluation.test, evaluation.outputs)
    ]
    return typical_deviation(np.concatenate(off))
