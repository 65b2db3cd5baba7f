"""Adapters: what the parameters of a scikit-learn estimator mean to a cross-validation problem.

An adapter names the loss and the kernel of an estimator, reads the values of its hyperparameters,
splits its targets into the columns that its machines are trained on, and turns outputs into what
`predict` and `decision_function` would give.  To add an estimator, write the class and list it in
`ADAPTERS`; the contract tests of adapters pick it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets

from ._kernels import Kernel, Params, make_kernel
from ._losses import (
    CLASSIFICATION,
    REGRESSION,
    EpsilonInsensitive,
    Hinge,
    Loss,
    SmoothHinge,
    Squared,
)
from ._problem import Column


@dataclass(frozen=True)
class Targets:
    """Targets in the form that problems and criteria use.

    y : class numbers for classifiers, shape (n,); floats (n, n_targets) for regressors
    classes : the labels that the numbers stand for; None for regressors
    scale : the unit in which outputs and optimality gaps are to be read
    """

    y: np.ndarray
    classes: np.ndarray | None
    columns: list[Column]
    scale: float


class Adapter:
    """How one kind of estimator is trained, tuned and read."""

    estimator: ClassVar[type[BaseEstimator]]
    # names of the loss's hyperparameters by class, by what the estimator calls them
    by_class: ClassVar[dict[str, str]] = {}
    # whether a threshold for two classes is tuned by moving outputs, and is no parameter of it
    wraps_threshold: ClassVar[bool] = False
    # which numbers the estimator accepts for a hyperparameter; any, where it is not listed
    signs: ClassVar[dict[str, str]] = {
        "C": "positive",
        "gamma": "positive",
        "alpha": "positive",
        "epsilon": "non-negative",
        "quantile": "fraction",
        "class_cost": "positive",
        "class_weight": "positive",
        "margin": "positive",
    }

    def loss(self, estimator: Any) -> Loss:
        raise NotImplementedError

    def kernel(self, estimator: Any) -> Kernel:
        return make_kernel(estimator.kernel, estimator.degree)

    def scalars(self, estimator: Any) -> tuple[str, ...]:
        """Return the names of all hyperparameters that are single numbers."""
        return (*self.loss(estimator).hyperparameters, *self.kernel(estimator).hyperparameters)

    def hyperparameters(self, estimator: Any) -> tuple[str, ...]:
        """Return the names of what is tuned where nothing is said."""
        knobs = self.knobs(estimator)
        return tuple(name for name in self.scalars(estimator) if name not in knobs)

    def knobs(self, estimator: Any) -> tuple[str, ...]:
        """Return the names of what is tuned only on demand; `threshold` moves outputs."""
        return ()

    def values_by_class(
        self, estimator: Any, targets: Targets, tuned: Sequence[str] = ()
    ) -> Params:
        """Return hyperparameters by class, by the names of the loss.

        They are what classes have that are not among those tuned.
        """
        return {}

    def assemble(self, name: str, values: list[float], classes: Any) -> Any:
        """Return a parameter of the estimator that has these values for the classes."""
        return tuple(values)

    def values(self, estimator: Any) -> Params:
        """Return the hyperparameters that are plain numbers."""
        found = {name: getattr(estimator, name) for name in self.scalars(estimator)}
        return {name: float(v) for name, v in found.items() if isinstance(v, Real)}

    def gamma(self, estimator: Any, X: Any) -> float:
        """Return the gamma that the estimator would use when it is fitted on X."""
        raise NotImplementedError

    def tol(self, estimator: Any) -> float:
        """Return the optimality gap to train to, in units of the targets."""
        return 1e-3

    def doubts(self, estimator: Any, targets: Targets) -> list[str]:
        """Return reasons why the refitted estimator may differ from what the search has seen."""
        return []

    def targets(self, y: Any) -> Targets:
        raise NotImplementedError

    def class_weight(self, estimator: Any, y: np.ndarray, targets: Targets) -> np.ndarray | float:
        """Return the factors on the weights of training rows with targets y."""
        return 1.0

    def predict(self, estimator: Any, outputs: np.ndarray, classes: Any) -> np.ndarray:
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def outputs(self, estimator: Any, X: Any) -> np.ndarray:
        """Return the outputs of a fitted estimator's machines."""
        return estimator.predict(X).reshape(X.shape[0], -1)


