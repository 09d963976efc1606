"""Shared by the kinds that treat some of the packets by chance: how many, the proof, and healing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof, at_once
from kafka_chaos.faults.network.packet_filter import Rule, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class ByChance(Fault):
    """The kernel chooses `percent` of the packets between the targets and their peers, each by itself."""

    percent: float = 10.0
    ends_with_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent: {self.percent:g} is not valid: expected more than 0 and at most 100")

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Install the rules on the targets that run."""
        peers = self._peers(cluster, nodes)
        at_once(nodes, lambda node: self._rules(node, [one for one in peers if one.name != node.name]).install(node))

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return self._rules(node).matched(node)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        self._rules(node).remove(node)

    def _peers(self, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
        """The nodes whose packets are meant; a target is no peer of its own."""
        raise NotImplementedError

    def _rules(self, node: NodeControl, peers: Sequence[NodeControl] = ()) -> Rules:
        """The rules of a target; without peers, those by which they are found again."""
        raise NotImplementedError

    @property
    def _chance(self) -> Rule:
        return ("-m", "statistic", "--mode", "random", "--probability", f"{self.percent / 100:.4f}")
