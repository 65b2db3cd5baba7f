"""What pictures read off a fitted search, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

LOG_FROM = 20.0  # a ratio of the largest to the smallest value that wants a logarithmic axis


def flat(params: Mapping[str, Any]) -> dict[str, float]:
    """Return all numbers among hyperparameters, those of arrays and dicts one by one."""
    found: dict[str, float] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            found |= flat({f"{name}[{label!r}]": one for label, one in value.items()})
        elif isinstance(value, (list, tuple, np.ndarray)):
            found |= flat({f"{name}[{k}]": one for k, one in enumerate(value)})
        elif isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
            found[name] = float(value)
    return found


def fitted(search: Any) -> Any:
    """Return a search that has been fitted, or say that it has not, or is another one."""
    check_is_fitted(search, "cv_results_")
    if not hasattr(search, "history_"):
        kind = type(search).__name__
        raise ValueError(f"search={kind}(...) has no history_; give a fitted GradientSearchCV.")
    return search


def tuned(search: Any) -> list[str]:
    """Return the names of numbers that differ among the visited points."""
    rows = [flat(row["params"]) for row in search.history_]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names if len({row[name] for row in rows if name in row}) > 1]


def check_name(search: Any, name: str) -> str:
    """Return a name of what was tuned, or say which there are."""
    names = tuned(search)
    if name not in names:
        raise ValueError(f"{name!r} is no number that this search has varied; those are {names}.")
    return name


def best_params(search: Any) -> dict[str, Any]:
    """Return the best point, or say that there is none."""
    if not hasattr(search, "best_params_"):
        raise ValueError("a search of several scores without refit has no best point to show.")
    return search.best_params_


def beside_best(search: Any) -> list[dict[str, Any]]:
    """Return the visited points that have the listed values of the best one."""
    best = best_params(search)
    named = {name: repr(value) for name, value in best.items() if not flat({name: value})}
    return [
        row
        for row in search.history_
        if all(repr(row["params"].get(name)) == value for name, value in named.items())
    ]


def is_log(values: Any) -> bool:
    """Whether numbers want a logarithmic axis."""
    values = np.asarray(values, dtype=float)
    return bool(values.min() > 0 and values.max() > LOG_FROM * values.min())


def leading(search: Any) -> str:
    """Return the name by which `cv_results_` has the leading score."""
    scores = [name[10:] for name in search.cv_results_ if name.startswith("mean_test_")]
    return search.refit if search.refit in scores else scores[0]


def score_name(search: Any) -> str:
    """Return what axes call the score."""
    name = leading(search)
    if name != "score":
        return name
    if isinstance(search.scoring, str):
        return search.scoring
    known = getattr(search.scorer_, "_score_func", None)
    if known is not None:
        return getattr(known, "__name__", "score")
    return "accuracy" if hasattr(search.estimator, "decision_function") else "r2"


def standard_errors(search: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean scores of `cv_results_`, and their standard errors over the folds."""
    name = leading(search)
    error = search.cv_results_[f"std_test_{name}"] / np.sqrt(max(search.n_splits_ - 1, 1))
    return np.asarray(search.cv_results_[f"mean_test_{name}"]), np.asarray(error)


def expected(search: Any) -> Any:
    """Return what to expect on new data; None where a search cannot tell."""
    return getattr(search, "score_estimate_", None)
