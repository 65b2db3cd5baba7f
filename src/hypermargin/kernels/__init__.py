"""Kernels by the names that estimators give them.

To add one, write its class in a file here and list it in `KERNELS`; the contract tests of kernels
pick it up.
"""

from __future__ import annotations

from typing import Any

from .affine import Linear, Polynomial, Sigmoid
from .base import Kernel
from .compose import Product, Sum
from .laplacian import Laplacian
from .matern import Matern12, Matern32, Matern52
from .precomputed import Precomputed
from .rbf import RBF
from .stationary import Stationary

KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "rbf": RBF,
    "poly": Polynomial,
    "sigmoid": Sigmoid,
    "laplacian": Laplacian,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "precomputed": Precomputed,
}


def make_kernel(name: Any, degree: float) -> Kernel:
    """Return a kernel that is given, or that of a scikit-learn name; or say which there are."""
    if isinstance(name, Kernel):
        return name
    if not isinstance(name, str) or name not in KERNELS:
        raise ValueError(f"kernel={name!r} cannot be differentiated; use one of {sorted(KERNELS)}.")
    return Polynomial(degree) if name == "poly" else KERNELS[name]()


__all__ = [
    "KERNELS",
    "RBF",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Polynomial",
    "Precomputed",
    "Product",
    "Sigmoid",
    "Stationary",
    "Sum",
]
