"""Adapters of linear machines: LinearSVC, LinearSVR, LogisticRegression, Ridge, RidgeClassifier.

With more than two classes there is one machine for each class against the rest, but for
LogisticRegression, whose classes have one machine together.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target

from ..losses.base import NAMELESS, Loss
from ..losses.classification import Hinge, Logistic, SquaredHinge
from ..losses.regression import EpsilonInsensitive, Squared, SquaredEpsilonInsensitive
from ..problems.base import Column
from .base import (
    Adapter,
    ManyTargets,
    OwnKnobs,
    OwnLosses,
    OwnSolver,
    SingleTarget,
    Targets,
)
from .classes import OneAgainstRest


class LinearAdapter(Adapter):
    """What linear estimators have in common: no kernel, and a bias among the features."""

    linear = True
    installs: ClassVar[bool] = True  # whether `fit` sets no more than `install` does

    def scalars(self) -> tuple[str, ...]:
        return self.loss().hyperparameters

    def intercept(self) -> tuple[float, float]:
        """Return the constant that stands for the bias, and how much its weight is penalised."""
        return float(self.machine.fit_intercept), 0.0

    def couples(self, targets: Targets) -> bool:
        """Whether the outputs are those of one machine, which cannot be trained one by one."""
        return False

    def install(self, weights: np.ndarray, n_iter: int, targets: Targets, dtype: np.dtype) -> None:
        """Set what `fit` would set from weights with the bias last; `dtype` is that of the data."""
        raise NotImplementedError


class _Liblinear(LinearAdapter):
    def solver(self) -> str | None:
        asked = getattr(self.machine, "dual", "auto")
        return None if asked == "auto" else "dual" if asked else "primal"

    def intercept(self) -> tuple[float, float]:
        if not self.machine.fit_intercept:
            return 0.0, 1.0
        return float(self.machine.intercept_scaling), 1.0

    def install(self, weights: np.ndarray, n_iter: int, targets: Targets, dtype: np.dtype) -> None:
        self.machine.coef_ = np.ascontiguousarray(weights[:, :-1])
        self.machine.intercept_ = weights[:, -1].copy() if self.machine.fit_intercept else 0.0
        self.machine.n_iter_ = max(n_iter, 1)
        if targets.classes is not None:
            self.machine.classes_ = targets.classes
        else:
            self.machine.coef_ = self.machine.coef_[0]


class LinearSVCAdapter(OneAgainstRest, _Liblinear):
    estimator = LinearSVC
    balances_weights = True
    weighs_others = False

    def loss(self) -> Loss:
        return Hinge() if self.machine.loss == "hinge" else SquaredHinge()

    def parts(self, numbers: np.ndarray, k: int) -> np.ndarray:
        return np.where(numbers == k, k, NAMELESS)  # LIBLINEAR weighs the one class only

    def refuse(self) -> str | None:
        if self.machine.penalty != "l2":
            return f"penalty={self.machine.penalty!r}; use 'l2'"
        if self.machine.multi_class != "ovr":
            return f"multi_class={self.machine.multi_class!r}; use 'ovr'"
        if self.machine.loss == "hinge" and self.machine.dual is False:
            return "loss='hinge' and dual=False; use dual='auto'"
        return None


class LogisticRegressionAdapter(OneAgainstRest, LinearAdapter):
    estimator = LogisticRegression
    balances_weights = True
    unit = 1.0  # the difference of two logits

    def loss(self) -> Loss:
        return Logistic()

    def couples(self, targets: Targets) -> bool:
        return len(targets.columns) > 1

    def check_targets(self, targets: Targets) -> None:
        ovr = (
            self.machine.solver == "liblinear"
            or getattr(self.machine, "multi_class", None) == "ovr"
        )
        if ovr and self.couples(targets):
            asked = (
                "solver='liblinear'" if self.machine.solver == "liblinear" else "multi_class='ovr'"
            )
            raise ValueError(
                f"y has {len(targets.columns)} classes, which LogisticRegression with {asked} "
                "does not tell apart together; use solver='lbfgs', or "
                "LinearClassifier(loss='logistic') for one class against the rest."
            )

    def intercept(self) -> tuple[float, float]:
        if not self.machine.fit_intercept:
            return 0.0, 1.0
        if self.machine.solver == "liblinear":
            return float(self.machine.intercept_scaling), 1.0
        return 1.0, 0.0

    def refuse(self) -> str | None:
        penalty = getattr(self.machine, "penalty", "l2")
        if penalty not in ("l2", "deprecated"):
            return f"penalty={penalty!r}; use 'l2'"
        if getattr(self.machine, "l1_ratio", None):
            return f"l1_ratio={self.machine.l1_ratio!r}; use 0"
        return None

    def install(self, weights: np.ndarray, n_iter: int, targets: Targets, dtype: np.dtype) -> None:
        liblinear = self.machine.solver == "liblinear"
        weights = weights if liblinear else weights.astype(dtype)
        self.machine.coef_ = np.ascontiguousarray(weights[:, :-1])
        self.machine.intercept_ = weights[:, -1].copy()
        if not self.machine.fit_intercept:
            self.machine.intercept_ = 0.0 if liblinear else np.zeros(len(weights), dtype=dtype)
        self.machine.n_iter_ = np.array([max(n_iter, 1)], dtype=np.int32)
        self.machine.classes_ = np.asarray(targets.classes)

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Return the model's own probabilities."""
        if outputs.shape[1] > 1:
            return softmax(outputs, axis=1)
        return np.hstack([expit(-outputs), expit(outputs)])


