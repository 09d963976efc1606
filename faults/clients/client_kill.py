"""`client-kill`: a client ends without a word: nothing is closed, left or committed."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, mark
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKill:
    """Kill members of a group or of a loop (SIGKILL), amid whatever they do; at the fault's end, new ones take their
    places. Its proof: each ran, and is gone by that signal."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "client-kill"
    holds: ClassVar[str] = DOWN
    hits_clients: ClassVar[bool] = True
    crashes_members: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#a13a6a", "#ec92b8", Pattern.CROSSES)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """Nothing of brokers: it counts among the `crashes` of the lane's group instead."""
        return ()

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Note which of them run, and kill these."""
        noted = cluster.noted.setdefault(mark(self), {})
        at_once(nodes, lambda node: _kill(node, noted))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Those that ran are gone, by SIGKILL."""
        noted = cluster.noted.get(mark(self), {})
        return all_took_effect({node.name: _is_killed(node, noted) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let new members take their places."""
        cluster.start_again(nodes)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How it ended."""
        return f"process {evidence['Pid']} gone by {signal.Signals(-int(evidence['ExitCode'])).name}"


def _kill(node: NodeControl, noted: dict[str, int]) -> None:
    state = node.state()
    if state["Running"]:
        noted[node.name] = state["Pid"]
        node.kill()


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
