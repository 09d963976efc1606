"""The load of a phase: per lane, one producer at a fixed rate and one consumer, each in its own thread.

A transactional lane has as many producers as it says, and a consumer in each isolation level. Functions of a user's
application can replace either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.errors import ClusterFailure, WaitTimeout
from kafka_chaos.harness.experiment.specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.workload.application import Application
from kafka_chaos.harness.workload.application_load import ApplicationConsuming, ApplicationProducing
from kafka_chaos.harness.workload.defect_watch import OnPrecondition
from kafka_chaos.harness.workload.history import HistoryWriter, Reservations, RowBuffer
from kafka_chaos.harness.workload.recorded_consumer import ASSIGNMENTS_SCHEMA, ConsumerPerIsolation, RecordedConsumer
from kafka_chaos.harness.workload.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.transactional_load import TransactionalProducing, TransactionTables

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


class LaneLoad:
    """The clients of one lane."""

    def __init__(
        self,
        lane: LaneSpec,
        *,
        bootstrap_servers: str,
        workload: WorkloadSpec,
        produced: HistoryWriter,
        consumed: HistoryWriter,
        reservations: Reservations,
        on_notice: Callable[[str], None],
        on_precondition: OnPrecondition | None = None,
        application: Application | None = None,
        client_configs: Mapping[str, str] | None = None,
        start_offsets: Mapping[int, int] | None = None,
        transactions: TransactionTables | None = None,
        seed: int = 0,
    ) -> None:
        if transactions is not None and application is not None and application.consumer is not None:
            raise UsageFailure(
                f"consumer: the lane {lane.lane} has transactions; the harness's own consumers, one per isolation "
                "level, read it: leave it out"
            )
        self.lane = lane
        configs = {**producer_configs(lane, bootstrap_servers), **(client_configs or {})}
        self._working: ApplicationProducing | TransactionalProducing | None = None
        self.producer: RecordedProducer | ApplicationProducing | TransactionalProducing
        self.consumer: RecordedConsumer | ApplicationConsuming | ConsumerPerIsolation
        if application is not None and application.producer is not None:
            self.producer = self._working = ApplicationProducing(
                lane,
                application.producer,
                configs=configs,
                client_configs=client_configs or {},
                writer=produced,
                reservations=reservations,
                on_precondition=on_precondition,
                transactions=None if transactions is None else transactions.transactions,
            )
        elif transactions is not None:
            self.producer = self._working = TransactionalProducing(
                lane,
                configs=configs,
                workload=workload,
                produced=produced,
                transactions=transactions.transactions,
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
                writer=produced,
                reservations=reservations,
                on_precondition=on_precondition,
            )
            self.producer = self._paced
        if application is not None and application.consumer is not None:
            self.consumer = ApplicationConsuming(
                lane,
                application.consumer,
                bootstrap_servers=bootstrap_servers,
                client_configs=client_configs or {},
                writer=consumed,
                on_notice=on_notice,
            )
        else:
            follow = partial(
                RecordedConsumer,
                lane=lane.lane,
                topic=lane.topic_name,
                partitions=lane.partitions,
                bootstrap_servers=bootstrap_servers,
                configs=client_configs or {},
                writer=consumed,
                on_error=on_notice,
                start_offsets=start_offsets,
            )
            if transactions is None:
                self.consumer = follow()
            else:
                assignments = RowBuffer(ASSIGNMENTS_SCHEMA, transactions.assignments)
                self.consumer = ConsumerPerIsolation(
                    lambda isolation: follow(isolation=isolation, assignments=assignments)
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

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def stop_sending(self) -> None:
        """Stop sending; records in flight still get their outcomes."""
        self._sending.clear()

    def await_outcomes(self) -> None:
        """Wait until every record has an outcome; raises what the producer's thread raised."""
        self._thread.join()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise an error of the producer's thread or of the application's consumer, if there was one."""
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


class PhaseLoad:
    """All lanes of a phase under load, as a context manager that leaves no thread behind.

    `applications` maps lanes to the functions that replace their clients. The harness's own clients get
    `client_configs`, for example for SASL and TLS. `start_offsets`, for topics that already hold records: per lane and
    partition, the first offset of this run. `seed` decides what is random in the load.
    """

    def __init__(
        self,
        lanes: Sequence[LaneSpec],
        *,
        bootstrap_servers: str,
        workload: WorkloadSpec,
        run_directory: Path,
        on_notice: Callable[[str], None],
        on_precondition: OnPrecondition | None = None,
        applications: Mapping[str, Application] | None = None,
        client_configs: Mapping[str, str] | None = None,
        start_offsets: Mapping[str, Mapping[int, int]] | None = None,
        seed: int = 0,
    ) -> None:
        self._produced = HistoryWriter(run_directory / "produced")
        self._consumed = HistoryWriter(run_directory / "consumed")
        self._reservations = Reservations(run_directory)
        has_transactions = any(lane.transactional is not None for lane in lanes)
        self._transactions = TransactionTables(run_directory) if has_transactions else None
        self._on_notice = on_notice
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
                on_precondition=on_precondition,
                application=(applications or {}).get(lane.lane),
                client_configs=client_configs,
                start_offsets=(start_offsets or {}).get(lane.lane),
                transactions=None if lane.transactional is None else self._transactions,
                seed=seed,
            )

    def __enter__(self) -> PhaseLoad:
        for lane in self.lanes.values():
            lane.start()
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self.lanes.values():
            lane.cancel()
        # An error of an application's function must not keep the rest from being closed.
        with ExitStack() as stack:
            stack.callback(self._reservations.close)
            stack.callback(self._consumed.close)
            stack.callback(self._produced.close)
            if self._transactions is not None:
                stack.callback(self._transactions.close)
            for lane in self.lanes.values():
                stack.callback(lane.close)

    @property
    def counts(self) -> Mapping[str, tuple[int, int, int]]:
        """Per lane: sent, acknowledged, consumed."""
        return {name: lane.counts for name, lane in self.lanes.items()}

    def await_first_acknowledgements(self, *, timeout: float) -> None:
        """Wait until every lane has an acknowledged record, and a consumed one.

        Raises `WaitTimeout` without acknowledgements. A consumer that reads nothing is only reported, and delays the
        phase by a few seconds at most. Its lane will be `unknown`.
        """
        lacking = partial(self._lanes_without, 1)
        message = "every lane to have a record acknowledged"
        wait_until(lambda: not lacking(), message, timeout=timeout, seen=lambda: f"none yet in {', '.join(lacking())}")
        unread = partial(self._lanes_without, 2)
        try:
            wait_until(lambda: not unread(), "every lane to have a record consumed", timeout=_FIRST_READ_TIMEOUT)
        except WaitTimeout:
            for name in unread():
                self._on_notice(
                    f"the consumer of lane {name} read nothing within {_FIRST_READ_TIMEOUT:g} s "
                    "of the first acknowledgements"
                )

    def _lanes_without(self, count: int) -> list[str]:
        """The lanes whose count, given by its index in `counts`, is zero; raises what a lane's thread raised."""
        for lane in self.lanes.values():
            lane.raise_error()
        return [name for name, counts in self.counts.items() if not counts[count]]

    def stop(self) -> None:
        """End the load and wait until every record has an outcome."""
        for lane in self.lanes.values():
            lane.stop_sending()
        for lane in self.lanes.values():
            lane.await_outcomes()

    def drain(self, end_offsets: Mapping[str, Mapping[int, int]], *, timeout: float) -> None:
        """Let every consumer read up to its lane's end offsets, at most `timeout` seconds for all of them."""
        never = threading.Event()
        missing = [name for name in self.lanes if name not in end_offsets]
        if missing:
            raise ClusterFailure(f"no end offsets for the lanes {', '.join(missing)}")
        deadline = time.monotonic() + timeout
        for name, lane in self.lanes.items():
            left = max(0.0, deadline - time.monotonic())
            lane.consumer.drain(end_offsets[name], timeout=left, cancelled=never)
