"""The clients of one lane under load: one producer at a fixed rate and one consumer, each in its own thread.

A transactional lane has as many producers as it says, and a consumer in each isolation level. Functions of a user's
application can replace either. The members of a lane's group read it, too; those of a loop write it instead of
producers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from kafka_chaos.harness.experiment.specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.application import Application, LoopHandle
from kafka_chaos.harness.workload.application_load import ApplicationConsuming, ApplicationLooping, ApplicationProducing
from kafka_chaos.harness.workload.defect_watch import OnPrecondition
from kafka_chaos.harness.workload.groups.lanes import LoopProducing, reading
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.groups.rows import GroupTables
from kafka_chaos.harness.workload.history import ASSIGNMENTS_SCHEMA, RowBuffer
from kafka_chaos.harness.workload.recorded_consumer import ConsumerPerIsolation, RecordedConsumer
from kafka_chaos.harness.workload.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.reservations import Reservations
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactional_load import TransactionalProducing, transactional_configs

_TICK = 0.01
_DELIVERY_TIMEOUT_MS = 60_000
_FIRST_READ_TIMEOUT = 15.0


def producer_configs(lane: LaneSpec, bootstrap_servers: str) -> dict[str, object]:
    """librdkafka's configuration for a lane: its own keys under what the lane gives."""
    return {
        "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
        "linger.ms": 5,
        # A producer that asks for a topic's metadata would create the topic if brokers allow it.
        "allow.auto.create.topics": False,
        **lane.producer_configs,
        "bootstrap.servers": bootstrap_servers,
        "acks": lane.acks,
        "enable.idempotence": lane.idempotence,
        "max.in.flight.requests.per.connection": lane.max_in_flight,
        # Brokers are broken on purpose: the errors that the client would print are in the history.
        "log_level": 0,
    }


Members = GroupLoad | ApplicationConsuming | ApplicationLooping
"""The members of a group, the harness's own or the application's."""


