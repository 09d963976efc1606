"""`failing-segment`: a disk that works, but for the place where one file ends.

The kernel refuses writes to the file with EPERM, also by those who have it open. To a broker it is what a bad block
would be, EIO: an append that fails, for whichever reason, takes the log directory offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import FailsWrites, described_end, disk_of, what_became
from kafka_chaos.faults.storage.log_files import SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingSegment(FailsWrites):
    """Writes to the newest segment of each partition fail on the brokers, with `lane` to those of that lane alone; all
    else of their disks works. A broker whose append fails takes its log directory offline, and ends if it has no other.
    Its proof: the kernel refuses to let each of these files be written to."""

    lane: str | None = None
    kind: ClassVar[str] = "failing-segment"
    only_brokers: ClassVar[bool] = True
    # It ends without a controlled shutdown, and keeps what it had written.
    counts_as: ClassVar[str] = "kill"
    appearance: ClassVar[Appearance] = Appearance("#8a3f2b", "#dd9680", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).refuse_appends(None if self.lane is None else cluster.topic(self.lane))

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        refused = disk_of(node).refused()
        evidence = {"files": sorted(refused), **what_became(node)}
        taken = [name for name, refuses in refused.items() if not refuses]
        if not refused:
            return Proof(False, evidence, "it has no such segment")
        return Proof(not taken, evidence, f"{first_of(taken, SHOWN)} can be written to")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which files, and what became of the broker."""
        files = evidence["files"]
        return f"writes to {counted(len(files), 'file')} refused: {first_of(files, SHOWN)}; {described_end(evidence)}"
