"""Adapters of kernel machines: SVC, SVR, KernelRidge, and our own KernelSVC and KernelSVR."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR
from sklearn.utils.multiclass import _ovr_decision_function

from .._core.space import Params
from ..kernels import make_kernel
from ..kernels.base import Kernel
from ..losses.base import Loss
from ..losses.classification import Hinge, Logistic, SmoothHinge
from ..losses.regression import EpsilonInsensitive, Squared
from ..problems.base import Column
from .base import (
    Adapter,
    ManyTargets,
    OwnKnobs,
    OwnLosses,
    OwnSolver,
    SingleTarget,
    Targets,
    WeightedClasses,
    read_classes,
)
from .classes import OneAgainstRest
from .metric import LearnedMetric


class _Libsvm(Adapter):
    """What SVC and SVR have in common: gamma="scale" and "auto", tol, max_iter."""

    takes_widths = True

    def gamma(self, X: Any) -> float:
        if not isinstance(self.machine.gamma, str):
            raise ValueError(
                f"gamma has a value for each feature, which kernel={self.machine.kernel!r} cannot "
                "have; give a number, or use 'rbf', 'laplacian' or a Matern kernel."
            )
        if self.machine.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.machine.gamma != "scale":
            raise ValueError(
                f"gamma={self.machine.gamma!r} is not understood; give 'scale', 'auto' or a number."
            )
        is_sparse = sparse.issparse(X)
        variance = X.multiply(X).mean() - X.mean() ** 2 if is_sparse else X.var()
        return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0

    def tol(self) -> float:
        return float(self.machine.tol)

    def doubts(self, targets: Targets) -> list[str]:
        found = []
        if self.machine.max_iter != -1:
            found.append(f"max_iter={self.machine.max_iter} is not applied in the search")
        if self.machine.tol > 0.05 * targets.scale:
            found.append(
                f"tol={self.machine.tol:g} is coarse for a target that typically deviates by "
                f"{targets.scale:.2g}: scale y, or lower tol"
            )
        return found


class SVCAdapter(_Libsvm, WeightedClasses):
    """One machine per pair of classes, an output above zero speaking for the second class."""

    estimator = SVC

    def loss(self) -> Loss:
        return Hinge()

    def targets(self, y: Any) -> Targets:
        classes, numbers = read_classes(y)
        return Targets(numbers, classes, self.columns_of(numbers, len(classes)), 1.0)

    def columns_of(self, numbers: np.ndarray, n_classes: int) -> list[Column]:
        """Return the columns of rows with these numbers of classes."""
        return [
            Column(
                (numbers == i) | (numbers == j),
                np.where(numbers == j, 1.0, -1.0),
                {"class": numbers},
                (i, j),
            )
            for i, j in combinations(range(n_classes), 2)
        ]

    def predict(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        if len(classes) == 2:
            return classes[(outputs[:, 0] > 0).astype(int)]
        if self.machine.break_ties and self.machine.decision_function_shape == "ovr":
            return classes[self.decision_function(outputs, classes).argmax(axis=1)]
        votes = np.zeros((len(outputs), len(classes)))
        for p, (i, j) in enumerate(combinations(range(len(classes)), 2)):
            votes[:, i] += outputs[:, p] < 0
            votes[:, j] += outputs[:, p] >= 0
        return classes[votes.argmax(axis=1)]

    def narrowed(self, outputs: np.ndarray, known: np.ndarray) -> np.ndarray:
        pairs = combinations(range(len(known)), 2)
        return outputs[:, [bool(known[i] and known[j]) for i, j in pairs]]

    def outputs(self, X: Any) -> np.ndarray:
        if len(self.machine.classes_) == 2:
            return self.machine.decision_function(X)[:, None]
        pairs = copy(self.machine)
        pairs.decision_function_shape = "ovo"
        return -pairs.decision_function(X)

    def decision_function(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        if len(classes) == 2:
            return outputs[:, 0]
        if self.machine.decision_function_shape == "ovr":
            return _ovr_decision_function(outputs > 0, outputs, len(classes))
        return -outputs


class SVRAdapter(SingleTarget, _Libsvm):
    estimator = SVR

    def loss(self) -> Loss:
        return EpsilonInsensitive()


class KernelRidgeAdapter(ManyTargets):
    estimator = KernelRidge
    takes_widths = True

    def loss(self) -> Loss:
        return Squared()

    def targets(self, y: Any) -> Targets:
        return replace(super().targets(y), as_table=np.ndim(y) == 2)

    def kernel(self) -> Kernel:
        name = "poly" if self.machine.kernel == "polynomial" else self.machine.kernel
        return make_kernel(name, self.machine.degree)

    def gamma(self, X: Any) -> float:
        if self.machine.kernel == "chi2":
            raise ValueError(
                "KernelRidge(kernel='chi2') with gamma=None cannot be fitted by scikit-learn; give "
                "gamma a number, or tune it."
            )
        return 1.0 / X.shape[1]


class _WithMetric(Adapter):
    """Machines that learn what distances are measured in, if they are told to."""

    def metric(self) -> Any:
        if self.machine.metric is None:
            return None
        return LearnedMetric("classes" if hasattr(self, "decision_function") else "numbers")

    def refuse(self) -> str | None:
        if self.machine.metric is not None and self.machine.kernel == "precomputed":
            return (
                f"metric={self.machine.metric!r} and kernel='precomputed', which has no features; "
                "use metric=None"
            )
        return super().refuse()


class KernelSVCAdapter(_WithMetric, OwnSolver, OwnKnobs, SVCAdapter):
    """As SVC, with the losses, costs, margins and threshold of our own classifier."""

    holds_widths = True

    def __new__(cls, machine: Any, tuned: Iterable[str] = ()) -> KernelSVCAdapter:
        """Return the adapter of pairs of classes, or of one class against the rest."""
        rest = cls is KernelSVCAdapter and machine.multi_class == "ovr"
        return super().__new__(_KernelOneAgainstRest if rest else cls)

    def __getnewargs__(self) -> tuple[Any]:
        # what pickle makes it of
        return (self.machine,)

    def is_smooth(self) -> bool:
        return isinstance(self.loss(), (SmoothHinge, Logistic))

    def refuse(self) -> str | None:
        if self.machine.solver == "fista" and not self.kernel().definite:
            return (
                f"solver='fista' and kernel={self.machine.kernel!r}, which may not be positive "
                "definite; use solver='auto'"
            )
        return super().refuse()

    def values_by_part(self, targets: Targets) -> Params:
        given = self.machine.machine_cost
        if given is not None and "machine_cost" not in self.by_part:
            raise ValueError(
                f"machine_cost={given!r} is for machines of one class against the rest; use "
                "multi_class='ovr'."
            )
        return super().values_by_part(targets)


class _KernelOneAgainstRest(OneAgainstRest, KernelSVCAdapter):
    """With one machine for each class, which may have a cost of its own."""

    by_part: ClassVar[dict[str, str]] = {**OwnKnobs.by_part, "machine_cost": "machine_cost"}


class KernelSVRAdapter(_WithMetric, OwnLosses, SVRAdapter):
    """As SVR, with the losses of our own regressor."""

    holds_widths = True