class LaneLoad:
    """The clients of one lane."""

    def __init__(
        self,
        lane: LaneSpec,
        *,
        bootstrap_servers: str,
        workload: WorkloadSpec,
        tables: LoadTables,
        groups: GroupTables | None,
        reservations: Reservations,
        on_notice: Callable[[str], None],
        on_precondition: OnPrecondition | None = None,
        application: Application | None = None,
        client_configs: Mapping[str, str] | None = None,
        start_offsets: Mapping[int, int] | None = None,
        source: LaneSpec | None = None,
        seed: int = 0,
    ) -> None:
        """`groups`: the tables of groups, in a phase that has any. `source`: the lane that a loop reads."""
        transactions = None if lane.transactional is None else tables.transactions
        producer = None if application is None else application.producer
        consumer = None if application is None else application.consumer
        self.lane = lane
        configs = {**producer_configs(lane, bootstrap_servers), **(client_configs or {})}
        self.group: GroupLoad | ApplicationConsuming | None = None
        self.loop: GroupLoad | ApplicationLooping | None = None
        self._working: ApplicationProducing | TransactionalProducing | LoopProducing | None = None
        self.producer: RecordedProducer | ApplicationProducing | TransactionalProducing | LoopProducing
        self.consumer: RecordedConsumer | ApplicationConsuming | ConsumerPerIsolation
        if lane.loop is not None and producer is not None:
            assert source is not None
            assert groups is not None
            self.producer = self._working = self.loop = ApplicationLooping(
                lane,
                source,
                cast("Callable[[LoopHandle], object]", producer),
                configs=configs,
                client_configs=client_configs or {},
                writer=tables.produced,
                consumed=tables.consumed,
                groups=groups,
                reservations=reservations,
                on_notice=on_notice,
                on_precondition=on_precondition,
                transactions=transactions,
            )
        elif producer is not None:
            self.producer = self._working = ApplicationProducing(
                lane,
                producer,
                configs=configs,
                client_configs=client_configs or {},
                writer=tables.produced,
                reservations=reservations,
                on_precondition=on_precondition,
                transactions=transactions,
            )
        elif lane.loop is not None:
            assert source is not None
            assert groups is not None
            if lane.transactions is not None:
                configs = transactional_configs(lane.transactions, configs)
            looping = LoopProducing(
                lane,
                source,
                configs=configs,
                client_configs=client_configs or {},
                workload=workload,
                tables=groups,
                on_notice=on_notice,
                run_directory=str(tables.run_directory.resolve()),
                seed=seed,
            )
            self.producer = self._working = looping
            self.loop = looping.members
        elif transactions is not None:
            self.producer = self._working = TransactionalProducing(
                lane,
                configs=configs,
                workload=workload,
                produced=tables.produced,
                transactions=transactions,
                reservations=reservations,
                on_notice=on_notice,
                seed=seed,
            )
        else:
            self._paced = RecordedProducer(
                lane=lane.lane,
                topic=lane.topic_name,
                producer_id=0,
                partitions=lane.partitions,
                record_size=workload.record_size,
                configs=configs,
                writer=tables.produced,
                reservations=reservations,
                on_precondition=on_precondition,
            )
            self.producer = self._paced
        is_followed = consumer is None or lane.group is not None or transactions is not None
        if consumer is not None:
            application_consuming = ApplicationConsuming(
                lane,
                consumer,
                bootstrap_servers=bootstrap_servers,
                client_configs=client_configs or {},
                writer=tables.consumed,
                on_notice=on_notice,
                groups=groups if is_followed else None,
            )
            if is_followed:
                self.group = application_consuming
            else:
                self.consumer = application_consuming
        if is_followed:
            follow = partial(
                RecordedConsumer,
                lane=lane.lane,
                topic=lane.topic_name,
                partitions=lane.partitions,
                bootstrap_servers=bootstrap_servers,
                configs=client_configs or {},
                writer=tables.consumed,
                on_error=on_notice,
                start_offsets=start_offsets,
            )
            if transactions is None:
                self.consumer = follow()
            else:
                assert tables.assignments is not None
                assignments = RowBuffer(ASSIGNMENTS_SCHEMA, tables.assignments)
                self.consumer = ConsumerPerIsolation(
                    lambda isolation: follow(isolation=isolation, assignments=assignments)
                )
        if lane.group is not None and self.group is None:
            assert groups is not None
            self.group = reading(
                lane,
                bootstrap_servers=bootstrap_servers,
                client_configs=client_configs or {},
                workload=workload,
                tables=groups,
                on_notice=on_notice,
            )
        self.unsettled = 0
        self._on_notice = on_notice
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

    @property
    def groups(self) -> tuple[Members, ...]:
        """The group that reads it, and the one of its loop."""
        return tuple(members for members in (self.group, self.loop) if members is not None)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()
        if self.group is not None:
            self.group.starts()

    def stop_sending(self) -> None:
        """Stop sending; records in flight still get their outcomes."""
        self._sending.clear()

    def await_outcomes(self) -> None:
        """Wait until every record has an outcome; raises what the producer's thread raised."""
        self._thread.join()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise an error of the producer's thread, of the application's consumer or of a group, if there was one."""
        for members in self.groups:
            members.raise_error()
        if isinstance(self.consumer, ApplicationConsuming):
            self.consumer.raise_error()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """End at once; records without an outcome become info."""
        self._sending.clear()
        self._cancelled.set()

    def close(self) -> None:
        """End the threads, and pass the last rows to the writers."""
        self.cancel()
        if self._thread.ident is not None:
            self._thread.join()
        for members in self.groups:
            members.close()
        self.consumer.close()

    def _run(self) -> None:
        try:
            try:
                if self._working is not None:
                    self._working.run(self._sending)
                else:
                    self._send_paced()
            finally:
                self.unsettled = self.producer.finish(self._settle_timeout, self._cancelled)
        except Exception as error:  # noqa: BLE001 - raised again in await_outcomes()
            self._error = error

    def _send_paced(self) -> None:
        start = time.monotonic()
        due_before = self._paced.sent
        while self._sending.is_set() and not self._paced.failed_for_good:
            due = due_before + int((time.monotonic() - start) * self._rate) - self._paced.sent
            if due > 0:
                self._paced.send(due)
            self._paced.poll(_TICK)
        if why := self._paced.failed_for_good:
            self._on_notice(f"{self.lane.lane}: its producer has failed for good and sends no more: {why}")
