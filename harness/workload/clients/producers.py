"""The producers of a lane: what all kinds have in common, and those that send at a fixed rate, and may come and go."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.lives import ClientSlot, living, processes_in
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings

_TICK = 0.01
_NEVER_SET = threading.Event()


class WrittenRecords:
    """What the producers of a lane wrote: `rows` has the records of each. The counts may be read from any thread."""

    def __init__(self) -> None:
        self.rows: list[ProducedRows] = []

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""
        return sum(rows.sent for rows in list(self.rows))

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return sum(rows.acknowledged for rows in list(self.rows))

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements of one producer so far, in nanoseconds."""
        return max((rows.longest_gap_ns for rows in list(self.rows)), default=0)

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every record has an outcome, at most `timeout` seconds: others become info.

        `cancelled` ends the wait early. The members of a group need no wait: they leave once they have their outcomes.
        """


class LaneProducers(WrittenRecords, ABC):
    """The producers of a lane, to which more may be added while they send."""

    @property
    def present(self) -> Sequence[LaneProducer]:
        """The harness's own producers that write now; none where an application writes."""
        return ()

    def processes(self) -> list[SupervisedProcess]:
        """The producers that are processes of their own, for faults to hit."""
        return []

    @abstractmethod
    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared; raises what went wrong."""


class PacedProducers(LaneProducers):
    """Producers that share the rate of the load, and send until all have failed for good.

    `connect` makes the producer of a number, counted from 0, in a slot. The first is made at once, in slot 0, and
    stays. Each of the `lives` has one more slot, and starts once the clock of the load has begun: brokers know nothing
    of its producers until then.
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
        self._leaving: list[LaneProducer] = []
        self.producers: list[LaneProducer] = []
        self._add(0)

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared, or every producer has failed for good."""
        self.slots[0].begin_life(self.producers[0], time.monotonic())
        failed: set[int] = set()
        while sending.is_set() and self._goes_on():
            now = time.monotonic()
            if (began := self._load.clock.began) is not None:
                for slot in self.slots:
                    slot.step(now, now - began, start=self._add, end=self._end)
            for slot in self.slots:
                if (producer := slot.client) is not None and not producer.failed_for_good:
                    with self._calls.awaiting(producer.lane, f"{producer.lane}-{slot.number}", "send"):
                        producer.send(max(0, int((now - slot.since) * self._rate) - producer.sent))
            self._poll(_TICK)
            for number, producer in enumerate(self.producers):
                if producer.failed_for_good and number not in failed:
                    failed.add(number)
                    why = producer.failed_for_good
                    call = self._calls.begins(producer.lane, f"{producer.lane}-{number}", "send")
                    self._calls.ends(call, why)
                    self._load.on_notice(f"{producer.lane}: its producer has failed for good and sends no more: {why}")

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every record has an outcome, at most `timeout` seconds: others become info."""
        deadline = time.monotonic() + timeout
        self._leaving += living(self.slots)
        for slot in self.slots:
            slot.client = None
        if self._leaving:
            lane = self._leaving[0].lane
            call = self._calls.begins(lane, lane, "flush")
        while self._is_unsettled() and time.monotonic() < deadline and not cancelled.is_set():
            self._poll(_TICK)
        if self._leaving and (cancelled.is_set() or not self._is_unsettled()):
            self._calls.ends(call)
        for producer in self._leaving:
            producer.finish(max(0.0, deadline - time.monotonic()), cancelled)
        self._leaving = []

    def _is_unsettled(self) -> bool:
        return any(producer.unanswered for producer in self._leaving)

    def processes(self) -> list[SupervisedProcess]:
        """The producers that live and are processes."""
        return processes_in(self.slots)

    def _goes_on(self) -> bool:
        return any(slot.client is None and not slot.is_over for slot in self.slots) or any(
            not producer.failed_for_good for producer in living(self.slots)
        )

    @property
    def present(self) -> Sequence[LaneProducer]:
        """All producers that there were: one that has failed is still the lane's."""
        return self.producers

    def _add(self, slot: int) -> LaneProducer:
        self.producers.append(self._connect(len(self.producers), slot))
        self.rows.append(self.producers[-1].rows)
        return self.producers[-1]

    def _end(self, slot: int, ended: LaneProducer, is_killed: bool) -> None:
        if is_killed:
            self._load.on_notice(f"{ended.lane}: the producer in slot {slot} is killed")
            ended.abandon(open_transaction=False)
        else:
            self._leaving.append(ended)

    def _poll(self, seconds: float) -> None:
        """Serve all producers; one that leaves is closed once it has all its outcomes."""
        served = [*living(self.slots), *self._leaving]
        for producer in served:
            producer.poll(seconds / len(served))
        if not served:
            time.sleep(seconds)
        for producer in [leaving for leaving in self._leaving if not leaving.unanswered]:
            self._leaving.remove(producer)
            producer.finish(0.0, _NEVER_SET)
