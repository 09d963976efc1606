"""A user's application under load, instead of the harness's own producer and consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import cast

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.groups import Group, group_of, loop_group_of
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.consumer import ConsumerRecorder
from kafka_chaos.harness.workload.application.handles import (
    ApplicationThread,
    ConsumerHandle,
    LoopHandle,
    ProducerHandle,
)
from kafka_chaos.harness.workload.application.producer import ProducerRecorder
from kafka_chaos.harness.workload.clients.defect_watch import OnPrecondition
from kafka_chaos.harness.workload.clients.recorded_consumer import not_at_the_end
from kafka_chaos.harness.workload.groups.configs import committed_by
from kafka_chaos.harness.workload.groups.rows import GroupTables
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import TRANSACTIONS_SCHEMA, HistoryWriter, RowBuffer
from kafka_chaos.harness.workload.transactions.load import transactional_configs

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
        inputs: ConsumerRecorder | None = None,
    ) -> None:
        """`transactions`: the writer of `transactions/` in a lane that has them; `inputs`: see `ProducerRecorder`."""
        if lane.transactional is not None:
            configs = transactional_configs(lane.transactional, configs)
        self._recorder = ProducerRecorder(
            lane=lane.lane,
            topic=lane.topic_name,
            answered=lane.acks != "0",
            retries=_retries(configs),
            writer=writer,
            reservations=reservations,
            on_precondition=on_precondition,
            transactions=None if transactions is None else RowBuffer(TRANSACTIONS_SCHEMA, transactions),
            inputs=inputs,
        )
        self._what = f"the producer function of lane {lane.lane}"
        handle = self._handle(lane, configs, client_configs)
        self._thread = ApplicationThread(lambda: function(handle), what=self._what, over=handle.over)

    def _handle(
        self, lane: LaneSpec, configs: Mapping[str, object], client_configs: Mapping[str, str]
    ) -> ProducerHandle:
        return ProducerHandle(lane, str(configs["bootstrap.servers"]), self._recorder, configs, client_configs)

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


class ApplicationLooping(ApplicationProducing):
    """A lane whose loop is a function of the application. It goes on until its source is at its end."""

    def __init__(
        self,
        lane: LaneSpec,
        source: LaneSpec,
        function: Callable[[LoopHandle], object],
        *,
        configs: Mapping[str, object],
        client_configs: Mapping[str, str],
        writer: HistoryWriter,
        consumed: HistoryWriter,
        groups: GroupTables,
        reservations: Reservations,
        on_notice: Callable[[str], None],
        on_precondition: OnPrecondition | None = None,
        transactions: HistoryWriter | None = None,
    ) -> None:
        loop = lane.loop
        assert loop is not None
        _left_alone(lane.lane, "loop", loop.group)
        self.lane = source.lane
        self._source = source
        self._on_notice = on_notice
        self._group_id = loop_group_of(lane.lane)
        self._connection = (str(configs["bootstrap.servers"]), client_configs)
        self._inputs = ConsumerRecorder(
            lane=source.lane, topic=source.topic_name, partitions=source.partitions, writer=consumed, groups=groups
        )
        super().__init__(
            lane,
            cast("Callable[[ProducerHandle], object]", function),
            configs=configs,
            client_configs=client_configs,
            writer=writer,
            reservations=reservations,
            on_precondition=on_precondition,
            transactions=transactions,
            inputs=self._inputs,
        )

    def _handle(
        self, lane: LaneSpec, configs: Mapping[str, object], client_configs: Mapping[str, str]
    ) -> ProducerHandle:
        servers = str(configs["bootstrap.servers"])
        return LoopHandle(lane, self._source, servers, self._recorder, self._inputs, configs, client_configs)

    def run(self, sending: threading.Event) -> None:
        """Call the function, and wait until `sending` is cleared."""
        self._thread.start()
        while sending.is_set() and not self._thread.has_ended(within=_INTERVAL):
            pass

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Nothing to wait for yet: the function still has to process what its source holds."""
        return 0

    def starts(self) -> None:
        """The load has begun; nothing is planned for an application."""

    def raise_error(self) -> None:
        """Raise what the function raised."""
        self._thread.raise_error()

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until the function has read its source to these ends, at most `timeout` seconds; then it is over."""
        _read_to(self._inputs, ends, self._thread, self._what, timeout, cancelled, self._on_notice)
        self._thread.end()
        self._recorder.finish(timeout, cancelled)

    def leave(self) -> None:
        """The function has returned: its clients have left, or never will."""
        self._inputs.finish()

    def committed(self) -> dict[str, dict[int, int]]:
        """What the groups of its clients have committed, by group and partition; raises `ClusterFailure`."""
        return _committed(self._inputs, self._source, self._group_id, *self._connection)

    def close(self) -> None:
        """End the function."""
        self._thread.end()
        self._recorder.finish(0.0, threading.Event())
        self._inputs.finish()


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
        groups: GroupTables | None = None,
    ) -> None:
        """`groups`: the tables of assignments and commits, if the lane has them."""
        if lane.group is not None:
            _left_alone(lane.lane, "group", lane.group)
        self.lane = lane.lane
        self._spec = lane
        self._on_notice = on_notice
        self._what = f"the consumer function of lane {lane.lane}"
        self._connection = (bootstrap_servers, client_configs or {})
        self._recorder = ConsumerRecorder(
            lane=lane.lane, topic=lane.topic_name, partitions=lane.partitions, writer=writer, groups=groups
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
        _read_to(self._recorder, end_offsets, self._thread, self._what, timeout, cancelled, self._on_notice)
        self._thread.end()

    def starts(self) -> None:
        """The load has begun; nothing is planned for an application."""

    def leave(self) -> None:
        """The function has returned: its clients have left, or never will."""
        self._recorder.finish()

    def committed(self) -> dict[str, dict[int, int]]:
        """What the groups of its clients have committed, by group and partition; raises `ClusterFailure`."""
        if self._spec.group is None:
            return {}
        return _committed(self._recorder, self._spec, group_of(self.lane), *self._connection)

    def close(self) -> None:
        """End the function."""
        self._thread.end()
        self._recorder.finish()


def _left_alone(lane: str, key: str, group: Group) -> None:
    for name in ("crashes", "freezes", "joins", "leaves"):
        if getattr(group, name):
            raise UsageFailure(
                f"{key}: the lane {lane} has {name}={getattr(group, name)}, which the harness does to its own members "
                "only: leave it out where the application brings its own"
            )


def _read_to(
    recorder: ConsumerRecorder,
    ends: Mapping[int, int],
    thread: ApplicationThread,
    what: str,
    timeout: float,
    cancelled: threading.Event,
    on_notice: Callable[[str], None],
) -> None:
    deadline = time.monotonic() + timeout
    while behind := recorder.behind(ends):
        if time.monotonic() > deadline or cancelled.is_set() or not thread.is_alive():
            on_notice(not_at_the_end(what, behind))
            break
        cancelled.wait(_INTERVAL)


def _committed(
    recorder: ConsumerRecorder,
    lane: LaneSpec,
    usual: str,
    bootstrap_servers: str,
    client_configs: Mapping[str, str],
) -> dict[str, dict[int, int]]:
    return {
        group: committed_by(
            group, lane.topic_name, lane.partitions, bootstrap_servers=bootstrap_servers, configs=client_configs
        )
        for group in recorder.group_ids or {usual}
    }


def _retries(configs: Mapping[str, object]) -> bool:
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            return int(str(configs[key])) > 0
    return str(configs.get("acks", "all")) != "0"
