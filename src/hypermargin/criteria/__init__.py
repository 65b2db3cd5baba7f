"""Criteria: what a search descends on.

``GradientSearchCV(..., criterion=PrecisionAtRecall(recall=0.9))`` takes one of these, the name
under which `CRITERIA` lists one with its default arguments, or a function.  Without a criterion the
search takes the one that its score stands for.

To add one to the package, write its class in the file of its kind and list it here; the contract
tests of criteria pick it up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Criterion, UserCriterion
from .by_class import SmoothF1, SmoothFBeta, SmoothJaccard, SmoothPrecision, SmoothRecall
from .confusion import ExpectedCost, SmoothBalancedError, SmoothError, SmoothMatthews, WeightedError
from .probability import BrierScore, LogLoss, ProbabilisticError
from .ranking import (
    BreakEven,
    PrecisionAtRecall,
    RecallAtPrecision,
    SmoothAuc,
    SmoothAveragePrecision,
)
from .rowwise import (
    HuberLoss,
    MeanSquaredError,
    SmoothAbsoluteError,
    SmoothHinge,
    SmoothPinball,
    SquaredLabels,
    UnexplainedVariance,
    ZeroOne,
)

__all__ = [
    "BreakEven",
    "BrierScore",
    "Criterion",
    "ExpectedCost",
    "HuberLoss",
    "LogLoss",
    "MeanSquaredError",
    "PrecisionAtRecall",
    "ProbabilisticError",
    "RecallAtPrecision",
    "SmoothAbsoluteError",
    "SmoothAuc",
    "SmoothAveragePrecision",
    "SmoothBalancedError",
    "SmoothError",
    "SmoothF1",
    "SmoothFBeta",
    "SmoothHinge",
    "SmoothJaccard",
    "SmoothMatthews",
    "SmoothPinball",
    "SmoothPrecision",
    "SmoothRecall",
    "SquaredLabels",
    "UnexplainedVariance",
    "WeightedError",
    "ZeroOne",
]

CRITERIA: dict[str, Criterion] = {
    "accuracy": SmoothError(),
    "balanced_accuracy": SmoothBalancedError(),
    "weighted_error": WeightedError(),
    "expected_cost": ExpectedCost(),
    "precision": SmoothPrecision(),
    "recall": SmoothRecall(),
    "f1": SmoothF1(),
    "fbeta": SmoothFBeta(),
    "f1_macro": SmoothF1(average="macro"),
    "jaccard": SmoothJaccard(),
    "matthews_corrcoef": SmoothMatthews(),
    "roc_auc": SmoothAuc(),
    "average_precision": SmoothAveragePrecision(),
    "precision_at_recall": PrecisionAtRecall(),
    "recall_at_precision": RecallAtPrecision(),
    "break_even": BreakEven(),
    "neg_log_loss": LogLoss(),
    "neg_brier_score": BrierScore(),
    "probabilistic_error": ProbabilisticError(),
    "zero_one": ZeroOne(),
    "smooth_hinge": SmoothHinge(),
    "squared_labels": SquaredLabels(),
    "neg_mean_squared_error": MeanSquaredError(),
    "r2": UnexplainedVariance(),
    "neg_mean_absolute_error": SmoothAbsoluteError(),
    "neg_mean_pinball_loss": SmoothPinball(),
    "huber": HuberLoss(),
}


def criterion_for(
    scorer: Any, is_classifier: bool, classes: np.ndarray | None = None, logits: bool = False
) -> tuple[Criterion, bool]:
    """Return the criterion of a scorer, and whether it is that score's own smooth form.

    `logits` tells that outputs are logits already: probabilities need no sigmoid then.
    """
    default = CRITERIA["accuracy" if is_classifier else "r2"]
    if type(scorer).__name__ == "_PassthroughScorer":  # the estimator's own score
        return default, True
    score_func = getattr(scorer, "_score_func", None)
    labels = np.arange(2) if classes is None else classes
    for criterion in CRITERIA.values():
        same = score_func is not None and criterion.score_func is score_func
        same = same and criterion.sign == scorer._sign
        if not same or criterion.for_classifiers != is_classifier:
            continue
        if criterion.two_classes and len(labels) != 2:
            continue
        found = type(criterion).read(getattr(scorer, "_kwargs", None) or {}, labels)
        if found is not None:
            return found.of_logits() if logits and hasattr(found, "of_logits") else found, True
    for criterion in CRITERIA.values():
        others = criterion.stands_in_for.items()
        if any(score_func is other and scorer._sign == sign for other, sign in others):
            return criterion, False
    return CRITERIA["accuracy" if is_classifier else "neg_mean_squared_error"], False


def read_criterion(given: Any, classes: np.ndarray | None, logits: bool = False) -> Criterion:
    """Return the criterion that a user has named, made or written; `logits` as above."""
    if isinstance(given, str):
        if given not in CRITERIA:
            raise ValueError(f"criterion={given!r} is unknown; use one of {sorted(CRITERIA)}.")
        given = CRITERIA[given]
    if isinstance(given, type):
        raise TypeError(f"criterion={given.__name__} is a class; give {given.__name__}(...).")
    if not isinstance(given, Criterion):
        return UserCriterion(given, classes)
    given.check(None if classes is None else len(classes))
    return given.of_logits() if logits and hasattr(given, "of_logits") else given
