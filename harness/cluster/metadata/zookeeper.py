"""Clusters whose metadata is in ZooKeeper: one broker is the controller, and every broker has a session there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.building import NodeBuilder
from kafka_chaos.harness.cluster.configuration import server_properties as properties
from kafka_chaos.harness.cluster.containers.versions import KafkaVersion, known_version
from kafka_chaos.harness.cluster.metadata.protocol import Members, Metadata
from kafka_chaos.harness.cluster.node import Node

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

STARTED = "started (KafkaServer)"
"""The log line of a broker with ZooKeeper that serves."""
_LOST_SESSION = (
    "KeeperErrorCode = NodeExists",
    "A broker is already registered on the path",
    "KeeperErrorCode = Session expired",
)
"""Log lines of a broker that gives up its start: its id is still registered (first line: since 1.1, second: before), or
its new session has expired."""
_SERVER_STARTED = ("PrepRequestProcessor", "binding to port")
"""The log lines of a single ZooKeeper server that serves: the first since ZooKeeper 3.5, the second before."""


class ZooKeeperMode:
    """Describes and starts the nodes of a cluster with ZooKeeper. Implements `MetadataMode`."""

    def __init__(self, builder: NodeBuilder) -> None:
        self._builder = builder
        self._spec = builder.layout

    def make(self) -> Members:
        """Describe ZooKeeper servers, and brokers that connect to them."""
        servers = {number: self._zookeeper(number) for number in range(1, self._spec.metadata_servers + 1)}
        return Members({broker: self._broker(broker) for broker in range(1, self._spec.brokers + 1)}, servers)

    def container(self, node: Node, kafka_version: str) -> DockerContainer:
        """A broker's container in this version, which speaks the protocol that the cluster was started with."""
        assert node.role == "broker", f"{node.name} has no version of its own"
        configs = {"inter.broker.protocol.version": self._spec.oldest.inter_broker_protocol}
        return self._container(node, known_version(kafka_version), configs)

    def starting_groups(self, members: Members) -> Sequence[Sequence[Node]]:
        """The brokers. A controller that the layout names starts first, alone: the first to register is elected."""
        controller = self._spec.controller
        rest = [node for broker, node in members.brokers.items() if broker != controller]
        return [rest] if controller is None else [[members.brokers[controller]], rest]

    def metadata(self, members: Members) -> Metadata:
        """A session with ZooKeeper."""
        from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper

        return ZooKeeper(members.zookeeper_addresses)

    def await_ready(self, members: Members, node: Node, *, timeout: float) -> None:
        """Wait until the node serves. If a broker's session expires first, as on a busy machine, start it again."""
        try:
            node.await_ready(timeout)
        except ClusterFailure:
            if not any(node.ended_with(text) for text in _LOST_SESSION):
                raise
            # A broker that finds the registration of its last session exits again.
            self._await_no_registration(members, node, timeout)
            node.start()
            node.await_ready(timeout)

    def start_again(self, members: Members, nodes: Sequence[Node], *, timeout: float) -> None:
        """Start each broker when its former session has expired: earlier, it would find its id taken, and exit."""
        for node in nodes:
            if not node.is_running():
                self._await_no_registration(members, node, timeout)
                node.start()
        for node in nodes:
            self.await_ready(members, node, timeout=timeout)

    def _await_no_registration(self, members: Members, node: Node, timeout: float) -> None:
        def id_is_free() -> bool:
            # The server that is asked may fail meanwhile: then another server is asked.
            with suppress(ClusterFailure), closing(self.metadata(members)) as metadata:
                brokers = metadata.brokers()
                return brokers is not None and node.number not in brokers
            return False

        if node.role == "broker":
            wait_until(id_is_free, f"ZooKeeper to let go of {node.name}'s former session", timeout=timeout)

    def _zookeeper(self, number: int) -> Node:
        # Kafka comes with ZooKeeper 3.5 since 2.4.
        started_alone = _SERVER_STARTED[0 if self._spec.version.at_least("2.4") else 1]
        started = "LEADER ELECTION TOOK" if self._spec.metadata_servers > 1 else started_alone
        name, host_port = properties.node_name("zookeeper", number), next(self._builder.ports)
        node = self._builder.node("zookeeper", number, name, started, host_port=host_port)
        text = properties.zookeeper_properties(self._spec)
        node.testcontainer = self._builder.container(node, "zookeeper", text, version=self._spec.version)
        if self._spec.metadata_servers > 1:
            node.testcontainer.with_copy_into_container(f"{number}\n".encode(), f"{properties.ZOOKEEPER_DATA}/myid")
        return node

    def _broker(self, broker: int) -> Node:
        name, host_port = properties.node_name("broker", broker), next(self._builder.ports)
        node = self._builder.node("broker", broker, name, STARTED, host_port=host_port)
        node.testcontainer = self._container(node, self._spec.version_of(broker), self._spec.protocol_configs)
        return node

    def _container(self, node: Node, version: KafkaVersion, configs: Mapping[str, object]) -> DockerContainer:
        text = properties.broker_properties(self._spec, node, version, configs)
        return self._builder.container(node, "broker", text, version=version)
