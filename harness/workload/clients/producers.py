"""The producers of a lane: what all kinds share, and producers that share a fixed rate and may come and go."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import methodcaller

from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.lives import ClientSlot, living_clients, processes_of
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings

_TICK_S = 0.01
NOT_CANCELLED = threading.Event()


class WrittenRecords:
    """The records that a lane's producers wrote; `rows`: an entry per producer. Any thread may read the counts."""

    def __init__(self) -> None:
        self.rows: list[ProducedRows] = []

    @property
    def sent(self) -> int:
        """How many records the producers' client libraries took so far."""
        return sum(rows.sent for rows in list(self.rows))

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged so far."""
        return sum(rows.acknowledged for rows in list(self.rows))

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements of one producer so far, in nanoseconds."""
        return max((rows.longest_gap_ns for rows in list(self.rows)), default=0)


class LaneProducers(WrittenRecords, ABC):
    """The producers of a lane; more may be added while they send.

    `producers`: the harness's own producers, also failed ones; none where an application writes.
    """

    producers: Sequence[LaneProducer] = ()

    def processes(self) -> list[SupervisedProcess]:
        """The present producers that are processes of their own, for faults to hit."""
        return processes_of(self.producers)

    @abstractmethod
    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared; raises the error that stops it."""

    @abstractmethod
    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait for every record's outcome, at most `timeout` seconds, or until `cancelled`; the rest become info."""


class PacedProducers(LaneProducers):
    """Producers that share the rate of the load.

    `connect(number, slot)` makes the lane's next producer, numbered from 0, for a slot. Number 0 is made at once, in
    slot 0, and stays. Each of the `lives` has one more slot, whose producers are made when they are due: until then,
    brokers know nothing of them. `producers` has those that have ended, too.
    """

    def __init__(
        self, connect: Callable[[int, int], LaneProducer], load: LoadSettings, lives: Sequence[LifeSpec] = ()
    ) -> None:
        super().__init__()
        self._load, self._calls = load, load.calls
        self._connect = connect
        self.slots: list[ClientSlot[LaneProducer]] = [
            ClientSlot(number, life) for number, life in enumerate((LifeSpec(at=0.0), *lives))
        ]
        self._rate = load.workload.rate / len(self.slots)
        self._ending: list[LaneProducer] = []  # Their lives are over; they wait for outcomes.
        self.producers: list[LaneProducer] = []
        self._add(0)

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared, or every producer has failed for good."""
        self.slots[0].begin_life(self.producers[0], time.monotonic())
        failed: set[int] = set()
        kill = methodcaller("abandon", open_transaction=False)
        while sending.is_set() and self._may_send_more():
            for slot in self.slots:
                slot.step(self._load, start=self._add, leave=self._ending.append, kill=kill)
            now = time.monotonic()
            for slot in self.slots:
                if (producer := slot.client) is not None and not producer.failed_for_good:
                    with self._calls.awaiting(producer.lane, f"{producer.lane}-{slot.number}", "send"):
                        # The records that are due by now, the first one at once, without those that were sent.
                        producer.send(max(0, 1 + int((now - slot.life_began) * self._rate) - producer.sent))
            self._poll(_TICK_S)
            for number, producer in enumerate(self.producers):
                if (why := producer.failed_for_good) and number not in failed:
                    failed.add(number)
                    # A call that ends with an error has an event, however short it was.
                    call = self._calls.note_begin(producer.lane, f"{producer.lane}-{number}", "send")
                    self._calls.note_end(call, why)
                    self._load.on_notice(f"{producer.lane}: its producer has failed for good and sends no more: {why}")

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """End all producers in `timeout` seconds, or at once if `cancelled`; records without outcome become info."""
        deadline = time.monotonic() + timeout
        self._ending += living_clients(self.slots)
        for slot in self.slots:
            slot.client = None
        lane = self.producers[0].lane
        call = self._calls.note_begin(lane, lane, "flush")
        while self._has_unanswered() and time.monotonic() < deadline and not cancelled.is_set():
            self._poll(_TICK_S)
        # If records are unanswered after the time-out, the call stays without an end: the client hung.
        if cancelled.is_set() or not self._has_unanswered():
            self._calls.note_end(call)
        for producer in self._ending:
            producer.finish(max(0.0, deadline - time.monotonic()), cancelled)
        self._ending = []

    def _has_unanswered(self) -> bool:
        return any(producer.unanswered for producer in self._ending)

    def processes(self) -> list[SupervisedProcess]:
        """The producers that live and are processes of their own, for faults to hit."""
        return processes_of(living_clients(self.slots))

    def _may_send_more(self) -> bool:
        return any(not (slot.is_over if slot.client is None else slot.client.failed_for_good) for slot in self.slots)

    def _add(self, slot: int) -> LaneProducer:
        """Make the next producer, for a slot."""
        self.producers.append(self._connect(len(self.producers), slot))
        self.rows.append(self.producers[-1].rows)
        return self.producers[-1]

    def _poll(self, seconds: float) -> None:
        """Serve all producers for `seconds`; close those whose lives are over and whose records all have outcomes."""
        producers = [*living_clients(self.slots), *self._ending]
        for producer in producers:
            producer.poll(seconds / len(producers))
        if not producers:
            time.sleep(seconds)
        for producer in [ending for ending in self._ending if not ending.unanswered]:
            self._ending.remove(producer)
            producer.finish(0.0, NOT_CANCELLED)
