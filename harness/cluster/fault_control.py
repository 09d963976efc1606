"""The cluster as faults see it: containers by id, roles from the metadata that clients get."""

import contextlib
import random
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.groups import group_of
from kafka_chaos.contract.lane.lanes import SHARE_STATE
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.contract.lane.transactions import transactional_id
from kafka_chaos.faults.cluster import Leadership, NodeControl, Partition, Registration
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker import leadership
from kafka_chaos.harness.cluster.broker.client import BrokerClient, CoordinatorKind, answers
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.server_properties import LOG_DIRECTORIES
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper, end_session

_DEPOSED_TIMEOUT = 10.0
_PATIENCE = 10.0
_REGISTRATION_TIMEOUT = 60.0


N = TypeVar("N", bound=NodeControl)


class BreakableCluster(Protocol[N]):
    """The parts of a cluster that faults need besides an admin client."""

    @property
    def brokers(self) -> Mapping[int, N]:
        """Brokers by id."""

    @property
    def zookeepers(self) -> Mapping[int, N]:
        """ZooKeeper servers by number."""

    @property
    def controllers(self) -> Mapping[int, N]:
        """KRaft controllers that are no brokers, by number."""

    @property
    def nodes(self) -> Sequence[N]:
        """All nodes."""

    @property
    def client_configs(self) -> Mapping[str, str]:
        """The clients' configuration besides the address, in librdkafka's keys."""

    @property
    def addresses(self) -> Mapping[int, str]:
        """Where clients reach each broker, by id."""

    def controller(self, admin: ClusterAdmin) -> int | None:
        """The node id of the (active) controller; None while nobody tells."""

    def start_again(self, nodes: Sequence[N]) -> None:
        """Start those that are down, and wait until all serve."""


class Clients(Protocol):
    """The processes of clients that faults may hit."""

    def clients(self, lane: str, role: str) -> Sequence[NodeControl]:
        """Those of the lane's clients that run."""

    def start_again(self, clients: Sequence[NodeControl]) -> None:
        """Let new clients take the places of those of these that a fault has ended."""


