"""The fault kinds that break the remote store of tiered topics (KIP-405), for single brokers or for all.

A fault writes a file to the store, which tells the store's plugin (the brokers' RemoteStorageManager) how operations of
a broker are to fail. The plugin notes each operation that met a fault: that is the proof. Brokers then copy later, keep
their local segments, and give consumers an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval, MinLen

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, NodeControl, shell_of, topics_of
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, PlannedCluster, Proof
from kafka_chaos.faults.storage.log_files import MOST_SHOWN

REMOTE_STORE = "/var/lib/kafka-remote"
"""The path in brokers' containers of the volume that is their remote store, if the cluster has tiered storage."""
Operation = Literal["copy", "fetch", "delete"]
Operations = Annotated[tuple[Operation, ...], MinLen(1)]
ALL_OPERATIONS: tuple[Operation, ...] = ("copy", "fetch", "delete")
SEGMENTS = f"{REMOTE_STORE}/segments"  # has a folder for each partition
# Removes the oldest segment of each partition of the topics that are its arguments, and prints the segments' paths.
_REMOVE_OLDEST = f"""
for topic; do
  for partition in $(ls {SEGMENTS} | grep -E "^$topic-[0-9]+$"); do
    oldest=$(ls {SEGMENTS}/"$partition" | grep -v '[.]part$' | head -n 1)
    if [ -n "$oldest" ]; then echo {SEGMENTS}/"$partition"/"$oldest"; rm -rf {SEGMENTS}/"$partition"/"$oldest"; fi
  done
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStoreFault(Fault):
    """A fault of the remote store."""

    # Without `counts_as`, unless segments are lost: the model expects nothing, as brokers keep what they can't copy.
    only_brokers: ClassVar[bool] = True
    leaves_nodes_alone: ClassVar[bool] = True

    @classmethod
    def refusal(cls, cluster: PlannedCluster) -> str | None:
        """Why the fault is impossible: only with tiered storage is there a remote store. None if it is possible."""
        return None if cluster.tiered_storage else "the cluster has no remote store: expected tiered_storage: true"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOperationFault(RemoteStoreFault):
    """A fault that makes the targets' operations on the remote store go wrong until the fault is healed."""

    def _instructions(self) -> tuple[str, ...]:
        """A line for the plugin for each operation: the operation's name, and how it goes wrong."""
        raise NotImplementedError

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        self._noted(cluster).setdefault(node.name, len(_plugin_log(node)))
        self._write_instructions(node, self._instructions())

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether the fault met an operation of any target. One target is enough: only leaders copy segments, and a
        broker fetches only if a consumer asks it for old records."""
        lines_before, instructions, evidence = self._noted(cluster), self._instructions(), {}
        for node in nodes:
            lines = _plugin_log(node)[lines_before.get(node.name, 0) :]
            operations = [line.split()[0] for line in lines if line in instructions]
            evidence[node.name] = {"operations": {name: operations.count(name) for name in sorted(set(operations))}}
        took_effect = any(node_evidence["operations"] for node_evidence in evidence.values())
        return Proof(took_effect, evidence, "no operation of a target on the remote store met the fault")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        self._write_instructions(node, ())

    def _write_instructions(self, node: NodeControl, lines: tuple[str, ...]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        shell_of(node).write_file(f"{REMOTE_STORE}/faults/{node.number}-{self.stable_name}", text)

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many operations of each kind met the fault."""
        counts = ", ".join(f"{name} {counted(number, 'time')}" for name, number in evidence["operations"].items())
        return counts or "it asked nothing of the remote store"


def _plugin_log(node: NodeControl) -> list[str]:
    """A line for each operation that met a fault, the oldest first: the line of `_instructions` that it met."""
    return shell_of(node).read_file(f"{REMOTE_STORE}/affected/{node.number}").decode().splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingRemoteStore(RemoteOperationFault):
    """The remote store refuses the targets' `operations`: to copy segments to it, to fetch from them, and to delete
    them; by default all three, as if it were gone. Proof: the store's plugin noted operations that it refused."""

    operations: Operations = ALL_OPERATIONS
    kind: ClassVar[str] = "failing-remote-store"
    holds: ClassVar[str] = "remote store failing"
    appearance: ClassVar[Appearance] = Appearance("#7d3c5a", "#d598b5", Pattern.CROSSES)

    def _instructions(self) -> tuple[str, ...]:
        return tuple(f"{operation} fail" for operation in self.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRemoteStore(RemoteOperationFault):
    """Each of the targets' `operations` on the remote store takes `seconds` longer. Proof: the store's plugin noted
    operations that it delayed."""

    operations: Operations = ALL_OPERATIONS
    seconds: Annotated[float, Interval(gt=0, le=60)] = 2.0
    kind: ClassVar[str] = "slow-remote-store"
    holds: ClassVar[str] = "remote store slow"
    appearance: ClassVar[Appearance] = Appearance("#2f6f73", "#86c5c9", Pattern.LINES)

    def _instructions(self) -> tuple[str, ...]:
        return tuple(f"{operation} delay {round(self.seconds * 1000)}" for operation in self.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRemoteStore(RemoteOperationFault):
    """The remote store is full for the targets: half of a segment that they copy arrives, and the copy fails. Its
    proof: the store's plugin noted copies that it broke off."""

    kind: ClassVar[str] = "full-remote-store"
    holds: ClassVar[str] = "remote store full"
    appearance: ClassVar[Appearance] = Appearance("#7a5c2e", "#d3ae72", Pattern.DIAGONALS)

    def _instructions(self) -> tuple[str, ...]:
        return ("copy full",)


# This loses records: brokers have deleted their own copies of the oldest segments.
@dataclass(frozen=True, slots=True, kw_only=True)
class LostRemoteSegment(RemoteStoreFault):
    """The oldest segment of each partition is gone from the remote store for good; with `lane`, only segments of that
    lane. Proof: each of these segments was there, and is there no more."""

    lane: str | None = None
    kind: ClassVar[str] = "lost-remote-segment"
    # The model has no narrower fault: acknowledged and stored records may be gone.
    counts_as: ClassVar[str] = "power-loss"
    spares_other_lanes: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#a02c5a", "#f08bb4", Pattern.DOTS)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether the first target runs, so that commands can run in its container."""
        state = nodes[0].state()
        return bool(state["Running"]) and not state["Paused"]

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Remove the segments, once, in the container of the first target: all brokers share the store."""
        noted = self._noted(cluster)
        if "lost" not in noted:
            topics = topics_of(cluster, self.lane)
            noted["lost"] = shell_of(nodes[0]).must_execute("sh", "-c", _REMOVE_OLDEST, "sh", *topics).split()

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether there were segments, and the Docker engine sees none of them in the store."""
        lost, first = self._noted(cluster).get("lost", []), nodes[0]
        remaining = [path for path in lost if shell_of(first).file_size(path) is not None]
        reason = f"still there: {first_of(remaining, MOST_SHOWN)}" if lost else "no segment was in the remote store"
        return Proof(bool(lost) and not remaining, {node.name: {"segments": lost} for node in nodes}, reason)

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many segments are gone, with the names of some: partition, first offset, last offset and an id."""
        names = [path.removeprefix(f"{SEGMENTS}/") for path in evidence["segments"]]
        return f"{counted(len(names), 'segment')} gone: {first_of(names, MOST_SHOWN)}"
