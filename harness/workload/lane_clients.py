"""Which clients a lane has, and how each is made.

A transactional lane has as many producers as it says, and a consumer in each isolation level. Functions of a user's
application can replace either. The members of a lane's group read it, too; those of a loop write it instead of
producers. Beside the producer and the consumer of a plain lane, its `lives` bring others, which come and go.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.events import ClientFailed, ReaderEnded, ReaderStarted
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, READ_UNCOMMITTED
from kafka_chaos.harness.clients.kinds import IN_PROCESS, chosen
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.lives import CONSUMER, PRODUCER, LifeSpec, Role
from kafka_chaos.harness.workload.application.handles import ConsumerHandle, LoopHandle, ProducerHandle
from kafka_chaos.harness.workload.application.load import (
    ApplicationConsuming,
    ApplicationLooping,
    ApplicationMembers,
    ApplicationProducing,
)
from kafka_chaos.harness.workload.clients.defect_watch import Watch, repeat_watch_of, watch_of, watched
from kafka_chaos.harness.workload.clients.following import Follower, RecordedConsumer, SharedLane
from kafka_chaos.harness.workload.clients.lives import FurtherConsumers
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.producers import PacedProducing, Producing
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer, RecordedProducer
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.groups.work import GroupWork, ShareWork
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from kafka_chaos.harness.workload.settings import LINGER_MS, LoadSettings
from kafka_chaos.harness.workload.transactions.load import TransactionalProducing

Members = GroupLoad | ApplicationMembers
"""The members of a group, the harness's own or the application's."""
Consuming = tuple[Follower | ApplicationConsuming, ...]
"""The readers of a lane, from its start to its end; the first one reads everything."""


def producing(lane: LaneSpec, load: LoadSettings, function: Callable[[ProducerHandle], object] | None) -> Producing:
    """The writer of a lane that no loop writes; `function` is the application's, if it does."""
    lives = _lives(lane, PRODUCER, function)
    if function is not None:
        return ApplicationProducing(lane, function, load)
    if lane.transactional is not None:
        return TransactionalProducing(
            lane, lambda number, transactional_id: _producer(lane, load, number, 0, transactional_id), load
        )
    return PacedProducing(
        partial(_producer, lane, load),
        rate=load.workload.rate,
        on_notice=load.on_notice,
        lives=lives,
        began=lambda: load.clock.began,
        calls=load.calls,
    )


def _lives(lane: LaneSpec, role: Role, function: Callable[..., object] | None) -> list[LifeSpec]:
    """The lives of the lane's clients in a role; none where a `function` of the application has it."""
    found = [spec for spec in lane.lives if spec.role == role for _ in range(spec.count)]
    if found and function is not None:
        raise UsageFailure(f"lane {lane.lane}: an application is its {role}: expected no lives of a {role}")
    return found


def _producer(
    lane: LaneSpec, load: LoadSettings, number: int, place: int, transactional_id: str | None = None
) -> LaneProducer:
    """The lane's producer of this number. That of place 0 writes to all partitions, every other one to one of them."""
    partitions = 1 if place else lane.first_partitions
    first = (place - 1) % lane.first_partitions if place else 0
    client_id = f"{lane.lane}-{number if transactional_id else place}"
    configs = load.producer_configs(lane)
    if transactional_id is not None:
        configs["transactional.id"] = transactional_id
    client = chosen(lane.client)
    watch: Watch | None = None
    if client is not None and client.kind.name != IN_PROCESS:
        watch = repeat_watch_of(lane.as_lane(()), load.on_precondition, producer_id=number)
    else:
        # The logger that keeps a transactional producer silent gives way to one that reads.
        read = {key: value for key, value in configs.items() if key != "logger"}
        of = {"lane": lane.lane, "topic": lane.topic_name}
        watch = watch_of(read, load.on_precondition, **of, producer_id=number)
    rows = ProducedRows(
        load.tables,
        lane=lane.lane,
        producer_id=number,
        partitions=InTurn(partitions, first=first),
        transactional_id=transactional_id,
    )
    if client is None:
        return RecordedProducer(
            rows,
            topic=lane.topic_name,
            grows_to=0 if place else lane.partitions,
            record_size=load.workload.record_size,
            configs=watched({"client.id": client_id, **configs}, watch),
        )
    settings = {
        "producer_id": number,
        "partitions": partitions,
        "first_partition": first,
        "record_size": load.workload.record_size,
        "acks": lane.acks,
        "idempotence": lane.idempotence,
        "max_in_flight": lane.max_in_flight,
        "linger_ms": LINGER_MS,
        "delivery_timeout_ms": configs["message.timeout.ms"],
        "transactional_id": transactional_id,
        "transaction_timeout_ms": configs.get("transaction.timeout.ms"),
        **({} if watch is None else {"log": True}),
    }
    start = load.start(lane, PRODUCER, client_id, settings, lane.producer_configs)
    return ProcessProducer(start, rows, watch=watch)


def looping(
    lane: LaneSpec, source: LaneSpec, load: LoadSettings, function: Callable[[ProducerHandle], object] | None
) -> GroupLoad | ApplicationLooping:
    """The loop that reads `source` and writes the lane."""
    if function is None:
        return GroupLoad(GroupWork(lane=lane, read=source, load=load))
    return ApplicationLooping(lane, source, cast("Callable[[LoopHandle], object]", function), load)


def reading(
    lane: LaneSpec,
    load: LoadSettings,
    function: Callable[[ConsumerHandle], object] | None,
    start_offsets: Mapping[int, int] | None,
) -> tuple[Consuming, Members | None]:
    """The consumers that read every record of the lane, and the group that reads it beside, if one does.

    The application's function, if there is one, is the first in a plain lane, and the second in one with a group or
    transactions.
    """
    is_followed = lane.group is not None or lane.transactional is not None
    if function is None:
        followers, work = _followers(lane, load, start_offsets), GroupWork if lane.share is None else ShareWork
        has_group = lane.group is not None or lane.share is not None
        return followers, GroupLoad(work(lane=lane, read=lane, load=load)) if has_group else None
    application = ApplicationConsuming(lane, function, load, has_groups=is_followed)
    return (_followers(lane, load, start_offsets), application) if is_followed else ((application,), None)


def further_consumers(
    lane: LaneSpec,
    load: LoadSettings,
    function: Callable[[ConsumerHandle], object] | None,
    start_offsets: Mapping[int, int] | None,
) -> FurtherConsumers:
    """The consumers that come and go beside those, as the lane's `lives` say."""

    def connect(number: int, place: int) -> Follower:
        return _follower(lane, load, start_offsets, name=f"{lane.lane}-{CONSUMER}-{place}", number=number)

    return FurtherConsumers(
        connect,
        lane=lane.lane,
        lives=_lives(lane, CONSUMER, function),
        on_notice=load.on_notice,
        began=lambda: load.clock.began,
    )


def _followers(lane: LaneSpec, load: LoadSettings, start_offsets: Mapping[int, int] | None) -> tuple[Follower, ...]:
    """The consumer of the lane's topic, or of one with transactions a consumer in each isolation level."""
    if lane.transactional is None:
        return (_follower(lane, load, start_offsets, name=lane.lane),)
    with ExitStack() as begun:
        both = []
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            name = f"{lane.lane}-{isolation}"
            both.append(_follower(lane, load, start_offsets, name=name, isolation=isolation))
            begun.callback(both[-1].close)
        begun.pop_all()
    return tuple(both)


def _follower(
    lane: LaneSpec,
    load: LoadSettings,
    start_offsets: Mapping[int, int] | None,
    *,
    name: str,
    isolation: str | None = None,
    number: int = 0,
) -> Follower:
    """A consumer that reads the topic from its start. `name`: its `client.id`, where it is a process of its own.

    `number`: of one that comes and goes, counted from 1 in its lane.
    """
    common: dict[str, Any] = {"lane": lane.lane, "tables": load.tables, "isolation": isolation}
    if any(life.role == CONSUMER for life in lane.lives):
        common["shared"] = SharedLane(
            on_problem=lambda problem: load.on_client(ClientFailed(lane=lane.lane, role=CONSUMER, problem=problem)),
            from_start=lane.cleanup_policy is None and not start_offsets,
            member=f"{lane.lane}-{CONSUMER}-{number}" if number else None,
            on_name=lambda consumer: (
                load.on_client(ReaderStarted(lane=lane.lane, consumer=consumer)) if number else None
            ),
            on_end=lambda consumer: load.on_client(ReaderEnded(lane=lane.lane, consumer=consumer)) if number else None,
        )
    if lane.client != IN_PROCESS:
        settings = {"start_offsets": start_offsets or {}, "isolation": isolation}
        start = load.start(lane, CONSUMER, name, settings, lane.reader_configs)
        return ProcessConsumer(start, partitions=lane.partitions, **common)
    return RecordedConsumer(
        topic=lane.topic_name,
        partitions=lane.first_partitions,
        grows_to=lane.partitions,
        bootstrap_servers=load.bootstrap_servers,
        configs={**lane.reader_configs, **load.client_configs},
        on_error=load.on_notice,
        start_offsets=start_offsets,
        calls=load.calls,
        **common,
    )
