"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HEARD: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called us."""
    inside = (__name__.partition(".")[0], "sklearn")
    level, frame = 1, sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(inside):
        level, frame = level + 1, frame.f_back
    messages = _HEARD.get()
    if messages is not None:
        messages.append(message)
    warnings.warn(message, category, stacklevel=level + 1)


@contextmanager
def heard() -> Iterator[list[str]]:
    """Give a list of all that is warned of here, whatever filters of warnings do."""
    messages: list[str] = []
    token = _HEARD.set(messages)
    try:
        yield messages
    finally:
        _HEARD.reset(token)