class _Libsvm:
    """What SVC and SVR have in common: gamma="scale" and "auto", tol, max_iter."""

    def gamma(self, estimator: Any, X: Any) -> float:
        if estimator.gamma == "auto":
            return 1.0 / X.shape[1]
        if estimator.gamma != "scale":
            raise ValueError(
                f"gamma={estimator.gamma!r} is not understood; give 'scale', 'auto' or a number."
            )
        is_sparse = sparse.issparse(X)
        variance = X.multiply(X).mean() - X.mean() ** 2 if is_sparse else X.var()
        return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0

    def tol(self, estimator: Any) -> float:
        return float(estimator.tol)

    def doubts(self, estimator: Any, targets: Targets) -> list[str]:
        found = []
        if estimator.max_iter != -1:
            found.append(f"max_iter={estimator.max_iter} is not applied in the search")
        if estimator.tol > 0.05 * targets.scale:
            found.append(
                f"tol={estimator.tol:g} is coarse for a target with standard deviation "
                f"{targets.scale:.2g}: scale y, or lower tol"
            )
        return found


class _SingleTarget:
    def targets(self, y: Any) -> Targets:
        y = column_or_1d(y, warn=True).astype(float)
        everyone = np.ones(len(y), dtype=bool)
        column = Column(everyone, y, np.zeros(len(y), dtype=int))
        return Targets(y[:, None], None, [column], float(np.std(y)) or 1.0)


class SVCAdapter(_Libsvm, Adapter):
    """One machine per pair of classes, an output above zero speaking for the second class."""

    estimator = SVC
    by_class: ClassVar[dict[str, str]] = {"class_weight": "class_cost"}
    wraps_threshold = True

    def loss(self, estimator: Any) -> Loss:
        return Hinge()

    def knobs(self, estimator: Any) -> tuple[str, ...]:
        return ("class_weight", "threshold")

    def assemble(self, name: str, values: list[float], classes: Any) -> Any:
        return dict(zip(classes.tolist(), values, strict=True))

    def targets(self, y: Any) -> Targets:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y has one class only ({classes.tolist()[0]!r}); "
                "the number of classes has to be greater than one."
            )
        columns = [
            Column((numbers == i) | (numbers == j), np.where(numbers == j, 1.0, -1.0), numbers)
            for i, j in combinations(range(len(classes)), 2)
        ]
        return Targets(numbers, classes, columns, 1.0)

    def class_weight(self, estimator: Any, y: np.ndarray, targets: Targets) -> np.ndarray:
        classes = np.asarray(targets.classes)
        per_class = compute_class_weight(estimator.class_weight, classes=classes, y=classes[y])
        return per_class[y]

    def values_by_class(
        self, estimator: Any, targets: Targets, tuned: Sequence[str] = ()
    ) -> Params:
        if "class_weight" not in tuned:  # they are in the weights of the rows
            return {}
        labels = np.asarray(targets.classes)
        weights = compute_class_weight(estimator.class_weight, classes=labels, y=labels[targets.y])
        return {f"class_cost[{k}]": float(weight) for k, weight in enumerate(weights)}

    def predict(self, estimator: Any, outputs: np.ndarray, classes: Any) -> np.ndarray:
        if len(classes) == 2:
            return classes[(outputs[:, 0] > 0).astype(int)]
        if estimator.break_ties and estimator.decision_function_shape == "ovr":
            return classes[self.decision_function(estimator, outputs, classes).argmax(axis=1)]
        votes = np.zeros((len(outputs), len(classes)))
        for p, (i, j) in enumerate(combinations(range(len(classes)), 2)):
            votes[:, i] += outputs[:, p] < 0
            votes[:, j] += outputs[:, p] >= 0
        return classes[votes.argmax(axis=1)]

    def outputs(self, estimator: Any, X: Any) -> np.ndarray:
        if len(estimator.classes_) == 2:
            return estimator.decision_function(X)[:, None]
        pairs = copy(estimator)
        pairs.decision_function_shape = "ovo"
        return -pairs.decision_function(X)

    def decision_function(self, estimator: Any, outputs: np.ndarray, classes: Any) -> np.ndarray:
        if len(classes) == 2:
            return outputs[:, 0]
        if estimator.decision_function_shape == "ovr":
            return _ovr_decision_function(outputs > 0, outputs, len(classes))
        return -outputs


