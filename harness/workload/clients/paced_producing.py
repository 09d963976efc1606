"""A lane's producers at a fixed rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

_TICK = 0.01


class PacedProducer(Protocol):
    """One of the producers, such as a `RecordedProducer`."""

    lane: str
    sent: int

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        ...

    @property
    def unanswered(self) -> int:
        """Records that have no outcome yet."""
        ...

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        ...

    @property
    def failed_for_good(self) -> str:
        """Why it takes no more records; empty while it does."""
        ...

    def send(self, count: int) -> int:
        """Send up to `count` records; returns how many it took."""
        ...

    def poll(self, timeout: float) -> int:
        """Serve it for up to `timeout` seconds."""
        ...

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome; returns how many became info instead."""
        ...


class PacedProducing:
    """Sends `rate` records a second, each producer its share, until all have failed for good.

    `connect` makes the producer of a number. The first is made at once. The others are made `starts` seconds after the
    time that `began` returns, once it returns one: brokers know nothing of them until then.
    """

    def __init__(
        self,
        connect: Callable[[int], PacedProducer],
        *,
        rate: float,
        on_notice: Callable[[str], None],
        starts: Sequence[float] = (),
        began: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._waiting = list(starts)
        self._began = began
        self._rate = rate / (1 + len(starts))
        self._on_notice = on_notice
        self.producers = [connect(0)]

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""
        return sum(records.sent for records in list(self.producers))

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return sum(records.acknowledged for records in list(self.producers))

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements of one producer so far, in nanoseconds."""
        return max(records.longest_gap_ns for records in list(self.producers))

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared, or every producer has failed for good."""
        since = [time.monotonic()]
        failed: set[int] = set()
        while sending.is_set() and (self._waiting or len(failed) < len(self.producers)):
            now = time.monotonic()
            began = self._began()
            while self._waiting and began is not None and now - began >= self._waiting[0]:
                self._waiting.pop(0)
                self.producers.append(self._connect(len(self.producers)))
                since.append(now)
            for number, records in enumerate(self.producers):
                due = int((now - since[number]) * self._rate) - records.sent
                if due > 0 and not records.failed_for_good:
                    records.send(due)
            self._poll(_TICK)
            for number, records in enumerate(self.producers):
                if records.failed_for_good and number not in failed:
                    failed.add(number)
                    why = records.failed_for_good
                    self._on_notice(f"{records.lane}: its producer has failed for good and sends no more: {why}")

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead."""
        deadline = time.monotonic() + timeout
        while self._unanswered() and time.monotonic() < deadline and not cancelled.is_set():
            self._poll(_TICK)
        return sum(records.finish(max(0.0, deadline - time.monotonic()), cancelled) for records in self.producers)

    def _unanswered(self) -> bool:
        return any(records.unanswered for records in self.producers)

    def _poll(self, seconds: float) -> None:
        for records in list(self.producers):
            records.poll(seconds / len(self.producers))
