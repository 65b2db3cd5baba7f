"""Time, interruption and threads: what every long loop of a search must respect."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

T = TypeVar("T")

SHORT = 2e-3  # seconds of work that are not worth a thread; 1 to 4 ms do equally well
MEMORY = 8  # calls after which a function whose items took long counts as one of short items


class OutOfTime(Exception):
    """The budget ended in the middle of work that is of no use by halves."""


class Budget:
    """A deadline that solvers ask about between chunks of work, and that can be called off."""

    def __init__(self, seconds: float | None = None):
        self.seconds = seconds
        self._begun = time.perf_counter()
        self._reserved = 0.0
        self.wanted = 0.0  # seconds that what comes later is likely to take
        self._stopped = threading.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        # another machine has another clock: what goes there are the seconds that are left
        return Budget, (self.left,)

    def stop(self) -> None:
        self._stopped.set()

    def expired(self) -> bool:
        return self._stopped.is_set() or self._late()

    def _late(self) -> bool:
        if self.seconds is None:
            return False
        return time.perf_counter() - self._begun > self.seconds - self._reserved

    @property
    def left(self) -> float | None:
        """The seconds until the end; None if there is none."""
        if self.seconds is None:
            return None
        return max(0.0, self.seconds - self._reserved - (time.perf_counter() - self._begun))

    def check(self) -> None:
        """Raise OutOfTime if the budget has ended."""
        if self.expired():
            raise OutOfTime

    def reserve(self, seconds: float) -> None:
        """Keep time for what comes later: at most half of it all, since that is a guess."""
        if self.seconds is not None:
            self.wanted, self._reserved = seconds, min(seconds, 0.5 * self.seconds)

    def rest(self) -> Budget:
        """Return a budget of the time that is left, with what was reserved."""
        left = Budget(self.seconds)
        left._begun, left.wanted = self._begun, self.wanted
        return left

    def unhurried(self) -> Budget:
        """Return a budget without a deadline, which ends when this one is called off."""
        endless = Budget()
        endless._stopped = self._stopped
        return endless


@dataclass(frozen=True)
class Effort:
    """How far machines are trained.

    `tol` has one meaning in every problem: how far a machine may stay from its optimum, in a unit
    in which one that is not trained is off by about one (`unit` is that of the targets, where folds
    have their own).  When the budget ends, machines stop where they are.  A `rough` one may stop
    early: it is for looks.
    """

    tol: float
    budget: Budget = field(default_factory=lambda: Budget())
    rough: bool = False
    unit: np.ndarray | float = 1.0

    @property
    def gap(self) -> np.ndarray:
        """The tolerance in units of the targets."""
        return np.asarray(self.tol * self.unit)


class cached(Generic[T]):
    """A property that is computed once, as `functools.cached_property`, but without a lock.

    That of Python 3.11 belongs to the class.  A process that is forked while another thread
    computes the property would wait for it for ever.
    """

    def __init__(self, function: Callable[[Any], T]):
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        value = instance.__dict__[self.name] = self.function(instance)
        return value


@cache
def _blas() -> list[Any]:
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _set_threads(library: Any, number: int) -> None:
    """Set how many threads BLAS has, whichever thread asks.

    From version 3.8 on threadpoolctl lets only the thread that set a number first set others, and
    does nothing, without a word, where another one asks.  Here a lock sees to the order.
    """
    no_thread_is_first = getattr(library, "clear_controlling_thread", None)
    if no_thread_is_first is not None:
        no_thread_is_first(force=True)
    library.set_num_threads(number)
    if no_thread_is_first is not None:
        no_thread_is_first(force=True)


class _BlasThreads:
    """The numbers of threads that BLAS had before the first of those inside asked for one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[object, int] = {}  # with the thread of each, in order
        self._before: list[tuple[Any, int]] = []
        self._fork = threading.local()  # several threads may fork at once

    def enter(self, who: object) -> None:
        with self._lock:
            self._inside[who] = threading.get_ident()
            if not self._before:
                self._before = [(library, library.get_num_threads()) for library in _blas()]
                for library, _ in self._before:
                    _set_threads(library, 1)

    def leave(self, who: object) -> None:
        """Give the threads back after the last one; may be called again if it is interrupted.

        Who came later on the same thread has left, too: an interrupt may have kept it from saying.
        """
        with self._lock:
            thread, places = self._inside.get(who), list(self._inside)
            gone = places[places.index(who) :] if who in self._inside else []
            for other in gone:
                if self._inside[other] == thread:
                    del self._inside[other]
            if not self._inside:
                self._restore()

    def _restore(self) -> None:
        for library, number in self._before:
            _set_threads(library, number)
        self._before = []

    def before_fork(self) -> None:
        """Wait until no thread sets numbers: a child would have the locks of BLAS as they are."""
        self._fork.waited = self._lock.acquire(timeout=1.0)  # whoever forks may hold it

    def go_on_in_parent(self) -> None:
        if self._fork.waited:
            self._lock.release()

    def begin_in_child(self) -> None:
        """Begin anew after a fork: threads that were inside, or held the lock, are not there."""
        self._lock, self._inside = threading.Lock(), {}
        self._restore()