class SVRAdapter(_SingleTarget, _Libsvm, Adapter):
    estimator = SVR

    def loss(self, estimator: Any) -> Loss:
        return EpsilonInsensitive()


class KernelRidgeAdapter(Adapter):
    estimator = KernelRidge

    def loss(self, estimator: Any) -> Loss:
        return Squared()

    def kernel(self, estimator: Any) -> Kernel:
        name = "poly" if estimator.kernel == "polynomial" else estimator.kernel
        return make_kernel(name, estimator.degree)

    def gamma(self, estimator: Any, X: Any) -> float:
        return 1.0 / X.shape[1]

    def targets(self, y: Any) -> Targets:
        y = np.asarray(y, dtype=float)
        table = y.reshape(len(y), -1)
        everyone = np.ones(len(y), dtype=bool)
        group = np.zeros(len(y), dtype=int)
        columns = [Column(everyone, column, group) for column in table.T.copy()]
        return Targets(table, None, columns, float(np.std(table)) or 1.0)


class KernelSVCAdapter(SVCAdapter):
    """As SVC, with the losses, costs, margins and threshold of our own classifier."""

    by_class: ClassVar[dict[str, str]] = {"class_cost": "class_cost", "margin": "margin"}
    wraps_threshold = False

    @property
    def estimator(self) -> type[BaseEstimator]:  # type: ignore[override]
        from ._estimators import KernelSVC  # which asks this adapter how to train

        return KernelSVC

    def loss(self, estimator: Any) -> Loss:
        if estimator.loss == "smooth_hinge":
            return SmoothHinge(estimator.mu)
        return CLASSIFICATION[estimator.loss]()

    def knobs(self, estimator: Any) -> tuple[str, ...]:
        return (*self.loss(estimator).by_class, "threshold")

    def assemble(self, name: str, values: list[float], classes: Any) -> Any:
        return tuple(values)

    def doubts(self, estimator: Any, targets: Targets) -> list[str]:
        return []

    def class_weight(self, estimator: Any, y: np.ndarray, targets: Targets) -> np.ndarray:
        return np.ones(len(y))

    def values_by_class(
        self, estimator: Any, targets: Targets, tuned: Sequence[str] = ()
    ) -> Params:
        classes = np.asarray(targets.classes).tolist()
        values = {}
        for name in ("class_cost", "margin"):
            for k, value in enumerate(by_class(name, getattr(estimator, name), classes)):
                values[f"{name}[{k}]"] = value
        if len(classes) == 2:
            values["threshold"] = float(estimator.threshold)
        return values


def by_class(name: str, given: Any, classes: list) -> list[float]:
    """Read a parameter that has a value for each class, or say what is wrong with it."""
    if given is None or isinstance(given, Real):
        values = [1.0 if given is None else given] * len(classes)
    elif isinstance(given, Mapping):
        check_labels(name, given, classes)
        values = [given.get(label, 1.0) for label in classes]
    else:
        values = list(given)
        if len(values) != len(classes):
            raise ValueError(
                f"{name}={given!r} has {len(values)} values, but y has {len(classes)} classes."
            )
    for value in values:
        if not isinstance(value, Real) or not np.isfinite(float(value)) or value <= 0:
            raise ValueError(f"{name}={given!r} has the value {value!r}; it must be positive.")
    return [float(value) for value in values]


def check_labels(name: str, given: Mapping, classes: list) -> None:
    """Say so if something that is given by class names none, or one that y does not have."""
    if not given:
        raise ValueError(f"{name} is an empty dict; name at least one of the classes {classes}.")
    for label in given:
        if label not in classes:
            raise ValueError(f"{name} names {label!r}, which is none of the classes {classes}.")


class KernelSVRAdapter(SVRAdapter):
    """As SVR, with the losses of our own regressor."""

    @property
    def estimator(self) -> type[BaseEstimator]:  # type: ignore[override]
        from ._estimators import KernelSVR

        return KernelSVR

    def loss(self, estimator: Any) -> Loss:
        return REGRESSION[estimator.loss]()

    def doubts(self, estimator: Any, targets: Targets) -> list[str]:
        return []

    def knobs(self, estimator: Any) -> tuple[str, ...]:
        return ("quantile",) if estimator.loss == "pinball" else ()


ADAPTERS: tuple[Adapter, ...] = (
    SVCAdapter(),
    SVRAdapter(),
    KernelRidgeAdapter(),
    KernelSVCAdapter(),
    KernelSVRAdapter(),
)


