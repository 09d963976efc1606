"""The Protocols through which faults act on a cluster and its nodes. Faults know nothing else of the harness."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_chaos.contract.command.errors import UsageFailure

PartitionId = tuple[str, int]
"""A topic's name, and a partition's number."""

CLIENT_PORT = 9094  # published by the engine: the port of every broker's listener for clients on this machine
NETWORK_PORT = 9095  # the port of every broker's listener for clients in containers of the cluster's network
HARNESS_CLIENT_ID = "kafka-chaos"  # the `client.id` of the harness's own requests, by which it observes the cluster


@dataclass(frozen=True, slots=True)
class Leadership:
    """A partition's leader (None: nobody leads), leader epoch, replicas with the preferred leader first, and ISR."""

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
    """A server in its container, or a client's process on this machine. All actions are idempotent."""

    @property
    def name(self) -> str:
        """The node's host name in the cluster, such as `broker-1`."""

    @property
    def number(self) -> int:
        """The broker's id, the controller's node id, or the ZooKeeper server's number."""

    @property
    def address(self) -> str:
        """The node's address on the cluster's network, which a restart does not change."""

    @property
    def shell(self) -> ShellControl | None:
        """The shell in the node's container; None if no commands can run there."""

    @property
    def disk(self) -> DiskControl | None:
        """The node's own disk, if it has one. A start of the container repairs the disk first."""

    @property
    def link(self) -> LinkControl | None:
        """The link (a relay for Kafka's requests and responses) that every connection to the node passes, if any."""

    @property
    def clock(self) -> ClockControl | None:
        """The node's wall clock, if that can be moved."""

    def state(self) -> dict[str, Any]:
        """The node's state as Docker reports it: Status, Running, Paused, Pid, ExitCode, OOMKilled, …."""

    def is_running(self) -> bool:
        """Whether the node's process exists, frozen or not."""

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""

    def stop(self) -> None:
        """Send SIGTERM, and wait until the process is gone."""

    def pause(self) -> None:
        """Freeze the node's processes."""

    def unpause(self) -> None:
        """Thaw the node's processes."""


class ShellControl(Protocol):
    """Runs commands in a container and accesses its files. Files can be accessed while the container is down, too."""

    def execute(self, *command: str, in_network: bool = False) -> tuple[int, str]:
        """Run a command, and return its exit code (not 0 if the container is down or frozen) and its output.

        `in_network`: the command needs only the container's network, so it also runs while the container is frozen.
        """

    def must_execute(self, *command: str, in_network: bool = False) -> str:
        """Run a command like `execute`, and return its output; raises `ClusterFailure` if it fails."""

    def suspend(self) -> None:
        """Stop the process by SIGSTOP until it is killed. Unlike with `NodeControl.pause`, commands still run."""

    def write_file(self, path: str, data: str) -> None:
        """Write a file; its folder must exist."""

    def read_file(self, path: str) -> bytes:
        """The content of a file."""

    def file_size(self, path: str) -> int | None:
        """The size of a file in bytes; None if there is no such file."""

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """`length` bytes of a file from `offset` on; fewer at the file's end."""


class DiskControl(Protocol):
    """A broker's own disk, which holds its log directories. All actions are idempotent."""

    def freeze(self) -> None:
        """Flush everything, and then make every write wait until `thaw`."""

    def thaw(self) -> None:
        """Let writes continue."""

    def is_frozen(self) -> bool:
        """Whether the kernel makes writes wait."""

    def slow_down(self, pid: int, writes_per_second: int) -> None:
        """Limit the writes of the container with the process `pid`, and make each wait until it is on the disk."""

    def speed_up(self) -> None:
        """End what `slow_down` began."""

    def cut_power(self) -> None:
        """Lose whatever is not flushed; until `power_back`, nobody can read or write."""

    def power_back(self) -> None:
        """Let the disk be read and written again, with what was flushed. The container's process must be gone."""

    @property
    def loss(self) -> Mapping[str, int] | None:
        """What the last loss of power took: `lost_bytes` of segments, `shorter_files`, and `kept_bytes`.

        None if the container has been started since, or if power was never lost.
        """

    def fill(self) -> None:
        """Take all free blocks."""

    def is_filled(self) -> bool:
        """Whether the blocks that `fill` took are still taken."""

    def free_bytes(self) -> int:
        """The number of bytes that can still be written."""

    def refuse_appends(self, topic: str | None) -> None:
        """Refuse writes to the newest segment of each partition of this topic, or without `topic`, of all topics."""

    def failing_segments(self) -> Mapping[str, bool]:
        """Whether each segment that `refuse_appends` chose still refuses writes, by the segment's name."""

    def fail(self) -> None:
        """Report a disk error to the file system: it becomes read-only, and loses what was not flushed."""

    def is_read_only(self) -> bool:
        """Whether the file system is read-only, so that it refuses a write."""


class LinkControl(Protocol):
    """The link that every connection to a node passes; each rule has an id. All actions are idempotent."""

    def apply(self, rule_id: str, **rule: Any) -> None:
        """Add a rule: its `action`, and its conditions on frames (fields of `Rule`, `faults/links/relay/rules.py`)."""

    def lift(self, rule_id: str, *, release: bool) -> None:
        """Remove a rule. With `release`, the frames that it holds continue; else their connections are closed."""

    def tally(self, rule_id: str) -> Mapping[str, Any] | None:
        """How many frames met the rule's conditions (`matched`), how many it has `taken`, and what these were (`told`).

        None if there is no such rule.
        """


