"""Input that is wrong on purpose: it is refused in one sentence, or it does what it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._fuzz.data import Rng


def spoil_case(rng: Rng, case: Any) -> Any:
    """Make one thing wrong; `fault` says what."""
    name = str(rng.choice(list(FAULTS)))
    changed = FAULTS[name](case)
    return case if changed is None else replace(changed, fault=name)


def _with_space(case: Any, **entries: Any) -> Any:
    known = case.space if isinstance(case.space, dict) else {}
    return replace(case, space={**known, **{case.prefix + n: v for n, v in entries.items()}})


def _with_options(case: Any, **options: Any) -> Any:
    return replace(case, options={**case.options, **options})


def _with_entry(case: Any, value: float) -> Any:
    if not isinstance(case.X, np.ndarray) or case.X.dtype != float:
        return None
    X = case.X.copy()
    X[len(X) // 2, 0] = value
    return replace(case, X=X)


def _with_target(case: Any, value: Any) -> Any:
    y = np.array(case.y, dtype=float if case.classes is None else object)
    y.flat[0] = value
    return replace(case, y=y)


def _one_class(case: Any) -> Any:
    y = np.asarray(case.y)
    return None if case.classes is None else replace(case, y=np.full_like(y, y.flat[0]))


def _strength(case: Any) -> str:
    return "alpha" if hasattr(case.machine, "alpha") else "C"


FAULTS: dict[str, Any] = {
    "NaN in X": lambda case: _with_entry(case, np.nan),
    "infinity in X": lambda case: _with_entry(case, np.inf),
    "1e200 in X": lambda case: _with_entry(case, 1e200),
    "NaN in y": lambda case: _with_target(case, np.nan),
    "None in y": lambda case: _with_target(case, None) if case.classes else None,
    "1e300 in y": lambda case: _with_target(case, 1e300) if case.classes is None else None,
    "one class": _one_class,
    "y is short": lambda case: replace(case, y=np.asarray(case.y)[:-1]),
    "y is missing": lambda case: replace(case, y=None),
    "no rows": lambda case: replace(case, X=np.empty((0, 2)), y=np.empty(0)),
    "one row": lambda case: replace(case, X=np.ones((1, 2)), y=np.asarray(case.y)[:1]),
    "no columns": lambda case: replace(case, X=np.empty((case.n_rows, 0))),
    "strings in X": lambda case: replace(case, X=np.full((case.n_rows, 2), "a")),
    "X has three axes": lambda case: replace(case, X=np.ones((case.n_rows, 2, 2))),
    "complex X": lambda case: replace(case, X=np.ones((case.n_rows, 2)) * 1j),
    "weights are short": lambda case: replace(
        case, fit_params={case.prefix + "sample_weight": np.ones(case.n_rows - 1)}
    ),
    "negative weights": lambda case: replace(
        case, fit_params={case.prefix + "sample_weight": -np.ones(case.n_rows)}
    ),
    "weights are zero": lambda case: replace(
        case, fit_params={case.prefix + "sample_weight": np.zeros(case.n_rows)}
    ),
    "unknown parameter of fit": lambda case: replace(case, fit_params={"colour": "red"}),
    "range below zero": lambda case: _with_space(case, **{_strength(case): (-1.0, 1.0)}),
    "range upside down": lambda case: _with_space(case, **{_strength(case): (10.0, 1.0)}),
    "range without numbers": lambda case: _with_space(case, **{_strength(case): ("a", "b")}),
    "range of one number": lambda case: _with_space(case, **{_strength(case): 3.0}),
    "infinite range": lambda case: _with_space(case, **{_strength(case): (1.0, np.inf)}),
    "empty list": lambda case: _with_space(case, **{_strength(case): []}),
    "unknown name": lambda case: _with_space(case, colour=(1.0, 2.0)),
    "space is a string": lambda case: replace(case, space="C"),
    "one bad value of two": lambda case: _with_space(case, **{_strength(case): [-1.0, 1.0]}),
    "one fold": lambda case: _with_options(case, cv=1),
    "many folds": lambda case: _with_options(case, cv=case.n_rows + 1),
    "no folds": lambda case: _with_options(case, cv=[]),
    "rows that are not there": lambda case: _with_options(case, cv=[([0, 1], [10**6])]),
    "unknown score": lambda case: _with_options(case, scoring="beauty"),
    "unknown criterion": lambda case: _with_options(case, criterion="beauty"),
    "unknown method": lambda case: _with_options(case, method="luck"),
    "rank of zero": lambda case: _with_options(case, rank=0),
    "no evaluations": lambda case: _with_options(case, max_evals=0),
}
