"""How far something long is: told where it is done, heard by whoever shows it, and by nobody otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PARTS_BY_SPARK = 6
"""In how many parts Spark's verification tells how far it is; its start is the first."""
Hearing = Callable[[int, int, str], None]
_HEARING: ContextVar[Hearing | None] = ContextVar("hearing", default=None)


def progress(done: int, total: int, what: str) -> None:
    """Of `total` parts `done` are done; `what` names the one that comes now."""
    hearing = _HEARING.get()
    if hearing is not None:
        hearing(done, total, what)


@contextmanager
def heard_by(hearing: Hearing) -> Iterator[None]:
    """Let this be called with all progress that the block makes in its own thread."""
    before = _HEARING.set(hearing)
    try:
        yield
    finally:
        _HEARING.reset(before)
