"""Numbers and lists in words."""

from __future__ import annotations

from collections.abc import Iterable


def label(name: str) -> str:
    """The name of an anomaly or of a key as a reader sees it."""
    return name.replace("_", " ")


LATE = 1.0
"""A fault that comes later than its schedule asks by more than this many seconds is named."""


def lateness(late: float | None) -> str:
    """What to say of a fault that came late: `2.3 s late`, or nothing."""
    return f"{late:.1f} s late" if late is not None and late > LATE else ""


def join(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last
