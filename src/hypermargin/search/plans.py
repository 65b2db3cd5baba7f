"""What is going to be searched: every combination, checked, with what to descend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.warn import warn
from ..adapters.base import Targets
from ..adapters.model import Model
from ..criteria import criterion_for, read_criterion
from ..criteria.base import Criterion
from ..methods.validation import check_defined
from .combinations import Combination, Refused, check_combination
from .scoring import default_surrogate_message

Plan = tuple[Combination, Criterion] | Refused  # with what the search is to descend on


def descends(plan: Plan) -> bool:
    """Whether there is anything but listed values."""
    return not isinstance(plan, Refused) and bool(plan[0].ranges)


def make_plans(
    asked: Any,
    combinations: Sequence[Combination | Refused],
    scorer: Any,
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    splits: list,
    weight: np.ndarray,
) -> list[Plan]:
    """Check every combination, and say what to descend on where that is not the score.

    `asked` has the arguments of the search, `scorer` is the one that leads.
    """
    plans: list[Plan] = []
    surrogates: dict[str, Criterion] = {}
    for one in combinations:
        checked = check_combination(one, X, y, fit_params, asked)
        if isinstance(checked, Refused):
            plans.append(checked)
            continue
        good, targets = checked
        criterion, is_own = _criterion(asked, scorer, good.model, targets)
        if tests := good.tests(targets, splits, fit_params):
            check_defined(criterion, targets, tests, weight, asked.pooled)
        plans.append((good, criterion))
        if good.ranges and not is_own:
            surrogates[criterion.label] = criterion
    for surrogate in surrogates.values():
        warn(default_surrogate_message(scorer, surrogate))
    return plans


def _criterion(asked: Any, scorer: Any, model: Model, targets: Targets) -> tuple[Criterion, bool]:
    """Return what to descend on, and whether it is the leading score's own form."""
    logits = hasattr(model.adapter, "probabilities")
    if asked.criterion is not None:
        return read_criterion(asked.criterion, targets.classes, logits), True
    classes = targets.classes
    return criterion_for(scorer, classes is not None, classes, logits)
