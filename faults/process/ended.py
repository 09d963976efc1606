"""Whether processes ended as intended, for the kinds that end them, or run on, for those that must not."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_chaos.faults.cluster import NodeControl
from kafka_chaos.faults.fault import Proof


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
