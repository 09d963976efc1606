"""`read-only-disk`: a file system finds an error of its disk and refuses every write from then on.

So ext4 behaves with `errors=remount-ro`, the usual setting of Debian and others. What had not been flushed by then
never reaches the disk: it is lost when the broker, which ends on the failed write, comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import FailsWrites, described_end, disk_of, what_became


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyDisk(FailsWrites):
    """The file systems of the brokers find an error of their disks and become read-only; what was not flushed is lost.
    A broker whose write fails takes its log directory offline, and ends if it has no other. Its proof: a write is
    refused with EROFS."""

    kind: ClassVar[str] = "read-only-disk"
    # It ends, and what it had not flushed is gone when it is back.
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#4d6b2f", "#a9cc83", Pattern.BACK_DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).fail()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        evidence = {"refused": disk_of(node).refuses_writes(), **what_became(node)}
        return Proof(evidence["refused"], evidence, "its disk takes writes")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """The refusal, and what became of the broker."""
        return f"a write was refused: read-only file system; {described_end(evidence)}"
