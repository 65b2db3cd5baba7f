"""Who watches a search: nobody, unless there are callbacks or something is to be printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Watch:
    """Is told of what is about to be evaluated, and of its end."""

    def looks(self, level: Any, count: int) -> None:
        """Expect so many looks at the rows of a level."""

    @contextmanager
    def evaluation(self, level: Any, rough: bool = False) -> Iterator[None]:
        """Within this context a point is evaluated on the rows of a level, and recorded."""
        yield


NOBODY = Watch()
