"""`pause`: a process freezes for a while, as in a long garbage collection or a stalled virtual machine.

A thawed process continues as if nothing had happened. A leader that was frozen for longer than its ZooKeeper session
comes back as a zombie.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import FROZEN, Appearance, Fault, Pattern, Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Fault):
    """Freeze the processes (cgroup freezer). Its proof: Docker reports them as paused, and so does the kernel's freezer
    if this machine can read its state."""

    kind: ClassVar[str] = "pause"
    holds: ClassVar[str] = FROZEN
    counts_as: ClassVar[str] = "pause"
    appearance: ClassVar[Appearance] = Appearance("#5b4bb5", "#a99bf5", Pattern.DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        if node.is_running():
            node.pause()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state = node.state()
        evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "Paused", "Pid")}
        if not state["Running"]:
            return Proof(False, evidence, "its process does not run")
        if not state["Paused"]:
            return Proof(False, evidence, "Docker does not report it as paused")
        kernel = _kernel_freezer(int(state["Pid"]))
        if kernel is not None:
            evidence["freezer"] = kernel
            if "FROZEN" not in kernel and "frozen 1" not in kernel:
                return Proof(False, evidence, f"the kernel's freezer says {kernel!r}")
        return Proof(True, evidence)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.unpause()

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Who reports that the processes are frozen."""
        return "frozen by the cgroup freezer" if "freezer" in evidence else "frozen, as Docker reports"


def _kernel_freezer(pid: int) -> str | None:
    """The freezer's state of a process, if the container runs on this machine and the file can be read."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                return Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").read_text().strip()
            if number == "0" and not controllers and path != "/":
                lines = Path(f"/sys/fs/cgroup{path}/cgroup.events").read_text().splitlines()
                return next((line for line in lines if line.startswith("frozen")), None)
    return None
