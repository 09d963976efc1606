"""Common to producers of every library: one of them, and all that write a lane."""

import threading
from collections.abc import Sequence
from typing import Any, Protocol


class Progress(Protocol):
    """How far something is that writes a lane. The counts may be read from any thread."""

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements of one producer so far, in nanoseconds."""


class Acknowledged:
    """Counts acknowledgements."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.longest_gap_ns = 0
        self._last_ns = 0

    def acknowledges(self, ns: int, count: int = 1) -> None:
        """So many records were acknowledged at once."""
        self.acknowledged += count
        if self._last_ns:
            self.longest_gap_ns = max(self.longest_gap_ns, ns - self._last_ns)
        self._last_ns = ns


class Producing(Progress, Protocol):
    """The writer of a lane."""

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared; raises what went wrong."""

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead."""


class TransactionRecords(Protocol):
    """Sends a transaction's records and records them.

    `client`: librdkafka's `Producer`, or what is called as it is (`ProcessTransactions`).
    """

    lane: str
    producer_id: int

    @property
    def client(self) -> Any:
        """See above."""

    def transaction_begins(self) -> int:
        """From the next record on, a new transaction holds what is sent. Returns its number, counted from 0."""

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds."""

    def abandon(self, *, open_transaction: bool) -> int:
        """End as a killed process does. Returns how many records became info."""


class LaneProducer(Progress, TransactionRecords, Protocol):
    """A producer whose records are sent by their number: a `RecordedProducer`, or one in a process of its own."""

    @property
    def unanswered(self) -> int:
        """Records that have no outcome yet."""

    @property
    def failed_for_good(self) -> str:
        """Why it takes no more records; empty while it does."""

    def send(self, count: int) -> int:
        """Send up to `count` records; returns how many it took."""

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome; returns how many became info instead."""


class ManyProducers:
    """The progress of several producers, of which there may be more and more."""

    def __init__(self) -> None:
        self.producers: list[LaneProducer] = []

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""
        return sum(one.sent for one in list(self.producers))

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return sum(one.acknowledged for one in list(self.producers))

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements of one producer so far, in nanoseconds."""
        return max((one.longest_gap_ns for one in list(self.producers)), default=0)

    @property
    def present(self) -> Sequence[LaneProducer]:
        """Those that write now."""
        return self.producers
