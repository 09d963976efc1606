"""The writers of a lane: what all have in common, and the producers at a fixed rate, which may come and go."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.workload.client_process import ClientProcess
from kafka_chaos.harness.workload.clients.lives import Place, living, processes_in
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings

_TICK = 0.01
_NEVER_SET = threading.Event()


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
    def present(self) -> Sequence[LaneProducer]:
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


class PacedProducing(Producing):
    """Sends `rate` records a second, each place of a producer its share, until all have failed for good.

    `connect` makes the producer of a number, counted from 0, in a place. The first is made at once, in place 0, and
    stays. Those of the other places live their `lives`, once times began to count: brokers know nothing of them until
    then.
    """

    def __init__(
        self, connect: Callable[[int, int], LaneProducer], load: LoadSettings, lives: Sequence[LifeSpec] = ()
    ) -> None:
        super().__init__()
        self._load, self._calls = load, load.calls
        self._connect = connect
        self.places: list[Place[LaneProducer]] = [
            Place(number, life) for number, life in enumerate((LifeSpec(at=0.0), *lives))
        ]
        self._rate = load.workload.rate / len(self.places)
        self._leaving: list[LaneProducer] = []
        self.producers: list[LaneProducer] = []
        self._add(0)

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared, or every producer has failed for good."""
        self.places[0].takes(self.producers[0], time.monotonic())
        failed: set[int] = set()
        while sending.is_set() and self._goes_on():
            now = time.monotonic()
            if (began := self._load.clock.began) is not None:
                for place in self.places:
                    place.step(now, now - began, start=self._add, end=self._end)
            for place in self.places:
                if (records := place.client) is not None and not records.failed_for_good:
                    with self._calls.awaiting(records.lane, f"{records.lane}-{place.number}", "send"):
                        records.send(max(0, int((now - place.since) * self._rate) - records.sent))
            self._poll(_TICK)
            for number, records in enumerate(self.producers):
                if records.failed_for_good and number not in failed:
                    failed.add(number)
                    why = records.failed_for_good
                    call = self._calls.begins(records.lane, f"{records.lane}-{number}", "send")
                    self._calls.ends(call, why)
                    self._load.on_notice(f"{records.lane}: its producer has failed for good and sends no more: {why}")

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every record has an outcome, at most `timeout` seconds: others become info."""
        deadline = time.monotonic() + timeout
        self._leaving += living(self.places)
        for place in self.places:
            place.client = None
        if self._leaving:
            lane = self._leaving[0].lane
            call = self._calls.begins(lane, lane, "flush")
        while any(one.unanswered for one in self._leaving) and time.monotonic() < deadline and not cancelled.is_set():
            self._poll(_TICK)
        if self._leaving and (cancelled.is_set() or not any(one.unanswered for one in self._leaving)):
            self._calls.ends(call)
        for one in self._leaving:
            one.finish(max(0.0, deadline - time.monotonic()), cancelled)
        self._leaving = []

    def processes(self) -> list[ClientProcess]:
        """The same, as processes."""
        return processes_in(self.places)

    def _goes_on(self) -> bool:
        return any(place.client is None and not place.is_over for place in self.places) or any(
            not one.failed_for_good for one in living(self.places)
        )

    @property
    def present(self) -> Sequence[LaneProducer]:
        """All that there were: who failed is no less the lane's."""
        return self.producers

    def _add(self, place: int) -> LaneProducer:
        self.producers.append(self._connect(len(self.producers), place))
        self.rows.append(self.producers[-1].rows)
        return self.producers[-1]

    def _end(self, place: int, ended: LaneProducer, is_killed: bool) -> None:
        if is_killed:
            self._load.on_notice(f"{ended.lane}: the producer in place {place} is killed")
            ended.abandon(open_transaction=False)
        else:
            self._leaving.append(ended)

    def _poll(self, seconds: float) -> None:
        """Serve all; one that leaves and has all its outcomes is closed."""
        served = [*living(self.places), *self._leaving]
        for records in served:
            records.poll(seconds / len(served))
        if not served:
            time.sleep(seconds)
        for records in [one for one in self._leaving if not one.unanswered]:
            self._leaving.remove(records)
            records.finish(0.0, _NEVER_SET)
