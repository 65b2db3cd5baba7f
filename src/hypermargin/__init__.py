"""Tune support vector machines by gradients of the cross-validation loss."""

from ._core.version import __version__
from .criteria.base import check_gradient
from .estimators.kernel import KernelSVC, KernelSVR
from .estimators.linear import LinearClassifier, LinearRegressor
from .search.loss import CrossValidationLoss, value_and_grad
from .search.search import GradientSearchCV

__all__ = [
    "CrossValidationLoss",
    "GradientSearchCV",
    "KernelSVC",
    "KernelSVR",
    "LinearClassifier",
    "LinearRegressor",
    "__version__",
    "check_gradient",
    "value_and_grad",
]
