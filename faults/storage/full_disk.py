"""`full-disk`: no block of a disk is free. A broker that can't write to its only log directory ends by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import FailsWrites, described_end, disk_of, what_became

_FIRST_OF_SIGNALS = 128
"""From here on, exit codes say which signal ended a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk(FailsWrites):
    """The disks of the brokers are filled to the last block. A broker whose write fails takes its log directory
    offline, and ends if it has no other. Its proof: the file system has no free block left, or the broker has ended by
    itself, which may free some."""

    kind: ClassVar[str] = "full-disk"
    # It ends without a controlled shutdown, and keeps what it had written.
    counts_as: ClassVar[str] = "kill"
    appearance: ClassVar[Appearance] = Appearance("#7a5c2e", "#d3ae72", Pattern.LINES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).fill()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        disk, became = disk_of(node), what_became(node)
        free = disk.free_bytes()
        evidence = {"free_bytes": free, **became}
        if not disk.is_filled():
            return Proof(False, evidence, "its disk was not filled")
        # A process that ends gives back what it had reserved for its files.
        ended_by_itself = not became["Running"] and 0 < int(became["ExitCode"]) < _FIRST_OF_SIGNALS
        return Proof(free == 0 or ended_by_itself, evidence, f"{free} bytes of its disk are free")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How full the disk is, and what became of the broker."""
        return f"{evidence['free_bytes']:,} bytes free; {described_end(evidence)}"
