"""The Protocols through which faults act on a cluster. Faults know nothing else of the harness."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Partition = tuple[str, int]
"""A topic's name, and a partition's number."""


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


class DiskControl(Protocol):
    """A disk of its own, which holds a broker's log directories. All actions are idempotent."""

    def freeze(self) -> None:
        """Let every write wait, once all that was written is on the disk."""
        ...

    def thaw(self) -> None:
        """Let writes go on."""
        ...

    def is_frozen(self) -> bool:
        """Whether writes wait, as the kernel tells."""
        ...

    def slow_down(self, pid: int, writes_per_second: int) -> None:
        """Let each write wait until it is on the disk, which takes so many a second of a process's container."""
        ...

    def speed_up(self) -> None:
        """Let writes be as fast as they were."""
        ...

    def cut_power(self) -> None:
        """Lose what was not flushed by now; nobody can read or write until `power_back`."""
        ...

    def power_back(self) -> None:
        """Let what is on the disk be read again. The container's process must be gone."""
        ...

    @property
    def loss(self) -> Mapping[str, int] | None:
        """What the last loss of power took: `lost_bytes` of segments, `shorter_files`, and `kept_bytes`.

        None if the container has been started since, or if power was never lost.
        """
        ...

    def fill(self) -> None:
        """Take all free blocks."""
        ...

    def is_filled(self) -> bool:
        """Whether the blocks that `fill` took are taken still."""
        ...

    def free_bytes(self) -> int:
        """Bytes that can still be written."""
        ...

    def refuse_appends(self, topic: str | None) -> None:
        """Refuse writes to the newest segment of each partition, of one topic or of all; others are taken still."""
        ...

    def refused(self) -> Mapping[str, bool]:
        """The segments to which writes were refused since the disk was whole, by name, and whether they are."""
        ...

    def fail(self) -> None:
        """Let the file system find an error of its disk: it becomes read-only, and what was not flushed is lost."""
        ...

    def refuses_writes(self) -> bool:
        """Whether a write is refused, since the file system is read-only."""
        ...


class LinkControl(Protocol):
    """What every connection to a node passes. Rules are known by their ids; all actions are idempotent."""

    def apply(self, rule_id: str, **frames: Any) -> None:
        """Let a rule begin: `action`, and which `frames` (see `harness/cluster/links/rules.py`)."""
        ...

    def lift(self, rule_id: str, *, release: bool) -> None:
        """Let a rule end. What it holds goes on, or (without `release`) is lost with its connection."""
        ...

    def tally(self, rule_id: str) -> Mapping[str, Any] | None:
        """How many frames the rule `named` and has `taken` so far, and the first of these, `told`; None where it does
        not apply."""
        ...


class PacketControl(Protocol):
    """Queues of packets in a container's network namespace, by names. All actions are idempotent."""

    def serve(self, name: str, **treatment: Any) -> int | None:
        """Let packets wait that the packet filter sends to a queue (see `harness/cluster/packets/treatment.py`).

        The queue's number; None where the container is down. It lasts until `end`, or until the container ends.
        """
        ...

    def tally(self, name: str) -> Mapping[str, Any] | None:
        """The `packets` and `bytes` that have passed, those that `waited`, for how many `seconds` in all, and those
        that were `overtaken`; None where the queue is not served. Raises where its process is gone."""
        ...

    def end(self, name: str) -> None:
        """Let everything go on that waits. Raises where its process was gone before."""
        ...


class ClockControl(Protocol):
    """A wall clock that can be moved, by shifts with names. All actions are idempotent."""

    def shift(self, name: str, *, seconds: float = 0.0, per_second: float = 0.0) -> None:
        """Move the clock by so many seconds, and further with each second that passes."""
        ...

    def end(self, name: str) -> None:
        """Move the clock back."""
        ...

    def told(self, name: str) -> Mapping[str, float] | None:
        """How many seconds the process's clock is `ahead` of the true time, as the process itself tells, what is
        `wanted` of it, and by how much of that this shift has `moved` it.

        None where the process is down, or nothing was shifted under this name. Raises where it does not answer.
        """
        ...


