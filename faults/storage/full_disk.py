"""`full-disk`: no block of a disk is free. A broker that can't write to its only log directory ends by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.storage.disks import disk_of, start_whole, why_no_disks
from kafka_chaos.faults.target import Target

_FIRST_OF_SIGNALS = 128
"""From here on, exit codes say which signal ended a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk:
    """The disks of the brokers are filled to the last block. A broker whose write fails takes its log directory
    offline, and ends if it has no other. Its proof: the file system has no free block left, or the broker has ended by
    itself, which may free some."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "full-disk"
    holds: ClassVar[str] = DOWN
    needs_disk: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#7a5c2e", "#d3ae72", Pattern.LINES)

    unavailable = staticmethod(why_no_disks)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `kill` for each broker hit: it ends without a controlled shutdown, and keeps what it had written."""
        return one_per_broker("kill", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Fill the disks with a file of their own."""
        at_once(nodes, lambda node: disk_of(node).fill())

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """No disk has a free block, or has had one for its broker."""
        return all_took_effect({node.name: _full(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """End what still runs, remove the file, and start the brokers again."""
        start_whole(cluster, nodes)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How full the disk is, and what became of the broker."""
        became = "the broker still ran" if evidence["Running"] else f"the broker ended with {evidence['ExitCode']}"
        return f"{evidence['free_bytes']:,} bytes free; {became}"


def _full(node: NodeControl) -> Proof:
    disk, state = disk_of(node), node.state()
    free = disk.free_bytes()
    evidence = {"free_bytes": free, "Running": state["Running"], "ExitCode": state.get("ExitCode")}
    if not disk.is_filled():
        return Proof(False, evidence, "its disk was not filled")
    # A process that ends gives back what it had reserved for its files.
    ended_by_itself = not state["Running"] and 0 < int(state["ExitCode"]) < _FIRST_OF_SIGNALS
    return Proof(free == 0 or ended_by_itself, evidence, f"{free} bytes of its disk are free")
