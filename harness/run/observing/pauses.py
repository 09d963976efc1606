"""Measures for how long the harness had work to do and no processor: others on the machine waited, too.

A second counts by the share of it for which the harness's threads, as far as they had work, waited for a processor
(`/proc/self/task/*/schedstat`, Linux), and by how much later than asked for this thread woke up.
"""

import time
from contextlib import suppress
from pathlib import Path

from kafka_chaos.contract.events import HarnessPaused
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.observing.monitor import Background

_INTERVAL = 1.0
_LEAST = 0.1
"""Seconds of an interval from which on a wait is told."""
_IDLE = 0.01
"""Seconds that threads must have had work for in an interval: of less, the share says nothing."""
_TASKS = Path("/proc/self/task")


class PauseWatch(Background):
    """The watch's thread."""

    def __init__(self, events: EventBus) -> None:
        self._events = events
        super().__init__({"pauses": self._watch})

    def _watch(self) -> None:
        before, known = time.monotonic(), scheduled()
        while not self.stop.wait(_INTERVAL):
            now, of_now = time.monotonic(), scheduled()
            waited = max(now - before - _INTERVAL, share_waited(known, of_now) * (now - before))
            if waited >= _LEAST:
                self._events.emit(HarnessPaused(seconds=round(min(waited, now - before), 3)))
            before, known = now, of_now


def scheduled() -> dict[str, tuple[float, float]]:
    """By thread of this process, for how many seconds it ran, and for how many it waited for a processor."""
    seconds = {}
    for task in _TASKS.glob("*/schedstat"):
        # A thread may end meanwhile; a kernel may not tell.
        with suppress(OSError, ValueError):
            ran, waited = task.read_text().split()[:2]
            seconds[task.parent.name] = (int(ran) / 1e9, int(waited) / 1e9)
    return seconds


def share_waited(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]) -> float:
    """The share of the time in which threads had work for which they waited; 0 where there was next to none."""
    both = [(before[task], after[task]) for task in before.keys() & after.keys()]
    ran, waited = (sum(new[part] - old[part] for old, new in both) for part in (0, 1))
    return waited / (ran + waited) if ran + waited >= _IDLE else 0.0
