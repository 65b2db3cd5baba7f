"""Ways to search."""

from __future__ import annotations

from .base import Method
from .bilevel_sgd import BilevelSgd
from .curve import CostCurve
from .gradient import Descent
from .grid import Grid, RandomPoints
from .mpec import Mpec
from .optimisers import Asked, check_optimiser
from .path import CostPath
from .penalty import Penalty
from .sgd_dcd import SgdDcd

METHODS: dict[str, Method] = {
    "gradient": Descent(),
    "curve": CostCurve(),
    "path": CostPath(),
    "grid": Grid(),
    "random": RandomPoints(),
    "penalty": Penalty(),
    "mpec": Mpec(),
    "sgd-dcd": SgdDcd(),
    "bilevel-sgd": BilevelSgd(),
}
AUTOMATIC = "curve", "gradient"  # in this order, the first that nothing is against


def read_method(asked: str | Method, optimiser: Asked = "auto") -> Method | None:
    """Return the method that was asked for, None for "auto", or say which there are.

    Who asks for an optimiser asks for a method that has one.
    """
    check_optimiser(optimiser)
    if not isinstance(asked, Method) and asked not in ("auto", *METHODS):
        raise ValueError(f"method={asked!r} must be 'auto', one of {list(METHODS)} or a Method.")
    given = callable(optimiser) or optimiser != "auto"
    if isinstance(asked, str):
        if asked == "auto" and not given:
            return None
        asked = METHODS["gradient" if asked == "auto" else asked]
    return asked.using(optimiser) if given else asked


__all__ = [
    "METHODS", "BilevelSgd", "Grid", "Method", "Mpec", "Penalty", "RandomPoints", "SgdDcd",
]  # fmt: skip