@dataclass(frozen=True)
class Model:
    """An estimator taken apart: the machine at its end, and what comes before it.

    `prefix` is what the machine's parameters are called by in the whole ("svc__"), `threshold` one
    that wraps the whole and is not tuned.
    """

    whole: BaseEstimator
    machine: Any
    adapter: Adapter
    prefix: str
    transformers: Pipeline | None
    threshold: float | None = None

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names, in the whole, of what is tuned where nothing is said."""
        names = self.adapter.hyperparameters(self.machine)
        return tuple(self.prefix + name for name in names)

    @property
    def tunable(self) -> tuple[str, ...]:
        """Return the names, in the whole, of all that can be differentiated."""
        names = self.adapter.knobs(self.machine)
        own = [n for n in names if not (n == "threshold" and self.adapter.wraps_threshold)]
        whole = [n for n in names if n not in own]  # what wraps the whole has its own name
        return (*self.hyperparameters, *(self.prefix + name for name in own), *whole)

    @property
    def wrapping(self) -> bool:
        """Whether a threshold wraps the whole, because the machine has none."""
        return self.adapter.wraps_threshold

    def bare(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return params by the machine's own names."""
        return {name.removeprefix(self.prefix): value for name, value in params.items()}

    def sign(self, name: str) -> str:
        """Return which numbers are accepted for a parameter of the whole."""
        return self.adapter.signs.get(name.removeprefix(self.prefix), "any")

    def is_by_class(self, name: str) -> bool:
        """Whether a parameter of the whole has a value for each class."""
        return name.removeprefix(self.prefix) in self.adapter.by_class

    def flat(self, name: str, given: Any, classes: Any) -> dict[str, Any]:
        """Return what is given for a parameter by flat names, such as ``class_cost[1]``.

        A dict by label is for the classes that it names, anything else for every class.
        """
        if not self.is_by_class(name):
            return {name: given}
        labels, base = classes.tolist(), self.adapter.by_class[name.removeprefix(self.prefix)]
        if not isinstance(given, Mapping):
            given = dict.fromkeys(labels, given)
        check_labels(name, given, labels)
        return {
            f"{self.prefix}{base}[{labels.index(label)}]": value for label, value in given.items()
        }

    def nested(self, point: Mapping[str, float], classes: Any) -> dict[str, Any]:
        """Undo `flat`: values by class come as dicts by label."""
        names = {base: name for name, base in self.adapter.by_class.items()}
        found: dict[str, Any] = {}
        for name, value in point.items():
            base, bracket, number = name.removeprefix(self.prefix).partition("[")
            if bracket:
                label = classes.tolist()[int(number[:-1])]
                found.setdefault(self.prefix + names[base], {})[label] = value
            else:
                found[name] = value
        return found

    def assembled(
        self, point: Mapping[str, float], values: Mapping[str, float], classes: Any
    ) -> dict[str, Any]:
        """Return a point as parameters of the whole.

        Of parameters by class, those of classes that are not in the point are among the values.
        """
        params = self.nested(point, classes)
        for name in filter(self.is_by_class, params):
            everyone = self.bare(self.flat(name, None, classes))
            found = {**values, **self.bare(point)}
            params[name] = self.adapter.assemble(name, [found[n] for n in everyone], classes)
        return params


def read_model(estimator: Any) -> Model:
    """Take an estimator apart, or say which kinds can be."""
    steps: list[tuple[str, Any]] = []
    machine, prefix = estimator, ""
    while isinstance(machine, Pipeline):
        *before, (name, last) = machine.steps
        steps += [(n, t) for n, t in before if t is not None and t != "passthrough"]
        machine, prefix = last, prefix + name + "__"
    for adapter in ADAPTERS:
        if isinstance(machine, adapter.estimator):
            if prefix.count("__") > 1:  # names from several pipelines may be equal
                steps = [(f"step{number}", t) for number, (_, t) in enumerate(steps)]
            before = Pipeline(steps) if steps else None
            return Model(estimator, machine, adapter, prefix, before)
    what = repr(machine) if isinstance(machine, str) else type(machine).__name__
    known = ", ".join(a.estimator.__name__ for a in ADAPTERS)
    raise ValueError(
        f"estimator={what} cannot be differentiated; use one of {known}, "
        "or a Pipeline that ends in one of them."
    )
