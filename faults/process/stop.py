"""`stop`: the controlled shutdown of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Pattern, Proof
from kafka_chaos.faults.process.ended import describe_end, ended_with

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
