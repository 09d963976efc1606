"""Measures for how long the harness had work to do and no processor: others on the machine waited, too.

A second counts by the longest that a thread of the harness waited for a processor in it (`/proc/self/task/*/schedstat`,
Linux), or by how much later than asked for this thread woke up. At each moment a recovery waits for one thread, so that
no more was lost to it. The share of waiting in the time of work would say far more: 0.9 s of a second in which threads
ran for 0.03 s and waited for 0.25 s in all.
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
_TASKS = Path("/proc/self/task")


class PauseWatch(Background):
    """The watch's thread."""

    def __init__(self, events: EventBus) -> None:
        self._events = events
        super().__init__({"pauses": self._watch})

    def _watch(self) -> None:
        before, known = time.monotonic(), waited()
        while not self.stop.wait(_INTERVAL):
            now, of_now = time.monotonic(), waited()
            longest = max((of_now[task] - known[task] for task in of_now.keys() & known.keys()), default=0.0)
            lost = max(now - before - _INTERVAL, longest)
            if lost >= _LEAST:
                self._events.emit(HarnessPaused(seconds=round(min(lost, now - before), 3)))
            before, known = now, of_now


def waited() -> dict[str, float]:
    """By thread of this process, for how many seconds it had work and waited for a processor."""
    seconds = {}
    for task in _TASKS.glob("*/schedstat"):
        # A thread may end meanwhile; a kernel may not tell.
        with suppress(OSError, ValueError):
            seconds[task.parent.name] = int(task.read_text().split()[1]) / 1e9
    return seconds
