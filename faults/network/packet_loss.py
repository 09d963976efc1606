"""`packet-loss`: a network between brokers that loses a part of all packets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern
from kafka_chaos.faults.network.by_chance import ByChance
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLoss(ByChance):
    """Lose `percent` of the packets that other brokers send to the target. TCP sends them again, so that everything is
    slow and nothing is gone. Its proof: packets that were dropped, counted by the kernel."""

    kind: ClassVar[str] = "packet-loss"
    # Enough loss in a row is a cut.
    counts_as: ClassVar[str] = "partition"
    appearance: ClassVar[Appearance] = Appearance("#4a6785", "#9db8d6", Pattern.LINES)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were dropped."""
        return f"{counted_packets(evidence)} dropped"

    def _peers(self, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
        return list(cluster.brokers.values())

    def _rules(self, node: NodeControl, peers: Sequence[NodeControl] = ()) -> Rules:
        return Rules(chain_name(self), {"INPUT": [("-s", peer.address, *self._chance, "-j", "DROP") for peer in peers]})
