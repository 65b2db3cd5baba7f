"""A report on a fitted search, as one file of HTML that needs no network."""

from .page import page
from .writing import write

__all__ = ["page", "write"]
