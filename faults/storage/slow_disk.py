"""`slow-disk`: a disk that takes few writes a second, as one of metal that spins, or one of a cloud.

The kernel's cache would hide it from brokers, who do not wait for their disks. So each write waits until it is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.storage.disks import disk_of, why_no_disks
from kafka_chaos.faults.target import Target

_PROBES = 3
_LIMITS = (Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup/cgroup.controllers"))
_TOOK = re.compile(r", (?P<seconds>[\d.e-]+) s,")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk:
    """The disks of the brokers take `writes_per_second`, and each write waits until it is there. Its proof: writes to
    each disk, made and timed inside the broker's container, take as long as that."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    writes_per_second: int = 20
    kind: ClassVar[str] = "slow-disk"
    holds: ClassVar[str] = "disk slow"
    needs_disk: ClassVar[bool] = True
    # The limit goes with the process.
    ends_with_process: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#5f5a8a", "#b3aee0", Pattern.LINES)

    def __post_init__(self) -> None:
        if not 1 <= self.writes_per_second <= 100:
            raise ValueError(f"writes_per_second: {self.writes_per_second} is not valid: expected 1 to 100")

    @staticmethod
    def unavailable() -> str | None:
        """Why brokers can't have slow disks on this machine."""
        if (reason := why_no_disks()) is not None:
            return reason
        limits, controllers = _LIMITS
        if limits.is_dir() or (controllers.exists() and "io" in controllers.read_text().split()):
            return None
        return "no cgroup limits writes: use a kernel with CONFIG_BLK_DEV_THROTTLING, and mount /sys/fs/cgroup"

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `pause` for each broker hit: requests pile up and are appended later."""
        return one_per_broker("pause", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Slow down the disks of the targets that run."""
        at_once(nodes, self._slow_down)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Writes take their time on every disk."""
        folder = cluster.log_directories[0]
        return all_took_effect({node.name: self._proof(node, f"{folder}/probe") for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let writes be fast again."""
        at_once(nodes, lambda node: disk_of(node).speed_up())

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How long a write took."""
        return f"a write took {evidence['seconds'] * 1000:,.0f} ms, out of {evidence['writes']}"

    def _slow_down(self, node: NodeControl) -> None:
        if pid := int(node.state()["Pid"]):
            disk_of(node).slow_down(pid, self.writes_per_second)

    def _proof(self, node: NodeControl, probe: str) -> Proof:
        if not node.is_running():
            return Proof(False, {}, "its process does not run")
        try:
            code, told = node.execute("dd", "if=/dev/zero", f"of={probe}", "bs=512", f"count={_PROBES + 1}")
        finally:
            node.execute("rm", "-f", probe)
        took = _TOOK.search(told)
        if code != 0 or took is None:
            return Proof(False, {}, f"nothing could be written: {told.strip()}")
        seconds = float(took["seconds"]) / _PROBES
        evidence = {"seconds": round(seconds, 4), "writes": _PROBES}
        # The first write need not wait; a limit lets some through early.
        return Proof(2 * seconds * self.writes_per_second >= 1, evidence, f"a write took {seconds:.4f} s")
