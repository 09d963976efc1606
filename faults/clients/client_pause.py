"""`client-pause`: a client freezes for a while, as in a long garbage collection or a suspended virtual machine.

Unlike the `freezes` of a group, which keep a member from polling, nothing of the process goes on: no heartbeats, no
requests, no time-outs of the client's own. Thawed, it goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import FROZEN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause:
    """Freeze the processes of members of a group or of a loop (SIGSTOP), and thaw them at the fault's end. Its proof:
    the kernel tells that each is stopped."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "client-pause"
    holds: ClassVar[str] = FROZEN
    hits_clients: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#6b6a1f", "#c9c76a", Pattern.DIAGONALS)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """Nothing: any member may be slow, and be removed without knowing it."""
        return ()

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Freeze those that run."""
        at_once(nodes, lambda node: node.pause() if node.is_running() else None)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Every process is stopped."""
        return all_took_effect({node.name: _is_stopped(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Thaw them."""
        at_once(nodes, lambda node: node.unpause())

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """What the kernel tells."""
        return f"process {evidence['Pid']}: {evidence['State']}"


def _is_stopped(node: NodeControl) -> Proof:
    state = node.state()
    evidence = {key: state.get(key) for key in ("Pid", "State")}
    if not state["Running"]:
        return Proof(False, evidence, "its process has ended")
    return Proof(bool(state["Paused"]), evidence, "" if state["Paused"] else f"the kernel tells {state.get('State')}")
