"""The kind that loses packets by chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Pattern, Proof
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLoss(Fault):
    """Lose `percent` of the packets that other brokers send to the target. TCP sends them again, so that everything is
    slow and nothing is gone. Its proof: packets that were dropped, counted by the kernel."""

    percent: Annotated[float, Interval(gt=0, le=100)] = 10.0
    kind: ClassVar[str] = "packet-loss"
    ends_with_process: ClassVar[bool] = True
    # Enough loss in a row is a cut.
    counts_as: ClassVar[str] = "partition"
    appearance: ClassVar[Appearance] = Appearance("#4a6785", "#9db8d6", Pattern.LINES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        by_chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.percent / 100:.4f}")
        others = [broker for broker in cluster.brokers.values() if broker.name != node.name]
        rules = [("-s", other.address, *by_chance, "-j", "DROP") for other in others]
        Rules(chain_name(self), {"INPUT": rules}).install(node)

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return Rules(chain_name(self), {"INPUT": ()}).matched(node)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        Rules(chain_name(self), {"INPUT": ()}).remove(node)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were dropped."""
        return f"{counted_packets(evidence)} dropped"
