"""What is printed of a search, in a terminal and elsewhere; and that nothing there does harm."""

import io
import os
import re
import sys
import threading
from contextlib import redirect_stdout

import numpy as np
import pytest
from helpers import C_GAMMA, quick, svc
from sklearn.svm import SVC

from hypermargin import GradientSearchCV
from hypermargin.search import display

pytestmark = pytest.mark.filterwarnings("ignore")
SUMMARY = (
    r"best score [\d.]+ at C=[\d.e+-]+, gamma=[\d.e+-]+\n"
    r"\d+ evaluations? on \d+ rows, \d+ on fewer, \d+ rough looks\n"
    r"search [\d.]+ s.*, refit [\d.]+ s\n"
    r"the search .+\n\Z"
)


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self):
        return True


class Broken(Terminal):
    """A terminal that is gone."""

    def write(self, text):
        raise BrokenPipeError


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.fixture
def without_rich(monkeypatch):
    def missing(stream):
        raise ImportError

    monkeypatch.setattr(display, "Rich", missing)
    monkeypatch.setattr(display, "EVERY", 0.0)


def test_times_in_the_live_line_go_on_while_nothing_else_does(terminal, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(display.time, "perf_counter", lambda: clock[0])
    told = {"n_looks": 4, "n_evaluations": 1, "seconds": 3.0, "seconds_left": 2.0}
    shown = display.Rich(terminal)
    try:
        shown.stage({**told, "best_params": None}, "all rows")
        clock[0] += 1.5
        assert shown._line() == "all rows, 5 evaluations, 4.5 s, about 0.5 s left"
        clock[0] += 1.5  # it has taken longer: what is left is not known any more
        assert shown._line() == "all rows, 5 evaluations, 6.0 s"
    finally:
        shown.live.stop()


def test_the_time_of_the_refit_is_not_counted_twice(many_rows, monkeypatch):
    of_the_search, refit = {}, GradientSearchCV._refit

    def noting(search, log, *args):
        of_the_search.update(search.seconds_)
        with log.runs[0].prepared.problem.workers.clock.phase("train"):  # as on many rows
            refit(search, log, *args)

    monkeypatch.setattr(GradientSearchCV, "_refit", noting)
    search = quick(svc(), C_GAMMA, max_evals=2).fit(*many_rows)
    assert search.seconds_ == of_the_search


def test_nothing_is_printed_unless_asked(many_rows, capfd):
    quick(svc(), C_GAMMA, max_evals=2).fit(*many_rows)
    assert capfd.readouterr() == ("", "")


def test_every_stage_has_a_line_where_there_is_no_terminal(many_rows, capsys):
    search = quick(svc(), C_GAMMA, max_evals=4, verbose=1).fit(*many_rows)
    said = capsys.readouterr().out
    assert re.search(SUMMARY, said)
    assert said.isascii()
    assert said.isprintable() or set(said) - set("\n") <= set(map(chr, range(32, 127)))
    stages = re.findall(r"^\[(.+?)\] (\d+) evaluations?, [\d.]+ s, .*best", said, re.MULTILINE)
    assert [stage for stage, _ in stages][:3] == [
        "look at 250 of 1000 rows", "250 of 1000 rows", "all 1000 rows",
    ]  # fmt: skip
    sizes = [h["n_samples"] for h in search.history_]
    assert int(stages[2][1]) == sizes.count(1000)
    assert "at most" not in said


def test_combinations_are_told_apart(binary, capsys):
    space = {"kernel": ["rbf", "poly"], **C_GAMMA}
    quick(svc(), space, max_evals=2, verbose=1).fit(*binary)
    said = capsys.readouterr().out
    assert "[combination 1 of 2, all 80 rows]" in said
    assert "[combination 2 of 2, all 80 rows]" in said


@pytest.mark.parametrize("verbose", [2, 3])
def test_every_evaluation_has_a_line(binary, capsys, verbose):
    search = quick(svc(), C_GAMMA, max_evals=3, cv=3, verbose=verbose).fit(*binary)
    said = capsys.readouterr().out
    lines = re.findall(r"^\[ *\d+\] n=80: C=.*objective=", said, re.MULTILINE)
    assert len(lines) == len(search.history_)
    assert said.count("[CV ") == (9 if verbose == 3 else 0)
    assert re.search(SUMMARY, said)


def test_a_terminal_has_one_line(many_rows, terminal, without_rich, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with redirect_stdout(terminal):
        quick(svc(), C_GAMMA, max_evals=3, verbose=1).fit(*many_rows)
    said = terminal.getvalue()
    live, _, summary = said.rpartition("\r")
    assert "\n" not in live
    assert re.fullmatch(SUMMARY, summary)
    drawn = live.split("\r")
    assert all(len(line) < 200 for line in drawn)
    assert any("look at 250 of 1000 rows, 2 evaluations" in line for line in drawn)
    assert any(
        re.search(
            r"all 1000 rows, \d+ evaluations, [\d.]+ s, (about [\d.]+ s left, )?best score", line
        )
        for line in drawn
    )


def test_a_narrow_terminal_is_not_overrun(binary, terminal, without_rich, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with redirect_stdout(terminal):
        quick(svc(), C_GAMMA, max_evals=2, verbose=1).fit(*binary)
    live = terminal.getvalue().rpartition("\r")[0]
    assert "all 80 rows" in live
    assert max(map(len, live.split("\r"))) < 40


def test_rich_draws_the_line(many_rows, terminal):
    with redirect_stdout(terminal):
        quick(svc(), C_GAMMA, max_evals=3, verbose=1).fit(*many_rows)
    said = terminal.getvalue()
    assert "\x1b[" in said
    assert re.search(SUMMARY, said)


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize("verbose", [1, 2, 3])
def test_a_broken_terminal_ends_no_search(binary, monkeypatch, request, verbose, rich):
    if not rich:
        request.getfixturevalue("without_rich")
    plain = quick(svc(), C_GAMMA, max_evals=3).fit(*binary)
    monkeypatch.setenv("TERM", "xterm")
    for stream in (Broken(), None):
        monkeypatch.setattr(sys, "stdout", stream)
        search = quick(svc(), C_GAMMA, max_evals=3, verbose=verbose).fit(*binary)
        assert search.best_params_ == plain.best_params_


def test_the_terminal_is_given_free(binary, terminal, without_rich):
    def fails(model, X, y):
        raise RuntimeError("of a scorer")

    with redirect_stdout(terminal):
        with pytest.raises(RuntimeError, match="of a scorer"):
            quick(svc(), C_GAMMA, scoring=fails, error_score="raise", verbose=1).fit(*binary)
        quick(svc(), C_GAMMA, max_evals=2, verbose=1).fit(*binary)
    assert re.search(SUMMARY, terminal.getvalue())
    assert not display._terminal.locked()


def test_searches_in_threads_share_a_terminal(binary, terminal, without_rich):
    found = []

    def work():
        found.append(quick(svc(), C_GAMMA, max_evals=3, verbose=1).fit(*binary).best_score_)

    threads = [threading.Thread(target=work) for _ in range(3)]
    with redirect_stdout(terminal):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(found)) == 1
    assert terminal.getvalue().count("rough looks") == 3
    assert not display._terminal.locked()


def test_time_left_is_told_for_grids(binary):
    left = []

    class Scores:
        def __call__(self, model, X, y):
            left.append(search.progress_["seconds_left"])
            return model.score(X, y)

    search = GradientSearchCV(SVC(), method="grid", max_evals=9, cv=2, scoring=Scores())
    search.fit(*binary)
    assert left[0] is None
    assert all(seconds > 0.0 for seconds in left[4:])
    assert search.progress_["seconds_left"] == 0.0
    assert search.progress_["n_evaluations"] == 9


def test_progress_is_told_after_a_time_budget(binary):
    search = quick(svc(), C_GAMMA, time_budget=50.0, max_evals=3).fit(*binary)
    assert 0.0 < search.progress_["seconds"] < 50.0
    assert np.isfinite(search.progress_["best_objective"])


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("rich", [True, False])
def test_a_real_terminal(binary, monkeypatch, request, rich):
    import pty

    if not rich:
        request.getfixturevalue("without_rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    child, ours = pty.fork()
    if child == 0:
        sys.stdout = os.fdopen(1, "w", closefd=False)
        quick(svc(), C_GAMMA, verbose=1, max_evals=5).fit(*binary)
        sys.stdout.flush()
        os._exit(0)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the end, on Linux
        pass
    os.close(ours)
    assert os.waitpid(child, 0)[1] == 0
    assert (b"\x1b[" if rich else b"all 80 rows") in said
    assert re.search(rb"best score 0.[0-9]+ at C=", said)
    assert b"the search made max_evals=5 evaluations" in said
    assert said.count(b"\n") < 12
