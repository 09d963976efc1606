"""`kill`: the crash of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Pattern, Proof
from kafka_chaos.faults.process.ended import describe_end, ended_with

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
