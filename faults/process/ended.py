"""The kinds that end processes: by a crash or by a controlled shutdown; and whether processes ended as intended."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Pattern, Proof


def ended_with(node: NodeControl, exit_code: int) -> Proof:
    """Proves that the process ended with this exit code, and not by the OOM killer."""
    state = node.state()
    evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "ExitCode", "OOMKilled", "FinishedAt")}
    if state["Running"]:
        return Proof(False, evidence, "the process still runs")
    if state["ExitCode"] != exit_code or state.get("OOMKilled"):
        return Proof(False, evidence, f"it ended with exit code {state['ExitCode']} instead of {exit_code}")
    return Proof(True, evidence, since_ns=_monotonic_ns(state.get("FinishedAt")))


def _monotonic_ns(finished_at: str | None) -> int | None:
    """The moment on the monotonic clock that the engine tells, in RFC 3339 with up to nanoseconds; None without one."""
    if not finished_at:
        return None
    ago = time.time() - datetime.fromisoformat(finished_at).timestamp()
    return time.monotonic_ns() - round(ago * 1e9)


def runs_on(state: Mapping[str, Any], pid: int) -> bool:
    """Whether a node, by its state, runs the same process as before, the one with this id."""
    return bool(state["Running"]) and state["Pid"] == pid


def describe_end(evidence: Mapping[str, Any]) -> str:
    """The evidence of `ended_with` in words."""
    code = int(evidence["ExitCode"])
    return f"process gone with exit code {code} ({signal.Signals(code - 128).name})"


SIGKILL_EXIT_CODE = 128 + 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Fault):
    """Kill the processes (SIGKILL). Its proof: each is gone with the signal's exit code, not by the OOM killer."""

    kind: ClassVar[str] = "kill"
    holds: ClassVar[str] = DOWN
    counts_as: ClassVar[str] = "kill"
    appearance: ClassVar[Appearance] = Appearance("#b3431f", "#f0895f", Pattern.CROSSES)

    describe_evidence = staticmethod(describe_end)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.kill()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return ended_with(node, SIGKILL_EXIT_CODE)


SIGTERM_EXIT_CODE = 128 + 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Fault):
    """Stop the processes (SIGTERM): a broker first moves its leaders. Its proof: each process ended by itself."""

    kind: ClassVar[str] = "stop"
    holds: ClassVar[str] = DOWN
    counts_as: ClassVar[str] = "stop"
    appearance: ClassVar[Appearance] = Appearance("#9a6a00", "#dfae4a", Pattern.LINES)

    describe_evidence = staticmethod(describe_end)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.stop()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return ended_with(node, SIGTERM_EXIT_CODE)
