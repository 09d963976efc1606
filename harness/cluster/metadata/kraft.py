"""Clusters in KRaft mode: a quorum of controllers, of which one is active, keeps the metadata in a log of its own.

Brokers register with the active controller and send it heartbeats; it fences those that stop. A broker that comes back
while its former registration is still served asks again by itself until that is over: nobody has to wait for it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import BrokerClient, QuorumAnswer
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.building import BROKER_OPTIONS, CONTROLLER_OPTIONS, NodeBuilder
from kafka_chaos.harness.cluster.configuration import server_properties as properties
from kafka_chaos.harness.cluster.containers.image import read_file
from kafka_chaos.harness.cluster.containers.labels import run_labels
from kafka_chaos.harness.cluster.containers.versions import KafkaVersion, known_version
from kafka_chaos.harness.cluster.metadata.protocol import Members, PartitionRecord
from kafka_chaos.harness.cluster.node import Node

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

STARTED = "Kafka Server started"
"""The log line of a node that serves."""
_FORMATTED = "/opt/kafka/formatted"
_FIRST_METADATA = "bootstrap.checkpoint"
"""The feature levels that a new cluster starts from: in a mixed one, the oldest version's."""
_ANSWER_TIMEOUT = 1.0
NOBODY = -1

T = TypeVar("T")


class KRaftMode:
    """Implements `MetadataMode`."""

    def __init__(self, build: NodeBuilder, *, cluster_id: str | None = None) -> None:
        self._build = build
        self._cluster_id = cluster_id or _cluster_id(build.run_id)
        self.spec = build.spec
        self.client_configs: Mapping[str, str] = {}
        """The clients' configuration besides the address, once it is known."""
        self.voters = properties.voters(self.spec)

    def make(self) -> Members:
        """Brokers, and controllers of their own where the layout asks for some."""
        controllers = {number: self.controller(number) for number in range(1, self.spec.controllers + 1)}
        brokers = {
            broker: self._node("broker", broker, properties.node_name("broker", broker), next(self._build.ports))
            for broker in range(1, self.spec.brokers + 1)
        }
        return Members(brokers, controllers=controllers)

    def controller(self, number: int, configs: Mapping[str, object] | None = None) -> Node:
        """A controller that is no broker; `configs` go over the cluster's own."""
        name = properties.node_name("controller", number)
        return self._node("controller", properties.CONTROLLER_IDS + number, name, None, configs)

    def _node(
        self, role: str, node_id: int, name: str, host_port: int | None, configs: Mapping[str, object] | None = None
    ) -> Node:
        node = self._build.node(role, node_id, name, STARTED, host_port=host_port)
        node.testcontainer = self._container(node, self.spec.version_of(node_id), configs or {})
        return node

    def container(self, node: Node, kafka_version: str) -> DockerContainer:
        """The node's container in this version."""
        return self._container(node, known_version(kafka_version), {})

    def starting_groups(self, members: Members) -> Sequence[Sequence[Node]]:
        """All at once: whoever finds no quorum asks again within a moment."""
        return [members.nodes]

    def metadata(self, members: Members) -> Quorum:
        """The quorum, asked through the brokers."""
        return Quorum(members, self.client_configs)

    def registered_brokers(self, members: Members, *, timeout: float) -> frozenset[int]:
        """The brokers that are registered and not fenced."""
        return wait_until(self.metadata(members).brokers, "a broker to answer", timeout=timeout, interval=0.1)

    def await_ready(self, members: Members, node: Node, *, timeout: float) -> None:
        """Wait until it serves."""
        node.await_ready(timeout)

    def start_again(self, members: Members, nodes: Sequence[Node], *, timeout: float) -> None:
        """Start them all, then wait for each.

        Where too few controllers run for a quorum, nobody can serve before others are started: then it does not wait.
        """
        for node in nodes:
            if not node.is_running():
                node.start()
        voters = [node.state() for node in members.nodes if node.name in self.voters.values()]
        if 2 * sum(state["Running"] and not state["Paused"] for state in voters) > len(voters):
            for node in nodes:
                node.await_ready(timeout)

    def _container(self, node: Node, version: KafkaVersion, configs: Mapping[str, object]) -> DockerContainer:
        container = self._build.container(
            node,
            "kraft",
            properties.kraft_properties(self.spec, node, version, configs),
            version=version,
            jvm_options=BROKER_OPTIONS if node.role == "broker" else CONTROLLER_OPTIONS,
            port=properties.CLIENT_PORT,
            environment={
                "CLUSTER_ID": self._cluster_id,
                "FORMATTED_DIRECTORY": properties.BROKER_DATA,
                "FEATURES": self._features,
            },
            # Partitions are rules inside the node's own network namespace.
            cap_add=["NET_ADMIN"],
        )
        if self.spec.is_mixed:
            oldest = self.spec.oldest
            labels = run_labels(self._build.run_id, keep=False)
            checkpoint = read_file(oldest.number, f"{_FORMATTED}/{self._features}/{_FIRST_METADATA}", labels)
            container.with_copy_into_container(checkpoint, f"{_FORMATTED}/{self._features}/{_FIRST_METADATA}")
        return container

    @property
    def _features(self) -> str:
        """The folder of the image that holds what a new cluster with these features starts from."""
        return "no-elr" if self.spec.oldest.elr and not self.spec.elects_from_elr else "default"


