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
from kafka_chaos.faults.fault import DOWN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.storage.disks import disk_of, start_whole, why_no_disks
from kafka_chaos.faults.storage.log_files import SHOWN
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingSegment:
    """Writes to the newest segment of each partition fail on the brokers, with `lane` to those of that lane alone; all
    else of their disks works. A broker whose append fails takes its log directory offline, and ends if it has no other.
    Its proof: the kernel refuses to let each of these files be written to."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    lane: str | None = None
    kind: ClassVar[str] = "failing-segment"
    holds: ClassVar[str] = DOWN
    only_brokers: ClassVar[bool] = True
    needs_disk: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#8a3f2b", "#dd9680", Pattern.CROSSES)

    unavailable = staticmethod(why_no_disks)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `kill` for each broker hit: it ends without a controlled shutdown, and keeps what it had written."""
        return one_per_broker("kill", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Refuse appends to the segments."""
        topic = None if self.lane is None else cluster.topic(self.lane)
        at_once(nodes, lambda node: disk_of(node).refuse_appends(topic))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Every such file refuses a write."""
        return all_took_effect({node.name: _refusing(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """End what still runs, let the files be written to, and start the brokers again."""
        start_whole(cluster, nodes)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which files, and what became of the broker."""
        files = evidence["files"]
        became = "the broker still ran" if evidence["Running"] else f"the broker ended with {evidence['ExitCode']}"
        return f"writes to {counted(len(files), 'file')} refused: {first_of(files, SHOWN)}; {became}"


def _refusing(node: NodeControl) -> Proof:
    refused, state = disk_of(node).refused(), node.state()
    evidence = {"files": sorted(refused), "Running": state["Running"], "ExitCode": state.get("ExitCode")}
    taken = [name for name, refuses in refused.items() if not refuses]
    if not refused:
        return Proof(False, evidence, "it has no such segment")
    return Proof(not taken, evidence, f"{first_of(taken, SHOWN)} can be written to")
