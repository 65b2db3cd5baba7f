"""Code in the documentation runs."""

import importlib
import pydoc
import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import make_data
from sklearn import metrics
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.svm import SVC
from test_layers import LAYERS

import hypermargin
from hypermargin import (
    GradientSearchCV,
    KernelSVC,
    KernelSVR,
    criteria,
    files,
    kernels,
    methods,
    plot,
)
from hypermargin.adapters import ADAPTERS
from hypermargin.criteria import CRITERIA
from hypermargin.methods import METHODS

ROOT = Path(__file__).parent.parent


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def test_the_readme_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks("README.md"):
            exec(block, names)
    assert set(names["search"].best_params_) == {"C", "gamma", "threshold"}
    assert (tmp_path / "report.html").stat().st_size > 0


def test_the_table_of_folders_is_that_of_the_package():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page[page.index("## The folders") :]
    assert re.findall(r"^\| `(\w+)/` \|", table, flags=re.MULTILINE) == list(LAYERS)


EXAMPLES = {
    "kernel": lambda: KernelSVC(kernel="cauchy"),
    "loss": lambda: KernelSVR(loss="huber"),
    "estimator": lambda: next(a.estimator for a in ADAPTERS if a.estimator.__name__ == "LSSVR")(),
}


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "extending").glob("*.md")), ids=str)
def test_examples_of_extensions_are_short(page):
    (example,) = blocks(page.relative_to(ROOT))
    assert len(example.splitlines()) < 60


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_of_extensions_are_searched_and_refitted(page):
    estimator = EXAMPLES[page]()
    X, y = make_data(2 if is_classifier(estimator) else 0)
    cv = list(KFold(3, shuffle=True, random_state=0).split(X))
    search = GradientSearchCV(estimator, cv=cv).fit(X, y)
    assert set(search.best_params_) >= {"C", "gamma"}
    theirs = cross_val_score(clone(estimator).set_params(**search.best_params_), X, y, cv=cv)
    assert search.best_score_ == pytest.approx(theirs.mean(), abs=0.02)
    assert search.score(X, y) >= theirs.mean()


def test_the_criterion_of_the_documentation_is_picked_up():
    scorer = metrics.make_scorer(
        metrics.hinge_loss, greater_is_better=False, response_method="decision_function"
    )
    X, y = make_data(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no word of a missing smooth form
        GradientSearchCV(SVC(), {"C": (0.01, 1e3)}, scoring=scorer, cv=3).fit(X, y)


def test_the_page_on_widths_runs():
    names: dict = {}
    for block in blocks("docs/widths.md"):
        exec(block, names)
    assert set(np.argsort(names["widths"])[-2:]) == {1, 4}


def test_the_page_on_methods_runs_and_lists_all():
    names: dict = {}
    for block in blocks("docs/methods.md"):
        exec(block, names)
    assert len(names["searches"]["grid"].history_) == 21
    assert all(search.best_score_ > 0.95 for search in names["searches"].values())
    text = (ROOT / "docs" / "methods.md").read_text()
    assert not [name for name in METHODS if f'| `"{name}"' not in text and name != "dice"]


def test_the_page_on_the_command_line_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("docs/command-line.md"):
        exec(block, names)
    assert (names["tuned"], names["predicted"]) == (0, 0)
    assert "score    accuracy" in capsys.readouterr().out


def test_the_page_on_kernels_runs():
    names: dict = {}
    for block in blocks("docs/kernels.md"):
        exec(block, names)
    weights = names["search"].best_params_["kernel__weights"]
    assert weights["trend"] < max(weights["body"], weights["blood"])
    assert set(names["parts"]) == {"body", "blood", "trend"}


def test_the_page_on_klatzer_and_pock_runs():
    names: dict = {}
    for block in blocks("docs/klatzer.md"):
        exec(block, names)
    assert names["linear"].best_score_ > 0.97
    assert names["by_class"].estimator.optimiser == "lbfgs"


def test_the_page_on_moore_bergeron_and_bennett_runs():
    names: dict = {}
    for block in blocks("docs/moore.md"):
        exec(block, names)
    costs = names["search"].best_params_["group_cost"]
    assert min(costs, key=costs.get) == 2


def test_the_page_on_measures_runs():
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    for block in blocks("docs/measures.md"):
        exec(block, names)
    assert set(names["gradient"]) == {"C", "class_weight", "threshold"}
    assert (names["search"].predict(X) == names["second"]).all()


def test_the_page_on_linear_models_runs():
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    for block in blocks("docs/linear.md"):
        exec(block, names)
    curve = names["search"].curve_
    assert curve["C"][0] <= names["simplest"] <= curve["C"][-1]
    from matplotlib.figure import Figure

    axes = Figure().gca()
    names["plot_curve"](curve, axes)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), curve["C"])


