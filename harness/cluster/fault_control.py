"""The cluster as faults see it: containers by id, roles from the metadata that clients get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_chaos.faults.cluster import NodeControl
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.node import Node


class ClusterView:
    """Implements `kafka_chaos.faults.cluster.ClusterControl`."""

    def __init__(self, cluster: Cluster, admin: ClusterAdmin) -> None:
        self._cluster = cluster
        self._admin = admin

    @property
    def brokers(self) -> Mapping[int, Node]:
        """Brokers by id."""
        return self._cluster.brokers

    @property
    def zookeepers(self) -> Mapping[int, Node]:
        """ZooKeeper servers by number; empty in KRaft mode."""
        return self._cluster.zookeepers

    @property
    def controllers(self) -> Mapping[int, Node]:
        """KRaft controllers that are no brokers, by number."""
        return self._cluster.controllers

    def leader(self, lane: str, partition: int) -> int | None:
        """The leader in the metadata that clients get."""
        state = self._admin.partitions(lane).get(partition)
        return state.leader if state is not None else None

    def replicas(self, lane: str, partition: int) -> tuple[int, ...]:
        """The replica assignment, preferred leader first."""
        state = self._admin.partitions(lane).get(partition)
        return state.replicas if state is not None else ()

    def topic(self, lane: str) -> str:
        """The lane's topic, as the admin client knows it."""
        return self._admin.topic(lane)

    def controller(self) -> int | None:
        """The (active) controller: with ZooKeeper the one in the clients' metadata, in KRaft mode the quorum's leader.

        In KRaft mode the clients' metadata names any broker, which forwards their requests.
        """
        return self._cluster.controller(self._admin)

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        """Start what is down, none of them in the way of its own former session, and wait until all serve."""
        named = {node.name for node in nodes}
        self._cluster.start_again([node for node in self._cluster.nodes if node.name in named])
