"""What a method is: a way to search a space with an objective.

To add one, write a class with `search`, in a file of its own, and list it in `METHODS`; the
contract tests of methods pick it up.  One from outside the package is given as ``method=``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..adapters.base import Targets
from ..adapters.model import Model
from .objective import Objective
from .optimisers import Asked


@dataclass(frozen=True)
class Curve:
    """Score and its standard error over folds, by the value of the hyperparameter."""

    name: str
    values: np.ndarray
    scores: np.ndarray
    errors: np.ndarray

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return what users see of it."""
        return {self.name: self.values, "score": self.scores, "std_error": self.errors}


class Method:
    """A way to search.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.methods import Method
    >>> class Middle(Method):
    ...     def search(self, objective):
    ...         objective(objective.space.bounds.mean(axis=1))
    >>> search = GradientSearchCV(SVC(), {"C": (0.1, 10.0)}, method=Middle())
    >>> round(search.fit(*load_iris(return_X_y=True)).best_params_["C"], 6)
    1.0
    """

    takes_first: ClassVar[bool] = False  # of equal scores; else that with the least smooth loss
    constrained: ClassVar[bool] = False  # whether it evaluates only points that meet constraints
    uses_all: ClassVar[bool] = False  # whether it makes as many evaluations as it may
    levels: ClassVar[int | None] = None  # sets of rows that it evaluates on, at most

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"

    def obstacle(self, model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
        """Return why this is no method for a model and the ranges of its space, if it is none.

        The answer goes on after the method's name: "is for linear models ...; use ...".
        """
        return None

    def using(self, optimiser: Asked) -> Method:
        """Return the method with an optimiser that was asked for, if it has such a choice."""
        raise ValueError(
            f"optimiser={optimiser!r} is for method='gradient'; another method has no optimiser."
        )

    def most_levels(self, objective: Objective) -> int | None:
        """Return on how many sets of rows it evaluates at most, None if that is not known."""
        return self.levels

    def search(self, objective: Objective) -> Curve | None:
        """Evaluate points until there is nothing to gain; the best of them will be chosen.

        Methods that know the score between points return it.
        """
        raise NotImplementedError
