"""`isolate`: a container that nobody reaches, clients included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets
from kafka_chaos.faults.target import Target

_RULES = {"INPUT": [("!", "-i", "lo", "-j", "DROP")], "OUTPUT": [("!", "-o", "lo", "-j", "DROP")]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate:
    """Cut the targets off from everybody: brokers, ZooKeeper or controllers, and clients. Its proof: packets that were
    dropped, counted by the kernel."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    kind: ClassVar[str] = "isolate"
    ends_with_process: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#8a2f6b", "#d98abf", Pattern.BACK_DIAGONALS)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `partition` for each broker hit; the model's may cut off clients, too."""
        return one_per_broker("partition", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Drop every packet from and to the targets that run."""
        at_once(nodes, self._rules.install)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Packets were dropped on every target."""
        return all_took_effect({node.name: self._rules.matched(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Remove the rules where the container still has them."""
        at_once(nodes, self._rules.remove)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were dropped."""
        return f"{counted_packets(evidence)} dropped"

    @property
    def _rules(self) -> Rules:
        return Rules(chain_name(self), _RULES)
