"""The fault kinds that end or freeze the processes of servers, and the proof that a process ended as intended."""

import contextlib
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, FROZEN, Appearance, Fault, Pattern, Proof


def _monotonic_ns(finished_at: str | None) -> int | None:
    """The reading of the monotonic clock when a process ended, by Docker's time (RFC 3339); None without that time."""
    if not finished_at:
        return None
    ago = time.time() - datetime.fromisoformat(finished_at).timestamp()
    return time.monotonic_ns() - round(ago * 1e9)


def still_runs(state: Mapping[str, Any], pid: int) -> bool:
    """Whether a node's state shows that the process with this id still runs."""
    return bool(state["Running"]) and state["Pid"] == pid


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFault(Fault):
    """A fault that ends processes by a signal. Proof: each process is gone with the signal's exit code, and not by
    the OOM killer."""

    holds: ClassVar[str] = DOWN
    ending_signal: ClassVar[signal.Signals]

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state, expected = node.state(), 128 + self.ending_signal
        evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "ExitCode", "OOMKilled", "FinishedAt")}
        if state["Running"]:
            return Proof(False, evidence, "the process still runs")
        if state.get("OOMKilled"):
            return Proof(False, evidence, "the OOM killer ended it")
        if state["ExitCode"] != expected:
            return Proof(False, evidence, f"it ended with exit code {state['ExitCode']} instead of {expected}")
        return Proof(True, evidence, since_ns=_monotonic_ns(state.get("FinishedAt")))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """The exit code, and the signal that it stands for."""
        code = int(evidence["ExitCode"])
        return f"process gone with exit code {code} ({signal.Signals(code - 128).name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(SignalFault):
    """Kill the processes (SIGKILL). Proof: each is gone with the signal's exit code, not by the OOM killer."""

    kind: ClassVar[str] = "kill"
    ending_signal: ClassVar[signal.Signals] = signal.SIGKILL
    counts_as: ClassVar[str] = "kill"
    appearance: ClassVar[Appearance] = Appearance("#b3431f", "#f0895f", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(SignalFault):
    """Stop the processes (SIGTERM): brokers first hand over leadership. Proof: each ended with exit code 143."""

    kind: ClassVar[str] = "stop"
    ending_signal: ClassVar[signal.Signals] = signal.SIGTERM
    counts_as: ClassVar[str] = "stop"
    appearance: ClassVar[Appearance] = Appearance("#9a6a00", "#dfae4a", Pattern.LINES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.stop()


# A thawed process continues as if nothing had happened. A leader that was frozen for longer than its ZooKeeper session
# comes back as a zombie.
@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Fault):
    """Freeze the processes (cgroup freezer). Proof: Docker reports them as paused, and so does the kernel's freezer
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
    """A process's state in the kernel's freezer (cgroup version 1 or 2); None if this machine can't read it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                return Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").read_text().strip()
            if number == "0" and not controllers and path != "/":
                lines = Path(f"/sys/fs/cgroup{path}/cgroup.events").read_text().splitlines()
                return next((line for line in lines if line.startswith("frozen")), None)
    return None