class LinearClassifierAdapter(OwnSolver, OwnKnobs, OneAgainstRest, _Liblinear):
    by_part: ClassVar[dict[str, str]] = {**OwnKnobs.by_part, "machine_cost": "machine_cost"}

    def install(self, weights: np.ndarray, n_iter: int, targets: Targets, dtype: np.dtype) -> None:
        super().install(weights, n_iter, targets, dtype)
        self.machine.calibration_ = None  # until a search has fitted one


class LinearRegressorAdapter(OwnLosses, SingleTarget, _Liblinear):
    """As LinearSVR, with the losses of our own regressor."""


class LinearSVRAdapter(SingleTarget, _Liblinear):
    estimator = LinearSVR

    def loss(self) -> Loss:
        squared = self.machine.loss == "squared_epsilon_insensitive"
        return SquaredEpsilonInsensitive() if squared else EpsilonInsensitive()

    def refuse(self) -> str | None:
        if self.machine.loss == "epsilon_insensitive" and self.machine.dual is False:
            return "loss='epsilon_insensitive' and dual=False; use dual='auto'"
        return None


class RidgeAdapter(ManyTargets, LinearAdapter):
    estimator = Ridge
    installs = False

    def loss(self) -> Loss:
        return Squared()

    def refuse(self) -> str | None:
        return "positive=True; use False" if self.machine.positive else None

    def install(self, weights: np.ndarray, n_iter: int, targets: Targets, dtype: np.dtype) -> None:
        self.machine.coef_ = weights[0, :-1].astype(dtype)
        self.machine.intercept_ = float(weights[0, -1]) if self.machine.fit_intercept else 0.0
        self.machine.n_iter_ = None  # as with solvers that take no steps


class RidgeClassifierAdapter(OneAgainstRest, LinearAdapter):
    estimator = RidgeClassifier
    installs = False
    by_part: ClassVar[dict[str, str]] = {}

    def loss(self) -> Loss:
        return Squared()

    def refuse(self) -> str | None:
        return "positive=True; use False" if self.machine.positive else None

    def install(self, weights: np.ndarray, n_iter: int, targets: Targets, dtype: np.dtype) -> None:
        self.machine.coef_ = weights[:, :-1].astype(dtype)
        self.machine.intercept_ = weights[:, -1].copy() if self.machine.fit_intercept else 0.0
        self.machine.n_iter_ = None
        self.machine._label_binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
        self.machine._label_binarizer.fit(np.asarray(targets.classes))
        if not hasattr(self.machine, "classes_"):  # a property before scikit-learn 1.9
            self.machine.classes_ = np.asarray(targets.classes)

    def targets(self, y: Any) -> Targets:
        """Several labels that a row has or has not are targets of their own: y has no classes."""
        if type_of_target(y) != "multilabel-indicator":
            return super().targets(y)
        signs = np.where(np.asarray(y) > 0, 1.0, -1.0)
        everyone = np.ones(len(signs), dtype=bool)
        columns = [Column(everyone, column, {}) for column in signs.T.copy()]
        return Targets(signs, None, columns, 1.0, several=True)

    def class_weight(
        self, y: np.ndarray, targets: Targets, weight: np.ndarray
    ) -> np.ndarray | float:
        if targets.several and self.machine.class_weight is not None:
            return compute_sample_weight(self.machine.class_weight, (y > 0).astype(int))
        if targets.several:
            return 1.0
        return super().class_weight(y, targets, weight)

    def predict(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        if classes is None:
            return (outputs > 0).astype(int)
        return super().predict(outputs, classes)

    def decision_function(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        return outputs if classes is None else super().decision_function(outputs, classes)
