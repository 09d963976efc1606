"""Faults of processes: kill (SIGKILL), stop (SIGTERM, a controlled shutdown), pause (the cgroup freezer).

A killed or stopped container is started again on healing; a frozen one thaws, and goes on as if nothing had happened:
a leader frozen for longer than its ZooKeeper session comes back as a zombie.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Nodes, Proof, all_bit
from kafka_chaos.faults.target import Target

SIGKILL_EXIT_CODE = 128 + 9
SIGTERM_EXIT_CODE = 128 + 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL. Its proof: the process is gone and the exit code is the signal's, without the OOM killer."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "kill"
    model_kinds: ClassVar[tuple[str, ...]] = ("kill",)
    colour: ClassVar[str] = "#c0392b"

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Kill the processes and wait until they are gone."""
        for node in nodes:
            node.kill()

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Gone, with SIGKILL's exit code."""
        return all_bit({node.name: _ended_with(node, SIGKILL_EXIT_CODE) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Start them again and wait until they serve."""
        cluster.start_again(nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """SIGTERM: a broker moves its leaders first (controlled shutdown). Its proof: the process ended by itself."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "stop"
    model_kinds: ClassVar[tuple[str, ...]] = ("stop",)
    colour: ClassVar[str] = "#d68910"

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Ask the processes to end and wait until they have."""
        for node in nodes:
            node.stop()

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Gone, with SIGTERM's exit code."""
        return all_bit({node.name: _ended_with(node, SIGTERM_EXIT_CODE) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Start them again and wait until they serve."""
        cluster.start_again(nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The freezer. Its proof: Docker's and, where this machine can look, the kernel's word that all is frozen."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "pause"
    model_kinds: ClassVar[tuple[str, ...]] = ("pause",)
    colour: ClassVar[str] = "#2e86c1"

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Freeze them."""
        for node in nodes:
            node.pause()

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Frozen, each of them."""
        return all_bit({node.name: _frozen(node.state()) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Thaw them."""
        for node in nodes:
            node.unpause()


def _ended_with(node: NodeControl, exit_code: int) -> Proof:
    state = node.state()
    evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "ExitCode", "OOMKilled", "FinishedAt")}
    if state["Running"]:
        return Proof(False, evidence, "the process still runs")
    if state["ExitCode"] != exit_code or state.get("OOMKilled"):
        return Proof(False, evidence, f"it ended with exit code {state['ExitCode']} instead of {exit_code}")
    return Proof(True, evidence)


def _frozen(state: dict[str, Any]) -> Proof:
    evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "Paused", "Pid")}
    if not state["Paused"]:
        return Proof(False, evidence, "Docker does not report it as paused")
    kernel = _kernel_freezer(int(state["Pid"]))
    if kernel is not None:
        evidence["freezer"] = kernel
        if "FROZEN" not in kernel and "frozen 1" not in kernel:
            return Proof(False, evidence, f"the kernel's freezer says {kernel!r}")
    return Proof(True, evidence)


def _kernel_freezer(pid: int) -> str | None:
    """The freezer's state of a process, where the container runs on this very machine and the file can be read."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                return Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").read_text().strip()
            if number == "0" and not controllers and path != "/":
                lines = Path(f"/sys/fs/cgroup{path}/cgroup.events").read_text().splitlines()
                return next((line for line in lines if line.startswith("frozen")), None)
    return None
