"""The records of a producer in a process of its own, of which the harness is told: what `ProducedRows` is in its own.

A member of a loop comes and goes: it is spared PyArrow and pydantic.
"""

import time
from collections.abc import Callable, Sequence

from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.history.reservations import ReservedSeqs

Tell = Callable[..., None]
"""Tells the harness one thing: its kind, and its values by name."""


class ToldRows:
    """The records of one producer, counted from 0 on.

    `failed`: whether one was not acknowledged; `transaction`: the number of the one that began last.
    """

    def __init__(self, tell: Tell, *, lane: str, producer_id: int, partitions: InTurn, reserved: ReservedSeqs) -> None:
        self.lane = lane
        self.producer_id = producer_id
        self.partitions = partitions
        self.sent = 0
        self.failed = False
        self.transaction: int | None = None
        self._tell = tell
        self._reserved = reserved
        self._known: list[tuple[int, int | None, int, str, str | None]] = []

    def in_transaction(self, number: int) -> None:
        """From the next record on, this transaction holds what is sent."""
        self.transaction = number

    def announce(self, sources: Sequence[Sequence[int]]) -> None:
        """The next records are about to be sent, made of these inputs: (producer_id, seq) of each."""
        end = self.sent + len(sources)
        self._reserved.up_to(end)
        partitions = [seq % self.partitions.count for seq in range(self.sent, end)]
        at = {"transaction": self.transaction, "ns": time.monotonic_ns()}
        self._tell("sent", first_seq=self.sent, partition=partitions, sources=sources, **at)

    def hand_out(self, count: int) -> int:
        """Send the next `count` of them; returns the seq of the first."""
        self.sent += count
        return self.sent - count

    def take_back(self, first: int) -> None:
        """Those from this one on were not sent yet."""
        self.sent = first

    def acknowledge(self, seq: int, offset: int | None) -> None:
        """A record is acknowledged."""
        self.settle(seq, Outcome.OK, offset=offset)

    def settle(self, seq: int, outcome: Outcome, error: str | None = None, *, offset: int | None = None) -> None:
        """A record has its outcome."""
        self.failed |= outcome is not Outcome.OK
        self._known.append((seq, offset, time.monotonic_ns(), outcome, error))

    def write_rest(self) -> None:
        """Tell of what is known by now."""
        known, self._known = self._known, []
        for outcome, error in dict.fromkeys((outcome, error) for *_, outcome, error in known):
            alike = [row[:3] for row in known if row[3:] == (outcome, error)]
            seq, offset, ns = map(list, zip(*alike, strict=True))
            self._tell("outcome", outcome=outcome, error=error, seq=seq, offset=offset, ns=ns)
