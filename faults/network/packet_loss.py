"""`packet-loss`: a network between brokers that loses a part of all packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLoss:
    """Lose `percent` of the packets that other brokers send to the target. TCP sends them again, so that everything is
    slow and nothing is gone. Its proof: packets that were dropped, counted by the kernel."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    percent: float = 10.0
    kind: ClassVar[str] = "packet-loss"
    ends_with_process: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#4a6785", "#9db8d6", Pattern.LINES)

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent: {self.percent:g} is not valid: expected more than 0 and at most 100")

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `partition` for each broker hit: enough loss in a row is a cut."""
        return one_per_broker("partition", self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Drop packets by chance on the targets that run."""
        peers = list(cluster.brokers.values())
        at_once(nodes, lambda node: self._rules(node, peers).install(node))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Packets were dropped on every target."""
        return all_took_effect({node.name: self._rules(node).matched(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Remove the rules where the container still has them."""
        at_once(nodes, lambda node: self._rules(node).remove(node))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were dropped."""
        return f"{counted_packets(evidence)} dropped"

    def _rules(self, node: NodeControl, peers: list[NodeControl] | None = None) -> Rules:
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.percent / 100:.4f}", "-j", "DROP")
        others = [peer for peer in peers or () if peer.name != node.name]
        return Rules(chain_name(self), {"INPUT": [("-s", peer.address, *chance) for peer in others]})
