"""Requests of a controller, which kafka-chaos builds in any version and sends itself, the errors in their answers, and
two ways to make brokers refuse them: an authorizer, and an offline log directory.

A scenario chooses a request's content, such as an epoch or a leader; this module arranges it as the version needs. A
broker takes such requests on any listener: it recognizes a controller by its epochs, and with an authorizer by its
principal, not by the address or listener.

The authorizer: all clients of a PLAINTEXT listener are `User:ANONYMOUS`, but access control lists also name hosts, so
ClusterAction is allowed to the brokers' addresses alone, and everything else to everybody. The offline log directory:
its folder is moved away, like a disk that is gone; the broker notices at its next checkpoint, at the latest after
`replica.high.watermark.checkpoint.interval.ms`, and goes on with the other directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire.messages import UNKNOWN_BROKER_EPOCH, LeaderAndIsrRequest, StopReplicaRequest
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.signals import new_client

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.cluster import Cluster
    from kafka_chaos.harness.cluster.node import Node

NONE = 0
STALE_CONTROLLER_EPOCH = 11
CLUSTER_AUTHORIZATION_FAILED = 31
KAFKA_STORAGE_ERROR = 56
STALE_BROKER_EPOCH = 77

_FIRST_VERSION_WITH_TOPIC_IDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The controller that a request names as its sender; `broker_epoch` is the receiver's, as the sender believes."""

    controller: int
    controller_epoch: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of a partition in a LeaderAndIsr request."""

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
    """A LeaderAndIsr request about these partitions; `live_leaders` are (broker, host, port).

    `topic_ids` may lack topics, which then go without an id (the nil UUID).
    """
    kind = LeaderAndIsrRequest
    grouped = [
        kind.LeaderAndIsrTopicState(
            topic_name=topic,
            topic_id=topic_ids.get(topic),
            partition_states=[
                _state(kind.LeaderAndIsrTopicState.LeaderAndIsrPartitionState, state)
                for state in states
                if state.topic == topic
            ],
        )
        for topic in dict.fromkeys(state.topic for state in states)
    ]
    return kind(
        version=version,
        controller_id=sender.controller,
        controller_epoch=sender.controller_epoch,
        broker_epoch=sender.broker_epoch,
        ungrouped_partition_states=[_state(kind.LeaderAndIsrPartitionState, state) for state in states],
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
    """Send a request to the broker at `address` (`host:port`), without retries, and return its answer as a dictionary.

    Raises `BrokerUnreachable` if the broker does not take the connection, or breaks it off, as on a request that it
    can't read.
    """
    with BrokerClient(address, timeout=10, client_id=client_id) as client:
        answer: dict[str, Any] = client.request(request).to_dict(json=False)
    return answer


def leader_and_isr_errors(
    version: int, answer: Mapping[str, Any], *, topic_ids: Mapping[str, Any]
) -> tuple[int, dict[tuple[str, int], int]]:
    """The error code of a LeaderAndIsr response, and the error codes by (topic, partition) in it.

    A topic whose id is not in `topic_ids` (ids by name) is named by its id.
    """
    if version < _FIRST_VERSION_WITH_TOPIC_IDS:
        errors = {(e["topic_name"], e["partition_index"]): e["error_code"] for e in answer["partition_errors"]}
        return answer["error_code"], errors
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    errors = {
        (names.get(topic["topic_id"], str(topic["topic_id"])), entry["partition_index"]): entry["error_code"]
        for topic in answer["topics"]
        for entry in topic["partition_errors"]
    }
    return answer["error_code"], errors


AUTHORIZER_CONFIGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # Brokers have to find each other before there are any lists.
    "allow.everyone.if.no.acl.found": True,
}
"""The brokers' properties that `allow_cluster_action_to_brokers_only` needs."""

_ANY_HOST = "*"
_ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
_OPERATIONS_FOR_EVERYBODY = ("CREATE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE")


def allow_cluster_action_to_brokers_only(cluster: Cluster, *, timeout: float = 30.0) -> None:
    """Allow ClusterAction to the brokers' addresses alone, and wait until every broker refuses it to this client.

    The cluster has to have `AUTHORIZER_CONFIGS`.
    """
    lists = [_allow(operation, _ANY_HOST) for operation in _OPERATIONS_FOR_EVERYBODY]
    # All in one request: once the first list is in force, this client may create no further one.
    lists += [_allow("ALL", node.address) for node in cluster.brokers.values()]
    client = new_client(AdminClient, {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    try:
        for answer in client.create_acls(lists, request_timeout=timeout).values():
            answer.result()
    except KafkaException as error:
        raise ClusterFailure(f"the access control lists were refused: {error.args[0].str()}") from error
    for broker in cluster.brokers:
        address = cluster.client_address(broker)
        what = f"broker {broker} to know the access control lists"
        wait_until(lambda address=address: _refuses_us(address), what, timeout=timeout)  # type: ignore[misc]


def _refuses_us(address: str) -> bool:
    """Whether a broker denies this client ClusterAction. Harmless: the request names no replica."""
    answer = send_as_controller(address, StopReplicaRequest(version=0, ungrouped_partitions=[]))
    return bool(answer["error_code"] == CLUSTER_AUTHORIZATION_FAILED)


def _allow(operation: str, host: str) -> AclBinding:
    return AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        _ANONYMOUS_PRINCIPAL,
        host,
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def take_log_directory_away(node: Node, folder: str, *, timeout: float = 30.0) -> None:
    """Move a log directory away and wait until the broker has given it up."""
    node.must_execute("mv", folder, f"{folder}.gone")
    reported = f"Stopping serving logs in dir {folder}"
    wait_until(
        lambda: reported in node.log(),
        f"{node.name} to give up {folder}",
        timeout=timeout,
        seen=lambda: node.log(tail=3),
    )
