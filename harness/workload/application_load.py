"""A user's application under load, instead of the harness's own producer and consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from kafka_chaos.harness.experiment.specs import LaneSpec
from kafka_chaos.harness.workload.application import ApplicationThread, ConsumerHandle, ProducerHandle
from kafka_chaos.harness.workload.application_consumer import ConsumerRecorder
from kafka_chaos.harness.workload.application_producer import ProducerRecorder
from kafka_chaos.harness.workload.defect_watch import OnPrecondition
from kafka_chaos.harness.workload.history import TRANSACTIONS_SCHEMA, HistoryWriter, RowBuffer
from kafka_chaos.harness.workload.recorded_consumer import not_at_the_end
from kafka_chaos.harness.workload.reservations import Reservations
from kafka_chaos.harness.workload.transactional_load import transactional_configs

_INTERVAL = 0.05


class ApplicationProducing:
    """A lane whose producer is a function of the application."""

    def __init__(
        self,
        lane: LaneSpec,
        function: Callable[[ProducerHandle], object],
        *,
        configs: Mapping[str, object],
        client_configs: Mapping[str, str],
        writer: HistoryWriter,
        reservations: Reservations,
        on_precondition: OnPrecondition | None = None,
        transactions: HistoryWriter | None = None,
    ) -> None:
        """`transactions`: the writer of `transactions/` in a lane that has them."""
        if lane.transactions is not None:
            configs = transactional_configs(lane.transactions, configs)
        self._recorder = ProducerRecorder(
            lane=lane.lane,
            topic=lane.topic_name,
            answered=lane.acks != "0",
            retries=_retries(configs),
            writer=writer,
            reservations=reservations,
            on_precondition=on_precondition,
            transactions=None if transactions is None else RowBuffer(TRANSACTIONS_SCHEMA, transactions),
        )
        handle = ProducerHandle(lane, str(configs["bootstrap.servers"]), self._recorder, configs, client_configs)
        self._thread = ApplicationThread(
            lambda: function(handle), what=f"the producer function of lane {lane.lane}", over=handle.over
        )

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""
        return self._recorder.sent

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._recorder.acknowledged

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        return self._recorder.longest_gap_ns

    def run(self, sending: threading.Event) -> None:
        """Call the function and let it work until `sending` is cleared, or it returns by itself."""
        self._thread.start()
        while sending.is_set() and not self._thread.has_ended(within=_INTERVAL):
            pass
        self._thread.end()

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead."""
        return self._recorder.finish(timeout, cancelled)


class ApplicationConsuming:
    """A lane whose consumer is a function of the application."""

    def __init__(
        self,
        lane: LaneSpec,
        function: Callable[[ConsumerHandle], object],
        *,
        bootstrap_servers: str,
        writer: HistoryWriter,
        on_notice: Callable[[str], None],
        client_configs: Mapping[str, str] | None = None,
    ) -> None:
        self._on_notice = on_notice
        self._what = f"the consumer function of lane {lane.lane}"
        self._recorder = ConsumerRecorder(
            lane=lane.lane, topic=lane.topic_name, partitions=lane.partitions, writer=writer
        )
        handle = ConsumerHandle(lane, bootstrap_servers, self._recorder, client_configs)
        self._thread = ApplicationThread(lambda: function(handle), what=self._what, over=handle.over)
        self._thread.start()

    @property
    def consumed(self) -> int:
        """Records that the function's consumers received so far."""
        return self._recorder.consumed

    def raise_error(self) -> None:
        """Raise what the function raised."""
        self._thread.raise_error()

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until the function's consumers have read to the end offsets, at most `timeout` seconds.

        If they don't, the run continues: the verdict says what can't be judged.
        """
        deadline = time.monotonic() + timeout
        while behind := self._recorder.behind(end_offsets):
            if time.monotonic() > deadline or cancelled.is_set() or not self._thread.is_alive():
                self._on_notice(not_at_the_end(self._what, behind))
                break
            cancelled.wait(_INTERVAL)
        self._thread.end()

    def close(self) -> None:
        """End the function."""
        self._thread.end()


def _retries(configs: Mapping[str, object]) -> bool:
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            return int(str(configs[key])) > 0
    return str(configs.get("acks", "all")) != "0"
