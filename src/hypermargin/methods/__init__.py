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


def read_method(asked: str | Method) -> Method | None:
    """Return the method that was asked for, None for "auto", or say which there are."""
    if isinstance(asked, Method) or asked == "auto":
        return None if isinstance(asked, str) else asked
    if asked not in METHODS:
        raise ValueError(f"method={asked!r} must be 'auto', one of {list(METHODS)} or a Method.")
    return METHODS[asked]


__all__ = ["METHODS", "Method"]
