"""`packet-duplicate`: a network that delivers packets twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern
from kafka_chaos.faults.network.by_chance import ByChance
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets
from kafka_chaos.faults.network.peers import named_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDuplicate(ByChance):
    """Send `percent` of the packets from the target to its peers twice. TCP drops the copies, so that Kafka sees none
    of it. `peers` are the other nodes of the target's kind, or `brokers`, `controllers` or nodes by id. Its proof:
    packets that were sent twice, counted by the kernel."""

    peers: tuple[int, ...] | Literal["brokers", "controllers"] | None = None
    kind: ClassVar[str] = "packet-duplicate"
    # The model expects nothing: no request comes twice, and none comes late.
    appearance: ClassVar[Appearance] = Appearance("#5c6b2f", "#b8c97a", Pattern.DOTS)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were sent twice."""
        return f"{counted_packets(evidence)} sent twice"

    def _peers(self, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
        return named_nodes(self.peers, cluster, nodes)

    def _rules(self, node: NodeControl, peers: Sequence[NodeControl] = ()) -> Rules:
        # The copy goes to the peer itself: it is on the same network.
        rules = [("-d", peer.address, *self._chance, "-j", "TEE", "--gateway", peer.address) for peer in peers]
        return Rules(chain_name(self), {"OUTPUT": rules}, table="mangle")
