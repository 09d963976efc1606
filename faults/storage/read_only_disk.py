"""`read-only-disk`: a file system finds an error of its disk and refuses every write from then on.

So ext4 behaves with `errors=remount-ro`, the usual setting of Debian and others. What had not been flushed by then
never reaches the disk: it is lost when the broker, which ends on the failed write, comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.storage.disks import disk_of, start_whole, why_no_disks
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyDisk:
    """The file systems of the brokers find an error of their disks and become read-only; what was not flushed is lost.
    A broker whose write fails takes its log directory offline, and ends if it has no other. Its proof: a write is
    refused with EROFS."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "read-only-disk"
    holds: ClassVar[str] = DOWN
    needs_disk: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#4d6b2f", "#a9cc83", Pattern.BACK_DIAGONALS)

    unavailable = staticmethod(why_no_disks)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `power-loss` for each broker hit: it ends, and what it had not flushed is gone when it is back."""
        return one_per_broker("power-loss", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let the file systems find an error."""
        at_once(nodes, lambda node: disk_of(node).fail())

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Every file system refuses a write."""
        return all_took_effect({node.name: _read_only(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """End what still runs, mount what is on the disks, and start the brokers again."""
        start_whole(cluster, nodes)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """The refusal, and what became of the broker."""
        became = "the broker still ran" if evidence["Running"] else f"the broker ended with {evidence['ExitCode']}"
        return f"a write was refused: read-only file system; {became}"


def _read_only(node: NodeControl) -> Proof:
    state, refused = node.state(), disk_of(node).refuses_writes()
    evidence = {"refused": refused, "Running": state["Running"], "ExitCode": state.get("ExitCode")}
    return Proof(refused, evidence, "its disk takes writes")
