"""Pictures of a report: SVG inside the page, with what is shown when a point is pointed at."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import plot
from ..plot.reading import beside_best, flat, tuned


@dataclass(frozen=True)
class Picture:
    """A picture of the page: what it is called, its SVG, and words for its points.

    `group` is the id of the SVG's group that has a mark for each of the `tips`, in their order.
    """

    title: str
    caption: str
    svg: str
    group: str = ""
    tips: list[str] = field(default_factory=list)


def pictures(search: Any) -> list[Picture]:
    """Return all pictures that a search has."""
    found = []
    if len(tuned(search)) >= 2:
        found.append(_drawn("The path", PATH, plot.PathDisplay.from_estimator, search))
    found.append(_drawn("Convergence", CONVERGENCE, plot.ConvergenceDisplay.from_estimator, search))
    if tuned(search):
        found.append(_drawn("Score", SCORE, plot.HyperparameterDisplay.from_estimator, search))
    outputs = getattr(search, "_best_outputs", None)
    if outputs is not None and len(outputs.classes) == 2:
        found.append(_drawn("Thresholds", THRESHOLD, plot.ThresholdDisplay.from_estimator, search))
    if outputs is not None:
        shown = plot.CalibrationDisplay.from_estimator
        found.append(_drawn("Probabilities", CALIBRATION, shown, search))
    if hasattr(search, "relevance_"):
        found.append(_drawn("Relevance", RELEVANCE, plot.RelevanceDisplay.from_estimator, search))
    return [*found, _drawn("Time", TIME, plot.TimeDisplay.from_estimator, search)]


PATH = (
    "Points that the search has visited; the star is the best one. Contours are interpolated "
    "between these points, and mean little where none is near."
)
CONVERGENCE = "Scores in the order of evaluations, and what to expect on new data."
SCORE = "Mean score of the folds, with its standard error."
THRESHOLD = "What other thresholds would do, by outputs on rows that were left out."
CALIBRATION = "How often rows are of a class, against the probability that they were given."
RELEVANCE = "What is worth how much: the change of outputs when it is exchanged between rows."
TIME = "Where the time went."


def _drawn(title: str, caption: str, draw: Callable[..., Any], search: Any) -> Picture:
    """Draw a picture on a figure of its own, which no window knows."""
    import matplotlib
    from matplotlib.figure import Figure

    height = (
        3.6 if title != "Relevance" else 1.6 + 0.28 * min(len(search.relevance_["relevance"]), 20)
    )
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
        "font.family": "sans-serif",
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(6.0, height), layout="constrained")
        display = draw(search, ax=figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    group, tips = _tips(display, search)
    return Picture(title, caption, svg, group, tips)


def _tips(display: Any, search: Any) -> tuple[str, list[str]]:
    """Return the id of the group of points that have words, and these."""
    if isinstance(display, plot.PathDisplay):
        rows = [r for r in beside_best(search) if set(display.names) <= set(flat(r["params"]))]
        rows = [row for row in rows if np.isfinite(row["objective"])]
        rows = sorted(rows, key=lambda row: not row["look"])
        return "points-of-path", [_words(row) for row in rows]
    if isinstance(display, plot.HyperparameterDisplay):
        return "points-of-curve", [
            f"{display.name} = {value:.4g}: {display.ylabel} {score:.4g} ± {error:.2g}"
            for value, score, error in zip(display.values, display.scores, display.errors)
        ]
    return "", []


def _words(row: dict[str, Any]) -> str:
    where = ", ".join(f"{name} = {value:.4g}" for name, value in flat(row["params"]).items())
    score = f", score {row['score']:.4g}" if np.isfinite(row["score"]) else ""
    kind = "look" if row["look"] else "evaluation"
    return f"{kind} on {row['n_samples']} rows: {where}; loss {row['objective']:.4g}{score}"
