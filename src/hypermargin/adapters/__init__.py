"""What the parameters of an estimator mean to a problem."""

from .base import Adapter, ManyTargets, SingleTarget
from .model import ADAPTERS, register

__all__ = ["ADAPTERS", "Adapter", "ManyTargets", "SingleTarget", "register"]
