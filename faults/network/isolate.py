"""`isolate`: a container that nobody reaches, clients included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Pattern, Proof
from kafka_chaos.faults.network.packet_filter import Rules, chain_name, counted_packets

_RULES = {"INPUT": [("!", "-i", "lo", "-j", "DROP")], "OUTPUT": [("!", "-o", "lo", "-j", "DROP")]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate(Fault):
    """Cut the targets off from everybody: brokers, ZooKeeper or controllers, and clients. Its proof: packets that were
    dropped, counted by the kernel."""

    kind: ClassVar[str] = "isolate"
    ends_with_process: ClassVar[bool] = True
    # The model's may cut off clients, too.
    counts_as: ClassVar[str] = "partition"
    appearance: ClassVar[Appearance] = Appearance("#8a2f6b", "#d98abf", Pattern.BACK_DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        self._rules.install(node)

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return self._rules.matched(node)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        self._rules.remove(node)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were dropped."""
        return f"{counted_packets(evidence)} dropped"

    @property
    def _rules(self) -> Rules:
        return Rules(chain_name(self), _RULES)
