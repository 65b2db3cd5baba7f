"""The first search on a machine: what is being waited for."""

import runpy

import hypermargin._core.compiled as module
from hypermargin._core.compiled import Wait, compiled


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
