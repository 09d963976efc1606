"""`kill`: the crash of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import DOWN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.process.ended import describe_end, ended_with
from kafka_chaos.faults.target import Target

SIGKILL_EXIT_CODE = 128 + 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Kill the processes (SIGKILL). Its proof: each is gone with the signal's exit code, not by the OOM killer."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "kill"
    holds: ClassVar[str] = DOWN
    appearance: ClassVar[Appearance] = Appearance("#b3431f", "#f0895f", Pattern.CROSSES)

    describe_evidence = staticmethod(describe_end)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `kill` for each broker hit."""
        return one_per_broker(self.kind, self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Kill the processes and wait until they are gone."""
        at_once(nodes, lambda node: node.kill())

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Gone, with SIGKILL's exit code."""
        return all_took_effect({node.name: ended_with(node, SIGKILL_EXIT_CODE) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Start them again and wait until they serve."""
        cluster.start_again(nodes)
