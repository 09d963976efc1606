"""Requests about leaders and replicas: who leads a partition, and to move both (KIP-455, KIP-460).

Requests to move are repeated for a few seconds, since the controller may move meanwhile.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire.kafka_python import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka_chaos.faults.cluster import Leadership, Partition
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable

Ask = Callable[[], BrokerClient]
"""Makes a connection to a node that takes requests of administrators now; raises `BrokerUnreachable`."""
T = TypeVar("T")

_PATIENCE = 10.0
_AGAIN = 0.2
_MOVES_TIMEOUT = 120.0
_CANCEL_TIMEOUT = 30.0
_REASSIGN = 0
_ELECT_LEADERS = 1
_PREFERRED = 0
_TIMEOUT_MS = 10_000


def newest_leadership(told: Iterable[Mapping[Partition, Leadership]]) -> dict[Partition, Leadership]:
    """The leadership of each partition in the highest leader epoch of what brokers have told."""
    newest: dict[Partition, Leadership] = {}
    for partition, state in (entry for leadership in told for entry in leadership.items()):
        if partition not in newest or newest[partition].leader_epoch < state.leader_epoch:
            newest[partition] = state
    return newest


def transfer(
    heirs: Mapping[Partition, int], leadership: Callable[[], Mapping[Partition, Leadership]], ask: Ask
) -> None:
    """Make each partition's heir, one of its replicas, the preferred leader, and have it elected.

    Partitions that have not moved after a few seconds, perhaps since the heir has failed, stay as they are.
    """

    def all_moved() -> bool:
        now = leadership()
        left = {place: heir for place, heir in heirs.items() if place not in now or now[place].leader != heir}
        electable = {place: heir for place, heir in left.items() if place in now}
        orders = {
            place: (heir, *(broker for broker in now[place].replicas if broker != heir))
            for place, heir in electable.items()
            if now[place].replicas[0] != heir
        }
        if electable:
            with contextlib.suppress(BrokerUnreachable), ask() as client:
                client.set_timeout(_PATIENCE)
                if orders:
                    reassign(client, orders)
                elect_preferred(client, electable)
        return not left

    with contextlib.suppress(WaitTimeout):
        wait_until(all_moved, "leaders to move", timeout=_PATIENCE, interval=_AGAIN)


def reassign(client: BrokerClient, orders: Mapping[Partition, Sequence[int] | None]) -> dict[Partition, int]:
    """Ask a controller to move each partition to these replicas (KIP-455), or with None to cancel its present move.

    Returns the error codes of the partitions that it refuses.
    """
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics = []
    for topic, numbers in _by_topic(orders).items():
        replicas = {number: orders[topic, number] for number in numbers}
        partitions = [
            kind.ReassignablePartition(partition_index=number, replicas=None if brokers is None else list(brokers))
            for number, brokers in replicas.items()
        ]
        topics.append(kind(name=topic, partitions=partitions))
    answer = client.request(
        AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=topics, version=_REASSIGN)
    )
    if answer.error_code != NONE:
        return dict.fromkeys(orders, int(answer.error_code))
    return {
        (topic.name, partition.partition_index): int(partition.error_code)
        for topic in answer.responses
        for partition in topic.partitions
        if partition.error_code != NONE
    }


def moving(ask: Ask) -> frozenset[Partition] | None:
    """The partitions whose replicas are being moved (KIP-455); None if no controller tells."""

    def reassignments(client: BrokerClient) -> frozenset[Partition] | None:
        request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None, version=_REASSIGN)
        answer = client.request(request)
        if answer.error_code != NONE:
            return None
        return frozenset(
            (topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions
        )

    return _insist(reassignments, ask, "the list of reassignments")


def move(replicas: Mapping[Partition, tuple[int, ...] | None], ask: Ask) -> None:
    """Ask for these replicas of each partition, preferred leader first; None cancels its present move.

    Partitions for which this is refused for a few seconds stay as they are.
    """
    left = dict(replicas)

    def all_taken(client: BrokerClient) -> bool | None:
        client.set_timeout(_PATIENCE)
        refused = reassign(client, left)
        for partition in left.keys() - refused.keys():
            del left[partition]
        return None if left else True

    _insist(all_taken, ask, "replicas to be reassigned")


def _insist(request: Callable[[BrokerClient], T | None], ask: Ask, what: str) -> T | None:
    """Repeat a request for a few seconds until its result is not None, and return the result."""

    def result() -> tuple[T] | None:
        with contextlib.suppress(BrokerUnreachable), ask() as client:
            answer = request(client)
            return None if answer is None else (answer,)
        return None

    with contextlib.suppress(WaitTimeout):
        return wait_until(result, what, timeout=_PATIENCE, interval=_AGAIN)[0]
    return None


def end_moves(partitions: Collection[Partition], ask: Ask) -> None:
    """Wait until none of these partitions is being moved; a move that takes too long is cancelled.

    Raises `WaitTimeout` if a partition is being moved even then.
    """
    ongoing = set(partitions)

    def ended() -> bool:
        moved_now = moving(ask)
        if moved_now is not None:
            ongoing.intersection_update(moved_now)
        return moved_now is not None and not ongoing

    def seen() -> str:
        return ", ".join(f"{topic}-{number}" for topic, number in sorted(ongoing))

    what = "replicas to be where they were reassigned to"
    with contextlib.suppress(WaitTimeout):
        wait_until(ended, what, timeout=_MOVES_TIMEOUT, interval=_AGAIN, seen=seen)
        return
    move(dict.fromkeys(ongoing), ask)
    wait_until(ended, "cancelled reassignments to end", timeout=_CANCEL_TIMEOUT, interval=_AGAIN, seen=seen)


def elect_preferred(client: BrokerClient, partitions: Iterable[Partition]) -> int:
    """Ask a controller for preferred leader elections (KIP-460) in one request; returns the first error code, or 0."""
    topics = [
        ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(partitions).items()
    ]
    answer = client.request(
        ElectLeadersRequest(
            election_type=_PREFERRED, topic_partitions=topics, timeout_ms=_TIMEOUT_MS, version=_ELECT_LEADERS
        )
    )
    results = (result for topic in answer.replica_election_results for result in topic.partition_result)
    return int(next((result.error_code for result in (answer, *results) if result.error_code != NONE), NONE))


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics
