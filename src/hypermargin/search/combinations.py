"""What is searched: combinations of listed values, each with a model and ranges of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics._scorer import _PassthroughScorer
from sklearn.pipeline import Pipeline

from .._core.constraints import check_names, read_constraints
from .._core.ranges import entries, read_range, read_space
from .._core.space import Dimension, FeatureArray, Hyperparameter, Labels, Shares, Space
from .._core.warn import warn
from ..adapters.base import Targets
from ..adapters.folds import Split, trainable
from ..adapters.input import check_inputs, check_threshold, features_of, split_params
from ..adapters.model import ADAPTERS, EACH, PER_FEATURE, Model, NoAdapter, read_model
from ..adapters.prepare import Prepared, default_dimensions
from ..kernels import CHOICES
from ..methods import AUTOMATIC, METHODS, Method, read_method
from ..methods.gradient import Schedule
from .refit import can_install

NO_PART = 1e-3  # the least width of a feature, in units of that of all
ALONE = 10  # the most in these units, for features among as many or more
CLASSES_TO_TRY = 50  # classes, to see whether a machine can be fitted at all


@dataclass(frozen=True)
class Combination:
    """Listed values, the ranges that are searched beside them, and the model with the values."""

    listed: dict[str, Any]
    ranges: dict[str, Any]
    model: Model

    def check(self, X: Any, y: Any, fit_params: Mapping[str, Any], asked: Any) -> Targets:
        """Check all that can be checked before any work is done; return the targets.

        `asked` has the arguments of the search.
        """
        model = self.model
        _, own = split_params(model, fit_params)
        checked, _, targets, values = check_inputs(model, X, y, own)

        def features(own: str) -> Labels:
            return features_of(X, checked.shape[1], model.adapter.kernel_on(X), own)

        for name, spec in self.ranges.items():
            if model.transformers is None or not model.is_by_feature(name, spec):
                # says which label is unknown
                model.chosen(name, spec, targets, values, features)
        self.method(asked, targets)
        check_names(read_constraints(asked.constraints), list(self.ranges), self.listed)
        if "threshold" in model.bare({**self.listed, **self.ranges}):
            check_threshold(targets)
        return targets

    def method(self, asked: Any, targets: Targets) -> Method:
        """Return the method that was asked for, or say why it is none for this."""
        found = read_method(asked.method, asked.optimiser)

        def obstacle(method: Method) -> str | None:
            if read_constraints(asked.constraints) and not method.constrained:
                return "takes no constraints; use method='gradient'"
            return method.obstacle(self.model, self.ranges, targets)

        if found is None:
            return next(METHODS[name] for name in AUTOMATIC if not obstacle(METHODS[name]))
        if (against := obstacle(found)) is not None:
            raise ValueError(f"method={asked.method!r} {against}.")
        return found

    def train_tol(self, tol: float) -> float:
        """Return how exactly machines are trained in the end, where the search is to end at `tol`.

        Newton's method is there in a step or two; other machines would take far longer.
        """
        adapter = self.model.adapter
        exactly = adapter.linear and not adapter.loss().corners
        return adapter.tol() * (min(1.0, tol / Schedule.tol) if exactly else 1.0)

    def tests(
        self, targets: Targets, splits: Sequence[Split], fit_params: Mapping[str, Any]
    ) -> list[np.ndarray]:
        """Return the validation rows of the folds that can be trained here."""
        _, own = split_params(self.model, fit_params)
        return [test for _, test in trainable(self.model, targets, splits, own)]

    def space(self, prepared: Prepared) -> Space:
        """Return the space, with ranges that suit the data where none are given."""
        model, values = self.model, prepared.problem.values
        chosen = [
            model.chosen(name, spec, prepared.targets, values, prepared.features)
            for name, spec in self.ranges.items()
        ]
        defaults = default_dimensions(prepared, {h.own: h.is_whole for h, _ in chosen})

        def ranged(h: Hyperparameter, specs: list) -> Hyperparameter:
            place, default, sign = f"space[{h.name!r}]", defaults[h.own], model.sign(h.name)
            if isinstance(h, FeatureArray):  # few features may have all part in the distances
                alone = min(len(specs), ALONE)
                low, high = default.low, default.high
                default = replace(
                    default, low=NO_PART * low, high=alone * high, together=(low, high)
                )
            each = default if isinstance(default, list) else [default] * len(specs)
            ranges = (read_range(place, s, d, sign) for s, d in zip(specs, each))
            h = replace(h, ranges=tuple(ranges))
            # what all kernels have in common is C's
            return Shares(**vars(h)) if model.is_by_kernel(h.name) and h.is_whole else h

        return Space(tuple(ranged(h, specs) for h, specs in chosen))


@dataclass(frozen=True)
class Refused:
    """Listed values that do not suit the estimator, and what was said of them."""

    listed: dict[str, Any]
    whole: Any
    error: Exception


def check_combination(
    one: Combination | Refused, X: Any, y: Any, fit_params: Mapping[str, Any], asked: Any
) -> tuple[Combination, Targets] | Refused:
    """Return a combination and its targets, or what the estimator itself has against it.

    Raises what we have against it, if the estimator has nothing.
    """
    try:
        if isinstance(one, Refused):
            raise one.error
        return one, one.check(X, y, fit_params, asked)
    except (ValueError, TypeError) as error:
        whole = one.whole if isinstance(one, Refused) else one.model.whole
        return Refused(one.listed, whole, own_error(whole, one.listed, y, error))


def own_error(whole: Any, listed: Mapping[str, Any], y: Any, ours: Exception) -> Exception:
    """Return what an estimator says of listed values of which we have said `ours`.

    Its machine is asked to fit a few rows of our making, which it can with any parameters that it
    accepts.  If nothing was listed, or it says nothing, or says it with its default parameters as
    well, then it is not the listed values that are at fault, and `ours` is raised.
    """
    machine = whole
    while isinstance(machine, Pipeline):
        machine = machine.steps[-1][1]
    theirs = _refusal(lambda: clone(machine), y) if listed and y is not None else None
    if theirs is None or _refusal(type(machine), y) is not None:
        raise ours
    return theirs


def _refusal(make: Callable[[], Any], y: Any) -> Exception | None:
    """Return why a machine cannot be fitted to a few rows with such labels, if it cannot."""
    try:
        machine, labels = make(), np.asarray(y)
        if labels.ndim == 1 and is_classifier(machine):
            labels = np.repeat(np.unique(labels)[:CLASSES_TO_TRY], 2)
        else:
            labels = np.stack([np.zeros(labels.shape[1:]), np.ones(labels.shape[1:])])
        with warnings.catch_warnings(action="ignore"):
            machine.fit(np.eye(len(labels)), labels)
    except Exception as error:
        error.__context__ = None  # what we have said of it, in other words
        return error
    return None


def read_combinations(estimator: Any, space: Any) -> list[Combination | Refused]:
    """Read a space, and check it as far as that needs no data."""
    defaults = read_model(estimator).hyperparameters if space is None else ()
    combinations: list[Combination | Refused] = []
    used, parts = set[str](), _with_kernels(estimator, read_space(space, defaults))
    for listed, ranges in parts:
        whole, threshold = _with_values(estimator, listed)
        try:
            model = _model_with(whole, threshold)
        except (ValueError, TypeError) as error:
            if not listed or isinstance(error, NoAdapter):
                raise
            combinations.append(Refused(listed, whole, error))
            continue
        tunable = {n: model.meant(n, spec) for n, spec in ranges.items() if n in model.tunable}
        for name, spec in tunable.items():
            by_feature = model.is_by_feature(name, spec)
            if by_feature and isinstance(spec, str) and spec not in EACH:
                raise ValueError(
                    f"space[{name!r}]={spec!r} is not understood; give {PER_FEATURE!r}, "
                    "(low, high) or a list of values."
                )
            spec = None if by_feature and isinstance(spec, str) else spec
            for place, one in entries(name, spec, by_feature or model.is_by_part(name)).items():
                read_range(place, one, Dimension(1.0, 2.0), model.sign(name))
        used |= tunable.keys()
        combinations.append(Combination(listed, tunable, model.tuning(tunable)))
    known = next((one.model for one in combinations if isinstance(one, Combination)), None)
    for _, ranges in parts:
        for name in ranges:
            if name not in used and known is not None:
                _refuse(name, known)
    return combinations


def _with_kernels(estimator: Any, parts: list[tuple[dict, dict]]) -> list[tuple[dict, dict]]:
    """Return listed values and ranges, with those of every kernel that "auto" stands for."""
    found = []
    for listed, ranges in parts:
        prefix, machine = "", _with_values(estimator, listed)[0]
        while isinstance(machine, Pipeline):
            prefix, machine = prefix + machine.steps[-1][0] + "__", machine.steps[-1][1]
        asked = getattr(machine, "kernel", None)
        ours = any(kind.holds_widths and isinstance(machine, kind.estimator) for kind in ADAPTERS)
        if not ours or not isinstance(asked, str) or asked != "auto":
            found.append((listed, ranges))
            continue
        kept = {n: r for n, r in ranges.items() if n != f"{prefix}gamma" or r is not None}
        for choice in CHOICES:
            names = choice["kernel"].hyperparameters
            own = dict.fromkeys(f"{prefix}kernel__{name}" for name in names)
            chosen = {prefix + name: value for name, value in choice.items()}
            found.append(
                ({**chosen, **listed, f"{prefix}kernel": choice["kernel"]}, {**own, **kept})
            )
    return found


def answer_otherwise(combinations: Sequence[Combination], scorer: Any) -> bool:
    """Whether a model has methods of its own that scores come from; says what follows from it.

    Its own `score` counts where that is what is asked for.
    """
    asks = isinstance(scorer, _PassthroughScorer)
    messages, found = set(), False
    for one in combinations:
        own = [name for name in one.model.own_methods if name != "score" or asks]
        found = found or bool(own)
        if own and one.ranges:
            messages.add(
                f"{type(one.model.machine).__name__} has its own {' and '.join(own)}: points are "
                "scored by models that are fitted in every fold, while the search descends on the "
                f"loss of {one.model.adapter.estimator.__name__}."
            )
    for message in sorted(messages):
        warn(message)
    return found


def _with_values(estimator: Any, listed: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the estimator with listed values, and a threshold that is to wrap it, if any."""
    values = clone(dict(listed), safe=False)
    threshold = None if "threshold" in estimator.get_params() else values.pop("threshold", None)
    return clone(estimator).set_params(**values), threshold


