"""A lane's one producer at a fixed rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer

_TICK = 0.01


class PacedProducing:
    """Sends `rate` records a second by the producer `records`, until it has failed for good."""

    def __init__(self, records: RecordedProducer, *, rate: float, on_notice: Callable[[str], None]) -> None:
        self.records = records
        self._rate = rate
        self._on_notice = on_notice

    @property
    def sent(self) -> int:
        """Records that the client accepted so far."""
        return self.records.sent

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self.records.acknowledged

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        return self.records.longest_gap_ns

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared, or the producer has failed for good."""
        records = self.records
        start = time.monotonic()
        due_before = records.sent
        while sending.is_set() and not records.failed_for_good:
            due = due_before + int((time.monotonic() - start) * self._rate) - records.sent
            if due > 0:
                records.send(due)
            records.poll(_TICK)
        if why := records.failed_for_good:
            self._on_notice(f"{records.lane}: its producer has failed for good and sends no more: {why}")

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead."""
        return self.records.finish(timeout, cancelled)
