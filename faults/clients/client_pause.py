"""`client-pause`: a client freezes for a while, as in a long garbage collection or a suspended virtual machine.

Unlike the `freezes` of a group, which keep a member from polling, nothing of the process goes on: no heartbeats, no
requests, no time-outs of the client's own. Thawed, it goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import FROZEN, Appearance, Fault, Pattern, Proof


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
