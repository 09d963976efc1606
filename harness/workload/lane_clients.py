"""Which clients a lane has, and how each is made.

A transactional lane has as many producers as it says, and a consumer in each isolation level. Functions of a user's
application can replace either. The members of a lane's group read it, too; those of a loop write it instead of
producers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.events import ClientFailed, ClientStarted
from kafka_chaos.contract.run_directory import LOGS_FOLDER
from kafka_chaos.harness.clients.kinds import IN_PROCESS, chosen
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.application.handles import ConsumerHandle, LoopHandle, ProducerHandle
from kafka_chaos.harness.workload.application.load import ApplicationConsuming, ApplicationLooping, ApplicationProducing
from kafka_chaos.harness.workload.clients.defect_watch import OnPrecondition
from kafka_chaos.harness.workload.clients.paced_producing import PacedProducer, PacedProducing
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.clients.recorded_consumer import ConsumerPerIsolation, RecordedConsumer
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.groups.lanes import LoopProducing, group_reading
from kafka_chaos.harness.workload.groups.load import GroupLoad, OnChange
from kafka_chaos.harness.workload.groups.rows import GroupTables
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import ASSIGNMENTS_SCHEMA, HistoryWriter, RowBuffer
from kafka_chaos.harness.workload.processes.consumer import ProcessConsumer
from kafka_chaos.harness.workload.processes.producer import ProcessProducer, Start
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess, Taker
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.load import TransactionalProducing, transactional_configs

_DELIVERY_TIMEOUT_MS = 60_000
_LINGER_MS = 5

Members = GroupLoad | ApplicationConsuming | ApplicationLooping
"""The members of a group, the harness's own or the application's."""
Consuming = RecordedConsumer | ProcessConsumer | ApplicationConsuming | ConsumerPerIsolation
"""What reads a lane from its start to its end."""


OnClient = Callable[[ClientStarted | ClientFailed], None]


class Producing(Protocol):
    """What writes a lane. The counts may be read from any thread."""

    @property
    def sent(self) -> int:
        """Records that clients accepted so far."""
        ...

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        ...

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        ...

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared; raises what went wrong."""
        ...

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead."""
        ...


@dataclass
class LoadClock:
    """When the times of a phase began to count, in seconds of the monotonic clock: once every lane had its first
    acknowledgement, as for the faults of a schedule. None until then."""

    began: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """What all lanes of a load share. `groups`: the tables of groups, in a phase that has any."""

    bootstrap_servers: str
    workload: WorkloadSpec
    tables: LoadTables
    reservations: Reservations
    on_notice: Callable[[str], None]
    on_change: OnChange
    groups: GroupTables | None = None
    on_precondition: OnPrecondition | None = None
    on_client: OnClient = lambda event: None
    client_configs: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    clock: LoadClock = field(default_factory=LoadClock)

    def producer_configs(self, lane: LaneSpec) -> dict[str, object]:
        """librdkafka's configuration of the lane's producers, the keys for a secured listener included."""
        return {**producer_configs(lane, self.bootstrap_servers), **self.client_configs}

    def start(
        self, lane: LaneSpec, role: str, name: str, settings: Mapping[str, object], configs: Mapping[str, object]
    ) -> Start:
        """Starts a process of the lane's client. `configs`: of its library, beside those for a secured listener."""
        client = chosen(lane.client)
        assert client is not None
        if self.client_configs and client.secured is None:
            raise UsageFailure(f"lane {lane.lane}: {client} can't connect to a secured listener here")
        secured = {} if client.secured is None else client.secured(self.client_configs)
        begin = {
            "role": role,
            "lane": lane.lane,
            "topic": lane.topic_name,
            "partitions": lane.partitions,
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": name,
            "configs": {**configs, **secured},
            **settings,
        }
        log = self.tables.run_directory / LOGS_FOLDER / f"client-{name}-{role}.log"
        log.parent.mkdir(exist_ok=True)

        def started(taker: Taker) -> SupervisedProcess:
            return SupervisedProcess(
                client.command,
                begin,
                taker,
                name=f"{name}, {client}",
                on_notice=self.on_notice,
                on_ready=lambda found, version: self.on_client(
                    ClientStarted(lane=lane.lane, role=role, client=found, version=version)
                ),
                on_problem=lambda process, problem: self.on_client(
                    ClientFailed(lane=lane.lane, role=role, problem=problem, last_lines=process.last_lines)
                ),
                version=client.version,
                log=log,
            )

        return started

    def transactions(self, lane: LaneSpec) -> HistoryWriter | None:
        """The writer of `transactions/` in a transactional lane."""
        return None if lane.transactional is None else self.tables.transactions