class NodeControl(Protocol):
    """A container that a fault acts on. All actions are idempotent."""

    @property
    def name(self) -> str:
        """Its host name in the cluster, such as `broker-1`."""
        ...

    @property
    def number(self) -> int:
        """Broker id, the node id of a controller, or the ZooKeeper server's number."""
        ...

    @property
    def address(self) -> str:
        """Its address on the cluster's network, the same after a restart."""
        ...

    @property
    def disk(self) -> DiskControl | None:
        """Its disk, if it has one of its own. Starting the container makes it whole first."""
        ...

    @property
    def link(self) -> LinkControl | None:
        """What every connection to it passes, if there is one."""
        ...

    @property
    def packets(self) -> PacketControl | None:
        """Queues where its packets can wait, if it can have some."""
        ...

    @property
    def clock(self) -> ClockControl | None:
        """Its wall clock, if it can be moved."""
        ...

    def state(self) -> dict[str, Any]:
        """Its state as Docker reports it: Status, Running, Paused, Pid, ExitCode, OOMKilled, …."""
        ...

    def is_running(self) -> bool:
        """Whether its process exists, frozen or not."""
        ...

    def kill(self) -> None:
        """SIGKILL, and wait for the process to be gone."""
        ...

    def stop(self) -> None:
        """SIGTERM, and wait for the process to be gone."""
        ...

    def suspend(self) -> None:
        """Let its process do nothing more (SIGSTOP), until it is killed. Other than after `pause`, commands still run
        inside."""
        ...

    def file_size(self, path: str) -> int | None:
        """Bytes of a file inside, running or not, as the engine sees it; None where there is none."""
        ...

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file inside, running or not, as the engine sees it; fewer at its end."""
        ...

    def pause(self) -> None:
        """Freeze its processes."""
        ...

    def unpause(self) -> None:
        """Thaw its processes."""
        ...

    def execute(self, *command: str) -> tuple[int, str]:
        """Run a command inside: exit code and output."""
        ...

    def must_execute(self, *command: str) -> str:
        """Run a command inside and return its output; the command has to succeed."""
        ...


class ClusterControl(Protocol):
    """A cluster that says at any moment who holds which role."""

    @property
    def noted(self) -> MutableMapping[str, Any]:
        """What faults saw before they broke anything, by a name of their own (`fault.mark`): for their proofs alone."""
        ...

    @property
    def brokers(self) -> Mapping[int, NodeControl]:
        """Brokers by id."""
        ...

    @property
    def log_directories(self) -> Sequence[str]:
        """Where brokers may have log directories, inside their containers."""
        ...

    @property
    def zookeepers(self) -> Mapping[int, NodeControl]:
        """ZooKeeper servers by number; empty in KRaft mode."""
        ...

    @property
    def controllers(self) -> Mapping[int, NodeControl]:
        """KRaft controllers that are no brokers, by number."""
        ...

    def leader(self, lane: str, partition: int) -> int | None:
        """The broker that leads a lane's partition now, as the cluster tells clients."""
        ...

    def replicas(self, lane: str, partition: int) -> tuple[int, ...]:
        """The brokers that hold replicas of a lane's partition, preferred leader first."""
        ...

    def group_coordinator(self, lane: str) -> int | None:
        """The broker that coordinates the lane's consumer group now, as brokers tell clients."""
        ...

    def transaction_coordinator(self, lane: str) -> int | None:
        """The broker that coordinates the transactions of the lane's first transactional id now, likewise."""
        ...

    def members(self, lane: str) -> Sequence[NodeControl]:
        """The members of the lane's group, or of its loop, that are processes of their own and run."""
        ...

    def topic(self, lane: str) -> str:
        """The name of a lane's topic."""
        ...

    def controller(self) -> int | None:
        """The number of the node that is the (active) controller now."""
        ...

    def controller_epoch(self) -> int | None:
        """How often a controller was elected, as ZooKeeper has it; None where it does not answer."""
        ...

    def depose_controller(self) -> None:
        """Remove the controller's node in ZooKeeper, and wait a while for the next election."""
        ...

    def leadership(self) -> Mapping[Partition, Leadership]:
        """Of every partition, Kafka's own topics too, the newest that a broker tells clients."""
        ...

    def transfer(self, heirs: Mapping[Partition, int]) -> None:
        """Let each partition prefer this replica, elect the preferred leaders, and wait a while for them to lead."""
        ...

    def registration(self, broker: int) -> Registration | None:
        """A broker's registration in ZooKeeper; None where it has none, or ZooKeeper does not answer."""
        ...

    def expire_session(self, session: int) -> None:
        """Let ZooKeeper close a session of somebody else, whose client lives."""
        ...

    def await_registered(self, nodes: Sequence[NodeControl]) -> None:
        """Wait until these brokers are registered."""
        ...

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        """Start the servers that are down, with the same data, and wait until they are up; replace members.

        With ZooKeeper, a broker starts only after its former session has expired. Earlier, it would find its own
        registration taken, and exit.
        """
        ...