class ClockControl(Protocol):
    """A wall clock that can be moved by several shifts, each with a name. All actions are idempotent."""

    def shift(self, name: str, *, seconds: float = 0.0, per_second: float = 0.0) -> None:
        """Move the clock ahead by `seconds`, and by `per_second` more with each second that passes."""

    def end(self, name: str) -> None:
        """End a shift: only the other shifts move the clock any more."""

    def reading(self, name: str) -> Mapping[str, float] | None:
        """In seconds, how far the process's clock is `ahead` of the true time, and how far it should be moved
        `by_all_shifts` together and `by_this_shift` alone.

        None if the process is down or there is no such shift. Raises if the process does not answer.
        """


class ClusterControl(Protocol):
    """A cluster: it tells which node has which role at the moment, and does what administrators could ask it to do."""

    @property
    def noted(self) -> MutableMapping[str, Any]:
        """By `Fault.stable_name`, the state that a fault noted before it broke anything, which its proof needs."""

    @property
    def brokers(self) -> Mapping[int, NodeControl]:
        """Brokers by id."""

    @property
    def log_directories(self) -> Sequence[str]:
        """The paths inside containers where brokers may have log directories."""

    @property
    def zookeepers(self) -> Mapping[int, NodeControl]:
        """ZooKeeper servers by number; empty in KRaft mode."""

    @property
    def controllers(self) -> Mapping[int, NodeControl]:
        """Dedicated KRaft controllers (not brokers), by number."""

    def leader(self, lane: str, partition: int) -> int | None:
        """The broker that leads a lane's partition now, as the cluster tells clients."""

    def replicas(self, lane: str, partition: int) -> tuple[int, ...]:
        """The brokers that hold replicas of a lane's partition, preferred leader first."""

    def group_coordinator(self, lane: str) -> int | None:
        """The broker that coordinates the lane's group, or its share group, now, as brokers tell clients."""

    def transaction_coordinator(self, lane: str) -> int | None:
        """The broker that coordinates the lane's first transactional id now, as brokers tell clients."""

    def share_coordinator(self, lane: str) -> int | None:
        """The broker that keeps the state of the lane's share group: it leads the partition with that state."""

    def clients(self, lane: str, role: str) -> Sequence[NodeControl]:
        """The running processes of a lane's clients in this role: `member` (of its group, or of its loop), `producer`
        or `consumer`."""

    def topic(self, lane: str) -> str:
        """The name of a lane's topic."""

    def controller(self) -> int | None:
        """The number of the node that is the (active) controller now."""

    def controller_epoch(self) -> int | None:
        """How many times ZooKeeper has seen a controller elected; None if it does not answer."""

    def depose_controller(self) -> None:
        """Remove ZooKeeper's znode `/controller`, and wait a while for the next election."""

    def leadership(self) -> Mapping[PartitionId, Leadership]:
        """For each partition, Kafka's own included, the newest leadership that any broker tells clients."""

    def transfer(self, new_leaders: Mapping[PartitionId, int]) -> None:
        """Make each new leader its partition's preferred one, elect it, and wait a while until all lead."""

    @property
    def topics(self) -> Collection[str]:
        """The names of the topics of all lanes under load."""

    def moving_partitions(self) -> Collection[PartitionId] | None:
        """The partitions whose replicas are being moved to other brokers; None if no broker answers."""

    def move_replicas(self, replicas: Mapping[PartitionId, tuple[int, ...]]) -> None:
        """Ask for these replicas of each partition, preferred leader first, without waiting for the moves to end."""

    def end_moves(self, partitions: Collection[PartitionId]) -> None:
        """Wait until these partitions are no longer being moved; a move that does not end is cancelled."""

    def add_partitions(self, replicas: Mapping[PartitionId, tuple[int, ...]]) -> None:
        """Ask for new partitions with these replicas, preferred leader first. Their numbers follow those in use."""

    def registration(self, broker: int) -> Registration | None:
        """A broker's registration in ZooKeeper; None if it has none, or ZooKeeper does not answer."""

    def expire_session(self, session: int) -> None:
        """Make ZooKeeper close a session whose client is alive."""

    def await_registered(self, nodes: Sequence[NodeControl]) -> None:
        """Wait until these brokers are registered."""

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        """Start the servers that are down, with the same data, and wait until they serve; replace ended clients.

        With ZooKeeper, a broker starts only after its former session has expired. Earlier, it would find its own
        registration taken, and exit.
        """


def shell_of(node: NodeControl) -> ShellControl:
    """The shell in a node's container; raises `UsageFailure` if no commands can run there."""
    if node.shell is None:
        raise UsageFailure(f"{node.name} is not a container of kafka-chaos: no command is run inside it")
    return node.shell


def topics_of(cluster: ClusterControl, lane: str | None) -> Collection[str]:
    """The topic of this lane; without a lane, the topics of all lanes under load."""
    return cluster.topics if lane is None else (cluster.topic(lane),)
