"""`freeze-disk`: a disk that stalls, as a broken controller or a storage network that hangs lets it.

Whoever writes waits, and can't be ended until the disk goes on. Whoever does not write goes on: a leader with a stalled
disk keeps its session, so it stays leader and answers nobody whose records it should append.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import OnDisk, disk_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDisk(OnDisk):
    """The disks of the brokers stall: every write waits until the fault is healed. Its proof: the kernel holds all
    writers of each disk, so that it refuses to freeze it once more."""

    kind: ClassVar[str] = "freeze-disk"
    holds: ClassVar[str] = "disk frozen"
    # Requests to a leader pile up and are appended later, as after a pause, whether another broker has become leader
    # or not; a follower stops fetching. What goes on without writing changes no log and acknowledges nothing.
    counts_as: ClassVar[str] = "pause"
    appearance: ClassVar[Appearance] = Appearance("#1f6f8b", "#7cc4de", Pattern.DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).freeze()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        frozen = disk_of(node).is_frozen()
        return Proof(frozen, {"frozen": frozen}, "" if frozen else "its disk takes writes")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).thaw()

    @staticmethod
    def describe_evidence(evidence: Any) -> str:
        """Who says that writes wait."""
        return "every write waits: the kernel reports the file system as frozen"
