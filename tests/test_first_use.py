"""The first search on a machine: what is being waited for, and what is compiled."""

import runpy

import numpy as np
import pytest

import hypermargin._core.compiled as module
from hypermargin._core.compiled import Wait, add, add_rows, compiled


def test_a_long_wait_is_explained_once(capsys):
    wait = Wait(patience=0.0)
    for _ in range(2):
        wait.begin()
        wait.begin()
        wait.end()
        wait.end()
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "compiles" in said


def test_nothing_is_said_of_a_short_wait(capsys):
    wait = Wait(patience=60.0)
    wait.begin()
    wait.end()
    assert capsys.readouterr().err == ""


def test_a_function_that_is_compiled_is_waited_for_and_a_cached_one_is_not(
    capsys, monkeypatch, tmp_path
):
    source = tmp_path / "doubling.py"
    source.write_text("def double(x):\n    return 2 * x\n")
    for expected in (1, 0):
        monkeypatch.setattr(module, "WAIT", Wait(patience=0.0))
        function = runpy.run_path(str(source))["double"]
        assert compiled(function)(3) == 6
        assert capsys.readouterr().err.count("\n") == expected


def test_a_loop_for_compiled_loops_only_says_so():
    for _ in range(2):  # before it is compiled, and afterwards
        with pytest.raises(TypeError, match="add is for compiled loops only"):
            add(np.zeros(2), np.ones(2), 1.0)
        add_rows(np.zeros(2), np.ones((1, 2)), np.arange(1), np.ones(1), 0)
