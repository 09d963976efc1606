"""Requests of a controller, built in any version and sent by kafka-chaos, and the errors in their answers.

What a scenario changes about a request is what it is about: an epoch, a leader. How a version arranges it is not. Any
listener takes such requests: brokers tell controllers by epochs, and where there is an authorizer by the principal, not
by where they call.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.wire.messages import UNKNOWN_BROKER_EPOCH, LeaderAndIsrRequest

NONE = 0
STALE_CONTROLLER_EPOCH = 11
CLUSTER_AUTHORIZATION_FAILED = 31
KAFKA_STORAGE_ERROR = 56
STALE_BROKER_EPOCH = 77

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
) -> Any:
    """A LeaderAndIsr request; `live_leaders` are (broker, host, port).

    `topic_ids` may lack topics, which then go without an id (the nil UUID).
    """
    kind = LeaderAndIsrRequest
    grouped = [
        kind.LeaderAndIsrTopicState(
            topic_name=topic,
            topic_id=topic_ids.get(topic),
            partition_states=[
                _state(kind.LeaderAndIsrTopicState.LeaderAndIsrPartitionState, one)
                for one in states
                if one.topic == topic
            ],
        )
        for topic in dict.fromkeys(one.topic for one in states)
    ]
    return kind(
        version=version,
        controller_id=sender.controller,
        controller_epoch=sender.controller_epoch,
        broker_epoch=sender.broker_epoch,
        ungrouped_partition_states=[_state(kind.LeaderAndIsrPartitionState, one) for one in states],
        topic_states=grouped,
        live_leaders=[
            kind.LeaderAndIsrLiveLeader(broker_id=broker, host_name=host, port=port)
            for broker, host, port in live_leaders
        ],
    )


def _state(kind: Any, state: PartitionState) -> Any:
    return kind(
        topic_name=state.topic,
        partition_index=state.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        is_new=state.is_new,
    )


def send_as_controller(address: str, request: Any, *, client_id: str = "kafka-chaos") -> dict[str, Any]:
    """Send a request to the broker at `address` (`host:port`), once; this broker's own answer, as a dictionary.

    Raises `BrokerUnreachable` where the broker does not take the connection or breaks it off, as it does on a request
    that it can't read.
    """
    with BrokerClient(address, timeout=10, client_id=client_id) as client:
        answer: dict[str, Any] = client.request(request).to_dict(json=False)
    return answer


def leader_and_isr_errors(
    version: int, answer: Mapping[str, Any], *, topic_ids: Mapping[str, Any]
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
