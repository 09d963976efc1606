"""What a cluster with ZooKeeper and a cluster in KRaft mode do differently, behind interfaces that both implement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafka_chaos.harness.cluster.node import Node

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition's state in the metadata, as the controller has written it; `leader` is −1 if there is none.

    `written_ms`: when the state was written, in milliseconds since 1970 by the clock of the ZooKeeper server that keeps
    it. KRaft mode shows neither `written_ms` nor `partition_epoch`: they are None.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int | None = None
    written_ms: int | None = None


@dataclass(eq=False)
class Members:
    """A cluster's nodes: brokers by id; ZooKeeper's servers, and dedicated controllers, by number."""

    brokers: dict[int, Node] = field(default_factory=dict)
    zookeepers: dict[int, Node] = field(default_factory=dict)
    controllers: dict[int, Node] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        """All nodes: ZooKeeper servers, then controllers, then brokers."""
        return [*self.zookeepers.values(), *self.controllers.values(), *self.brokers.values()]

    @property
    def addresses(self) -> dict[int, str]:
        """Each broker's address (`host:port`) for clients, by id; it stays the same across restarts."""
        return {broker: node.client_address for broker, node in self.brokers.items()}

    @property
    def zookeeper_addresses(self) -> str:
        """The addresses of all ZooKeeper servers as this process reaches them, with commas between."""
        return ",".join(node.client_address for node in self.zookeepers.values())


class Metadata(Protocol):
    """A connection to a running cluster's metadata. With ZooKeeper, it raises `ClusterFailure` if no node answers."""

    def controller(self) -> int | None:
        """The node id of the (active) controller; None while there is none."""

    def controller_epoch(self) -> int:
        """The controller epoch, which every election of a controller raises; 0 while no node knows it."""

    def brokers(self) -> frozenset[int] | None:
        """The ids of brokers that are registered and not fenced; None while no node knows them."""

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """The partition's state; None while the controller has not written it."""

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Depose the controller, and wait until a controller is elected, which may be the same node."""

    def close(self) -> None:
        """End the connection."""


class MetadataMode(Protocol):
    """How a cluster of one metadata mode describes its nodes, starts them, and is asked for its metadata."""

    def make(self) -> Members:
        """All nodes of a new cluster; their containers are only described, and not created yet."""

    def container(self, node: Node, kafka_version: str) -> DockerContainer:
        """A container for a broker or controller in this version, described and not created yet."""

    def starting_groups(self, members: Members) -> Sequence[Sequence[Node]]:
        """Groups of brokers and controllers, in the order of their start: each serves before the next is started."""

    def metadata(self, members: Members) -> Metadata:
        """A connection to the metadata of a running cluster."""

    def await_ready(self, members: Members, node: Node, *, timeout: float) -> None:
        """Wait until a started node serves; a broker that loses its session meanwhile is started once more."""

    def start_again(self, members: Members, nodes: Sequence[Node], *, timeout: float) -> None:
        """Start the nodes that are down, in ZooKeeper mode once their ids are free, and await those that can serve."""
