"""The package reads from the bottom up: folders import from those before them only."""

import ast
from pathlib import Path

import pytest

import hypermargin

PACKAGE = Path(hypermargin.__file__).parent
LAYERS = (
    "_core", "kernels", "losses", "criteria", "problems", "adapters", "estimators", "methods",
    "plot", "report", "search", "files", "cli",
)  # fmt: skip
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
MOST_LINES = 500


def imported(path: Path) -> set[Path]:
    """Return what a file of the package imports of it, late and typing-only imports included."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            parents = (PACKAGE / path).parents
            base = parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in node.names:
                inner = base / name.name
                is_module = inner.with_suffix(".py").exists() or inner.is_dir()
                found.add((inner if is_module else base).relative_to(PACKAGE))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = (
                [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
            assert not any((name or "").startswith("hypermargin") for name in names), path
    return found


def layer(path: Path) -> int:
    return LAYERS.index(path.parts[0])


@pytest.mark.parametrize("path", [p for p in FILES if len(p.parts) > 1], ids=str)
def test_imports_go_one_way(path):
    for other in imported(path):
        assert layer(other) <= layer(path), f"{path} imports {other}, which comes after it"


def test_there_is_no_cycle():
    graph = {path.with_suffix("") for path in FILES}
    needs = {path.with_suffix(""): imported(path) & graph for path in FILES}
    done: set[Path] = set()
    while len(done) < len(needs):
        free = {path for path, of in needs.items() if path not in done and of <= done}
        assert free, f"a cycle among {sorted(map(str, set(needs) - done))}"
        done |= free


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_are_short(path):
    assert len((PACKAGE / path).read_text().splitlines()) <= MOST_LINES
