"""What an adapter is: what the parameters of a scikit-learn estimator mean to a problem.

An adapter names the loss and the kernel of an estimator, reads the values of its hyperparameters,
splits its targets into the columns that its machines are trained on, and turns outputs into what
`predict` and `decision_function` would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._core.space import Labels, Params
from .._core.spread import typical_deviation
from ..kernels import make_kernel
from ..kernels.base import Kernel
from ..kernels.compose import bound
from ..kernels.points import Points
from ..losses import CLASSIFICATION, REGRESSION
from ..losses.base import Loss
from ..losses.classification import SmoothHinge
from ..problems.base import Column

# why there may be no parts of a kind
MISSING = {
    "class": "is for classifiers",
    "machine": "is for more than two classes, each of which has a machine; use C or class_cost",
    "group": "needs the groups of the rows; give them to fit as cost_groups",
}


@dataclass(frozen=True)
class Targets:
    """Targets in the form that problems and criteria use.

    y : class numbers for classifiers, shape (n,); floats (n, n_targets) for regressors
    classes : the labels that the numbers stand for; None for regressors
    scale : how far real targets typically deviate from their middle
    groups : the labels of groups of rows that have hyperparameters of their own, if there are any
    as_table : whether predictions of a single target have two dimensions, as y had
    several : whether y has several labels, each of which is there (1) or not (-1)
    """

    y: np.ndarray
    classes: np.ndarray | None
    columns: list[Column]
    scale: float
    groups: np.ndarray | None = None
    as_table: bool = False
    several: bool = False

    def labels(self, name: str, part: str) -> Labels:
        """Return the labels of a hyperparameter with an entry for each class, machine or group.

        Machines have the labels of the classes that they tell from the rest.
        """
        found = self.groups if part == "group" else self.classes
        if found is None or part not in self.columns[0].parts:
            raise ValueError(f"{name} {MISSING[part]}.")
        return Labels("groups" if part == "group" else "classes", found.tolist())

    def in_groups(self, cost_groups: Any) -> Targets:
        """Return the targets with the group of every row, if groups are given."""
        if cost_groups is None:
            return self
        given = np.asarray(cost_groups)
        if given.ndim != 1 or len(given) != len(self.y):
            raise ValueError(
                f"cost_groups has the shape {given.shape}; give a label for each of the "
                f"{len(self.y)} rows."
            )
        if any(map(is_missing, given.tolist())):
            raise ValueError("cost_groups has missing labels; give the rows without one a label.")
        try:
            groups, number = np.unique(given, return_inverse=True)
        except TypeError:
            raise ValueError(
                "cost_groups has labels of several types; use numbers or strings."
            ) from None
        columns = [replace(c, parts={**c.parts, "group": number}) for c in self.columns]
        return replace(self, columns=columns, groups=groups)


class Adapter:
    """How an estimator of one kind is trained, tuned and read; `register` lists the kind.

    machine : the estimator; it may be the last step of a pipeline
    tuned : its names of the hyperparameters that every evaluation gives

    Examples
    --------
    >>> from sklearn.svm import SVR
    >>> from hypermargin.adapters import SingleTarget
    >>> from hypermargin.losses import REGRESSION
    >>> class Squared(SingleTarget):
    ...     def loss(self):
    ...         return REGRESSION["squared"]()
    ...     def gamma(self, X):
    ...         return self.machine.gamma
    >>> adapter = Squared(SVR(C=2.0, gamma=0.5))
    >>> adapter.hyperparameters(), adapter.values()
    (('C', 'gamma'), {'C': 2.0, 'gamma': 0.5})
    """

    estimator: ClassVar[type[BaseEstimator]]  # the kind
    # names of the loss's hyperparameters by part, by what the estimator calls them
    by_part: ClassVar[dict[str, str]] = {}
    # whether a threshold for two classes is tuned by moving outputs, and is no parameter of it
    wraps_threshold: ClassVar[bool] = False
    # which numbers the estimator accepts; any, where it is not listed, but positive ones by part
    signs: ClassVar[dict[str, str]] = {
        "C": "positive",
        "gamma": "positive",
        "alpha": "positive",
        "epsilon": "non-negative",
        "quantile": "fraction",
    }

    linear: ClassVar[bool] = False  # whether it has no kernel
    takes_widths: ClassVar[bool] = False  # whether a kernel may have a width for each feature
    holds_widths: ClassVar[bool] = False  # whether gamma of the estimator may be an array of them
    # whether, in a column of one class against the rest, the weights of all classes count
    weighs_others: ClassVar[bool] = True

    def __init__(self, machine: Any, tuned: Iterable[str] = ()):
        self.machine, self.tuned = machine, tuple(tuned)

    def loss(self) -> Loss:
        raise NotImplementedError

    def refuse(self) -> str | None:
        """Return what keeps an estimator from being differentiated, if anything does."""
        return None

    def metric(self) -> Any:
        """Return what rows pass through before a kernel compares them, not fitted, if anything."""
        return None

    def solver(self) -> str | None:
        """Return how machines are trained, if the estimator says so; None is the usual way."""
        return None

    def contrasted(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the outputs that criteria read, and T if they are outputs @ T.

        Criteria of classifiers read one output for each pair of classes.
        """
        return outputs, None

    def narrowed(self, outputs: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the outputs of a model that knows some of the classes only, two at the least."""
        raise NotImplementedError

    def kernel(self) -> Kernel:
        return make_kernel(self.machine.kernel, self.machine.degree)

    def kernel_on(self, X: Any) -> Kernel:
        """Return the kernel, with the numbers of the columns that it names in X as it was given."""
        return bound(self.kernel(), X)

    @property
    def of_kernel(self) -> str:
        """What the names of the kernel's hyperparameters begin with, if it is an object."""
        return "kernel__" if isinstance(getattr(self.machine, "kernel", None), Kernel) else ""

    def scalars(self) -> tuple[str, ...]:
        """Return the names of all hyperparameters but those by part."""
        kernel = (self.of_kernel + name for name in self.kernel().hyperparameters)
        return (*self.loss().hyperparameters, *kernel)

    def own(self, name: str) -> str:
        """Return what the problem calls a parameter of the estimator."""
        return self.by_part.get(name, name.removeprefix(self.of_kernel))

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names of what is tuned where nothing is said."""
        knobs = self.knobs()
        return tuple(name for name in self.scalars() if name not in knobs)

    def knobs(self) -> tuple[str, ...]:
        """Return the names of what is tuned only on demand; `threshold` moves outputs."""
        return ()

    def values_by_part(self, targets: Targets) -> Params:
        """Return hyperparameters by part, by the names of the loss.

        They are what parts have that are not among those tuned.
        """
        return {}

    def values(self) -> Params:
        """Return the hyperparameters that are numbers, or arrays of them, by their own names."""
        if self.of_kernel:
            found = {name: getattr(self.machine, name) for name in self.loss().hyperparameters}
            found |= self.kernel().values()
        else:
            found = {name: getattr(self.machine, name) for name in self.scalars()}
        numbers = {name: float(v) for name, v in found.items() if isinstance(v, Real)}
        wide: tuple[str, ...] = ()
        if not self.linear and self.takes_widths:
            wide = (*self.kernel().widths, *self.kernel().arrays)
        given = {n: found[n] for n in wide if n in found and n not in numbers}
        return numbers | {
            n: np.array(v, dtype=float)
            for n, v in given.items()
            if v is not None and not isinstance(v, str)
        }

    @property
    def unset(self) -> tuple[str, ...]:
        """Return the kernel's hyperparameters that are read off the training rows."""
        if self.linear:
            return ()
        known = {*self.values(), *map(self.own, self.tuned)}
        return tuple(name for name in self.kernel().hyperparameters if name not in known)

    def read_off(self, X: Any, kernel: Kernel) -> Params:
        """Return the hyperparameters of the kernel that training rows X give."""
        if not self.of_kernel:
            return {name: self.gamma(X) for name in self.unset if name == "gamma"}
        points = Points.of(X)
        return {name: kernel.read_off(name, points) for name in self.unset}

    def gamma(self, X: Any) -> float:
        """Return the gamma that the estimator would use when it is fitted on X."""
        raise NotImplementedError

    def tol(self) -> float:
        """Return the optimality gap to train to, in units of the targets."""
        return 1e-3  # LIBLINEAR cross-validates to 1e-2; the refit has the estimator's own

    def doubts(self, targets: Targets) -> list[str]:
        """Return reasons why the refitted estimator may differ from what the search has seen."""
        return []

    def targets(self, y: Any) -> Targets:
        raise NotImplementedError

    def check_targets(self, targets: Targets) -> None:
        """Say so if an estimator cannot be trained on such targets."""

    def class_weight(
        self, y: np.ndarray, targets: Targets, weight: np.ndarray
    ) -> np.ndarray | float:
        """Return the factors on the weights of training rows with targets y."""
        return 1.0

    def predict(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def outputs(self, X: Any) -> np.ndarray:
        """Return the outputs of a fitted estimator's machines."""
        found = self.machine.predict(X)
        return found.reshape(len(found), -1)


class WeightedClasses(Adapter):
    """Classifiers whose classes have weights, and that a threshold can be put around."""

    by_part: ClassVar[dict[str, str]] = {"class_weight": "class_cost"}
    wraps_threshold: ClassVar[bool] = True
    # whether "balanced" counts rows by their weights
    balances_weights: ClassVar[bool] = False

    def knobs(self) -> tuple[str, ...]:
        return (*self.by_part, "threshold")

    def class_weight(
        self, y: np.ndarray, targets: Targets, weight: np.ndarray
    ) -> np.ndarray | float:
        classes, present = np.asarray(targets.classes), np.unique(y)
        counted = weight if self.balances_weights else None
        per_class = np.ones(len(classes))
        per_class[present] = compute_class_weight(
            self.machine.class_weight, classes=classes[present], y=classes[y], sample_weight=counted
        )
        return per_class[y]

    def values_by_part(self, targets: Targets) -> Params:
        if "class_weight" not in self.tuned:  # they are in the weights of the rows
            return {}
        labels = np.asarray(targets.classes)
        weights = compute_class_weight(
            self.machine.class_weight, classes=labels, y=labels[targets.y]
        )
        return {"class_cost": weights}


def _named(losses: Mapping[str, Any], name: Any) -> Any:
    """Return a loss by its name, or say which names there are."""
    if name not in list(losses):  # a name need not be hashable
        raise ValueError(f"loss={name!r} must be one of {list(losses)}.")
    return losses[name]


class OwnParts(Adapter):
    """Estimators of our own, with hyperparameters by part that have the names of the loss's."""

    def values_by_part(self, targets: Targets) -> Params:
        values: Params = {}
        known = self.loss().by_part
        for name in self.by_part:
            given = getattr(self.machine, name)
            if given is None:
                continue
            if name not in known:
                if np.any(np.not_equal(given, 1.0)):
                    raise ValueError(
                        f"{name}={given!r} has no effect with loss={self.machine.loss!r}."
                    )
                continue
            values[name] = targets.labels(name, known[name]).values(name, given)
        return values

    def knobs(self) -> tuple[str, ...]:
        known = self.loss().by_part
        return tuple(name for name in self.by_part if name in known)

    def doubts(self, targets: Targets) -> list[str]:
        return []


class OwnKnobs(OwnParts):
    """Classifiers of our own: a choice of losses, costs and margins by class, a threshold."""

    by_part: ClassVar[dict[str, str]] = {n: n for n in ("class_cost", "margin", "group_cost")}
    wraps_threshold: ClassVar[bool] = False

    def loss(self) -> Loss:
        if self.machine.loss == "smooth_hinge":
            return SmoothHinge(self.machine.mu)
        return _named(CLASSIFICATION, self.machine.loss)()

    def knobs(self) -> tuple[str, ...]:
        return (*super().knobs(), "threshold")

    class_weight = Adapter.class_weight  # they are hyperparameters of the loss

    def values_by_part(self, targets: Targets) -> Params:
        values = super().values_by_part(targets)
        if len(np.asarray(targets.classes)) == 2:
            values["threshold"] = float(self.machine.threshold)
        return values


class OwnSolver(Adapter):
    """Estimators of our own that can be trained by FISTA, if their loss has no corners."""

    def solver(self) -> str | None:
        return None if self.machine.solver == "auto" else str(self.machine.solver)

    def is_smooth(self) -> bool:
        """Whether the loss is one for FISTA."""
        return not self.loss().corners

    def refuse(self) -> str | None:
        if self.machine.solver == "fista" and not self.is_smooth():
            return (
                f"solver='fista' and loss={self.machine.loss!r}; use loss='smooth_hinge' or "
                "solver='auto'"
            )
        return super().refuse()


class OwnLosses(OwnParts):
    """Regressors of our own: a choice of losses, costs and tubes by group."""

    by_part: ClassVar[dict[str, str]] = {n: n for n in ("group_cost", "group_epsilon")}

    def loss(self) -> Loss:
        return _named(REGRESSION, self.machine.loss)()

    def knobs(self) -> tuple[str, ...]:
        quantile = ("quantile",) if self.machine.loss == "pinball" else ()
        return (*quantile, *super().knobs())


class ManyTargets(Adapter):
    """Regressors with one machine for each target."""

    def targets(self, y: Any) -> Targets:
        y = np.asarray(y, dtype=float)
        table = y.reshape(len(y), -1)
        everyone = np.ones(len(y), dtype=bool)
        columns = [Column(everyone, column, {}) for column in table.T.copy()]
        scale = max(typical_deviation(column.target) for column in columns) or 1.0
        return Targets(table, None, columns, scale)


class SingleTarget(ManyTargets):
    """Regressors with one target."""

    def targets(self, y: Any) -> Targets:
        return super().targets(column_or_1d(y, warn=True))


def read_classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of labels, and the number of each label's class."""
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes.tolist()[0]!r}); "
            "the number of classes has to be greater than one."
        )
    return classes, numbers


def is_missing(label: Any) -> bool:
    """Whether a label is None, not a number, or what pandas has in their place."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)