_threads = _BlasThreads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_threads.before_fork,
        after_in_parent=_threads.go_on_in_parent,
        after_in_child=_threads.begin_in_child,
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within this context BLAS uses one thread, for as long as any thread is inside.

    Products here are small and run in threads of their own; more threads below them would only
    wait for each other, and on a busy machine for very long.  An interrupt at any place, also on
    the way in or out, leaves BLAS as it was.
    """
    who = object()
    try:
        _threads.enter(who)
        yield
    finally:
        try:
            _threads.leave(who)
        except BaseException:
            _threads.leave(who)
            raise


class Clock:
    """Where the time of a search goes: seconds by the name of the phase.

    A phase inside another one counts for itself only.  What workers do counts for the phase in
    which the thread that made the clock waits for them.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._thread = threading.get_ident()
        self._open: list[str] = []
        self._since = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if threading.get_ident() != self._thread:
            yield
            return
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        name = self._open[-1] if self._open else "rest"
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


class Workers:
    """Threads that share the data, and the clock of their work."""

    def __init__(self, n_jobs: int | None = None):
        self.count = max(1, effective_n_jobs(n_jobs))
        if n_jobs is None:  # a backend of joblib's may have the processors of many machines
            self.count = min(self.count, os.cpu_count() or 1)
        self.clock = Clock()
        self._pool: ThreadPoolExecutor | None = None
        self._inside = threading.local()
        self._since: dict[Any, int] = {}  # calls with a function since its items took long

    def __reduce__(self) -> tuple[Any, ...]:
        return Workers, (self.count,)  # threads do not travel

    def release(self) -> None:
        """Let the threads end; who needs some later gets others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    @property
    def inside(self) -> bool:
        """Whether the caller is one of the workers."""
        return getattr(self._inside, "yes", False)

    def map(
        self, function: Callable, items: Iterable[Any], budget: Budget, long: bool = False
    ) -> list:
        """Apply a function to all items; a Ctrl-C stops the workers before it is passed on.

        Inside a worker it is a plain loop, so that work may be split at whatever level has several
        items, without more threads than asked for.  It is one too for as long as items are short:
        a thread may have to wait longer than that for the interpreter.  Who hands over short items
        loses little, who keeps long ones all that threads gain: so items that took long a few calls
        ago count as long still.  Who knows that items are `long` says so.
        """
        items = list(items)
        if self.count == 1 or len(items) < 2 or self.inside:
            return [function(item) for item in items]
        plain, done = getattr(function, "func", function), list[Any]()
        key = getattr(plain, "__code__", plain)  # which keeps nothing alive
        if long:
            return self._map(function, key, items, budget)
        while len(done) < len(items) and self._since.get(key, MEMORY) >= MEMORY:
            begun = time.thread_time()
            done.append(function(items[len(done)]))
            self._note(key, time.thread_time() - begun)
        rest = items[len(done) :]
        return done + (self._map(function, key, rest, budget) if rest else [])

    def _note(self, key: Any, longest: float) -> None:
        self._since[key] = 0 if longest > SHORT else self._since.get(key, MEMORY) + 1

    def _map(self, function: Callable, key: Any, items: list, budget: Budget) -> list:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        longest = [0.0]

        def run(item: Any) -> Any:
            self._inside.yes = True
            begun = time.thread_time()
            try:
                return function(item)
            finally:
                longest.append(time.thread_time() - begun)

        futures: list[Future] = []
        try:
            futures += [self._pool.submit(run, item) for item in items]
            found = [future.result() for future in futures]
            self._note(key, max(longest))
            return found
        except BaseException as error:
            if not isinstance(error, Exception):
                budget.stop()
            for future in futures:
                future.cancel()
            wait(futures)
            raise
