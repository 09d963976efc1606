"""Numbers and lists in words."""

from __future__ import annotations

from collections.abc import Iterable


def label(name: str) -> str:
    """The name of an anomaly or of a key as a reader sees it."""
    return name.replace("_", " ")


def join(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last
