"""The cluster as faults see it: its nodes by id, and their roles in the metadata that clients get."""

import contextlib
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.groups import group_of
from kafka_chaos.contract.lane.lanes import SHARE_STATE
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.contract.lane.transactions import transactional_id
from kafka_chaos.faults.cluster import Leadership, NodeControl, PartitionId, Registration
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker import leadership
from kafka_chaos.harness.cluster.broker.client import BrokerClient, BrokerUnreachable, CoordinatorKind, ask_each
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.server_properties import LOG_DIRECTORIES
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper, end_session

N = TypeVar("N", bound=NodeControl)
T = TypeVar("T")


class BreakableCluster(Protocol[N]):
    """The part of a cluster that `ClusterView` needs besides an admin client."""

    @property
    def brokers(self) -> Mapping[int, N]:
        """Brokers by id."""

    @property
    def zookeepers(self) -> Mapping[int, N]:
        """ZooKeeper servers by number."""

    @property
    def controllers(self) -> Mapping[int, N]:
        """Dedicated KRaft controllers (not brokers), by number."""

    @property
    def nodes(self) -> Sequence[N]:
        """All nodes."""

    @property
    def client_configs(self) -> Mapping[str, str]:
        """The clients' configuration besides the address, in librdkafka's keys."""

    @property
    def addresses(self) -> Mapping[int, str]:
        """The brokers' addresses for clients, by id."""

    def controller(self, admin: ClusterAdmin) -> int | None:
        """The node id of the (active) controller; None while no node tells it."""

    def start_again(self, nodes: Sequence[N]) -> None:
        """Start the nodes that are down, and wait until all serve."""


def named_running_broker(
    cluster: BreakableCluster[Any], ask: Callable[[BrokerClient], int | None], *, timeout: float = 1.0
) -> int | None:
    """The first running broker that a broker names in answer to `ask`, or None. `timeout`: seconds for each answer."""
    ids = ask_each(cluster.addresses.values(), ask, timeout=timeout, configs=cluster.client_configs)
    return next((id_ for id_ in ids if id_ is not None and cluster.brokers[id_].is_running()), None)


class Clients(Protocol):
    """The clients of a load that faults may hit, as processes."""

    def clients(self, lane: str, role: str) -> Sequence[NodeControl]:
        """The running processes of a lane's clients in this role."""

    def start_again(self, clients: Sequence[NodeControl]) -> None:
        """Start new clients in place of the clients that a fault has ended."""


