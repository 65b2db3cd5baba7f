"""Kernels by the names that estimators give them.

To add one, write its class in a file here and list it in `KERNELS`; the contract tests of kernels
pick it up.
"""

from __future__ import annotations

from typing import Any

from .affine import Linear, Polynomial, Sigmoid
from .base import Kernel
from .categories import Categories
from .chi2 import ExponentialChi2
from .compose import Product, Sum
from .generalised import GeneralisedGaussian
from .laplacian import Laplacian
from .matern import Matern, Matern12, Matern32, Matern52
from .outside import FunctionKernel, GaussianProcessKernel, check_kernel
from .precomputed import Precomputed
from .rational import RationalQuadratic
from .rbf import RBF
from .stationary import Stationary
from .tanimoto import MinMax, Tanimoto

KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "rbf": RBF,
    "poly": Polynomial,
    "sigmoid": Sigmoid,
    "laplacian": Laplacian,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "chi2": ExponentialChi2,
    "categories": Categories,
    "tanimoto": Tanimoto,
    "minmax": MinMax,
    "precomputed": Precomputed,
}
# those with hyperparameters that estimators do not have; they are given as objects
OBJECTS: tuple[type[Kernel], ...] = (GeneralisedGaussian, RationalQuadratic)


# what a search chooses from with kernel="auto", as values of estimators' parameters: functions of
# the distance, as smooth as data want them; products of functions of single features, which tables
# mostly want; and functions of the distance in directions of their own
CHOICES: tuple[dict[str, Any], ...] = (
    {"kernel": GeneralisedGaussian(ard=True)},
    {"kernel": Laplacian(ard=True)},
    {"kernel": GeneralisedGaussian(), "metric": "gradients"},
)


def make_kernel(name: Any, degree: float) -> Kernel:
    """Return a kernel that is given, or that of a scikit-learn name; or say which there are."""
    if isinstance(name, Kernel):
        return name
    name = "rbf" if isinstance(name, str) and name == "auto" else name  # it is for searches
    if not isinstance(name, str) or name not in KERNELS:
        raise ValueError(
            f"kernel={name!r} cannot be differentiated; use one of {sorted(KERNELS)}, or one of "
            "hypermargin.kernels (GaussianProcessKernel and FunctionKernel take others)."
        )
    return Polynomial(degree) if name == "poly" else KERNELS[name]()


__all__ = [
    "KERNELS",
    "OBJECTS",
    "RBF",
    "Categories",
    "ExponentialChi2",
    "FunctionKernel",
    "GaussianProcessKernel",
    "GeneralisedGaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "MinMax",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Sigmoid",
    "Stationary",
    "Sum",
    "Tanimoto",
    "check_kernel",
]
