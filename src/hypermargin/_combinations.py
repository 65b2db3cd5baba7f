"""What is searched: combinations of listed values, each with a model and ranges of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone
from sklearn.metrics._scorer import _PassthroughScorer

from ._adapter import Targets
from ._adapters import Model, read_model
from ._log import warn
from ._path import walks
from ._prepare import (
    Prepared,
    check_inputs,
    check_threshold,
    default_dimensions,
    split_params,
)
from ._refit import can_install
from ._space import Dimension, Space, entries, read_range, read_space


@dataclass(frozen=True)
class Combination:
    """Listed values, the ranges that are searched beside them, and the model with the values."""

    listed: dict[str, Any]
    ranges: dict[str, Any]
    model: Model

    @property
    def names(self) -> list[str]:
        """The machine's own names of what is searched."""
        return list(self.model.bare(self.ranges))

    def check(self, X: Any, y: Any, fit_params: Mapping[str, Any], method: str) -> Targets:
        """Check all that can be checked before any work is done; return the targets."""
        _, own = split_params(self.model, fit_params)
        _, _, targets, _ = check_inputs(self.model, X, y, self.names, own)
        model = self.model
        model.adapter.values_by_part(model.machine, targets, self.names)
        flat = [
            one
            for name, spec in self.ranges.items()
            for one in model.bare(model.flat(name, spec, targets))  # says which label is unknown
        ]
        if method in ("curve", "path") and not walks(
            model, flat, 0 if method == "path" else len(targets.columns)
        ):
            strength = model.adapter.loss(model.machine).hyperparameters[0]
            raise ValueError(
                f"method={method!r} is for linear models of which {strength} alone is tuned; "
                "use method='gradient'."
            )
        if "threshold" in self.model.bare({**self.listed, **self.ranges}):
            check_threshold("space", targets)
        return targets

    def space(self, prepared: Prepared) -> Space:
        """Return the space, with ranges that suit the data where none are given."""
        model = self.model
        specs = {
            flat: (name, one)
            for name, spec in self.ranges.items()
            for flat, one in model.flat(name, spec, prepared.targets).items()
        }
        defaults = default_dimensions(prepared, list(model.bare(specs)))
        dimensions = {}
        for flat, (name, spec) in specs.items():
            default = defaults[flat.removeprefix(model.prefix)]
            dimensions[flat] = read_range(f"space[{name!r}]", spec, default, model.sign(name))
        return Space(dimensions)


def read_combinations(estimator: Any, space: Any) -> list[Combination]:
    """Read a space, and check it as far as that needs no data."""
    defaults = read_model(estimator).hyperparameters if space is None else ()
    combinations, used = [], set[str]()
    parts = read_space(space, defaults)
    for listed, ranges in parts:
        model = _model_with(estimator, listed)
        tunable = {n: spec for n, spec in ranges.items() if n in model.tunable}
        for name, spec in tunable.items():
            for place, one in entries(name, spec, model.is_by_part(name)).items():
                read_range(place, one, Dimension(1.0, 2.0), model.sign(name))
        used |= tunable.keys()
        combinations.append(Combination(listed, tunable, model))
    for _, ranges in parts:
        for name in ranges:
            if name not in used:
                _refuse(name, combinations[0].model)
    return combinations


def answer_otherwise(combinations: Sequence[Combination], scorer: Any) -> bool:
    """Whether a model has methods of its own that scores come from; says what follows from it.

    Its own `score` counts where that is what is asked for.
    """
    asks = isinstance(scorer, _PassthroughScorer)
    found = {}
    for one in combinations:
        own = [name for name in one.model.own_methods if name != "score" or asks]
        if own:
            found[type(one.model.machine).__name__] = own, one.model.adapter.estimator.__name__
    for kind, (own, base) in found.items():
        warn(
            f"{kind} has its own {' and '.join(own)}: points are scored by models that are fitted "
            f"in every fold, while the search descends on the loss of {base}."
        )
    return bool(found)


def _model_with(estimator: Any, listed: Mapping[str, Any]) -> Model:
    """Return the model that has the listed values, a threshold that wraps it included."""
    values = clone(dict(listed), safe=False)
    known = estimator.get_params()
    threshold = None if "threshold" in known else values.pop("threshold", None)
    model = read_model(clone(estimator).set_params(**values))
    model.machine._validate_params()
    if threshold is None:
        return model
    if not model.wrapping:
        _refuse("threshold", model)
    if not isinstance(threshold, Real) or not np.isfinite(float(threshold)):
        raise ValueError(f"space['threshold'] lists {threshold!r}; it must be a finite number.")
    return replace(model, threshold=float(threshold))


def _refuse(name: str, model: Model) -> NoReturn:
    known = model.whole.get_params()
    what = "cannot be tuned by gradient here" if name in known else "is not a parameter of it"
    raise ValueError(
        f"Invalid parameter {name!r} in space for estimator {model.whole!r}: it {what}; ranges "
        f"can be given for {list(model.tunable)}, lists of values for any parameter."
    )


def check_landmarks(model: Model, rank: int, exactly: bool) -> None:
    """Say at once if a model cannot be an expansion on landmarks, or cannot hold one."""
    machine = model.machine
    if model.adapter.linear:
        raise ValueError(f"rank={rank} is for kernel machines; {machine!r} needs no landmarks.")
    if getattr(machine, "loss", None) in ("smooth_hinge", "logistic"):
        raise ValueError(f"rank={rank} is not for loss={machine.loss!r}; use 'modified_huber'.")
    if not exactly and not can_install(machine):
        raise ValueError(
            f"rank={rank} gives models with landmarks as support vectors, which {machine!r} "
            "cannot be; use SVC or SVR without probability, or exact_refit=True."
        )
    if machine.kernel in ("sigmoid", "precomputed"):
        raise ValueError(
            f"rank={rank} needs a positive definite kernel of the rows; "
            f"kernel={machine.kernel!r} is none. Use 'rbf', 'poly' or 'linear'."
        )
