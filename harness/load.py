"""The load of a phase: one paced producer and one following consumer per lane, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.experiment import LaneModel, WorkloadModel
from kafka_chaos.harness.history import HistoryWriter, Reservations
from kafka_chaos.harness.recorded_consumer import RecordedConsumer
from kafka_chaos.harness.recorded_producer import RecordedProducer
from kafka_chaos.harness.waiting import wait_until

_TICK = 0.01
_DELIVERY_TIMEOUT_MS = 60_000


def producer_configs(lane: LaneModel, bootstrap_servers: str) -> dict[str, object]:
    """librdkafka's configuration for a lane: its own keys under what the lane gives."""
    return {
        "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
        "linger.ms": 5,
        **lane.producer_configs,
        "bootstrap.servers": bootstrap_servers,
        "acks": lane.acks,
        "enable.idempotence": lane.idempotence,
        "max.in.flight.requests.per.connection": lane.max_in_flight,
        # Brokers are broken on purpose: what the client would print of it is in the history.
        "log_level": 0,
    }


class LaneLoad:
    """The clients of one lane."""

    def __init__(
        self,
        lane: LaneModel,
        *,
        bootstrap_servers: str,
        workload: WorkloadModel,
        produced: HistoryWriter,
        consumed: HistoryWriter,
        reservations: Reservations,
        on_notice: Callable[[str], None],
    ) -> None:
        self.lane = lane
        self.producer = RecordedProducer(
            lane=lane.lane,
            topic=lane.lane,
            producer_id=0,
            partitions=lane.partitions,
            record_size=workload.record_size,
            configs=producer_configs(lane, bootstrap_servers),
            writer=produced,
            reservations=reservations,
        )
        self.consumer = RecordedConsumer(
            lane=lane.lane,
            topic=lane.lane,
            partitions=lane.partitions,
            bootstrap_servers=bootstrap_servers,
            configs={},
            writer=consumed,
            on_error=on_notice,
        )
        self.unsettled = 0
        self._rate = workload.rate
        self._settle_timeout = workload.settle_timeout
        self._sending = threading.Event()
        self._sending.set()
        self._cancelled = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"producer-{lane.lane}", daemon=True)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Records sent, acknowledged and consumed so far."""
        return self.producer.sent, self.producer.acknowledged, self.consumer.consumed

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop_sending(self) -> None:
        """Send no more; what is in flight still gets its outcome."""
        self._sending.clear()

    def await_outcomes(self) -> None:
        """Wait until every record has an outcome; raises what the producer's thread raised."""
        self._thread.join()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise what the producer's thread raised, if it did."""
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """End at once; what has no outcome becomes info."""
        self._sending.clear()
        self._cancelled.set()

    def close(self) -> None:
        """End the threads, if they haven't, and hand the last rows to the writers."""
        self.cancel()
        if self._thread.ident is not None:
            self._thread.join()
        self.consumer.close()

    def _run(self) -> None:
        try:
            try:
                self._send_paced()
            finally:
                self.unsettled = self.producer.finish(self._settle_timeout, self._cancelled)
        except Exception as error:  # noqa: BLE001 - raised again in await_outcomes()
            self._error = error

    def _send_paced(self) -> None:
        start = time.monotonic()
        due_before = self.producer.sent
        while self._sending.is_set():
            due = due_before + int((time.monotonic() - start) * self._rate) - self.producer.sent
            if due > 0:
                self.producer.send(due)
            self.producer.poll(_TICK)


class PhaseLoad:
    """All lanes of a phase under load, as a context manager that leaves no thread behind."""

    def __init__(
        self,
        lanes: Sequence[LaneModel],
        *,
        bootstrap_servers: str,
        workload: WorkloadModel,
        run_directory: Path,
        on_notice: Callable[[str], None],
    ) -> None:
        self._produced = HistoryWriter(run_directory / "produced")
        self._consumed = HistoryWriter(run_directory / "consumed")
        self._reservations = Reservations(run_directory)
        self.lanes: dict[str, LaneLoad] = {}
        for lane in lanes:
            self.lanes[lane.lane] = LaneLoad(
                lane,
                bootstrap_servers=bootstrap_servers,
                workload=workload,
                produced=self._produced,
                consumed=self._consumed,
                reservations=self._reservations,
                on_notice=on_notice,
            )

    def __enter__(self) -> PhaseLoad:
        for lane in self.lanes.values():
            lane.start()
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self.lanes.values():
            lane.cancel()
        for lane in self.lanes.values():
            lane.close()
        self._produced.close()
        self._consumed.close()
        self._reservations.close()

    @property
    def counts(self) -> Mapping[str, tuple[int, int, int]]:
        """Per lane: sent, acknowledged, consumed."""
        return {name: lane.counts for name, lane in self.lanes.items()}

    def await_first_acknowledgements(self, *, timeout: float) -> None:
        """Wait until every lane has seen an acknowledgement and its consumer a record."""

        def under_way() -> bool:
            for lane in self.lanes.values():
                lane.raise_error()
            return all(acknowledged and consumed for _, acknowledged, consumed in self.counts.values())

        wait_until(
            under_way,
            "every lane to have a record acknowledged and consumed",
            timeout=timeout,
            seen=lambda: str(dict(self.counts)),
        )

    def stop(self) -> None:
        """End the load and wait until every record has an outcome."""
        for lane in self.lanes.values():
            lane.stop_sending()
        for lane in self.lanes.values():
            lane.await_outcomes()

    def drain(self, end_offsets: Mapping[str, Mapping[int, int]], *, timeout: float) -> None:
        """Let every consumer read up to its lane's end offsets."""
        never = threading.Event()
        missing = [name for name in self.lanes if name not in end_offsets]
        if missing:
            raise ClusterFailure(f"no end offsets for the lanes {', '.join(missing)}")
        for name, lane in self.lanes.items():
            lane.consumer.drain(end_offsets[name], timeout=timeout, cancelled=never)
