"""Who leads which partition, as brokers tell clients; leaders and replicas that move on request (KIP-455, KIP-460)."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire.kafka_python import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka_chaos.faults.cluster import Leadership, Partition
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable

Connect = Callable[[int], BrokerClient]
"""A connection to a broker, by its id."""
Ask = Callable[[], BrokerClient]
"""A connection to whoever takes requests of administrators now; raises `BrokerUnreachable`."""

_PATIENCE = 10.0
_AGAIN = 0.2
_MOVES_TIMEOUT = 120.0
_CANCEL_TIMEOUT = 30.0
_REASSIGN = 0
_ELECT_LEADERS = 1
_PREFERRED = 0
_TIMEOUT_MS = 10_000


def newest_leadership(brokers: Iterable[int], connect: Connect) -> dict[Partition, Leadership]:
    """Of each partition what these brokers tell, of the highest leader epoch; empty where nobody answers."""
    newest: dict[Partition, Leadership] = {}
    for broker in brokers:
        with contextlib.suppress(BrokerUnreachable), connect(broker) as client:
            for partition, state in client.leadership().items():
                known = newest.get(partition)
                if known is None or known.leader_epoch < state.leader_epoch:
                    newest[partition] = state
    return newest


def transfer(
    heirs: Mapping[Partition, int], leadership: Callable[[], Mapping[Partition, Leadership]], ask: Ask
) -> None:
    """Let each partition be led by its heir, one of its replicas: the first of a new order, then the one elected.

    Asked again for a few seconds: a controller may move meanwhile. What has not moved by then stays as it is, as where
    the heir has failed.
    """

    def all_moved() -> bool:
        now = leadership()
        left = {place: heir for place, heir in heirs.items() if place not in now or now[place].leader != heir}
        if left:
            with contextlib.suppress(BrokerUnreachable), ask() as client:
                client.set_timeout(_PATIENCE)
                _elect(client, {place: heir for place, heir in left.items() if place in now}, now)
        return not left

    with contextlib.suppress(WaitTimeout):
        wait_until(all_moved, "leaders to move", timeout=_PATIENCE, interval=_AGAIN)


def _elect(client: BrokerClient, heirs: Mapping[Partition, int], now: Mapping[Partition, Leadership]) -> None:
    orders = {
        place: (heir, *(one for one in now[place].replicas if one != heir))
        for place, heir in heirs.items()
        if now[place].replicas[0] != heir
    }
    if orders:
        reassign(client, orders)
    if heirs:
        elect_preferred(client, heirs)


def reassign(client: BrokerClient, orders: Mapping[Partition, Sequence[int] | None]) -> dict[Partition, int]:
    """Ask a controller to move each partition to these replicas (KIP-455), all at once, or with None to end what moves
    it now: the errors of those that it refuses."""
    topics = AlterPartitionReassignmentsRequest.ReassignableTopic
    wanted = [
        topics(
            name=topic,
            partitions=[
                topics.ReassignablePartition(partition_index=number, replicas=_listed(orders[topic, number]))
                for number in numbers
            ],
        )
        for topic, numbers in _by_topic(orders).items()
    ]
    answer = client.request(
        AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=wanted, version=_REASSIGN)
    )
    if answer.error_code != NONE:
        return dict.fromkeys(orders, int(answer.error_code))
    return {
        (topic.name, one.partition_index): int(one.error_code)
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code != NONE
    }


def reassignments(client: BrokerClient) -> frozenset[Partition] | None:
    """The partitions whose replicas are being moved, as a controller tells (KIP-455); None from anybody else."""
    answer = client.request(ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None, version=_REASSIGN))
    if answer.error_code != NONE:
        return None
    return frozenset((topic.name, found.partition_index) for topic in answer.topics for found in topic.partitions)


def moving(ask: Ask) -> frozenset[Partition] | None:
    """The partitions whose replicas are being moved; None where nobody tells for a few seconds."""
    found: frozenset[Partition] | None = None

    def told(client: BrokerClient) -> bool:
        nonlocal found
        found = reassignments(client)
        return found is not None

    _insist(told, ask, "the list of reassignments")
    return found


def move(replicas: Mapping[Partition, tuple[int, ...] | None], ask: Ask) -> None:
    """Ask for these replicas of each partition, preferred leader first; None ends what moves it now.

    What is refused for a few seconds stays as it is.
    """
    left = dict(replicas)

    def all_taken(client: BrokerClient) -> bool:
        client.set_timeout(_PATIENCE)
        refused = reassign(client, left)
        for partition in left.keys() - refused.keys():
            del left[partition]
        return not left

    _insist(all_taken, ask, "replicas to be reassigned")


def _insist(done: Callable[[BrokerClient], bool], ask: Ask, what: str) -> None:
    """Ask until it is done, for a few seconds: a controller may move meanwhile."""

    def asked() -> bool:
        with contextlib.suppress(BrokerUnreachable), ask() as client:
            return done(client)
        return False

    with contextlib.suppress(WaitTimeout):
        wait_until(asked, what, timeout=_PATIENCE, interval=_AGAIN)


def end_moves(partitions: Collection[Partition], ask: Ask) -> None:
    """Wait until none of these partitions moves; a move that takes too long is cancelled.

    Raises `WaitTimeout` where a partition moves even then.
    """
    ongoing = set(partitions)

    def ended() -> bool:
        told = moving(ask)
        if told is not None:
            ongoing.intersection_update(told)
        return told is not None and not ongoing

    def seen() -> str:
        return ", ".join(f"{topic}-{number}" for topic, number in sorted(ongoing))

    what = "replicas to be where they were reassigned to"
    with contextlib.suppress(WaitTimeout):
        wait_until(ended, what, timeout=_MOVES_TIMEOUT, interval=_AGAIN, seen=seen)
        return
    move(dict.fromkeys(ongoing), ask)
    wait_until(ended, "cancelled reassignments to end", timeout=_CANCEL_TIMEOUT, interval=_AGAIN, seen=seen)


def elect_preferred(client: BrokerClient, partitions: Iterable[Partition]) -> int:
    """Ask a controller for preferred leader elections (KIP-460), all at once: the first error, or 0."""
    wanted = [
        ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(partitions).items()
    ]
    answer = client.request(
        ElectLeadersRequest(
            election_type=_PREFERRED, topic_partitions=wanted, timeout_ms=_TIMEOUT_MS, version=_ELECT_LEADERS
        )
    )
    partitions = (one for topic in answer.replica_election_results for one in topic.partition_result)
    return int(next((one.error_code for one in (answer, *partitions) if one.error_code != NONE), NONE))


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics
