"""Clusters in KRaft mode: a quorum of controllers, one of them active, keeps the metadata in its own log.

Brokers register with the active controller and send it heartbeats; it fences brokers that stop sending them. A broker
that starts while its former registration is valid repeats its request until accepted, so the harness need not wait.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import BrokerClient, QuorumAnswer, ask_each
from kafka_chaos.harness.cluster.building import NodeBuilder
from kafka_chaos.harness.cluster.configuration import server_properties as properties
from kafka_chaos.harness.cluster.containers.image import scratch
from kafka_chaos.harness.cluster.containers.labels import run_labels
from kafka_chaos.harness.cluster.containers.versions import KafkaVersion, known_version
from kafka_chaos.harness.cluster.metadata.protocol import Members, PartitionRecord
from kafka_chaos.harness.cluster.node import Node

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

STARTED = "Kafka Server started"
"""The log line of a node that serves."""
_PREFORMATTED = "/opt/kafka/formatted"
"""The image's folder of formatted storage from which nodes start, a subfolder for each set of features."""
_ANSWER_TIMEOUT = 1.0  # seconds
NOBODY = -1
"""The leader of a quorum or a partition that has none."""

T = TypeVar("T")


class KRaftMode:
    """Describes and starts the nodes of a cluster in KRaft mode. Implements `MetadataMode`."""

    def __init__(self, builder: NodeBuilder, *, cluster_id: str | None = None) -> None:
        self._builder = builder
        self._cluster_id = cluster_id or _cluster_id(builder.run_id)
        self.spec = builder.layout
        self.client_configs: Mapping[str, str] = {}
        """The clients' configuration besides the address, once it is known."""
        self.voters = properties.voters(self.spec)

    def make(self) -> Members:
        """The brokers, and if the layout asks for some, the dedicated controllers."""
        controllers = {number: self.controller(number) for number in range(1, self.spec.controllers + 1)}
        brokers = {
            broker: self._node("broker", broker, properties.node_name("broker", broker), next(self._builder.ports))
            for broker in range(1, self.spec.brokers + 1)
        }
        return Members(brokers, controllers=controllers)

    def controller(self, number: int, configs: Mapping[str, object] | None = None) -> Node:
        """A dedicated controller; `configs` override the cluster's configs."""
        name = properties.node_name("controller", number)
        return self._node("controller", properties.CONTROLLER_ID_BASE + number, name, None, configs)

    def _node(
        self, role: str, node_id: int, name: str, host_port: int | None, configs: Mapping[str, object] | None = None
    ) -> Node:
        node = self._builder.node(role, node_id, name, STARTED, host_port=host_port)
        node.testcontainer = self._container(node, self.spec.version_of(node_id), configs or {})
        return node

    def container(self, node: Node, kafka_version: str) -> DockerContainer:
        """The node's container in this version."""
        return self._container(node, known_version(kafka_version), {})

    def starting_groups(self, members: Members) -> Sequence[Sequence[Node]]:
        """All nodes at once: a node that finds no quorum asks again within a moment."""
        return [members.nodes]

    def metadata(self, members: Members) -> Quorum:
        """The quorum, asked through the brokers."""
        return Quorum(members, self.client_configs)

    def await_ready(self, members: Members, node: Node, *, timeout: float) -> None:
        """Wait until the node serves."""
        node.await_ready(timeout)

    def start_again(self, members: Members, nodes: Sequence[Node], *, timeout: float) -> None:
        """Start all the nodes, then wait for each.

        Does not wait if too few controllers run for a quorum: no node can serve before more controllers are started.
        """
        for node in nodes:
            if not node.is_running():
                node.start()
        voters = [node.state() for node in members.nodes if node.name in self.voters.values()]
        if 2 * sum(state["Running"] and not state["Paused"] for state in voters) > len(voters):
            for node in nodes:
                node.await_ready(timeout)

    def _container(self, node: Node, version: KafkaVersion, configs: Mapping[str, object]) -> DockerContainer:
        container = self._builder.container(
            node,
            "kraft",
            properties.kraft_properties(self.spec, node, version, configs),
            version=version,
            environment={
                "CLUSTER_ID": self._cluster_id,
                "FORMATTED_DIRECTORY": properties.BROKER_DATA,
                "FEATURES": self._features_folder,
            },
        )
        if self.spec.is_mixed:
            container.with_copy_into_container(self._oldest_features, self._features_file)
        return container

    @cached_property
    def _oldest_features(self) -> bytes:
        """The feature levels of the oldest version, from its image: the nodes of a mixed cluster start with them."""
        with scratch(run_labels(self._builder.run_id, keep=False), self.spec.oldest.number) as container:
            return container.read_file(self._features_file)

    @property
    def _features_file(self) -> str:
        """The file in containers with the feature levels that a new cluster starts with."""
        return f"{_PREFORMATTED}/{self._features_folder}/bootstrap.checkpoint"

    @property
    def _features_folder(self) -> str:
        """The folder in `_PREFORMATTED` to use: `no-elr` if the layout turns the eligible leader replicas off."""
        return "no-elr" if self.spec.oldest.has_elr_by_default and not self.spec.elects_from_elr else "default"


