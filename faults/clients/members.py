"""Kinds that end or freeze the processes of members of groups and loops."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, FROZEN, Appearance, Fault, Pattern, Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKill(Fault):
    """Kill members of a group or of a loop (SIGKILL), amid whatever they do; at the fault's end, new ones take their
    places. Its proof: each ran, and is gone by that signal."""

    kind: ClassVar[str] = "client-kill"
    holds: ClassVar[str] = DOWN
    hits_clients: ClassVar[bool] = True
    crashes_members: ClassVar[bool] = True
    # The model expects nothing of brokers: it counts among the `crashes` of the lane's group instead.
    appearance: ClassVar[Appearance] = Appearance("#a13a6a", "#ec92b8", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        state = node.state()
        if state["Running"]:
            self._noted(cluster)[node.name] = state["Pid"]
            node.kill()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return _is_killed(node, self._noted(cluster))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How it ended."""
        return f"process {evidence['Pid']} gone by {signal.Signals(-int(evidence['ExitCode'])).name}"


def _is_killed(node: NodeControl, noted: Mapping[str, int]) -> Proof:
    state = node.state()
    evidence = {key: state[key] for key in ("Pid", "ExitCode")}
    if node.name not in noted:
        return Proof(False, evidence, "its process had ended before")
    if state["Running"]:
        return Proof(False, evidence, "its process runs still")
    if state["ExitCode"] != -signal.SIGKILL:
        return Proof(False, evidence, f"it ended with {state['ExitCode']} instead of SIGKILL")
    return Proof(True, evidence)


# Unlike the `freezes` of a group, which keep a member from polling, nothing of the process goes on: no heartbeats, no
# requests, no time-outs of the client's own. Thawed, it goes on as if nothing had happened.
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause(Fault):
    """Freeze the processes of members of a group or of a loop (SIGSTOP), and thaw them at the fault's end. Its proof:
    the kernel tells that each is stopped."""

    kind: ClassVar[str] = "client-pause"
    holds: ClassVar[str] = FROZEN
    hits_clients: ClassVar[bool] = True
    # The model expects nothing: any member may be slow, and be removed without knowing it.
    appearance: ClassVar[Appearance] = Appearance("#6b6a1f", "#c9c76a", Pattern.DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        if node.is_running():
            node.pause()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state = node.state()
        evidence = {key: state.get(key) for key in ("Pid", "State")}
        if not state["Running"]:
            return Proof(False, evidence, "its process has ended")
        return Proof(
            bool(state["Paused"]), evidence, "" if state["Paused"] else f"the kernel tells {state.get('State')}"
        )

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.unpause()

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """What the kernel tells."""
        return f"process {evidence['Pid']}: {evidence['State']}"
