"""The Protocols through which faults act on a cluster. Faults know nothing else of the harness."""

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.parts import ClockControl, DiskControl, InsideControl, LinkControl

Partition = tuple[str, int]
"""A topic's name, and a partition's number."""

CLIENT_PORT = 9094
"""The port of every broker's listener for clients."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads a partition (None: nobody) and since which leader epoch; its replicas, preferred leader first."""

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's registration in ZooKeeper: its broker epoch (KIP-380), and the id of the session that holds it."""

    broker_epoch: int
    session: int


class NodeControl(Protocol):
    """A process that a fault acts on: a container's, or another of this machine. All actions are idempotent."""

    @property
    def name(self) -> str:
        """Its host name in the cluster, such as `broker-1`."""

    @property
    def number(self) -> int:
        """Broker id, the node id of a controller, or the ZooKeeper server's number."""

    @property
    def address(self) -> str:
        """Its address on the cluster's network, the same after a restart."""

    @property
    def inside(self) -> InsideControl | None:
        """The inside of its container, if it is one that commands can run in."""

    @property
    def disk(self) -> DiskControl | None:
        """Its disk, if it has one of its own. Starting the container makes it whole first."""

    @property
    def link(self) -> LinkControl | None:
        """The link that every connection to it passes, if there is one."""

    @property
    def clock(self) -> ClockControl | None:
        """Its wall clock, if it can be moved."""

    def state(self) -> dict[str, Any]:
        """Its state as Docker reports it: Status, Running, Paused, Pid, ExitCode, OOMKilled, …."""

    def is_running(self) -> bool:
        """Whether its process exists, frozen or not."""

    def kill(self) -> None:
        """SIGKILL, and wait for the process to be gone."""

    def stop(self) -> None:
        """SIGTERM, and wait for the process to be gone."""

    def pause(self) -> None:
        """Freeze its processes."""

    def unpause(self) -> None:
        """Thaw its processes."""


class ClusterControl(Protocol):
    """A cluster that says at any moment who holds which role."""

    @property
    def noted(self) -> MutableMapping[str, Any]:
        """Notes of faults on the state before they broke anything, by `fault.mark`: for their proofs alone."""

    @property
    def brokers(self) -> Mapping[int, NodeControl]:
        """Brokers by id."""

    @property
    def log_directories(self) -> Sequence[str]:
        """Where brokers may have log directories, inside their containers."""

    @property
    def zookeepers(self) -> Mapping[int, NodeControl]:
        """ZooKeeper servers by number; empty in KRaft mode."""

    @property
    def controllers(self) -> Mapping[int, NodeControl]:
        """KRaft controllers that are no brokers, by number."""

    def leader(self, lane: str, partition: int) -> int | None:
        """The broker that leads a lane's partition now, as the cluster tells clients."""

    def replicas(self, lane: str, partition: int) -> tuple[int, ...]:
        """The brokers that hold replicas of a lane's partition, preferred leader first."""

    def group_coordinator(self, lane: str) -> int | None:
        """The broker that coordinates the lane's group, or its share group, now, as brokers tell clients."""

    def transaction_coordinator(self, lane: str) -> int | None:
        """The broker that coordinates the transactions of the lane's first transactional id now, likewise."""

    def share_coordinator(self, lane: str) -> int | None:
        """The broker that keeps the state of the lane's share group now: it leads the state's partition."""

    def clients(self, lane: str, role: str) -> Sequence[NodeControl]:
        """Those of a lane's clients that are processes of their own and run: `member` (of its group, or of its loop),
        `producer` or `consumer`."""

    def topic(self, lane: str) -> str:
        """The name of a lane's topic."""

    def controller(self) -> int | None:
        """The number of the node that is the (active) controller now."""

    def controller_epoch(self) -> int | None:
        """How often a controller was elected, as ZooKeeper has it; None where it does not answer."""

    def depose_controller(self) -> None:
        """Remove the controller's node in ZooKeeper, and wait a while for the next election."""

    def leadership(self) -> Mapping[Partition, Leadership]:
        """Of every partition, Kafka's own topics too, the newest that a broker tells clients."""

    def transfer(self, heirs: Mapping[Partition, int]) -> None:
        """Let each partition prefer this replica, elect the preferred leaders, and wait a while for them to lead."""

    @property
    def topics(self) -> Collection[str]:
        """The names of the topics of all lanes under load."""

    def moving(self) -> Collection[Partition] | None:
        """The partitions whose replicas are being moved to other brokers; None where nobody tells."""

    def move_replicas(self, replicas: Mapping[Partition, tuple[int, ...]]) -> None:
        """Ask for these replicas of each partition, preferred leader first. The moves go on by themselves."""

    def end_moves(self, partitions: Collection[Partition]) -> None:
        """Wait until these partitions move no more; a move that does not end is cancelled."""

    def add_partitions(self, replicas: Mapping[Partition, tuple[int, ...]]) -> None:
        """Ask for new partitions with these replicas, preferred leader first, that follow on those of their topics."""

    def registration(self, broker: int) -> Registration | None:
        """A broker's registration in ZooKeeper; None where it has none, or ZooKeeper does not answer."""

    def expire_session(self, session: int) -> None:
        """Let ZooKeeper close a session of somebody else, whose client lives."""

    def await_registered(self, nodes: Sequence[NodeControl]) -> None:
        """Wait until these brokers are registered."""

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        """Start the servers that are down, with the same data, and wait until they are up; replace members.

        With ZooKeeper, a broker starts only after its former session has expired. Earlier, it would find its own
        registration taken, and exit.
        """


def inside_of(node: NodeControl) -> InsideControl:
    """The inside of a node's container; raises `UsageFailure` if it has none."""
    if node.inside is None:
        raise UsageFailure(f"{node.name} is no container of this project: nothing is done inside")
    return node.inside


def topics_of(cluster: ClusterControl, lane: str | None) -> Collection[str]:
    """The topics of all lanes under load, or that of one."""
    return cluster.topics if lane is None else (cluster.topic(lane),)
