"""The fault kind `slow-disk`: a disk that takes few writes a second, like a spinning disk or a cloud's small disks.

Thanks to the kernel's cache, brokers do not wait for their disks and would not notice. So the fault makes each write
wait until it is on the disk.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from kafka_chaos.faults.cluster import ClusterControl, NodeControl, inside_of
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import OnDisk, disk_of, why_no_disks

_PROBES = 3
_LIMITS = (Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup/cgroup.controllers"))  # in cgroup version 1, and 2
_TOOK = re.compile(r", (?P<seconds>[\d.e-]+) s,")  # as in dd's `2048 bytes (2.0 kB) copied, 0.15 s, 13.7 kB/s`


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(OnDisk):
    """The disks of the brokers take `writes_per_second`, and each write waits until it is on the disk. Its proof:
    writes to each disk, made and timed inside the broker's container, take at least half as long as the rate
    implies."""

    writes_per_second: Annotated[int, Interval(ge=1, le=100)] = 20
    kind: ClassVar[str] = "slow-disk"
    holds: ClassVar[str] = "disk slow"
    # The limit ends with the process.
    ends_with_process: ClassVar[bool] = True
    # Requests pile up and are appended later.
    counts_as: ClassVar[str] = "pause"
    appearance: ClassVar[Appearance] = Appearance("#5f5a8a", "#b3aee0", Pattern.LINES)

    @staticmethod
    def unavailable() -> str | None:
        """Why brokers can't have slow disks on this machine."""
        if (reason := why_no_disks()) is not None:
            return reason
        limits, controllers = _LIMITS
        if limits.is_dir() or (controllers.exists() and "io" in controllers.read_text().split()):
            return None
        return "no cgroup limits writes: use a kernel with CONFIG_BLK_DEV_THROTTLING, and mount /sys/fs/cgroup"

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        if pid := int(node.state()["Pid"]):
            disk_of(node).slow_down(pid, self.writes_per_second)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).speed_up()

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How long a write took on average, and out of how many."""
        return f"a write took {evidence['seconds'] * 1000:,.0f} ms, out of {evidence['writes']}"

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        inside, probe = inside_of(node), f"{cluster.log_directories[0]}/probe"
        if not node.is_running():
            return Proof(False, {}, "its process does not run")
        try:
            code, output = inside.execute("dd", "if=/dev/zero", f"of={probe}", "bs=512", f"count={_PROBES + 1}")
        finally:
            inside.execute("rm", "-f", probe)
        took = _TOOK.search(output)
        if code != 0 or took is None:
            return Proof(False, {}, f"nothing could be written: {output.strip()}")
        seconds = float(took["seconds"]) / _PROBES
        evidence = {"seconds": round(seconds, 4), "writes": _PROBES}
        # The first write need not wait. Half of the time is enough, since a limit may let writes through early.
        return Proof(2 * seconds * self.writes_per_second >= 1, evidence, f"a write took {seconds:.4f} s")
