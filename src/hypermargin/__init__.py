"""Tune support vector machines by gradients of the cross-validation loss."""

from ._criterion import check_gradient
from ._estimators import KernelSVC, KernelSVR
from ._linear_estimators import LinearClassifier, LinearRegressor
from ._primitive import value_and_grad
from ._search import GradientSearchCV

__version__ = "0.1.0"

__all__ = [
    "GradientSearchCV",
    "KernelSVC",
    "KernelSVR",
    "LinearClassifier",
    "LinearRegressor",
    "check_gradient",
    "value_and_grad",
]
