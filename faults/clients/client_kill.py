"""`client-kill`: a client ends without a word: nothing is closed, left or committed."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Pattern, Proof


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
