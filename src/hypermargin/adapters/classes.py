"""Machines of many classes, one for each against the rest."""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from ..problems.base import Column
from .base import Targets, WeightedClasses, read_classes


class OneAgainstRest(WeightedClasses):
    """Classifiers with one machine for each class, a positive output speaking for it."""

    unit: ClassVar[float] = 0.5  # of a difference of two outputs, as a margin of one

    def targets(self, y: Any) -> Targets:
        classes, numbers = read_classes(y)
        return Targets(numbers, classes, self.columns_of(numbers, len(classes)), 1.0)

    def columns_of(self, numbers: np.ndarray, n_classes: int) -> list[Column]:
        """Return the columns of rows with these numbers of classes."""
        everyone = np.ones(len(numbers), dtype=bool)
        if n_classes == 2:
            return [Column(everyone, 2.0 * numbers - 1.0, {"class": numbers})]
        return [
            Column(
                everyone,
                np.where(numbers == k, 1.0, -1.0),
                {"class": self.parts(numbers, k), "machine": np.full(len(numbers), k)},
                (k,),
            )
            for k in range(n_classes)
        ]

    def parts(self, numbers: np.ndarray, k: int) -> np.ndarray:
        """Return the class whose hyperparameters rows have in the machine of class k."""
        return numbers

    def predict(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        if len(classes) == 2:
            return classes[(outputs[:, 0] > 0).astype(int)]
        return classes[outputs.argmax(axis=1)]

    def decision_function(self, outputs: np.ndarray, classes: Any) -> np.ndarray:
        return outputs[:, 0] if len(classes) == 2 else outputs

    def outputs(self, X: Any) -> np.ndarray:
        found = self.machine.decision_function(X)
        return found.reshape(len(found), -1)

    def narrowed(self, outputs: np.ndarray, known: np.ndarray) -> np.ndarray:
        found = outputs[:, known]
        # two machines that tell the same two classes apart are each other's mirror image
        return found if found.shape[1] > 2 else self.unit * (found[:, 1:] - found[:, :1])

    def contrasted(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return differences of outputs: the class with the largest output wins all of its.

        They are halved where machines are trained to say 1 for their class and -1 for others, so
        that margins have the unit that they have in training.
        """
        n = outputs.shape[1]
        if n == 1:
            return outputs, None
        T = np.zeros((n, n * (n - 1) // 2))
        for p, (i, j) in enumerate(combinations(range(n), 2)):
            T[i, p], T[j, p] = -self.unit, self.unit
        return outputs @ T, T
