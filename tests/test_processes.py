"""Forks, interrupts and the compiler's cache: nothing waits for ever, nothing stays changed."""

import functools
import importlib.util
import inspect
import os
import pkgutil
import signal
import sys
import threading

import pytest

import hypermargin
from hypermargin._core import budget as _budget
from hypermargin._core.budget import cached, one_blas_thread
from hypermargin._core.compiled import compiled
from hypermargin.kernels.gram import SPARE

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


class Slow:
    """Its property takes until it is told to go on."""

    begun, go_on = threading.Event(), threading.Event()

    @cached
    def value(self) -> int:
        self.begun.set()
        self.go_on.wait(20)
        return 7


def child_ends(work) -> bool:
    """Whether a forked process comes to the end of its work."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status)


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_holds_our_locks():
    def use() -> None:
        with one_blas_thread():
            SPARE.take(1)

    with _budget._threads._lock, SPARE._lock:
        assert child_ends(use)


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_computes_a_property():
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    Slow.begun.wait(20)

    def use() -> None:
        Slow.go_on.set()
        assert Slow().value == 7

    assert child_ends(use)
    Slow.go_on.set()
    thread.join()


def test_no_property_has_a_lock():
    modules = [m.name for m in pkgutil.iter_modules(hypermargin.__path__)]
    for name in modules:
        module = importlib.import_module(f"hypermargin.{name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            locked = [v for v in vars(kind).values() if isinstance(v, functools.cached_property)]
            assert not locked or not kind.__module__.startswith("hypermargin"), kind


class Library:
    """Stands for BLAS; an interrupt comes at the call of that number."""

    def __init__(self, interrupt):
        self.number, self.calls, self.interrupt = 4, 0, interrupt

    def get_num_threads(self):
        return self.number

    def set_num_threads(self, number):
        self.calls += 1
        if self.calls == self.interrupt:
            raise KeyboardInterrupt
        self.number = number


@pytest.mark.parametrize("interrupt", [1, 2, 3, 4])
def test_an_interrupt_leaves_blas_as_it_was(interrupt, monkeypatch):
    libraries = [Library(interrupt), Library(0)]
    monkeypatch.setattr(_budget, "_blas", lambda: libraries)
    monkeypatch.setattr(_budget, "_threads", _budget._BlasThreads())
    seen = []
    try:
        with one_blas_thread():
            seen = [library.number for library in libraries]
    except KeyboardInterrupt:
        assert interrupt <= 2
    assert seen in ([], [1, 1])
    assert [library.number for library in libraries] == [4, 4]


def test_who_was_interrupted_on_the_way_out_has_left_with_those_around_it(monkeypatch):
    library = Library(0)
    monkeypatch.setattr(_budget, "_blas", lambda: [library])
    threads = _budget._BlasThreads()
    for who in ("search", "evaluation", "adjoint"):
        threads.enter(who)
    threads.leave("evaluation")
    assert library.number == 1
    threads.leave("search")
    assert library.number == 4
    threads.leave("adjoint")  # which says so late
    assert library.number == 4


def test_any_thread_may_have_one_blas_thread():
    """A search in a thread of its own would else multiply in several, and hang in a fork."""

    def numbers() -> list[int]:
        return [library.get_num_threads() for library in _budget._blas()]

    def enter() -> None:
        context.__enter__()
        inside.extend(numbers())

    inside, before = [], numbers()
    try:
        for library in _budget._blas():
            _budget._set_threads(library, 3)  # as it may be without the environment of the tests
        with one_blas_thread():  # this thread is the first to ask
            pass
        context = one_blas_thread()
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        context.__exit__(None, None, None)  # and another one the last
        assert inside == [1] * len(before)
        assert numbers() == [3] * len(before)
    finally:
        for library, number in zip(_budget._blas(), before, strict=True):
            _budget._set_threads(library, number)


def test_threads_are_given_back_after_the_last_one(monkeypatch):
    library = Library(0)
    monkeypatch.setattr(_budget, "_blas", lambda: [library])
    monkeypatch.setattr(_budget, "_threads", _budget._BlasThreads())
    with one_blas_thread():
        with one_blas_thread():
            assert library.number == 1
        assert library.number == 1
    assert library.number == 4


@pytest.fixture
def compile_anew(tmp_path, monkeypatch):
    """Return a function that compiles as a new process does; the cache is in tmp_path."""
    source = tmp_path / "loops.py"
    source.write_text("def double(x):\n    return x + x\n")

    def run() -> float:
        spec = importlib.util.spec_from_file_location("loops", source)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "loops", module)
        spec.loader.exec_module(module)
        return compiled(module.double)(3.0)

    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    assert run() == 6.0
    return run


def test_a_broken_cache_is_compiled_anew(compile_anew, tmp_path):
    (index,), (data,) = tmp_path.rglob("*.nbi"), tmp_path.rglob("*.nbc")
    for broken, content in ((index, b""), (index, b"nonsense"), (data, b""), (data, b"\x80\x04")):
        broken.write_bytes(content)
        assert compile_anew() == 6.0
        assert len(broken.read_bytes()) > 20, "it is not mended"


def test_a_full_disk_is_no_hindrance(compile_anew, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._open_for_write", full)
    (index,), (data,) = tmp_path.rglob("*.nbi"), tmp_path.rglob("*.nbc")
    data.unlink()
    assert compile_anew() == 6.0
    index.write_bytes(b"")
    assert compile_anew() == 6.0


@pytest.fixture
def call_across_files(tmp_path, monkeypatch):
    """Return a function that runs a compiled one, which calls one of another file, as new."""
    head = "from hypermargin._core.compiled import compiled\n"
    (tmp_path / "constants_of_test.py").write_text("FACTOR = 2.0\n")
    (tmp_path / "inner_of_test.py").write_text(
        f"{head}\n@compiled\ndef inner(x):\n    return 3.0 * x\n"
    )
    (tmp_path / "outer_of_test.py").write_text(
        f"{head}from inner_of_test import inner\nfrom constants_of_test import FACTOR\n"
        "\n@compiled\ndef outer(x):\n    return later(x) + FACTOR\n"
        "\n@compiled\ndef later(x):\n    return inner(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run():
        for name in ("constants", "inner", "outer"):
            sys.modules.pop(f"{name}_of_test", None)
        importlib.invalidate_caches()
        outer = importlib.import_module("outer_of_test").outer
        return outer(1.0), sum(outer.stats.cache_hits.values())

    yield run
    for name in ("constants", "inner", "outer"):
        sys.modules.pop(f"{name}_of_test", None)


def test_a_function_is_compiled_anew_if_one_that_it_calls_has_changed(call_across_files, tmp_path):
    assert call_across_files() == (5.0, 0)
    assert call_across_files() == (5.0, 1)
    inner = tmp_path / "inner_of_test.py"
    inner.write_text(inner.read_text().replace("3.0", "4.0"))
    assert call_across_files() == (6.0, 0)
    assert call_across_files() == (6.0, 1)


def test_a_function_is_compiled_anew_if_a_constant_has_changed(call_across_files, tmp_path):
    assert call_across_files() == (5.0, 0)
    (tmp_path / "constants_of_test.py").write_text("FACTOR = 7.0\n")
    assert call_across_files() == (10.0, 0)
    assert call_across_files() == (10.0, 1)
