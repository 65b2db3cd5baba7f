"""Time, interruption and threads: what every long loop of a search must respect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
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


class Workers:
    """Threads that share the data; with more than one of them BLAS is held to one thread each."""

    def __init__(self, n_jobs: int | None = None):
        self.count = max(1, effective_n_jobs(n_jobs))
        self._controller = ThreadpoolController() if self.count > 1 else None

    def map(self, function: Callable, items: Iterable[Any], budget: Budget) -> list:
        """Apply a function to all items; a Ctrl-C stops the workers before it is passed on."""
        items = list(items)
        if self.count == 1 or len(items) < 2:
            return [function(item) for item in items]
        with (
            self._controller.limit(limits=1, user_api="blas")
            if self._controller
            else nullcontext(),
            ThreadPoolExecutor(self.count) as pool,
        ):
            try:
                return list(pool.map(function, items))
            except BaseException:
                budget.stop()
                raise