class Quorum:
    """Implements `Metadata`: what the brokers tell of the quorum and of the partitions."""

    def __init__(self, members: Members, configs: Mapping[str, str] | None = None) -> None:
        self._members = members
        self._configs = configs or {}
        self._addresses = members.addresses
        self._first = min(self._addresses)

    def close(self) -> None:
        """Nothing is kept open."""

    def controller(self) -> int | None:
        """The node id of the active controller; None while no broker knows of one."""
        found = self._quorum()
        return found.leader if found is not None and found.leader != NOBODY else None

    def controller_epoch(self) -> int:
        """The epoch of the quorum's leader; 0 while nobody answers."""
        found = self._quorum()
        return 0 if found is None else found.leader_epoch

    def brokers(self) -> frozenset[int] | None:
        """The brokers in the metadata of one that answers: those that are not fenced. None where no broker answers."""
        return next((brokers for _, brokers in self._answers(BrokerClient.brokers)), None)

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """The newest state of the partition that a broker has replayed from the metadata log.

        Of one leader epoch, the leader knows the newest ISR.
        """
        newest: tuple[int, bool, PartitionRecord] | None = None
        for broker, known in self._answers(lambda client: client.metadata(topic, partition)):
            leader = NOBODY if known.leader is None else known.leader
            if known.leader_epoch >= 0 and (newest is None or (known.leader_epoch, broker == leader) > newest[:2]):
                record = PartitionRecord(leader, known.leader_epoch, known.isr)
                newest = (known.leader_epoch, broker == leader, record)
        return None if newest is None else newest[2]

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Freeze the active controller's node until the others have elected another, then thaw it."""
        before = self._quorum()
        node = next((one for one in self._members.nodes if before and one.number == before.leader), None)
        if before is None or node is None:
            raise ClusterFailure("there is no active controller to depose")

        def deposed() -> bool:
            now = self._quorum(without=node.number)
            return (
                now is not None and now.leader not in (NOBODY, node.number) and now.leader_epoch > before.leader_epoch
            )

        node.pause()
        try:
            wait_until(deposed, "the next controller", timeout=timeout)
        finally:
            node.unpause()

    def _quorum(self, *, without: int | None = None) -> QuorumAnswer | None:
        """The quorum, as the first broker that answers describes it.

        Where no controller is active, every broker waits for one, and so none answers in time.
        """
        answers = self._answers(BrokerClient.quorum, without=without)
        return next((answer for _, answer in answers if answer is not None), None)

    def _answers(self, ask: Callable[[BrokerClient], T], *, without: int | None = None) -> Iterator[tuple[int, T]]:
        """The answers of one broker after the other, with its id, first the one that accepted the last connection."""
        for broker in sorted(self._addresses, key=lambda broker: broker != self._first):
            if broker == without:
                continue
            try:
                with BrokerClient(self._addresses[broker], timeout=_ANSWER_TIMEOUT, configs=self._configs) as client:
                    self._first = broker
                    answer = ask(client)
            except BrokerUnreachable:
                continue
            yield broker, answer


def _cluster_id(run_id: str) -> str:
    """The run's own cluster id, so that no node ever takes part in another run's cluster."""
    return base64.urlsafe_b64encode(hashlib.sha256(run_id.encode()).digest()[:16]).decode().rstrip("=")
