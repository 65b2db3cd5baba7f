"""Settings of the documentation site: `make docs` builds it from the Markdown beside this file."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.__main__ import discover, first_line  # noqa: E402
from benchmarks._common import read_results  # noqa: E402
from hypermargin import __version__  # noqa: E402

project = "hypermargin"
copyright = "hypermargin developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
highlight_language = "none"  # blocks that name no language
html_theme = "furo"
html_title = f"hypermargin {__version__}"
html_copy_source = False
myst_heading_anchors = 3
numpydoc_show_class_members = False  # autodoc does that
autosummary_generate = False
autodoc_typehints = "none"  # docstrings tell the types
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # what a kernel must have is told once, by its base class

# the gallery runs examples/ and puts pages with their pictures beside the others
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e6,
    "within_subsection_order": "FileNameSortKey",
}

LONG = ("record",)  # tables that are for programmes


def results() -> str:
    """Return the stored tables of all benchmarks as Markdown, a section each."""
    parts = []
    for name, module in discover().items():
        stored = None if name in LONG else read_results(name)
        if stored:
            parts.append(f"## {name}\n\n{first_line(module)}\n\n{module.report(stored)}\n")
    return "\n".join(parts)


def add_results(app, page: str, source: list[str]) -> None:
    if page == "benchmarks":
        source[0] += "\n" + results()


def leave_out(app, what: str, name: str, member, skip: bool, options) -> bool | None:
    """Leave out what scikit-learn gives to every estimator and describes itself."""
    function = getattr(member, "fget", None) or member
    place = getattr(function, "__module__", None) or ""
    return True if not place.startswith("hypermargin") else None


def setup(app) -> None:
    app.connect("autodoc-skip-member", leave_out)
    app.connect("source-read", add_results)