class ClusterView(Generic[N]):
    """A cluster as faults see and break it: implements `ClusterControl`, and its methods are described there.

    `groups`: by lane, the id of its group, where this is not the usual id. `clients`: the clients of the load, if
    faults may hit them. `topics`: the names of the topics under load.
    """

    def __init__(
        self,
        cluster: BreakableCluster[N],
        admin: ClusterAdmin,
        *,
        groups: Mapping[str, str] | None = None,
        clients: Clients | None = None,
        topics: Collection[str] = (),
    ) -> None:
        self._cluster = cluster
        self.brokers, self.zookeepers, self.controllers = cluster.brokers, cluster.zookeepers, cluster.controllers
        self.log_directories = LOG_DIRECTORIES
        self._admin = admin
        self._groups = groups or {}
        self._clients = clients
        self.topics = topics
        self.noted: dict[str, Any] = {}
        """What faults noted before they broke anything, for their proofs."""

    def leader(self, lane: str, partition: int) -> int | None:
        state = self._admin.partitions(lane).get(partition)
        return state.leader if state is not None else None

    def replicas(self, lane: str, partition: int) -> tuple[int, ...]:
        state = self._admin.partitions(lane).get(partition)
        return state.replicas if state is not None else ()

    def group_coordinator(self, lane: str) -> int | None:
        return self._coordinator(self._groups.get(lane) or group_of(lane), CoordinatorKind.GROUP)

    def transaction_coordinator(self, lane: str) -> int | None:
        return self._coordinator(transactional_id(lane, 0), CoordinatorKind.TRANSACTION)

    def share_coordinator(self, lane: str) -> int | None:
        # The topic's id, which is not known here, decides which partition of Kafka's own topic has a group's state. So
        # the coordinator is known only if that topic has one partition.
        partitions = self._admin.partitions(SHARE_STATE)
        return partitions[0].leader if len(partitions) == 1 else None

    def _coordinator(self, key: str, kind: CoordinatorKind) -> int | None:
        # During an election, no broker knows a coordinator.
        return named_running_broker(self._cluster, lambda broker: broker.coordinator(key, kind))

    def clients(self, lane: str, role: str) -> Sequence[NodeControl]:
        return () if self._clients is None else self._clients.clients(lane, role)

    def topic(self, lane: str) -> str:
        return self._admin.topic(lane)

    def controller(self) -> int | None:
        # In KRaft mode, the metadata of clients names any broker, which forwards requests to the controller.
        return self._cluster.controller(self._admin)

    def leadership(self) -> Mapping[PartitionId, Leadership]:
        addresses = [self._started_cluster.addresses[broker] for broker in self._running_brokers]
        answered = ask_each(addresses, BrokerClient.leadership, configs=self._started_cluster.client_configs)
        return leadership.newest_leadership(answered)

    @property
    def _running_brokers(self) -> list[int]:
        states = {number: node.state() for number, node in self.brokers.items()}
        return [number for number, state in states.items() if state["Running"] and not state["Paused"]]

    def transfer(self, new_leaders: Mapping[PartitionId, int]) -> None:
        leadership.transfer(new_leaders, self.leadership, self._broker_for_admins)

    def moving_partitions(self) -> Collection[PartitionId] | None:
        return leadership.moving_partitions(self._broker_for_admins)

    def move_replicas(self, replicas: Mapping[PartitionId, tuple[int, ...]]) -> None:
        leadership.move(replicas, self._broker_for_admins)

    def end_moves(self, partitions: Collection[PartitionId]) -> None:
        if partitions:
            leadership.end_moves(partitions, self._broker_for_admins)

    def add_partitions(self, replicas: Mapping[PartitionId, tuple[int, ...]]) -> None:
        """Repeat the request for a few seconds; partitions that are still refused do not appear in the metadata."""
        by_topic: dict[str, list[tuple[int, ...]]] = {}
        for (topic, _), brokers in sorted(replicas.items()):
            by_topic.setdefault(topic, []).append(brokers)
        for topic, new in by_topic.items():
            count = max(number for name, number in replicas if name == topic) + 1
            added = partial(self._try_to_add, topic, count, new)
            with contextlib.suppress(WaitTimeout):
                wait_until(added, f"new partitions of {topic}", timeout=10.0, interval=0.2)

    def _try_to_add(self, topic: str, count: int, replicas: Sequence[Sequence[int]]) -> bool:
        """Ask for `count` partitions of a topic, and return whether it has them."""
        admin = self._admin.by_topic_names()
        if len(admin.partitions(topic)) >= count:
            return True
        with contextlib.suppress(ClusterFailure):
            admin.add_partitions(topic, count, replica_assignment=replicas)
            return True
        return False

    def _broker_for_admins(self) -> BrokerClient:
        """A connection to the controller, or in KRaft mode to any running broker, which forwards requests to it."""
        candidates = self._running_brokers if self._started_cluster.spec.metadata_mode == KRAFT else [self.controller()]
        # Chosen anew each time, since a broker may itself be cut off from the controller.
        broker = random.choice(candidates) if candidates else None
        if broker is None:
            raise BrokerUnreachable("nobody is controller, or no broker runs")
        return self._started_cluster.broker_client(broker)

    def controller_epoch(self) -> int | None:
        return self._ask_zookeeper(ZooKeeper.controller_epoch)

    def depose_controller(self) -> None:
        # If this fails, the controller epoch stays as it is, so that the fault is not proven.
        self._ask_zookeeper(lambda zookeeper: zookeeper.depose_controller(timeout=10.0))

    def registration(self, broker: int) -> Registration | None:
        return self._ask_zookeeper(lambda zookeeper: zookeeper.registration(broker))

    def _ask_zookeeper(self, ask: Callable[[ZooKeeper], T]) -> T | None:
        """ZooKeeper's answer; None if ZooKeeper does not answer."""
        with contextlib.suppress(ClusterFailure), ZooKeeper(self._started_cluster.zookeeper_addresses) as zookeeper:
            return ask(zookeeper)
        return None

    def expire_session(self, session: int) -> None:
        # If ZooKeeper does not answer, the broker stays registered, so that the fault is not proven.
        with contextlib.suppress(ClusterFailure):
            end_session(self._started_cluster.zookeeper_addresses, session)

    def await_registered(self, nodes: Sequence[NodeControl]) -> None:
        cluster, wanted = self._started_cluster, {node.number for node in nodes}
        awaited = f"brokers {sorted(wanted)} to be registered"
        wait_until(lambda: wanted <= cluster.registered_brokers(), awaited, timeout=60.0, interval=0.2)

    @property
    def _started_cluster(self) -> Cluster:
        """The cluster, which this harness must have started: an attached cluster has only its own commands."""
        cluster: object = self._cluster
        if not isinstance(cluster, Cluster):
            raise ClusterFailure("expected a cluster that kafka-chaos started: an attached one has no such control")
        return cluster

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        names = {node.name for node in nodes}
        servers = [node for node in self._cluster.nodes if node.name in names]
        if servers:
            self._cluster.start_again(servers)
        if self._clients is not None:
            names_of_servers = {server.name for server in servers}
            self._clients.start_again([node for node in nodes if node.name not in names_of_servers])
