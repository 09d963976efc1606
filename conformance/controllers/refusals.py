"""Makes brokers refuse a controller's requests, in containers without privileges.

By an authorizer: clients without names (PLAINTEXT) are all `User:ANONYMOUS`, but access control lists also know hosts:
ClusterAction is allowed to the brokers' own addresses alone, everything else to everybody. By an offline log directory:
its folder is moved away, as a disk that is gone; the broker notices at its next checkpoint, at the latest after
`replica.high.watermark.checkpoint.interval.ms`, and goes on with the other directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_chaos.conformance.controllers.requests import CLUSTER_AUTHORIZATION_FAILED, send_as_controller
from kafka_chaos.harness.cluster.wire.messages import StopReplicaRequest
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.waiting import wait_until

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.cluster import Cluster
    from kafka_chaos.harness.cluster.node import Node

AUTHORIZER_CONFIGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # Brokers have to find each other before there are any lists.
    "allow.everyone.if.no.acl.found": True,
}
"""What brokers need for `allow_cluster_action_to_brokers_only`."""

_EVERYBODY = "*"
_ANONYMOUS = "User:ANONYMOUS"
_FOR_EVERYBODY = ("CREATE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE")


def allow_cluster_action_to_brokers_only(cluster: Cluster, *, timeout: float = 30.0) -> None:
    """Revoke ClusterAction from everybody except the brokers, which are identified by address; wait until all know.

    The cluster has to have `AUTHORIZER_CONFIGS`.
    """
    lists = [_allow(operation, _EVERYBODY) for operation in _FOR_EVERYBODY]
    # One request: after the first of these, we would be allowed nothing.
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
    """Ask for nothing, in the name of a controller of long ago: that is done in no case."""
    answer = send_as_controller(address, StopReplicaRequest(version=0, ungrouped_partitions=[]))
    return bool(answer["error_code"] == CLUSTER_AUTHORIZATION_FAILED)


def _allow(operation: str, host: str) -> AclBinding:
    return AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        _ANONYMOUS,
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
