"""The page of a report: words, tables and pictures of a fitted search, all escaped."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.spelling import spelt_value
from ..plot.reading import expected, flat, leading, score_name
from .pictures import Picture, pictures
from .writing import MARK

ROWS = 10  # of the table of the best points
PACKAGES = ("hypermargin", "scikit-learn", "numpy", "scipy", "numba", "matplotlib")
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  padding: 1rem; max-width: 64rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #bbb; }
.lead { font-size: 1.1rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1rem; }
figure { margin: 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption { font-size: .85rem; color: #444; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
pre { background: #f4f4f4; padding: .75rem; overflow-x: auto; font-size: .85rem; }
.warning { border-left: 4px solid #D55E00; padding-left: .75rem; }
#tip { position: fixed; display: none; max-width: 20rem; padding: .3rem .5rem; font-size: .85rem;
  background: #1a1a1a; color: #fff; border-radius: 4px; pointer-events: none; z-index: 9; }
[data-tip] { cursor: pointer; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  #tip { display: none !important; }
  pre { white-space: pre-wrap; }
  .pictures { grid-template-columns: 1fr 1fr; }
  h2 { break-after: avoid; }
}
"""
SCRIPT = """
const tip = document.getElementById('tip');
const words = JSON.parse(document.getElementById('words').textContent);
function show(text, event) {
  tip.textContent = text; tip.style.display = 'block';
  const x = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4);
  const y = event.clientY + 16 + tip.offsetHeight > innerHeight
    ? event.clientY - tip.offsetHeight - 8 : event.clientY + 16;
  tip.style.left = Math.max(4, x) + 'px'; tip.style.top = Math.max(4, y) + 'px';
}
for (const [id, tips] of Object.entries(words)) {
  const marks = document.querySelectorAll('#' + id + ' use');
  marks.forEach((mark, k) => {
    if (k >= tips.length) return;
    mark.dataset.tip = tips[k];
    mark.style.pointerEvents = 'all';
    for (const kind of ['pointerenter', 'pointerdown', 'pointermove'])
      mark.addEventListener(kind, event => show(tips[k], event));
    mark.addEventListener('pointerleave', () => { tip.style.display = 'none'; });
  });
}
"""


def page(search: Any, comparison: Any = None, warned: Sequence[str] = ()) -> str:
    """Return the page of a fitted search as HTML.

    `comparison` is with the estimator as it was given, `warned` what the search has warned of.
    """
    check_is_fitted(search, "best_params_")
    shown = pictures(search)
    model = type(search.estimator).__name__
    if hasattr(search.estimator, "steps"):
        model = " + ".join(type(step).__name__ for _, step in search.estimator.steps)
    parts = [
        f"<h1>{escape(model)}, tuned</h1>",
        f'<p class="lead">{escape(_result(search))}</p>',
        _section("What to expect on new data", _honest(search, comparison)),
        _section("Warnings", _warnings(search, warned)),
        _section("Pictures", _pictures(shown)),
        _section("The best points", _table(search)),
        _section("What was tried", _tried(search)),
        _section("To repeat it", f"<pre>{escape(_python(search))}</pre>"),
        _section("Versions", _versions()),
    ]
    words = {one.group: one.tips for one in shown if one.group}
    # a closing tag inside of the words would end the script
    data = json.dumps(words).replace("<", "\\u003c")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{MARK}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(model)}, tuned</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + '\n<div id="tip" role="tooltip"></div>\n'
        f'<script type="application/json" id="words">{data}</script>\n'
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def _point(params: dict[str, Any]) -> str:
    numbers = flat(params)
    others = {name: value for name, value in params.items() if not flat({name: value})}
    items = [f"{name} = {spelt_value(value)}" for name, value in {**others, **numbers}.items()]
    more = f" and {len(items) - 8} more" if len(items) > 8 else ""
    return ", ".join(items[:8]) + more


def _result(search: Any) -> str:
    name = score_name(search)
    rows = max(row["n_samples"] for row in search.history_)
    score = getattr(search, "best_score_", None)
    found = "" if score is None else f" has the mean {name} {score:.4g}"
    return f"{_point(search.best_params_)}{found} over {search.n_splits_} folds of {rows} rows."


def _honest(search: Any, comparison: Any) -> str:
    estimate = expected(search)
    if estimate is None:
        why = getattr(search, "_outside", "")
        words = f"There is no estimate: {why}." if isinstance(why, str) else "There is no estimate."
        return f"<p>{escape(words)}</p>"
    lines = [
        f"<p>{escape(str(estimate))} The interval is one for the expected score of the refitted "
        "model on new rows like these; a score on few of them varies more.</p>"
    ]
    if comparison is not None:
        lines.append(f"<p>{escape(str(comparison))}</p>")
    return "\n".join(lines)


def _warnings(search: Any, warned: Sequence[str]) -> str:
    if not warned:
        return "<p>None.</p>"
    return "\n".join(f'<p class="warning">{escape(one)}</p>' for one in dict.fromkeys(warned))


def _pictures(shown: Iterable[Picture]) -> str:
    figures = [
        f"<figure>{one.svg}<figcaption><strong>{escape(one.title)}.</strong> "
        f"{escape(one.caption)}</figcaption></figure>"
        for one in shown
    ]
    return '<div class="pictures">\n' + "\n".join(figures) + "\n</div>"


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _table(search: Any) -> str:
    results, name = search.cv_results_, leading(search)
    # of equals, the search takes the one of the least loss
    order = np.lexsort((results["objective"], results[f"rank_test_{name}"]))[:ROWS]
    columns = list(dict.fromkeys(key for k in order for key in results["params"][k]))
    columns = columns[:8]
    rows = [
        [
            str(results[f"rank_test_{name}"][k]),
            *(_short(results["params"][k].get(column, "")) for column in columns),
            f"{results[f'mean_test_{name}'][k]:.4g}",
            f"{results[f'std_test_{name}'][k]:.2g}",
            f"{results['objective'][k]:.4g}",
        ]
        for k in order
    ]
    return _rows(["rank", *columns, score_name(search), "its deviation", "smooth loss"], rows)


def _short(value: Any) -> str:
    text = spelt_value(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _tried(search: Any) -> str:
    history = search.history_
    sizes = sorted({row["n_samples"] for row in history})
    rows = []
    for size in sizes:
        here = [row for row in history if row["n_samples"] == size]
        looks = sum(row["look"] for row in here)
        seconds = sum(row["seconds"] for row in here)
        rows.append([str(size), str(looks), str(len(here) - looks), f"{seconds:.2g}"])
    ranges = []
    points = [flat(row["params"]) for row in history]
    for name in list(dict.fromkeys(name for point in points for name in point))[:20]:
        values = [point[name] for point in points if name in point]
        ranges.append([name, f"{min(values):.4g}", f"{max(values):.4g}"])
    return (
        _rows(["rows", "looks", "evaluations", "seconds"], rows)
        + "<p></p>"
        + _rows(["hyperparameter", "least", "largest"], ranges)
    )


def _python(search: Any) -> str:
    """Return lines that repeat the search, on data that are called X and y."""
    classes = {type(search)}
    for value in search.get_params(deep=True).values():
        if type(value).__module__.partition(".")[0] in ("sklearn", "hypermargin"):
            classes.add(type(value))
    imports = sorted(f"from {_module(kind)} import {kind.__name__}" for kind in classes)
    made = " ".join(search.__repr__(N_CHAR_MAX=sys.maxsize).split())  # nothing is left out
    given = {name: name.rpartition("__")[2] for name in search._given_to_fit}
    names = ["X", "y", *dict.fromkeys(given.values())]
    more = "".join(f", {name}={value}" for name, value in given.items())
    return "\n".join(
        [
            "; ".join(imports),
            f"# {', '.join(names[:-1])} and {names[-1]} are your data",
            f"search = {made}",
            f"search.fit(X, y{more})",
            f"search.best_params_  # {_point(search.best_params_)}",
        ]
    )


def _module(kind: type) -> str:
    """Return where users import a class from."""
    if kind.__module__.startswith("hypermargin.search"):
        return "hypermargin"
    parts = kind.__module__.split(".")
    private = next((k for k, part in enumerate(parts) if part.startswith("_")), len(parts))
    return ".".join(parts[:private])


def _versions() -> str:
    found = [["Python", platform.python_version()]]
    for package in PACKAGES:
        try:
            found.append([package, version(package)])
        except PackageNotFoundError:
            continue
    return _rows(["package", "version"], found)
