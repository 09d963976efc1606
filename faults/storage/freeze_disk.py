"""`freeze-disk`: a disk that stalls, as a broken controller or a storage network that hangs lets it.

Whoever writes waits, and can't be ended until the disk goes on. Whoever does not write goes on: a leader with a stalled
disk keeps its session, so it stays leader and answers nobody whose records it should append.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.parts import DiskControl
from kafka_chaos.faults.storage.disks import disk_of, why_no_disks
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDisk:
    """The disks of the brokers stall: every write waits until the fault is healed. Its proof: the kernel holds all
    writers of each disk, so that it refuses to freeze it once more."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "freeze-disk"
    holds: ClassVar[str] = "disk frozen"
    needs_disk: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#1f6f8b", "#7cc4de", Pattern.DIAGONALS)

    unavailable = staticmethod(why_no_disks)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `pause` for each broker hit.

        Requests to a leader pile up and are appended later, as after a pause, whether another broker has become leader
        or not; a follower stops fetching. What goes on without writing changes no log and acknowledges nothing.
        """
        return one_per_broker("pause", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Freeze the disks."""
        at_once(nodes, lambda node: disk_of(node).freeze())

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Every disk is frozen."""
        return all_took_effect({node.name: _frozen(disk_of(node)) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Thaw them."""
        at_once(nodes, lambda node: disk_of(node).thaw())

    @staticmethod
    def describe_evidence(evidence: Any) -> str:
        """Who says that writes wait."""
        return "every write waits: the kernel reports the file system as frozen"


def _frozen(disk: DiskControl) -> Proof:
    return (
        Proof(True, {"frozen": True}) if disk.is_frozen() else Proof(False, {"frozen": False}, "its disk takes writes")
    )
