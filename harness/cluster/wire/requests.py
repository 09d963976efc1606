"""The controller's requests made up for one partition, in any version, and the errors of its answers by partition.

What a scenario changes about a request is what it is about: an epoch, a leader. How a version arranges it is not.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.harness.cluster.wire.codec import Body
from kafka_chaos.harness.cluster.wire.messages import UNKNOWN, UNKNOWN_BROKER_EPOCH

NONE = 0
STALE_CONTROLLER_EPOCH = 11
CLUSTER_AUTHORIZATION_FAILED = 31
KAFKA_STORAGE_ERROR = 56
STALE_BROKER_EPOCH = 77

_GROUPED_BY_TOPIC = 2
_WITH_TOPIC_IDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who a request says that it comes from; `broker_epoch` is the receiver's, as the sender believes."""

    controller: int
    controller_epoch: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What a LeaderAndIsr request says of a partition."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0
    is_new: bool = False


def leader_and_isr(
    version: int,
    sender: Sender,
    states: Sequence[PartitionState],
    *,
    topic_ids: Mapping[str, uuid.UUID],
    live_leaders: Sequence[tuple[int, str, int]] = (),
) -> Body:
    """The body of a LeaderAndIsr request; `live_leaders` are (broker, host, port).

    `topic_ids` may lack topics, which then go without an id (the nil UUID).
    """
    body: Body = {
        "controller_id": sender.controller,
        "controller_epoch": sender.controller_epoch,
        "live_leaders": [{"broker_id": broker, "host_name": host, "port": port} for broker, host, port in live_leaders],
    }
    if version < _GROUPED_BY_TOPIC:
        states_by_name = [{"topic_name": state.topic, **_state(version, state)} for state in states]
        return {**body, "ungrouped_partition_states": states_by_name}
    topics = []
    for topic in dict.fromkeys(state.topic for state in states):
        entry: Body = {"topic_name": topic}
        if version >= _WITH_TOPIC_IDS:
            entry["topic_id"] = topic_ids.get(topic, uuid.UUID(int=0))
        entry["partition_states"] = [_state(version, state) for state in states if state.topic == topic]
        topics.append(entry)
    body |= {"broker_epoch": sender.broker_epoch, "topic_states": topics}
    return body | ({"type": UNKNOWN} if version >= _WITH_TOPIC_IDS else {})


def _state(version: int, state: PartitionState) -> Body:
    entry: Body = {
        "partition_index": state.partition,
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "partition_epoch": state.partition_epoch,
        "replicas": state.replicas,
    }
    return entry | ({"is_new": state.is_new} if version >= 1 else {})


def leader_and_isr_errors(
    version: int, answer: Body, *, topic_ids: Mapping[str, uuid.UUID]
) -> tuple[int, dict[tuple[str, int], int]]:
    """(the answer's error, (topic, partition) → error) of a LeaderAndIsr response.

    A topic id that is not in `topic_ids` is treated as a topic of its own.
    """
    if version < _WITH_TOPIC_IDS:
        found = {(e["topic_name"], e["partition_index"]): e["error_code"] for e in answer["partition_errors"]}
        return answer["error_code"], found
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    errors = {
        (names.get(topic["topic_id"], str(topic["topic_id"])), entry["partition_index"]): entry["error_code"]
        for topic in answer["topics"]
        for entry in topic["partition_errors"]
    }
    return answer["error_code"], errors
