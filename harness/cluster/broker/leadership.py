"""Finds the newest leader of each partition, and moves leaders (KIP-460) and replicas (KIP-455).

Requests to move are repeated for a few seconds, since the controller itself may move meanwhile.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire import kafka_python as wire
from kafka_chaos.faults.cluster import Leadership, PartitionId
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable

Connect = Callable[[], BrokerClient]
"""Makes a connection to a node that takes administrators' requests at present; raises `BrokerUnreachable`."""
T = TypeVar("T")

_PATIENCE_SECONDS = 10.0  # for which requests are repeated
_INTERVAL = 0.2  # seconds
_REASSIGN_VERSION = 0
_ELECT_LEADERS_VERSION = 1
_PREFERRED = 0
"""The election type of a preferred leader election; 1 would be an unclean election."""
_TIMEOUT_MS = 10_000  # that a controller may take for a request


def newest_leadership(answers: Iterable[Mapping[PartitionId, Leadership]]) -> dict[PartitionId, Leadership]:
    """Each partition's leadership in the highest leader epoch among the brokers' answers."""
    newest: dict[PartitionId, Leadership] = {}
    for partition, state in (entry for leadership in answers for entry in leadership.items()):
        if partition not in newest or newest[partition].leader_epoch < state.leader_epoch:
            newest[partition] = state
    return newest


def transfer(
    heirs: Mapping[PartitionId, int], leadership: Callable[[], Mapping[PartitionId, Leadership]], connect: Connect
) -> None:
    """Make each partition's heir, one of its replicas, the preferred leader, and have it elected.

    `leadership` returns the present state. If a leader does not move in a few seconds (an heir may fail), it stays.
    """

    def move_remaining_leaders() -> bool:
        """Ask for the heirs that do not lead yet; returns whether all of them led already."""
        current = leadership()
        leaders = {partition: state.leader for partition, state in current.items()}
        unmoved = {partition: heir for partition, heir in heirs.items() if leaders.get(partition) != heir}
        electable = {partition: heir for partition, heir in unmoved.items() if partition in current}
        # The first replica is the preferred leader: an heir that is not yet the first is moved to the front.
        heirs_first = {
            partition: (heir, *(broker for broker in current[partition].replicas if broker != heir))
            for partition, heir in electable.items()
            if current[partition].replicas[0] != heir
        }
        if electable:
            with contextlib.suppress(BrokerUnreachable), connect() as client:
                client.set_timeout(_PATIENCE_SECONDS)
                if heirs_first:
                    reassign(client, heirs_first)
                elect_preferred(client, electable)
        return not unmoved

    with contextlib.suppress(WaitTimeout):
        wait_until(move_remaining_leaders, "leaders to move", timeout=_PATIENCE_SECONDS, interval=_INTERVAL)


def reassign(client: BrokerClient, wanted: Mapping[PartitionId, Sequence[int] | None]) -> dict[PartitionId, int]:
    """Ask a controller to move each partition to its `wanted` replicas (KIP-455); None cancels its present move.

    Returns the error codes of the partitions that the controller refuses to move.
    """
    kind = wire.AlterPartitionReassignmentsRequest.ReassignableTopic
    topics = []
    for topic, numbers in _by_topic(wanted).items():
        replicas = {number: wanted[topic, number] for number in numbers}
        partitions = [
            kind.ReassignablePartition(partition_index=number, replicas=None if brokers is None else list(brokers))
            for number, brokers in replicas.items()
        ]
        topics.append(kind(name=topic, partitions=partitions))
    answer = client.request(
        wire.AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=topics, version=_REASSIGN_VERSION)
    )
    if answer.error_code != NONE:
        return dict.fromkeys(wanted, int(answer.error_code))
    return {
        (topic.name, partition.partition_index): int(partition.error_code)
        for topic in answer.responses
        for partition in topic.partitions
        if partition.error_code != NONE
    }


def moving_partitions(connect: Connect) -> frozenset[PartitionId] | None:
    """The partitions whose replicas are being moved (KIP-455); None if no controller lists them in a few seconds."""

    def reassignments(client: BrokerClient) -> frozenset[PartitionId] | None:
        request = wire.ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None, version=_REASSIGN_VERSION)
        answer = client.request(request)
        if answer.error_code != NONE:
            return None
        return frozenset(
            (topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions
        )

    return _until_answered(reassignments, connect, "the list of reassignments")


def move(replicas: Mapping[PartitionId, tuple[int, ...] | None], connect: Connect) -> None:
    """Ask a controller to move partitions to these replicas, preferred leader first; None cancels a present move.

    Partitions that the controller still refuses to move after a few seconds stay as they are.
    """
    remaining = dict(replicas)

    def move_remaining_replicas(client: BrokerClient) -> bool | None:
        client.set_timeout(_PATIENCE_SECONDS)
        refused = reassign(client, remaining)
        for partition in remaining.keys() - refused.keys():
            del remaining[partition]
        return None if remaining else True

    _until_answered(move_remaining_replicas, connect, "replicas to be reassigned")


def _until_answered(request: Callable[[BrokerClient], T | None], connect: Connect, awaited: str) -> T | None:
    """Repeat a request until its result is not None, and return the result; None if it is still None after a while."""

    # `wait_until` waits for a true value. A tuple is true even if the answer in it is an empty set.
    def result() -> tuple[T] | None:
        with contextlib.suppress(BrokerUnreachable), connect() as client:
            answer = request(client)
            return None if answer is None else (answer,)
        return None

    with contextlib.suppress(WaitTimeout):
        return wait_until(result, awaited, timeout=_PATIENCE_SECONDS, interval=_INTERVAL)[0]
    return None


def end_moves(partitions: Collection[PartitionId], connect: Connect) -> None:
    """Wait until none of these partitions is being moved; a move that takes too long is cancelled.

    Raises `WaitTimeout` if a cancelled move does not end either.
    """
    ongoing = set(partitions)

    def ended() -> bool:
        still_moving = moving_partitions(connect)
        if still_moving is not None:
            ongoing.intersection_update(still_moving)
        return still_moving is not None and not ongoing

    def seen() -> str:
        return ", ".join(f"{topic}-{number}" for topic, number in sorted(ongoing))

    awaited = "reassigned replicas to reach their brokers"
    with contextlib.suppress(WaitTimeout):
        wait_until(ended, awaited, timeout=120.0, interval=_INTERVAL, seen=seen)
        return
    move(dict.fromkeys(ongoing), connect)
    wait_until(ended, "cancelled reassignments to end", timeout=30.0, interval=_INTERVAL, seen=seen)


def elect_preferred(client: BrokerClient, partitions: Iterable[PartitionId]) -> int:
    """Ask a controller for preferred leader elections (KIP-460) in one request; returns the first error code, or 0."""
    topics = [
        wire.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(partitions).items()
    ]
    request = wire.ElectLeadersRequest(
        election_type=_PREFERRED, topic_partitions=topics, timeout_ms=_TIMEOUT_MS, version=_ELECT_LEADERS_VERSION
    )
    answer = client.request(request)
    results = (result for topic in answer.replica_election_results for result in topic.partition_result)
    return int(next((result.error_code for result in (answer, *results) if result.error_code != NONE), NONE))


def _by_topic(partitions: Iterable[PartitionId]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics
