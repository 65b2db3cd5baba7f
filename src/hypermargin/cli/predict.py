"""`hypermargin predict`: labels, probabilities and outputs for the rows of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..files import Mistake
from ..files.models import Stored, read_model
from ..files.writing import as_csv, check_outputs, write_text
from ..search.calibrated import probabilities
from .columns import is_missing
from .problem import again
from .scores import scorer
from .telling import Teller


def run(options: Any) -> int:
    """Predict; return the exit code."""
    teller = Teller(options)
    check_outputs([options.out], options.overwrite, [options.model, options.data])
    stored = read_model(options.model, options.allow_pickle)
    X, y = again(stored.about["takes"], options.data, teller.note)
    with teller.listening():
        columns = _columns(stored, X, options)
        score = None if y is None else _score(stored, X, y)
    if score is not None:
        teller.aside(f"{options.data}: {stored.about['score']} {score:.4f}")
    if options.json and not options.out:
        teller.result({"score": score, **columns}, [])
        return 0
    text = as_csv(list(columns), zip(*columns.values()))
    if options.out:
        write_text(options.out, text)
        teller.result({"score": score, "rows": len(columns["prediction"]), "written": options.out},
                      [f"written  {options.out}"])  # fmt: skip
    else:
        print(text, end="")
    return 0


def _columns(stored: Stored, X: Any, options: Any) -> dict[str, np.ndarray]:
    """Return what was asked for, by the names of the columns to write."""
    model = stored.estimator
    columns = {"prediction": _asked(model.predict, X, stored.about["takes"])}
    if options.probabilities:
        classes = _classes(model)
        P = probabilities(model, stored.calibration, X)
        columns |= {f"probability of {one}": p for one, p in zip(classes, P.T)}
    if options.scores:
        columns |= _outputs(model, X)
    return columns


def _asked(method: Any, X: Any, takes: dict[str, Any]) -> np.ndarray:
    try:
        return method(X)
    except ValueError as error:
        if "NaN" in str(error):
            raise Mistake(_gap(X, takes)) from None
        raise Mistake(" ".join(str(error).split())) from None


def _gap(X: Any, takes: dict[str, Any]) -> str:
    """Say where the first gap is that a model cannot fill, as no row had one in training."""
    X = X.toarray() if sparse.issparse(X) else X
    row, place = np.argwhere(X != X)[0]  # what is not a number does not equal itself
    name = repr(takes["columns"][place]["name"]) if takes["what"] == "table" else place + 1
    return (
        f"Row {row + 1} has no value for feature {name}, and the model was tuned on rows without "
        "gaps; fill it, leave the row out, or tune on rows that have some."
    )


def _classes(model: Any) -> np.ndarray:
    if not hasattr(model, "classes_"):
        raise Mistake("--probabilities is for classification; this model is of a regression.")
    return model.classes_


def _outputs(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return a column for each output: of the one machine, or of those of several classes."""
    if not hasattr(model, "decision_function"):
        return {"score": model.predict(X)}
    outputs = model.decision_function(X)
    if outputs.ndim == 1:
        return {"score": outputs}
    if outputs.shape[1] == len(model.classes_):
        return {f"score of {one}": column for one, column in zip(model.classes_, outputs.T)}
    return {f"score {k}": column for k, column in enumerate(outputs.T, start=1)}


def _score(stored: Stored, X: Any, y: np.ndarray) -> float | None:
    """Return the score on rows whose targets are known, if it can be told from predictions."""
    of = scorer(stored.about["score"], stored.about.get("positive"))
    known = np.ones(len(y), dtype=bool) if y.dtype.kind not in "fO" else ~is_missing(y)
    if not known.any():
        return None
    try:
        y = y[known]
        if stored.about["task"] == "classification":
            y = y.astype(stored.estimator.classes_.dtype)
        return float(of(stored.estimator, X[known], y))
    except (ValueError, TypeError, AttributeError):
        return None
