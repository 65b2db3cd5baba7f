"""Time, interruption and threads: what every long loop of a search must respect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


class Budget:
    """A deadline that solvers ask about between chunks of work, and that can be called off."""

    def __init__(self, seconds: float | None = None):
        self.deadline = None if seconds is None else time.perf_counter() + seconds
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def expired(self) -> bool:
        late = self.deadline is not None and time.perf_counter() > self.deadline
        return late or self._stopped.is_set()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread.

    Products here are small and run in threads of their own; more threads below them would only
    wait for each other, and on a busy machine for very long.
    """
    return _libraries().limit(limits=1, user_api="blas")


class Workers:
    """Threads that share the data."""

    def __init__(self, n_jobs: int | None = None):
        self.count = max(1, effective_n_jobs(n_jobs))

    def map(self, function: Callable, items: Iterable[Any], budget: Budget) -> list:
        """Apply a function to all items; a Ctrl-C stops the workers before it is passed on."""
        items = list(items)
        if self.count == 1 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.count) as pool:
            try:
                return list(pool.map(function, items))
            except BaseException:
                budget.stop()
                raise
