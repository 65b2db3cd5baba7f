"""Tune support vector machines by gradients of the cross-validation loss."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._core.version import __version__ as __version__

if TYPE_CHECKING:
    from .adapters.metric import LearnedMetric
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
    "LearnedMetric",
    "LinearClassifier",
    "LinearRegressor",
    "check_gradient",
    "value_and_grad",
]

# where the names above are; they are loaded, all of them, when the first is asked for, so that
# `hypermargin --help` need not wait for the compiler
_PLACES = (
    "adapters.metric",
    "criteria.base",
    "estimators.kernel",
    "estimators.linear",
    "search.loss",
    "search.search",
)
_FOLDERS = ("adapters", "criteria", "estimators", "files", "kernels", "losses", "methods")


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return import_module(f".{name}", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = [import_module(f".{place}", __name__) for place in _PLACES]
    for public in __all__:
        globals()[public] = next(vars(m)[public] for m in modules if public in vars(m))
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
