"""The migration of a cluster from ZooKeeper to KRaft, node by node (KIP-866; Kafka up to 3.9).

1. `add_controllers`: KRaft controllers start in migration mode. They know ZooKeeper, and wait for all brokers.
2. `join`: each broker is restarted so that it registers with the controllers, too. Once all have, the active controller
   claims `/controller` in ZooKeeper, copies the metadata, and writes all changes both there and to KRaft's own log.
3. `convert`: each broker is restarted as a broker in KRaft mode, on the same files.
4. `leave`: each controller is restarted without ZooKeeper. After that, the cluster can't go back to ZooKeeper.

Each step but `add_controllers` takes a node that is down, and changes what the node finds at its next start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.building import NodeBuilder
from kafka_chaos.harness.cluster.configuration import server_properties as properties
from kafka_chaos.harness.cluster.metadata import kraft
from kafka_chaos.harness.cluster.metadata.protocol import Members, PartitionRecord
from kafka_chaos.harness.cluster.metadata.zookeeper import ZooKeeperMode
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper
from kafka_chaos.harness.cluster.node import Node

_ENABLED = {"zookeeper.metadata.migration.enable": True}


class Migration(ZooKeeperMode):
    """A metadata mode that begins with ZooKeeper, and the steps that take the cluster to KRaft."""

    def __init__(self, build: NodeBuilder) -> None:
        super().__init__(build)
        self._members = Members()
        self._kraft: kraft.KRaftMode | None = None
        self.converted: set[int] = set()
        """The brokers that are in KRaft mode, or will be in it from their next start on."""
        self.without_zookeeper: set[int] = set()
        """The node ids of the controllers that no longer know ZooKeeper, or will not from their next start on."""

    # --- The cluster with ZooKeeper ---------------------------------------------------------------------------------

    def make(self) -> Members:
        """Build the servers with which the cluster begins: ZooKeeper and brokers."""
        self._members = super().make()
        return self._members

    def metadata(self, members: Members) -> MigratingMetadata:
        """The metadata in ZooKeeper or in the quorum, depending on the progress of the migration."""
        return MigratingMetadata(self, members)

    def start_again(self, members: Members, nodes: Sequence[Node], *, timeout: float) -> None:
        """Start nodes again: brokers with ZooKeeper once their former session is over, the others at once."""
        with_zookeeper = [node for node in nodes if node.role != "controller" and node.number not in self.converted]
        super().start_again(members, with_zookeeper, timeout=timeout)
        rest = [node for node in nodes if node not in with_zookeeper]
        if self._kraft is not None and rest:
            self._kraft.start_again(members, rest, timeout=timeout)

    # --- The steps --------------------------------------------------------------------------------------------------

    def add_controllers(self) -> Sequence[Node]:
        """Add controllers in migration mode to the cluster's members; their containers are not created yet."""
        with ZooKeeper(self._members.zookeeper_addresses) as zookeeper:
            cluster_id = zookeeper.cluster_id()
        spec = replace(
            self._spec,
            metadata_mode=KRAFT,
            zookeepers=None,
            controller=None,
            controllers=self._spec.migration_controllers,
            migration_controllers=0,
        )
        self._kraft = kraft.KRaftMode(replace(self._builder, layout=spec), cluster_id=cluster_id)
        configs = {
            **_ENABLED,
            "zookeeper.connect": properties.zookeeper_connect(self._spec),
            # The listener on which brokers with ZooKeeper get the controller's requests.
            "inter.broker.listener.name": "REPLICATION",
        }
        for number in range(1, spec.controllers + 1):
            self._members.controllers[number] = self._kraft.controller(number, configs)
        return list(self._members.controllers.values())

    def join(self, broker: Node) -> None:
        """Configure a broker with ZooKeeper so that it also registers with the controllers from its next start on."""
        version = self._spec.version_of(broker.number)
        configs = {
            **_ENABLED,
            **properties.quorum_properties(self._kraft_cluster.voters),
            "inter.broker.protocol.version": version.inter_broker_protocol,
        }
        text = properties.broker_properties(self._spec, broker, version, configs)
        broker.write_file(properties.PROPERTIES_FILE, text)

    def convert(self, broker: Node) -> None:
        """Configure a broker so that it is in KRaft mode from its next start on."""
        self._configure_for_kraft(broker)
        self.converted.add(broker.number)

    def leave(self, controller: Node) -> None:
        """Configure a controller so that it does not know ZooKeeper from its next start on."""
        self._configure_for_kraft(controller)
        self.without_zookeeper.add(controller.number)

    @property
    def is_over(self) -> bool:
        """Whether no controller knows ZooKeeper any more."""
        return self._kraft is not None and self.without_zookeeper == set(self._kraft.voters)

    def _configure_for_kraft(self, node: Node) -> None:
        version = self._spec.version_of(node.number)
        text = properties.kraft_properties(self._kraft_cluster.spec, node, version, {})
        node.write_file(properties.PROPERTIES_FILE, text)
        node.started_text = kraft.STARTED

    @property
    def _kraft_cluster(self) -> kraft.KRaftMode:
        assert self._kraft is not None, "the cluster has no controllers yet"
        return self._kraft


class MigratingMetadata:
    """The cluster's metadata: from ZooKeeper, which controllers keep up to date, and after the migration from KRaft."""

    def __init__(self, migration: Migration, members: Members) -> None:
        self._migration = migration
        self._quorum = kraft.Quorum(members)
        self.zookeeper = ZooKeeper(members.zookeeper_addresses)

    def close(self) -> None:
        """End the session with ZooKeeper."""
        self.zookeeper.close()

    def controller(self) -> int | None:
        """The broker or KRaft controller that has claimed the cluster."""
        return self._source.controller()

    def controller_epoch(self) -> int:
        """The controller epoch in ZooKeeper; after the migration, the epoch of the quorum, which is lower."""
        return self._source.controller_epoch()

    def brokers(self) -> frozenset[int] | None:
        """The brokers registered with ZooKeeper, and those in KRaft mode that are not fenced."""
        if self._migration.is_over:
            return self._quorum.brokers()
        return self.zookeeper.brokers() | ((self._quorum.brokers() or frozenset()) & self._migration.converted)

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """The partition's record in ZooKeeper; after the migration, the record in the quorum's metadata."""
        return self._source.partition(topic, partition)

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Depose the broker that is controller, or freeze the active KRaft controller, and await the next election."""
        self._source.depose_controller(timeout=timeout)

    @property
    def _source(self) -> ZooKeeper | kraft.Quorum:
        return self._quorum if self._migration.is_over else self.zookeeper
