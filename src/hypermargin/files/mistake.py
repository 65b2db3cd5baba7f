"""What a person gave cannot be used, and why, in one sentence."""

from __future__ import annotations


class Mistake(ValueError):
    """A file or an option that cannot be used; the message is one sentence for its giver."""