class Quorum:
    """Implements `Metadata` by asking the brokers about the quorum and the partitions."""

    def __init__(self, members: Members, configs: Mapping[str, str] | None = None) -> None:
        self._members = members
        self._configs = configs or {}
        self._addresses = members.addresses
        self._latest_to_answer = min(self._addresses)

    def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def controller(self) -> int | None:
        """The node id of the active controller; None while no broker knows it."""
        quorum = self._quorum()
        return quorum.leader if quorum is not None and quorum.leader != NOBODY else None

    def controller_epoch(self) -> int:
        """The epoch of the quorum's leader; 0 while no broker answers."""
        quorum = self._quorum()
        return 0 if quorum is None else quorum.leader_epoch

    def brokers(self) -> frozenset[int] | None:
        """The brokers that are not fenced, from the first broker that answers; None if no broker answers."""
        return next((brokers for _, brokers in self._answers(BrokerClient.brokers)), None)

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """The newest state of the partition that a broker has replayed from the metadata log.

        If several brokers know the same leader epoch, the leader knows the newest ISR.
        """
        states = self._answers(lambda client: client.metadata(topic, partition))
        existing = [(broker, state) for broker, state in states if state.leader_epoch >= 0]
        if not existing:
            return None
        _, newest = max(existing, key=lambda entry: (entry[1].leader_epoch, entry[0] == entry[1].leader))
        leader = NOBODY if newest.leader is None else newest.leader
        return PartitionRecord(leader, newest.leader_epoch, tuple(sorted(newest.isr)))

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Freeze the active controller's node until the others have elected another, then thaw it."""
        before = self._quorum()
        node = next((node for node in self._members.nodes if before and node.number == before.leader), None)
        if before is None or node is None:
            raise ClusterFailure("there is no active controller to depose")

        def deposed() -> bool:
            now = self._quorum(without=node.number)
            if now is None or now.leader in (NOBODY, node.number):
                return False
            return now.leader_epoch > before.leader_epoch

        node.pause()
        try:
            wait_until(deposed, "the next controller", timeout=timeout)
        finally:
            node.unpause()

    def _quorum(self, *, without: int | None = None) -> QuorumAnswer | None:
        """The quorum, from the first broker that answers; None if no broker answers.

        While no controller is active, every broker waits for one, so that no broker answers in time.
        """
        quorums = self._answers(BrokerClient.quorum, without=without)
        return next((quorum for _, quorum in quorums if quorum is not None), None)

    def _answers(self, ask: Callable[[BrokerClient], T], *, without: int | None = None) -> Iterator[tuple[int, T]]:
        """Ask the brokers one by one, first the one that gave the latest answer, and yield their ids and answers."""
        asked = self._addresses.keys() - {without}
        for broker in sorted(asked, key=lambda broker: (broker != self._latest_to_answer, broker)):
            for answer in ask_each([self._addresses[broker]], ask, timeout=_ANSWER_TIMEOUT, configs=self._configs):
                self._latest_to_answer = broker
                yield broker, answer


def _cluster_id(run_id: str) -> str:
    """The run's own cluster id, so that no node ever takes part in another run's cluster."""
    return base64.urlsafe_b64encode(hashlib.sha256(run_id.encode()).digest()[:16]).decode().rstrip("=")
