"""The score that a search goes by: guessed, or asked for and looked at whether it suits."""

from __future__ import annotations

from copy import deepcopy
from inspect import signature
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer, get_scorer_names

from ..files import Mistake
from .problem import Problem

RARE = 0.1  # share of the rows below which a class is rare
SUITABLE = {
    "regression": "r2, neg_mean_squared_error or neg_mean_absolute_error",
    "two classes": "accuracy, balanced_accuracy, f1 or roc_auc",
    "classes": "accuracy, balanced_accuracy, f1_macro or roc_auc_ovr",
}


def score_of(problem: Problem, asked: str | None, positive: str | None) -> tuple[str, Any]:
    """Return the name of the score, and the class that it is about, None if it is about none."""
    if asked is not None and asked not in get_scorer_names():
        raise Mistake(f"--score {asked!r} is no score of scikit-learn, such as f1, roc_auc or r2.")
    name = _guessed(problem) if asked is None else asked
    label = _positive(problem, name, positive)
    if asked is not None:
        try:
            _try_score(scorer(name, label), problem)
        except (ValueError, TypeError, AttributeError) as error:
            raise Mistake(_unsuitable(problem, name, error)) from None
    return name, label


def scorer(name: str, positive: Any = None) -> Any:
    """Return a scorer of scikit-learn, about a class if one is given."""
    found = get_scorer(name)
    if positive is not None:
        found = deepcopy(found)
        found._kwargs = {**found._kwargs, "pos_label": positive}
    return found


def _guessed(problem: Problem) -> str:
    name = "accuracy" if problem.is_classification else "r2"
    problem.guessed.append(f"the score is {name}")
    if problem.is_classification:
        share = np.unique(problem.y, return_counts=True)[1].min() / len(problem.y)
        if share < RARE:
            problem.guessed.append(
                f"the rarest class has {100 * share:.2g} % of the rows, so --score "
                "balanced_accuracy or f1_macro may be what you want"
            )
    return name


def _positive(problem: Problem, name: str, asked: str | None) -> Any:
    """Return the class that a score is about: that asked for, or the rarer one of two words."""
    classes, counts = np.unique(problem.y, return_counts=True)
    if not (_is_of_a_class(name) and problem.is_classification and len(classes) == 2):
        if asked is not None:
            raise Mistake(
                f"--positive {asked!r} is for two classes and a score of one, such as f1; "
                f"--score is {name}, and the task {problem.task}."
            )
        return None
    if asked is None:
        if problem.y.dtype.kind in "iufb" and 1 in classes:
            return None  # scikit-learn takes that
        found = classes[0] if counts[0] < counts[1] else classes[1]
        why = "the rarer one" if counts[0] != counts[1] else "the last one"
        problem.guessed.append(f"{name} is of class {str(found)!r}, {why}; --positive names it")
        return found.item()
    for one in classes:
        if str(one) == asked:
            return one.item()
    some = " and ".join(repr(str(one)) for one in classes)
    raise Mistake(f"--positive {asked!r} is no class; there are {some}.")


def _is_of_a_class(name: str) -> bool:
    """Whether a score is about one of two classes."""
    found = get_scorer(name)
    takes = "pos_label" in signature(found._score_func).parameters
    return takes and found._kwargs.get("average", "binary") == "binary"


def _try_score(of: Any, problem: Problem) -> None:
    """Score something that knows the targets, or their shares, so that mistakes show at once."""
    if not problem.is_classification:
        y = problem.y[:50]
        of._score_func(y, y + 0.25, **of._kwargs)  # outputs are seldom whole numbers
        return
    y = np.repeat(np.unique(problem.y), 2)
    if of._response_method == "predict":
        of._score_func(y, y, **of._kwargs)
    else:
        X = np.zeros((len(y), 1))
        of(DummyClassifier().fit(X, y), X, y)


def _unsuitable(problem: Problem, name: str, error: Exception) -> str:
    """Say why a score does not suit, and which would."""
    if problem.is_classification:
        n_classes = len(np.unique(problem.y))
        suitable = SUITABLE["two classes" if n_classes == 2 else "classes"]
        return f"--score {name} does not suit a target of {n_classes} classes; {suitable} would."
    numbers = np.array([1.0, 2.0, 3.5])
    try:
        get_scorer(name)._score_func(numbers, numbers)
    except (ValueError, TypeError, AttributeError):
        return f"--score {name} does not suit a target of numbers; {SUITABLE['regression']} would."
    why = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
    return f"--score {name} does not suit this target: {why}."
