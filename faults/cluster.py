"""What faults know of a cluster: these Protocols, and nothing of the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


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

    def state(self) -> dict[str, Any]:
        """Docker's account of it: Status, Running, Paused, Pid, ExitCode, OOMKilled, …."""
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
        """Run a command inside that has to succeed: its output."""
        ...


class ClusterControl(Protocol):
    """A cluster whose roles can be asked for at any moment."""

    @property
    def brokers(self) -> Mapping[int, NodeControl]:
        """Brokers by id."""
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

    def controller(self) -> int | None:
        """The number of the node that is the (active) controller now."""
        ...

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        """Start what is down with the same data, and wait until it serves.

        With ZooKeeper, a broker is started only when its former session is over: before that it would find its own
        registration taken, and give up.
        """
        ...
