"""`packet-duplicate`: a network that delivers packets twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, all_took_effect, at_once
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets
from kafka_chaos.faults.network.peers import named_nodes
from kafka_chaos.faults.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDuplicate:
    """Send `percent` of the packets from the target to its peers twice. TCP drops the copies, so that Kafka sees none
    of it. `peers` are the other nodes of the target's kind, or `brokers`, `controllers` or nodes by id. Its proof:
    packets that were sent twice, counted by the kernel."""

    target: Target
    at: float = 0.0
    duration: float = 0.0
    percent: float = 10.0
    peers: tuple[int, ...] | Literal["brokers", "controllers"] | None = None
    kind: ClassVar[str] = "packet-duplicate"
    ends_with_process: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#5c6b2f", "#b8c97a", Pattern.DOTS)

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent: {self.percent:g} is not valid: expected more than 0 and at most 100")

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """Nothing: no request comes twice, and none comes late."""
        return ()

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Send packets twice from the targets that run."""
        peers = named_nodes(self.peers, cluster, nodes)
        at_once(nodes, lambda node: self._rules(node, peers).install(node))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Packets were sent twice from every target."""
        return all_took_effect({node.name: self._rules(node).matched(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Remove the rules where the container still has them."""
        at_once(nodes, lambda node: self._rules(node).remove(node))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were sent twice."""
        return f"{counted_packets(evidence)} sent twice"

    def _rules(self, node: NodeControl, peers: Sequence[NodeControl] = ()) -> Rules:
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.percent / 100:.4f}")
        # The copy goes to the peer itself: it is on the same network.
        rules = [
            ("-d", peer.address, *chance, "-j", "TEE", "--gateway", peer.address)
            for peer in peers
            if peer.name != node.name
        ]
        return Rules(chain_name(self), {"OUTPUT": rules}, table="mangle")
