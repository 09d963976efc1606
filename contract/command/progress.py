"""The progress of long work: reported where it is done, and passed to the one listener that shows it, if any."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PARTS_OF_VERIFICATION = 5
"""The number of parts of a verification: the start of Spark is the first, the check of relations the last."""
ProgressListener = Callable[[int, int, str], None]
_LISTENER: ContextVar[ProgressListener | None] = ContextVar("listener", default=None)


def progress(done: int, total: int, part: str) -> None:
    """Report that `done` of `total` parts are done; `part` names the part that begins now."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(done, total, part)


@contextmanager
def reporting_to(listener: ProgressListener) -> Iterator[None]:
    """Call the listener with all progress that this thread reports within the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
