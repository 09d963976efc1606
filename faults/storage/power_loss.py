"""`power-loss`: a machine loses power, and with it everything that was written but not flushed to its disk.

Brokers flush nothing before they acknowledge (`log.flush.interval.messages` is not set by default): what a broker alone
holds is lost, though it was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import OnDisk, disk_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss(OnDisk):
    """The machines of the targets lose power: their processes end at once, and what was not flushed to their disks is
    gone. Its proof: each process is gone, its disk was cut off from its file system and mounted again, and the bytes
    that the segments lost were counted."""

    kind: ClassVar[str] = "power-loss"
    holds: ClassVar[str] = DOWN
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#8c1d40", "#ef7fa5", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk = disk_of(node)
        if disk.loss is not None and not node.is_running():
            return
        if node.is_running():
            # A broker that runs on would meet errors of its disk, and might end by itself.
            node.pause()
        disk.cut_power()
        node.kill()
        disk.power_back()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state, loss = node.state(), disk_of(node).loss
        evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "ExitCode", "FinishedAt")}
        if state["Running"]:
            return Proof(False, evidence, "the process still runs")
        if loss is None:
            return Proof(False, evidence, "its disk was not cut off")
        return Proof(True, {**evidence, **loss})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """What was lost in words."""
        files = f"{evidence['shorter_files']:,} file" + ("" if evidence["shorter_files"] == 1 else "s")
        return f"process and page cache gone: {evidence['lost_bytes']:,} bytes of {files} were not flushed"