def test_the_page_on_the_method_runs():
    names = {}
    for block in blocks("docs/method.md"):
        exec(block, names)
    search = names["search"].fit(*make_data(2, n=90))
    assert set(search.best_params_) == {"C", "gamma"}


def test_the_page_on_the_loss_runs():
    names = {}
    for block in blocks("docs/loss.md"):
        exec(block, names)
    loss, point = names["loss"], names["point"]
    assert loss.params(names["vector"]) == pytest.approx(point)
    assert loss.names == ["svc__C", "svc__gamma"]
    assert names["weighted"].names == ["C", "class_weight[1]"]
    assert set(names["gradient"]) == set(point)
    begun, sampled = loss(loss.start), loss(names["study"].best_params)
    for descended in (names["found"].x, names["descended"]):
        assert loss(descended) < sampled < begun
    assert names["best"].get_params().items() >= loss.params(names["found"].x).items()


def test_the_page_on_the_estimate_runs():
    names: dict = {}
    for block in blocks("docs/estimate.md"):
        exec(block, names)
    assert names["expected"].low < names["expected"].score < names["search"].best_score_


def test_the_page_on_pictures_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks("docs/pictures.md"):
            exec(block, names)
    assert (tmp_path / "path.png").stat().st_size > 0
    names["path"].figure_.clear()


OWN = set(re.findall(r'blocks\("docs/([\w-]+)\.md"\)', Path(__file__).read_text()))
OTHERS = sorted({page.stem for page in (ROOT / "docs").glob("*.md")} - OWN)


@pytest.mark.parametrize("page", [name for name in OTHERS if blocks(f"docs/{name}.md")])
def test_other_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_data(2, n=90)
    names = {"X": X, "y": y}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks(f"docs/{page}.md"):
            exec(block, names)


WORDS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Return what links to the headings of a page end with."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in headings}


@pytest.mark.parametrize("page", WORDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_names_of_files_lead_somewhere(page):
    text = page.read_text()
    for link, _, heading in re.findall(r"\]\(([^)#:]*)(#([^)]*))?\)", text):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), f"{link}#{heading}"
    folders = "|".join(LAYERS)
    for name in re.findall(rf"`((?:{folders})/[\w/.]*)`", text):
        assert (ROOT / "src" / "hypermargin" / name).exists(), name
    for name in re.findall(r"`(?:tests/)?(test_[\w*]+\.py)`", text):
        assert list((ROOT / "tests").glob(name)), name


PUBLIC = [hypermargin, kernels, criteria, methods, plot, files]


def test_names_that_docstrings_refer_to_exist():
    public = {name for module in PUBLIC for name in module.__all__}
    for file in (ROOT / "src").rglob("*.py"):
        names = re.findall(r":(?:class|func|mod|meth|attr):`~?([\w.]+)`", file.read_text())
        place = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
        own = vars(importlib.import_module(place.removesuffix(".__init__"))) if names else {}
        for name in names:  # of this file, of the package, or a whole address
            known = name in own or name in public
            assert known or pydoc.locate(name), f"{file.name}: {name}"


def test_the_documentation_lists_all_criteria():
    page = (ROOT / "docs" / "measures.md").read_text()
    for name, criterion in CRITERIA.items():
        if not type(criterion).__module__.startswith("hypermargin."):
            continue  # an example of the documentation
        assert f"`{name}`" in page
        assert f"`{type(criterion).__name__}(" in page


GALLERY = "gallery/index"  # the build makes it of the examples


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run_and_draw(script, capsys):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    assert pyplot.get_fignums()
    pyplot.close("all")


def test_the_gallery_has_every_picture():
    scripts = "".join(script.read_text() for script in (ROOT / "examples").glob("*.py"))
    assert not [name for name in plot.__all__ if f"{name}.from_estimator" not in scripts]


def listed(page: Path) -> list[Path]:
    """Return the pages of a page's tables of contents, in their order."""
    trees = re.findall(
        r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", page.read_text(), flags=re.DOTALL
    )
    names = [name for tree in trees for name in tree.split()]
    return [page.parent / f"{name}.md" for name in names if name != GALLERY]


def test_the_site_lists_every_page_once():
    site = ROOT / "docs"
    reached = [site / "index.md"]
    for page in reached:
        assert page.exists(), page
        reached += listed(page)
    assert sorted(reached) == sorted(site.rglob("*.md"))
    assert GALLERY in (site / "index.md").read_text().split()


@pytest.mark.parametrize("module", PUBLIC)
def test_the_site_describes_every_public_name(module):
    name = module.__name__.removeprefix("hypermargin.")
    page = (ROOT / "docs" / "api" / f"{name}.md").read_text()
    assert f".. automodule:: {module.__name__}\n   :members:" in page
