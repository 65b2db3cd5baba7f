"""Every test of searches in scikit-learn is restated among ours, or the docs say why it is not."""

import ast
import re
from pathlib import Path

import pytest
import sklearn

HERE = Path(__file__).parent
VERSION = "1.9.1"  # whose tests were gone through
SEARCHES = "model_selection/tests/test_search.py"
ROUTING = "tests/test_metaestimators_metadata_routing.py"
OTHERS = "model_selection/tests/test_split.py"  # has one test of searches


def functions(path: str) -> set[str]:
    """Return the names of the tests in a file of scikit-learn."""
    tree = ast.parse((Path(sklearn.__file__).parent / path).read_text())
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def restated() -> set[str]:
    found: set[str] = set()
    for path in [*HERE.glob("test_grid_*.py"), HERE / "test_callbacks.py"]:
        for names in re.findall(r"@restates\(([^)]*)\)", path.read_text()):
            found |= set(re.findall(r'"(test_\w+)"', names))
    return found


def excused() -> set[str]:
    text = (HERE.parent / "docs" / "gridsearch.md").read_text()
    return set(re.findall(r"`(test_\w+)`", text))


@pytest.mark.skipif(sklearn.__version__ != VERSION, reason=f"for the tests of {VERSION}")
def test_all_tests_of_searches_are_restated_or_excused():
    theirs = functions(SEARCHES) | functions(ROUTING)
    assert len(functions(SEARCHES)) == 91
    assert theirs - restated() - excused() == set()
    assert restated() - theirs - functions(OTHERS) == set()
    assert excused() - theirs == set()
    assert restated() & excused() == set()
