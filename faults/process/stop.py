"""`stop`: the controlled shutdown of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import DOWN, Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.process.ended import describe_end, ended_with
from kafka_chaos.faults.target import Target

SIGTERM_EXIT_CODE = 128 + 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop the processes (SIGTERM): a broker first moves its leaders. Its proof: each process ended by itself."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "stop"
    holds: ClassVar[str] = DOWN
    appearance: ClassVar[Appearance] = Appearance("#9a6a00", "#dfae4a", Pattern.LINES)

    describe_evidence = staticmethod(describe_end)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `stop` for each broker hit."""
        return one_per_broker(self.kind, self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Ask the processes to end, and wait until they have ended."""
        at_once(nodes, lambda node: node.stop())

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Gone, with SIGTERM's exit code."""
        return all_took_effect({node.name: ended_with(node, SIGTERM_EXIT_CODE) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Start them again and wait until they serve."""
        cluster.start_again(nodes)
