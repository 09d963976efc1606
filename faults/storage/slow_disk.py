"""The fault kind `slow-disk`: a disk that takes few writes a second, like a spinning disk or a small one in a cloud.

Since the kernel caches writes, brokers would not notice that their disks are slow. So the fault also makes each write
wait until it is on the disk (the mount option `sync`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from kafka_chaos.faults.cluster import ClusterControl, NodeControl, shell_of
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.disks import DiskFault, disk_of, why_no_disks

_WRITE_COUNT = 3  # timed writes, after a first write, which need not wait
_BLKIO = Path("/sys/fs/cgroup/blkio")  # in cgroup version 1
_CONTROLLERS = Path("/sys/fs/cgroup/cgroup.controllers")  # in cgroup version 2
_DD_TIME = re.compile(r", (?P<seconds>[\d.e-]+) s,")  # as in dd's `2048 bytes (2.0 kB) copied, 0.15 s, 13.7 kB/s`


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(DiskFault):
    """The disks of the brokers take at most `writes_per_second`, and each write waits until it is on the disk. Its
    proof: writes to each disk, made and timed inside the broker's container, take at least half as long as the rate
    implies."""

    writes_per_second: Annotated[int, Interval(ge=1, le=100)] = 20
    kind: ClassVar[str] = "slow-disk"
    holds: ClassVar[str] = "disk slow"
    # The limit belongs to the container's cgroup, which ends with the process.
    ends_with_process: ClassVar[bool] = True
    # Requests pile up and are appended later, as after a pause.
    counts_as: ClassVar[str] = "pause"
    appearance: ClassVar[Appearance] = Appearance("#5f5a8a", "#b3aee0", Pattern.LINES)

    @staticmethod
    def unavailable() -> str | None:
        """Why brokers can't have slow disks on this machine; None if they can."""
        if (reason := why_no_disks()) is not None:
            return reason
        if _BLKIO.is_dir() or (_CONTROLLERS.exists() and "io" in _CONTROLLERS.read_text().split()):
            return None
        return "no cgroup limits writes: use a kernel with CONFIG_BLK_DEV_THROTTLING, and mount /sys/fs/cgroup"

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        if pid := int(node.state()["Pid"]):  # 0 if the container does not run
            disk_of(node).slow_down(pid, self.writes_per_second)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).speed_up()

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many writes were timed, and how long each took on average."""
        return f"{evidence['writes']} writes took {evidence['seconds'] * 1000:,.0f} ms each on average"

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        shell, probe = shell_of(node), f"{cluster.log_directories[0]}/probe"
        if not node.is_running():
            return Proof(False, {}, "its process does not run")
        try:
            code, output = shell.execute("dd", "if=/dev/zero", f"of={probe}", "bs=512", f"count={_WRITE_COUNT + 1}")
        finally:
            shell.execute("rm", "-f", probe)
        took = _DD_TIME.search(output)
        if code != 0 or took is None:
            return Proof(False, {}, f"nothing could be written: {output.strip()}")
        seconds = float(took["seconds"]) / _WRITE_COUNT
        evidence = {"seconds": round(seconds, 4), "writes": _WRITE_COUNT}
        # Half of the time that the rate implies is enough, since the limit may let some writes through early.
        return Proof(seconds >= 0.5 / self.writes_per_second, evidence, f"a write took only {seconds:.4f} s on average")
