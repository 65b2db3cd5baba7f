"""What stands before a machine in a pipeline, as one affine map of each feature.

LIBSVM and LIBLINEAR know machines only.  Scalers are x -> (x - centre) / scale; they are folded
into the machine where that can be, and else written as a file of ranges that `svm-scale -r` reads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from .mistake import Mistake


class Affine(NamedTuple):
    """The map x -> (x - centre) / scale of every feature."""

    centre: np.ndarray
    scale: np.ndarray

    @property
    def is_identity(self) -> bool:
        """Whether nothing is done."""
        return bool((self.centre == 0).all() and (self.scale == 1).all())


def take_apart(model: Any, n_features: int) -> tuple[Affine, Any]:
    """Return the scaling of a fitted pipeline as one map, and its last step.

    Refuses steps that are no scalers of the features as they are.
    """
    steps = list(model.steps) if isinstance(model, Pipeline) else [("", model)]
    centre, scale = np.zeros(n_features), np.ones(n_features)
    for _, step in steps[:-1]:
        if step is None or step == "passthrough":
            continue
        inner = _affine(step, n_features)
        centre, scale = centre + scale * inner.centre, scale * inner.scale
    return Affine(centre, scale), steps[-1][1]


def _affine(step: Any, n_features: int) -> Affine:
    """Return what a fitted scaler does."""
    zeros, ones = np.zeros(n_features), np.ones(n_features)
    if isinstance(step, StandardScaler):
        return Affine(*(_or(step.mean_, zeros), _or(step.scale_, ones)))
    if isinstance(step, RobustScaler):
        return Affine(*(_or(step.center_, zeros), _or(step.scale_, ones)))
    if isinstance(step, MaxAbsScaler):
        return Affine(zeros, step.scale_)
    if isinstance(step, MinMaxScaler) and not step.clip:
        return Affine(-step.min_ / step.scale_, 1.0 / step.scale_)
    if isinstance(step, ColumnTransformer) and step.n_features_in_ == n_features:
        return _by_columns(step, n_features)
    raise Mistake(
        f"{type(step).__name__} cannot be written in a model file of LIBSVM or LIBLINEAR, which "
        "hold machines and scaled numbers only; columns should be numbers without gaps."
    )


def _or(value: np.ndarray | None, default: np.ndarray) -> np.ndarray:
    return default if value is None else value


def _by_columns(step: ColumnTransformer, n_features: int) -> Affine:
    """Return what scalers of columns do, if they leave all columns where they are."""
    centre, scale, reached = np.zeros(n_features), np.ones(n_features), 0
    for name, inner, columns in step.transformers_:
        places = np.arange(n_features)[columns]
        if name == "remainder" and len(places) == 0:
            continue
        if isinstance(inner, str) or (places != np.arange(reached, reached + len(places))).any():
            raise Mistake("columns are left out or moved, which a model file cannot say.")
        if isinstance(inner, Pipeline):
            of, last = take_apart(inner, len(places))
            after = _affine(last, len(places))
            found = Affine(of.centre + of.scale * after.centre, of.scale * after.scale)
        else:
            found = _affine(inner, len(places))
        centre[places], scale[places] = found
        reached += len(places)
    return Affine(centre, scale)


def ranges(scaling: Affine) -> str:
    """Return the file of ranges with which `svm-scale -r` does the same.

    It maps a range to -1 and 1, so the range is one scale to both sides of the centre.
    """
    lines = [
        f"{k} {float(c - s)!r} {float(c + s)!r}" for k, (c, s) in enumerate(zip(*scaling), start=1)
    ]
    return "\n".join(["x", "-1 1", *lines, ""])
