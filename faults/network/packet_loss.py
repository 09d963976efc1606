"""The kind that loses packets by chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.network.packet_filter import FiltersPackets, Rules, chain_name


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLoss(FiltersPackets):
    """Lose `percent` of the packets that other brokers send to the target. TCP sends them again, so that everything is
    slow and nothing is gone. Its proof: packets that were dropped, counted by the kernel."""

    percent: Annotated[float, Interval(gt=0, le=100)] = 10.0
    kind: ClassVar[str] = "packet-loss"
    appearance: ClassVar[Appearance] = Appearance("#4a6785", "#9db8d6", Pattern.LINES)

    def _hooks(self) -> Sequence[str]:
        return ("INPUT",)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        by_chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.percent / 100:.4f}")
        others = [broker for broker in cluster.brokers.values() if broker.name != node.name]
        rules = [("-s", other.address, *by_chance, "-j", "DROP") for other in others]
        Rules(chain_name(self), {"INPUT": rules}).install(node)
