"""Pictures of a fitted search, as scikit-learn's displays; they need matplotlib."""

from .curves import ConvergenceDisplay, HyperparameterDisplay, SearchesDisplay
from .parts import RelevanceDisplay, TimeDisplay
from .path import PathDisplay
from .probabilities import CalibrationDisplay, ThresholdDisplay

__all__ = [
    "CalibrationDisplay",
    "ConvergenceDisplay",
    "HyperparameterDisplay",
    "PathDisplay",
    "RelevanceDisplay",
    "SearchesDisplay",
    "ThresholdDisplay",
    "TimeDisplay",
]
