"""What the writers of a lane have in common, whichever library or function they drive."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from kafka_chaos.harness.workload.client_process import ClientProcess
from kafka_chaos.harness.workload.clients.produced import ProducedRows

_TICK = 0.05


class Written:
    """What the producers of a lane wrote: `rows` has the records of each. The counts may be read from any thread."""

    def __init__(self) -> None:
        self.rows: list[ProducedRows] = []

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""
        return sum(one.sent for one in list(self.rows))

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return sum(one.acknowledged for one in list(self.rows))

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements of one producer so far, in nanoseconds."""
        return max((one.longest_gap_ns for one in list(self.rows)), default=0)


class Producing(Written, ABC):
    """The writer of a lane: its producers, of which there may be more and more."""

    @property
    def present(self) -> Sequence["LaneProducer"]:
        """The producers that write now, as far as they are the harness's."""
        return ()

    def processes(self) -> list[ClientProcess]:
        """Those of them that are processes of their own, for faults to hit."""
        return []

    @abstractmethod
    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared; raises what went wrong."""

    @abstractmethod
    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every record has an outcome, at most `timeout` seconds: others become info."""


class TransactionRecords(Protocol):
    """Sends a transaction's records and records them.

    `client`: librdkafka's `Producer`, or what is called as it is (`ProcessTransactions`).
    """

    lane: str
    producer_id: int
    client: Any

    def transaction_begins(self) -> int:
        """From the next record on, a new transaction holds what is sent. Returns its number, counted from 0."""

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds."""

    def abandon(self, *, open_transaction: bool) -> None:
        """End as a killed process does, an open transaction left behind; records without an outcome become info.

        Writes the last rows: the producer can't be used afterwards.
        """


class LaneProducer(ABC):
    """A producer whose records are sent by their number, in turn to its partitions, and are in the history.

    A driver of another library is a subclass. `send`, `poll`, `finish` and `abandon` belong to one thread.
    """

    client: Any

    def __init__(self, rows: ProducedRows) -> None:
        self.lane = rows.lane
        self.producer_id = rows.producer_id
        self.rows = rows
        self._transactions = 0

    @property
    def sent(self) -> int:
        """Records that the client accepted so far."""
        return self.rows.sent

    def transaction_begins(self) -> int:
        """From the next record on, a new transaction holds what is sent. Returns its number, counted from 0."""
        self.rows.in_transaction(self._transactions)
        self._transactions += 1
        return self._transactions - 1

    @property
    @abstractmethod
    def unanswered(self) -> int:
        """Records that have no outcome yet, of a client that can still say one."""

    @property
    @abstractmethod
    def failed_for_good(self) -> str:
        """Why it takes no more records; empty while it does."""

    @abstractmethod
    def send(self, count: int) -> int:
        """Send up to `count` records, fewer if the client's queue is full; returns how many it took."""

    @abstractmethod
    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds."""

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every record has an outcome, at most `timeout` seconds: others become info.

        `cancelled` ends the wait early. Writes the last rows: the producer can't be used afterwards.
        """
        deadline = time.monotonic() + timeout
        while self.unanswered and time.monotonic() < deadline and not cancelled.is_set():
            self.poll(_TICK)
        self._leaves(at_once=cancelled.is_set())
        self.rows.write_rest()

    def abandon(self, *, open_transaction: bool) -> None:
        """End as a killed process does, an open transaction left behind; records without an outcome become info.

        Writes the last rows: the producer can't be used afterwards.
        """
        self._dies(open_transaction=open_transaction)
        self.rows.write_rest()

    @abstractmethod
    def _leaves(self, *, at_once: bool) -> None:
        """End in order, or `at_once`."""

    @abstractmethod
    def _dies(self, *, open_transaction: bool) -> None:
        """End as a killed process does."""
