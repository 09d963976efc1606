"""Protocols of the parts that differ between clusters with ZooKeeper and clusters in KRaft mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafka_chaos.harness.cluster.node import Node

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition as the controller has recorded it; `leader` is −1 for none.

    `partition_epoch` and `written_ms` (when it was recorded, in milliseconds since 1970 by the clock of the node that
    keeps it) are None if the metadata mode does not show them.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int | None = None
    written_ms: int | None = None


@dataclass(eq=False)
class Members:
    """A cluster's containers: brokers by id; ZooKeeper's servers, and controllers that are no brokers, by number."""

    brokers: dict[int, Node] = field(default_factory=dict)
    zookeepers: dict[int, Node] = field(default_factory=dict)
    controllers: dict[int, Node] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all containers, brokers last."""
        return [*self.zookeepers.values(), *self.controllers.values(), *self.brokers.values()]

    @property
    def addresses(self) -> dict[int, str]:
        """The addresses (`host:port`) for clients by broker id, which stay the same across restarts."""
        return {broker: f"127.0.0.1:{node.host_port}" for broker, node in self.brokers.items()}

    @property
    def zookeeper_addresses(self) -> str:
        """The addresses of all ZooKeeper servers, on 127.0.0.1."""
        return ",".join(f"127.0.0.1:{node.host_port}" for node in self.zookeepers.values())


class Metadata(Protocol):
    """The metadata of a running cluster, as its controller has it. Raises `ClusterFailure` where nobody answers."""

    def controller(self) -> int | None:
        """The node id of the (active) controller; None while there is none."""

    def controller_epoch(self) -> int:
        """The controller epoch, which every election of a controller raises; 0 while no node tells it."""

    def brokers(self) -> frozenset[int] | None:
        """The ids of brokers that are registered and not fenced; None while no node tells them."""

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """The partition's state; None while the controller has not recorded it."""

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Depose the controller, and wait until a controller is elected again, perhaps the same."""

    def close(self) -> None:
        """End the connection."""


class MetadataMode(Protocol):
    """How the clusters of a metadata mode are started, and how their nodes are started again."""

    def make(self) -> Members:
        """All nodes of a new cluster, described for the container engine; nothing is created yet."""

    def container(self, node: Node, kafka_version: str) -> DockerContainer:
        """The container of a broker or controller in a version of its own; nothing is created yet."""

    def starting_groups(self, members: Members) -> Sequence[Sequence[Node]]:
        """The nodes in groups: each group is started, and awaited, before the next."""

    def metadata(self, members: Members) -> Metadata:
        """A connection to the metadata of a running cluster."""

    def registered_brokers(self, members: Members, *, timeout: float) -> frozenset[int]:
        """The ids of the brokers that are registered now. Raises `ClusterFailure` where nobody answers in time."""

    def await_ready(self, members: Members, node: Node, *, timeout: float) -> None:
        """Wait until a started node serves; a broker that lost its session meanwhile is started once more."""

    def start_again(self, members: Members, nodes: Sequence[Node], *, timeout: float) -> None:
        """Start the nodes that are down, once no former session or registration is in the way; wait until all serve."""
