"""What the sections of docs/model.md have in common: numbered stories, and rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka_chaos.reference_model.machine import Findings

MAX_STATES = 5_000_000


def numbered(story: Iterable[str]) -> Iterator[str]:
    """A story as a numbered list."""
    return (f"{number}. {sentence}" for number, sentence in enumerate(story, 1))


def meaning(value: Any) -> str:
    """A docstring on one line."""
    return " ".join((value.__doc__ or "").split())


def meanings(head: str, checks: Mapping[Any, Callable[..., Any]], says: str = "meaning") -> Iterator[str]:
    """A table of named functions and what their docstrings say."""
    yield f"| {head} | {says} |"
    yield "| --- | --- |"
    for name, check in checks.items():
        yield f"| `{name}` | {meaning(check)} |"


def head_of_marks(heads: Sequence[str], anomalies: Iterable[str], *, states: bool = False) -> Iterator[str]:
    """The head of a table with columns for anomalies, after others."""
    names = [f"`{anomaly}`" for anomaly in anomalies]
    yield f"| {' | '.join([*heads, *names])} |" + " states |" * states
    yield "|" + " --- |" * len(heads) + " :-: |" * len(names) + " ---: |" * states


def marks(anomalies: Iterable[Any], found: Collection[Any]) -> str:
    """`x` in the column of each anomaly that was found."""
    return " | ".join("x" if anomaly in found else " " for anomaly in anomalies)


def named(anomalies: Iterable[str]) -> str:
    """Anomalies in a sentence or a cell."""
    return ", ".join(f"`{anomaly}`" for anomaly in anomalies)


def exhausted(found: Findings[Any], what: str) -> Findings[Any]:
    """The findings; raises `RuntimeError` unless their search came to its end."""
    if not found.complete:
        raise RuntimeError(f"the scope was not exhausted: {what}")
    return found
