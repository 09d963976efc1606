"""Requests in the name of a ZooKeeper-mode controller, errors in their answers, and ACLs that make brokers refuse them.

A broker takes such a request on any listener, if the controller epoch that it names is not stale and, with an
authorizer, the sender's principal may do ClusterAction. All clients of a PLAINTEXT listener are `User:ANONYMOUS`, so
the ACLs tell hosts apart: only the brokers' addresses may do ClusterAction, any host the cluster's other operations.
"""

import uuid
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

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
from kafka_chaos.harness.cluster.broker.client import BrokerClient, error_name
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.signals import new_client

_ANY_HOST = "*"
_ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
_OPERATIONS_FROM_ANY_HOST = ("CREATE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE")


def leader_and_isr(
    version: int = LeaderAndIsrRequest.max_version,
    *,
    controller: int,
    controller_epoch: int,
    topic_id: uuid.UUID | None = None,
    **state: Any,
) -> LeaderAndIsrRequest:
    """A LeaderAndIsr request of this version about one partition. `controller`: the sender's id.

    `state`: the fields of the partition's state. Without a `topic_id`, the topic has the nil UUID in the request.
    """
    message, topic_state = LeaderAndIsrRequest, LeaderAndIsrRequest.LeaderAndIsrTopicState
    values = {"controller_epoch": controller_epoch, "partition_epoch": 0, "is_new": False, **state}
    # Versions 0 and 1 send only the ungrouped states, later versions only the states by topic.
    return message(
        version=version,
        controller_id=controller,
        controller_epoch=controller_epoch,
        broker_epoch=UNKNOWN_BROKER_EPOCH,  # a value that brokers do not check
        ungrouped_partition_states=[message.LeaderAndIsrPartitionState(**values)],
        topic_states=[
            topic_state(
                topic_name=state["topic_name"],
                topic_id=topic_id,
                partition_states=[topic_state.LeaderAndIsrPartitionState(**values)],
            )
        ],
        live_leaders=[],
    )


def send_as_controller(address: str, request: Any, *, client_id: str = "kafka-chaos") -> dict[str, Any]:
    """Send a request to the broker at `address` (`host:port`), without retries, and return its answer as a dictionary.

    Raises `BrokerUnreachable` if the broker does not take the connection, or closes it, for example on a request that
    it can't read.
    """
    with BrokerClient(address, timeout=10, client_id=client_id) as client:
        answer: dict[str, Any] = client.request(request).to_dict(json=False)
    return answer


def errors_of(answer: Mapping[str, Any], topics: Collection[Any] = ()) -> list[str]:
    """The name of the error of the whole answer; if that is NONE, the names of its partitions' errors follow.

    `topics`: the only topics whose partitions count, by name and id (an answer has one of the two); empty: all topics.
    """
    entries = [(entry["topic_name"], entry) for entry in answer.get("partition_errors", ())]
    for topic in answer.get("topics", ()):
        entries += [(topic["topic_id"], entry) for entry in topic["partition_errors"]]
    own_error = error_name(int(answer["error_code"]))
    errors = [error_name(int(entry["error_code"])) for topic, entry in entries if not topics or topic in topics]
    return [own_error, *errors] if own_error == "NONE" else [own_error]


def allow_cluster_action_to_brokers_only(cluster: Cluster) -> None:
    """Allow ClusterAction to the brokers' addresses alone, and wait until every broker refuses it to this client."""
    acls = [_acl_allowing(operation, _ANY_HOST) for operation in _OPERATIONS_FROM_ANY_HOST]
    # In one request: after the first ACL of the cluster resource, a second request would need an ACL to create others.
    acls += [_acl_allowing("ALL", node.address) for node in cluster.brokers.values()]
    client = new_client(AdminClient, {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    try:
        for answer in client.create_acls(acls, request_timeout=30.0).values():
            answer.result()
    except KafkaException as error:
        raise ClusterFailure(f"the ACLs were refused: {error.args[0].str()}") from error
    for broker in cluster.brokers:
        refuses = partial(_refuses_this_client, cluster.addresses[broker])
        wait_until(refuses, f"broker {broker} to know the ACLs", timeout=30.0)


def _refuses_this_client(address: str) -> bool:
    """Whether a broker denies this client ClusterAction. The request is harmless: it names no replica to stop."""
    answer = send_as_controller(address, StopReplicaRequest(version=0, ungrouped_partitions=[]))
    return errors_of(answer) == ["CLUSTER_AUTHORIZATION_FAILED"]


def _acl_allowing(operation: str, host: str) -> AclBinding:
    return AclBinding(
        ResourceType.BROKER,  # librdkafka's name for Kafka's type CLUSTER
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        _ANONYMOUS_PRINCIPAL,
        host,
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )
