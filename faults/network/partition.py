"""Fault kinds that filter packets: `partition` cuts nodes off from some others, `isolate` from everybody, and
`packet-loss` loses packets by chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, run_on_all
from kafka_chaos.faults.network.packet_filter import PacketFilterFault, Rule, RuleSet, chain_prefix, counted_packets

_PORTS = {"replication": 9092, "control": 9091}
"""Listener ports that can be cut separately: replication (followers fetch from it) and control (controller to broker
with ZooKeeper, the controllers' own listener in KRaft mode)."""
_HOOKS = {"in": "INPUT", "out": "OUTPUT"}  # where the packet filter sees what a target receives, and what it sends
_ALL_BUT_LOOPBACK = {"INPUT": [("!", "-i", "lo", "-j", "DROP")], "OUTPUT": [("!", "-o", "lo", "-j", "DROP")]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(PacketFilterFault):
    """Cut a broker off from the other brokers, or a dedicated controller from the other controllers.

    `peers` says from whom: `brokers`, `controllers` (KRaft's dedicated ones), or nodes by id, never the targets
    themselves; by default from all nodes of the targets' own kind. `direction` is relative to the target: `in` cuts
    what the peers send to it, `out` what it sends to them. With a `port`, `in` cuts connections to the target's own
    listener, and `out` its connections to the peers' listeners. Without a port, all traffic in that direction is cut.
    `action`: with `drop` packets vanish, and the peer waits for its time-outs; `reject` answers with a TCP reset, and
    the peer fails fast. Proof: packets that matched the rules, counted by the kernel.
    """

    direction: Literal["both", "in", "out"] = "both"
    port: Literal["replication", "control"] | None = None
    action: Literal["drop", "reject"] = "drop"
    peers: tuple[int, ...] | Literal["brokers", "controllers"] | None = None
    kind: ClassVar[str] = "partition"
    # The inherited `counts_as` is for brokers; a partition of controllers counts as session-expiry (`model_faults`).
    appearance: ClassVar[Appearance] = Appearance("#0b7285", "#57c3d6", Pattern.DOTS)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Install the rules on the targets that run and lack them."""
        peers = self._peers(cluster, nodes)
        by_hook = {hook: [self._rule(hook, peer) for peer in peers] for hook in self._hooks()}
        run_on_all(nodes, RuleSet(chain_prefix(self), by_hook).install)

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        proof = self._chains().match_proof(node)
        return replace(proof, evidence={**proof.evidence, "action": self.action})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Words for the number of packets that matched the rules, and for what happened to them."""
        # Old run directories have evidence without an action.
        fate = {"drop": "dropped", "reject": "rejected"}.get(evidence.get("action", ""), "stopped")
        return f"{counted_packets(evidence)} {fate}"

    def _peers(self, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
        """The nodes from which the targets are cut off."""
        targets = {node.name for node in nodes}
        brokers, controllers = list(cluster.brokers.values()), list(cluster.controllers.values())
        if isinstance(self.peers, tuple):
            peers = [node for node in (*brokers, *controllers) if node.number in self.peers]
        elif self.peers is None:
            peers = controllers if any(node.name in targets for node in controllers) else brokers
        else:
            peers = controllers if self.peers == "controllers" else brokers
        return [node for node in peers if node.name not in targets]

    def _hooks(self) -> Sequence[str]:
        return [hook for direction, hook in _HOOKS.items() if self.direction in ("both", direction)]

    def _rule(self, hook: str, peer: NodeControl) -> Rule:
        rule = ["-s" if hook == "INPUT" else "-d", peer.address]
        if self.port is not None:
            rule += ["-p", "tcp", "--dport", str(_PORTS[self.port])]
        elif self.action == "reject":
            rule += ["-p", "tcp"]  # Nothing else can be answered with a TCP reset.
        jump = ["-j", "DROP"] if self.action == "drop" else ["-j", "REJECT", "--reject-with", "tcp-reset"]
        return (*rule, *jump)


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate(PacketFilterFault):
    """Cut the targets off from everybody: brokers, ZooKeeper or controllers, and clients. Proof: packets that were
    dropped, counted by the kernel."""

    kind: ClassVar[str] = "isolate"
    appearance: ClassVar[Appearance] = Appearance("#8a2f6b", "#d98abf", Pattern.BACK_DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        RuleSet(chain_prefix(self), _ALL_BUT_LOOPBACK).install(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLoss(PacketFilterFault):
    """Lose `percent` of the packets that other brokers send to the target. TCP sends them again, so that everything
    arrives, only later. Proof: packets that were dropped, counted by the kernel."""

    percent: Annotated[float, Interval(gt=0, le=100)] = 10.0
    kind: ClassVar[str] = "packet-loss"
    appearance: ClassVar[Appearance] = Appearance("#4a6785", "#9db8d6", Pattern.LINES)

    def _hooks(self) -> Sequence[str]:
        return ("INPUT",)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        by_chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.percent / 100:.4f}")
        others = [broker for broker in cluster.brokers.values() if broker.name != node.name]
        rules = [("-s", other.address, *by_chance, "-j", "DROP") for other in others]
        RuleSet(chain_prefix(self), {"INPUT": rules}).install(node)