def _model_with(whole: Any, threshold: Any) -> Model:
    """Return the model that an estimator is, with a threshold that wraps it or without."""
    model = read_model(whole)
    model.check_params()
    if threshold is None:
        return model
    if not model.adapter.wraps_threshold:
        _refuse("threshold", model)
    if not isinstance(threshold, Real) or not np.isfinite(float(threshold)):
        raise ValueError(f"space['threshold'] lists {threshold!r}; it must be a finite number.")
    return replace(model, threshold=float(threshold))


def _refuse(name: str, model: Model) -> NoReturn:
    known = model.whole.get_params()
    what = "cannot be tuned by gradient here" if name in known else "is not a parameter of it"
    whole = " ".join(repr(model.whole).split())  # on one line
    raise ValueError(
        f"Invalid parameter {name!r} in space for estimator {whole}: it {what}; ranges "
        f"can be given for {list(model.tunable)}, lists of values for any parameter."
    )


def check_landmarks(model: Model, rank: int, exactly: bool) -> None:
    """Say at once if a model cannot be an expansion on landmarks, or cannot hold one."""
    machine = model.machine
    if model.adapter.linear:
        raise ValueError(f"rank={rank} is for kernel machines; {machine!r} needs no landmarks.")
    if getattr(machine, "loss", None) in ("smooth_hinge", "logistic"):
        raise ValueError(f"rank={rank} is not for loss={machine.loss!r}; use 'modified_huber'.")
    if not exactly and not (can_install(machine) or hasattr(machine, "begin_at")):
        raise ValueError(
            f"rank={rank} gives models with landmarks as support vectors, which {machine!r} "
            "cannot be; use SVC or SVR without probability, KernelSVC or KernelSVR, or "
            "exact_refit=True."
        )
    if not model.adapter.kernel().definite:
        raise ValueError(
            f"rank={rank} needs a positive definite kernel of the rows; "
            f"kernel={machine.kernel!r} is none. Use 'rbf', 'poly' or 'linear'."
        )