def producer_configs(lane: LaneSpec, bootstrap_servers: str) -> dict[str, object]:
    """librdkafka's configuration for a lane: its own keys under what the lane gives."""
    return {
        "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
        "linger.ms": _LINGER_MS,
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


def producing(lane: LaneSpec, load: LoadSettings, function: Callable[[ProducerHandle], object] | None) -> Producing:
    """What writes a lane that no loop writes; `function` is the application's, if it does."""
    transactions = load.transactions(lane)
    if function is not None:
        if lane.fresh_producers is not None:
            raise UsageFailure(f"lane {lane.lane}: an application writes it: expected no fresh_producers")
        return ApplicationProducing(
            lane,
            function,
            configs=load.producer_configs(lane),
            client_configs=load.client_configs,
            writer=load.tables.produced,
            reservations=load.reservations,
            on_precondition=load.on_precondition,
            transactions=transactions,
        )
    if transactions is not None:
        return TransactionalProducing(
            lane,
            configs=load.producer_configs(lane),
            workload=load.workload,
            produced=load.tables.produced,
            transactions=transactions,
            reservations=load.reservations,
            on_notice=load.on_notice,
            seed=load.seed,
        )

    def connect(number: int) -> PacedProducer:
        partitions = 1 if number else lane.first_partitions
        first = (number - 1) % lane.first_partitions if number else 0
        if lane.client != IN_PROCESS:
            return ProcessProducer(
                load.start(
                    lane,
                    "producer",
                    f"{lane.lane}-{number}",
                    {
                        "producer_id": number,
                        "partitions": partitions,
                        "first_partition": first,
                        "record_size": load.workload.record_size,
                        "acks": lane.acks,
                        "idempotence": lane.idempotence,
                        "max_in_flight": lane.max_in_flight,
                        "linger_ms": _LINGER_MS,
                        "delivery_timeout_ms": _DELIVERY_TIMEOUT_MS,
                    },
                    lane.producer_configs,
                ),
                lane=lane.lane,
                producer_id=number,
                partitions=InTurn(partitions, first=first),
                writer=load.tables.produced,
                reservations=load.reservations,
            )
        return RecordedProducer(
            lane=lane.lane,
            topic=lane.topic_name,
            producer_id=number,
            partitions=partitions,
            first_partition=first,
            grows_to=0 if number else lane.partitions,
            record_size=load.workload.record_size,
            configs={"client.id": f"{lane.lane}-{number}", **load.producer_configs(lane)},
            writer=load.tables.produced,
            reservations=load.reservations,
            on_precondition=load.on_precondition,
        )

    fresh = lane.fresh_producers
    return PacedProducing(
        connect,
        rate=load.workload.rate,
        on_notice=load.on_notice,
        starts=() if fresh is None else (fresh.at,) * fresh.count,
        began=lambda: load.clock.began,
    )


def looping(
    lane: LaneSpec, source: LaneSpec, load: LoadSettings, function: Callable[[ProducerHandle], object] | None
) -> tuple[Producing, Members]:
    """The loop that reads `source` and writes the lane, as what writes and as a group."""
    assert load.groups is not None
    if function is None:
        loop = _loop(lane, source, load, load.groups)
        return loop, loop.members
    application = ApplicationLooping(
        lane,
        source,
        cast("Callable[[LoopHandle], object]", function),
        configs=load.producer_configs(lane),
        client_configs=load.client_configs,
        writer=load.tables.produced,
        consumed=load.tables.consumed,
        groups=load.groups,
        reservations=load.reservations,
        on_notice=load.on_notice,
        on_precondition=load.on_precondition,
        transactions=load.transactions(lane),
    )
    return application, application


def _loop(lane: LaneSpec, source: LaneSpec, load: LoadSettings, tables: GroupTables) -> LoopProducing:
    configs = load.producer_configs(lane)
    if lane.transactional is not None:
        configs = transactional_configs(lane.transactional, configs)
    return LoopProducing(
        lane,
        source,
        configs=configs,
        client_configs=load.client_configs,
        workload=load.workload,
        tables=tables,
        on_notice=load.on_notice,
        on_change=load.on_change,
        run_directory=str(load.tables.run_directory.resolve()),
        seed=load.seed,
    )


def reading(
    lane: LaneSpec,
    load: LoadSettings,
    function: Callable[[ConsumerHandle], object] | None,
    start_offsets: Mapping[int, int] | None,
) -> tuple[Consuming, Members | None]:
    """The consumer that reads every record of the lane, and the group that reads it beside, if one does.

    The application's function, if there is one, is the first in a plain lane, and the second in one with a group or
    transactions.
    """
    is_followed = lane.group is not None or lane.transactional is not None
    if function is None:
        return _follower(lane, load, start_offsets), None if lane.group is None else _group(lane, load)
    application = ApplicationConsuming(
        lane,
        function,
        bootstrap_servers=load.bootstrap_servers,
        client_configs=load.client_configs,
        writer=load.tables.consumed,
        on_notice=load.on_notice,
        groups=load.groups if is_followed else None,
    )
    return (_follower(lane, load, start_offsets), application) if is_followed else (application, None)


def _follower(
    lane: LaneSpec, load: LoadSettings, start_offsets: Mapping[int, int] | None
) -> RecordedConsumer | ProcessConsumer | ConsumerPerIsolation:
    if lane.client != IN_PROCESS:
        return ProcessConsumer(
            load.start(lane, "consumer", lane.lane, {"start_offsets": start_offsets or {}}, {}),
            lane=lane.lane,
            partitions=lane.partitions,
            writer=load.tables.consumed,
        )
    follow = partial(
        RecordedConsumer,
        lane=lane.lane,
        topic=lane.topic_name,
        partitions=lane.first_partitions,
        grows_to=lane.partitions,
        bootstrap_servers=load.bootstrap_servers,
        configs=load.client_configs,
        writer=load.tables.consumed,
        on_error=load.on_notice,
        start_offsets=start_offsets,
    )
    if lane.transactional is None:
        return follow()
    assert load.tables.assignments is not None
    assignments = RowBuffer(ASSIGNMENTS_SCHEMA, load.tables.assignments)
    return ConsumerPerIsolation(lambda isolation: follow(isolation=isolation, assignments=assignments))


def _group(lane: LaneSpec, load: LoadSettings) -> GroupLoad:
    assert load.groups is not None
    return group_reading(
        lane,
        bootstrap_servers=load.bootstrap_servers,
        client_configs=load.client_configs,
        workload=load.workload,
        tables=load.groups,
        on_notice=load.on_notice,
        on_change=load.on_change,
    )