class ClusterView(Generic[N]):
    """Implements `kafka_chaos.faults.cluster.ClusterControl`; `groups`: by lane the id of its
    group, if it has another one than a lane usually has.

    `clients`: those of the load, if any may be hit. `topics`: those under load.
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
        # Which partition has a group's state, the id of its topic decides: with one partition, it is that.
        partitions = self._admin.partitions(SHARE_STATE)
        return partitions[0].leader if len(partitions) == 1 else None

    def _coordinator(self, key: str, kind: CoordinatorKind) -> int | None:
        """The first answer of any broker; None if nobody knows it, as during an election."""
        cluster = self._cluster
        found = answers(
            cluster.addresses.values(),
            lambda broker: broker.coordinator(key, kind),
            timeout=1.0,
            configs=cluster.client_configs,
        )
        return next((one for one in found if one is not None and cluster.brokers[one].is_running()), None)

    def clients(self, lane: str, role: str) -> Sequence[NodeControl]:
        return () if self._clients is None else self._clients.clients(lane, role)

    def topic(self, lane: str) -> str:
        return self._admin.topic(lane)

    def controller(self) -> int | None:
        """The (active) controller: with ZooKeeper the one in the clients' metadata, in KRaft mode the quorum's leader.

        In KRaft mode the clients' metadata names any broker, which forwards their requests.
        """
        return self._cluster.controller(self._admin)

    def leadership(self) -> Mapping[Partition, Leadership]:
        """The leadership of the highest leader epoch, as the running brokers report it."""
        return leadership.newest_leadership(self._running, self._own.broker_client)

    @property
    def _running(self) -> list[int]:
        states = {number: node.state() for number, node in self.brokers.items()}
        return [number for number, state in states.items() if state["Running"] and not state["Paused"]]

    def transfer(self, heirs: Mapping[Partition, int]) -> None:
        """Ask the controller, or in KRaft mode any broker, which passes it on."""
        leadership.transfer(heirs, self.leadership, self._broker_for_admins)

    def moving(self) -> Collection[Partition] | None:
        """As the controller lists them."""
        return leadership.moving(self._broker_for_admins)

    def move_replicas(self, replicas: Mapping[Partition, tuple[int, ...]]) -> None:
        """Ask the controller, as for a transfer. What it refuses stays as it is."""
        leadership.move(replicas, self._broker_for_admins)

    def end_moves(self, partitions: Collection[Partition]) -> None:
        """Ask until the controller lists none of them."""
        if partitions:
            leadership.end_moves(partitions, self._broker_for_admins)

    def add_partitions(self, replicas: Mapping[Partition, tuple[int, ...]]) -> None:
        """Asked again for a few seconds. What is refused by then is not there, as the metadata tells."""
        assigned: dict[str, list[tuple[int, ...]]] = {}
        for (topic, _), brokers in sorted(replicas.items()):
            assigned.setdefault(topic, []).append(brokers)
        first = {topic: min(number for name, number in replicas if name == topic) for topic in assigned}
        for topic, new in assigned.items():
            added = partial(self._added, topic, first[topic], new)
            with contextlib.suppress(WaitTimeout):
                wait_until(added, f"new partitions of {topic}", timeout=_PATIENCE, interval=0.2)

    def _added(self, topic: str, first: int, replicas: Sequence[Sequence[int]]) -> bool:
        admin = self._admin.by_topic()
        if len(admin.partitions(topic)) >= first + len(replicas):
            return True
        with contextlib.suppress(ClusterFailure):
            admin.add_partitions(topic, first + len(replicas), replica_assignment=replicas)
            return True
        return False

    def _broker_for_admins(self) -> BrokerClient:
        """A connection to the controller, or in KRaft mode to a broker that runs, perhaps another each time: it passes
        requests on, unless it is cut off itself."""
        asked = self._running if self._own.spec.metadata_mode == KRAFT else [self.controller()]
        broker = random.choice(asked) if asked else None
        if broker is None:
            raise BrokerUnreachable("nobody is controller, or no broker runs")
        return self._own.broker_client(broker)

    def controller_epoch(self) -> int | None:
        with contextlib.suppress(ClusterFailure), self._zookeeper() as zookeeper:
            return zookeeper.controller_epoch()
        return None

    def depose_controller(self) -> None:
        """Where no controller is elected in time, or ZooKeeper does not answer, the epoch tells."""
        with contextlib.suppress(ClusterFailure), self._zookeeper() as zookeeper:
            zookeeper.depose_controller(timeout=_DEPOSED_TIMEOUT)

    def registration(self, broker: int) -> Registration | None:
        with contextlib.suppress(ClusterFailure), self._zookeeper() as zookeeper:
            return zookeeper.registration(broker)
        return None

    def _zookeeper(self) -> ZooKeeper:
        return ZooKeeper(self._own.zookeeper_addresses)

    def expire_session(self, session: int) -> None:
        """Closed in its client's name. Where ZooKeeper does not answer, it goes on: the registration tells."""
        with contextlib.suppress(ClusterFailure):
            end_session(self._own.zookeeper_addresses, session)

    def await_registered(self, nodes: Sequence[NodeControl]) -> None:
        """As the metadata mode tells who is registered."""
        wanted = {node.number for node in nodes}
        wait_until(
            lambda: wanted <= self._own.registered_brokers(),
            f"brokers {sorted(wanted)} to be registered",
            timeout=_REGISTRATION_TIMEOUT,
            interval=0.2,
        )

    @property
    def _own(self) -> Cluster:
        """The cluster, where it was started here: others are broken by their own commands alone."""
        cluster: object = self._cluster
        if not isinstance(cluster, Cluster):
            raise ClusterFailure("expected a cluster that was started here: an attached one has no such control")
        return cluster

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        named = {node.name for node in nodes}
        servers = [node for node in self._cluster.nodes if node.name in named]
        if servers:
            self._cluster.start_again(servers)
        if self._clients is not None:
            self._clients.start_again([node for node in nodes if node.name not in {one.name for one in servers}])
