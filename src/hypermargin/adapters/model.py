"""The list of adapters, and an estimator taken apart with one of them.

To add an estimator, write its adapter in the file of its kind and list it here; the contract tests
of adapters pick it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .._core.space import (
    FeatureArray,
    GroupedArray,
    Hyperparameter,
    LabelledArray,
    Labels,
    Params,
)
from ..kernels import RBF
from .base import Adapter, Targets
from .kernel import KernelRidgeAdapter, SVCAdapter, SVRAdapter
from .linear import (
    LinearSVCAdapter,
    LinearSVRAdapter,
    LogisticRegressionAdapter,
    RidgeAdapter,
    RidgeClassifierAdapter,
)

# in a space: a width for each feature, if that pays; or whether it pays or not
PER_FEATURE, ALWAYS = EACH = "per_feature", "always_per_feature"

# what a subclass may do in a way of its own, so that our outputs are not what it would say
ANSWERS = ("fit", "predict", "decision_function", "predict_proba", "predict_log_proba", "score")

ADAPTERS: list[type[Adapter]] = [
    SVCAdapter,
    SVRAdapter,
    KernelRidgeAdapter,
    LinearSVCAdapter,
    LinearSVRAdapter,
    LogisticRegressionAdapter,
    RidgeAdapter,
    RidgeClassifierAdapter,
]


def register(adapter: type[Adapter], estimator: type[BaseEstimator]) -> None:
    """List the adapter of an estimator; those of our own are trained by theirs."""
    adapter.estimator = estimator
    ADAPTERS.append(adapter)


class NoAdapter(ValueError):
    """An estimator is of a kind that cannot be searched."""


class Transformers(Pipeline):
    """What comes before a machine, fitted whether or not the last of them can tell."""

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(frozen=True)
class Model:
    """An estimator taken apart: the machine at its end, and what comes before it.

    `prefix` is what the machine's parameters are called by in the whole ("svc__"), `paths` what the
    transformers are called there, `threshold` one that wraps the whole and is not tuned.
    """

    whole: BaseEstimator
    adapter: Adapter
    prefix: str
    transformers: Transformers | None
    paths: tuple[str, ...] = ()
    threshold: float | None = None

    @property
    def machine(self) -> Any:
        return self.adapter.machine

    def tuning(self, names: Iterable[str]) -> Model:
        """Return the model of which those parameters of the whole are tuned."""
        tuned = (name.removeprefix(self.prefix) for name in names)
        return replace(self, adapter=type(self.adapter)(self.machine, tuned))

    @property
    def own_methods(self) -> tuple[str, ...]:
        """Return what the machine, or a pipeline around it, does in a way of its own."""
        parts = [(self.machine, self.adapter.estimator)]
        around = self.whole
        while isinstance(around, Pipeline):
            parts.append((around, Pipeline))
            around = around.steps[-1][1]
        return tuple(n for n in ANSWERS if any(_has_own(part, base, n) for part, base in parts))

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names, in the whole, of what is tuned where nothing is said."""
        return tuple(self.prefix + name for name in self.adapter.hyperparameters())

    @property
    def tunable(self) -> tuple[str, ...]:
        """Return the names, in the whole, of all that can be differentiated."""
        names = self.adapter.knobs()
        own = [n for n in names if not (n == "threshold" and self.adapter.wraps_threshold)]
        whole = [n for n in names if n not in own]  # what wraps the whole has its own name
        return (*self.hyperparameters, *(self.prefix + name for name in own), *whole)

    def check_params(self) -> None:
        """Let the machine say what is wrong with its parameters, if it is of the kind that does."""
        if hasattr(self.machine, "_parameter_constraints"):
            self.machine._validate_params()

    def bare(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return params by the machine's own names."""
        return {name.removeprefix(self.prefix): value for name, value in params.items()}

    def sign(self, name: str) -> str:
        """Return which numbers are accepted for a parameter of the whole."""
        kernel = None if self.adapter.linear else self.adapter.kernel()
        positive = self.is_by_part(name) or (kernel and self.own(name) in kernel.positive)
        other = "positive" if positive else "any"
        return self.adapter.signs.get(name.removeprefix(self.prefix), other)

    def is_by_part(self, name: str) -> bool:
        """Whether a parameter of the whole has a value for each class, machine, group or kernel."""
        return name.removeprefix(self.prefix) in self.adapter.by_part or self.is_by_kernel(name)

    def is_by_kernel(self, name: str) -> bool:
        """Whether a parameter of the whole has a value for each kernel of a sum."""
        return self.own(name) in self._arrays

    @property
    def _arrays(self) -> Mapping[str, Labels]:
        """Those of the kernel that have an entry for each of its parts."""
        return {} if self.adapter.linear else self.adapter.kernel().arrays

    def meant(self, name: str, given: Any) -> Any:
        """Return what is given for a parameter, or if nothing is, what the model says of it."""
        adapter, own = self.adapter, self.own(name)
        if given is not None or adapter.linear or own not in adapter.kernel().widths:
            return given
        if np.ndim(adapter.values().get(own, 0.0)):  # each feature has its own already
            return ALWAYS
        asked = adapter.kernel().ard_of(own)
        return ALWAYS if isinstance(asked, str) else None if asked is False else PER_FEATURE

    def is_by_feature(self, name: str, given: Any) -> bool:
        """Whether what is given for a parameter is for each feature, or for some of them."""
        bare, adapter = name.removeprefix(self.prefix), self.adapter
        if not isinstance(given, (Mapping, Sequence, np.ndarray)) or isinstance(given, tuple):
            return False
        own = adapter.own(bare)
        if adapter.linear or self.is_by_part(name) or own not in adapter.kernel().hyperparameters:
            return False
        kernel = adapter.kernel()
        # an estimator with one gamma has scaled features, which Gaussians of theirs are the same of
        known = adapter.holds_widths or (adapter.takes_widths and isinstance(kernel, RBF))
        if not known or own not in kernel.widths:
            raise ValueError(
                f"{name}={given!r} is for kernels with widths: 'rbf' anywhere, others in KernelSVC "
                f"and KernelSVR; {type(self.machine).__name__} with kernel={self.machine.kernel!r} "
                f"has one {bare} for all features."
            )
        return True

    def own(self, name: str) -> str:
        """Return what the problem calls a parameter of the whole."""
        return self.adapter.own(name.removeprefix(self.prefix))

    def labels(self, name: str, targets: Targets) -> Labels:
        """Return the labels of a parameter that has a value for each class, machine or group."""
        own = self.own(name)
        if own in self._arrays:
            return self._arrays[own]
        return targets.labels(own, self.adapter.loss().by_part[own])

    def chosen(
        self,
        name: str,
        given: Any,
        targets: Targets,
        values: Params,
        features: Callable[[str], Labels],
    ) -> tuple[Hyperparameter, list]:
        """Return the hyperparameter that something is given for, and what is for each number.

        A dict by label is for the entries that it names; the others have theirs of the `values`.
        """
        own = self.own(name)
        if self.is_by_feature(name, given):
            return self._by_feature(name, given, values, features(own))
        if not self.is_by_part(name):
            return Hyperparameter(name, own), [given]
        labels = self.labels(name, targets)
        numbers, each = labels.picked(name, given)
        rest = values.get(own, np.ones(len(labels)))
        return LabelledArray(name, own, labels=labels, chosen=numbers, rest=rest), each

    def _by_feature(
        self, name: str, given: Any, values: Params, labels: Labels
    ) -> tuple[Hyperparameter, list]:
        """Return widths of features, of which a dict names some."""
        own = self.own(name)
        if np.size(values.get(own, np.nan)) not in (1, len(labels)):
            labels.check_number_of(f"{name} of the estimator", values[own])
        rest = np.ones(len(labels)) * values.get(own, np.nan)
        asks = isinstance(given, str) and given == PER_FEATURE
        if isinstance(given, str):
            if given not in EACH:
                raise ValueError(f"{name}={given!r} must be a range, a list or {PER_FEATURE!r}.")
            given = None
        elif not isinstance(given, Mapping):
            labels.check_number_of(name, given)
            given = dict(zip(labels.names, given, strict=True))
        groups = self.adapter.kernel().ard_of(own)
        if given is None and not isinstance(groups, (bool, str)):
            return _in_groups(name, own, labels, groups)
        numbers, each = labels.picked(name, given)
        if len(numbers) < len(labels) and np.isnan(rest).any():
            raise ValueError(
                f"{name} names some of the features; give the estimator a number for the others."
            )
        return FeatureArray(name, own, labels=labels, chosen=numbers, rest=rest, asks=asks), each


def _in_groups(
    name: str, own: str, labels: Labels, groups: Any
) -> tuple[Hyperparameter, list[None]]:
    """Return widths of which those of a group of features are one."""
    labels.check_number_of(f"ard of {name}", list(groups))
    found, number = np.unique(np.asarray(groups), return_inverse=True)
    named = Labels("groups of features", found.tolist())
    rest, chosen = np.ones(len(found)), np.arange(len(found))
    array = GroupedArray(name, own, labels=named, chosen=chosen, rest=rest, group=number)
    return array, [None] * len(found)


def _has_own(estimator: Any, base: type, name: str) -> bool:
    """Whether a class between the estimator's and the base defines a method."""
    order = type(estimator).__mro__
    return any(name in vars(kind) for kind in order[: order.index(base)])


def _is_of(machine: Any, adapter: type[Adapter]) -> bool:
    """Whether an adapter is for a machine.

    LogisticRegressionCV, which has a search of its own, is a LogisticRegression without a C.
    """
    if not isinstance(machine, adapter.estimator):
        return False
    return not {"C", "alpha"}.isdisjoint(machine.get_params(deep=False))


def read_model(estimator: Any) -> Model:
    """Take an estimator apart, or say which kinds can be."""
    steps: list[tuple[str, Any]] = []
    machine, prefix = estimator, ""
    while isinstance(machine, Pipeline):
        *before, (name, last) = machine.steps
        steps += [(prefix + n, t) for n, t in before if t is not None and t != "passthrough"]
        machine, prefix = last, prefix + name + "__"
    for kind in ADAPTERS:
        if _is_of(machine, kind):
            adapter = kind(machine)
            obstacle = adapter.refuse()
            if obstacle is not None:
                raise ValueError(
                    f"{type(machine).__name__} cannot be differentiated with {obstacle}."
                )
            metric = adapter.metric()
            if metric is not None:
                steps.append((prefix + "metric", metric))
            paths = tuple(path for path, _ in steps)
            if any("__" in path for path in paths):  # a path is no name of a step
                steps = [(f"step{number}", t) for number, (_, t) in enumerate(steps)]
            before = Transformers(steps) if steps else None
            return Model(estimator, adapter, prefix, before, paths)
    what = repr(machine) if isinstance(machine, str) else type(machine).__name__
    known = ", ".join(a.estimator.__name__ for a in ADAPTERS)
    raise NoAdapter(
        f"estimator={what} cannot be differentiated; use one of {known}, "
        "or a Pipeline that ends in one of them."
    )
