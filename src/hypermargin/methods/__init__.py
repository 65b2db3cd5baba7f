"""Ways to search."""

from __future__ import annotations

from .base import Method
from .curve import CostCurve
from .gradient import Descent
from .path import CostPath

METHODS: dict[str, Method] = {
    "gradient": Descent(),
    "curve": CostCurve(),
    "path": CostPath(),
}
AUTOMATIC = "curve", "gradient"  # in this order, the first that nothing is against

__all__ = ["METHODS", "Method"]
