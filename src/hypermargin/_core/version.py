"""The version, where all parts of the package can read it."""

__version__ = "0.1.0"
