"""Shared by the kinds that let packets wait in a queue of the target: which packets, and whether this machine can.

TCP hides what happens to its packets from Kafka: nothing is lost or comes twice, but everything may take longer, and as
long as it takes somebody to give up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kafka_chaos.contract.errors import KafkaChaosError, UsageFailure
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof, at_once
from kafka_chaos.faults.machine import why_not_inside
from kafka_chaos.faults.network.packet_filter import Rule, Rules, chain_name
from kafka_chaos.faults.network.peers import DIRECTIONS, HOOKS, named_nodes
from kafka_chaos.faults.parts import PacketControl


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Fault):
    """Packets between the targets and others. `peers` names these others: `brokers`, `controllers` (KRaft's dedicated
    ones), nodes by id, `clients`, or `everyone`. Without it, they are the nodes of the targets' own kind. `direction`
    is relative to the target: `in`, `out` or `both`.
    """

    direction: str = "in"
    peers: tuple[int, ...] | Literal["brokers", "controllers", "clients", "everyone"] | None = None
    # Whoever waits long enough gives up, as if nobody answered.
    counts_as: ClassVar[str] = "partition"
    ends_with_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: {self.direction!r} is not valid: expected {' or '.join(DIRECTIONS)}")

    @staticmethod
    def unavailable() -> str | None:
        """Why this machine can't have queues of packets."""
        return why_not_inside("queues of packets")

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let packets wait on the targets that run."""
        at_once(nodes, lambda node: self._begin(cluster, nodes, node))

    def _treatment(self) -> dict[str, Any]:
        """What the queue does with packets."""
        raise NotImplementedError

    def _shown(self, tally: Mapping[str, Any]) -> Proof:
        if not tally["waited"]:
            return Proof(False, dict(tally), "no packet has waited yet")
        return Proof(True, dict(tally))

    def _begin(self, cluster: ClusterControl, nodes: Nodes, node: NodeControl) -> None:
        # Served first: a packet that finds nobody who serves its queue passes.
        number = packets_of(node).serve(chain_name(self), **self._treatment())
        if number is None:
            return
        ways = {hook: way for way, hook in HOOKS.items() if self.direction in ("both", way)}
        target = ("-j", "NFQUEUE", "--queue-num", str(number), "--queue-bypass")
        chosen = {hook: [*self._chosen(cluster, nodes, node, way, target)] for hook, way in ways.items()}
        self._rules(chosen).install(node)

    def _chosen(
        self, cluster: ClusterControl, nodes: Nodes, node: NodeControl, way: str, target: Rule
    ) -> Iterator[Rule]:
        """Rules that send the chosen packets of one way to the target."""
        source = "-s" if way == "in" else "-d"
        if self.peers not in ("clients", "everyone"):
            for peer in named_nodes(self.peers, cluster, nodes):  # type: ignore[arg-type]
                if peer.name != node.name:
                    yield (source, peer.address, *target)
            return
        if self.peers == "clients":
            for servers in (cluster.brokers, cluster.controllers, cluster.zookeepers):
                yield from ((source, server.address, "-j", "RETURN") for server in servers.values())
        yield ("!", "-i" if way == "in" else "-o", "lo", *target)

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        try:
            tally = packets_of(node).tally(chain_name(self))
        except KafkaChaosError as failure:
            return Proof(False, {}, str(failure))
        return Proof(False, {}, "its packets are in no queue") if tally is None else self._shown(tally)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        """Send no more packets to the queue, and let those go on that wait."""
        try:
            self._rules({hook: [] for hook in HOOKS.values()}).remove(node)
        finally:
            packets_of(node).end(chain_name(self))

    def _rules(self, by_hook: Mapping[str, list[Rule]]) -> Rules:
        # Before the table in which others drop packets: these do so still.
        return Rules(chain_name(self), by_hook, table="mangle")


def packets_of(node: NodeControl) -> PacketControl:
    """The queues of a container; raises `UsageFailure` if it can have none."""
    if node.packets is None:
        raise UsageFailure(f"{node.name}: its packets can't wait in a queue")
    return node.packets


def counted_wait(evidence: Mapping[str, Any]) -> str:
    """`1,234 packets waited, 101 ms on average`, out of a tally."""
    waited = evidence["waited"]
    average = evidence["seconds"] * 1000 / max(1, waited)
    return f"{waited:,} packet{'' if waited == 1 else 's'} waited, {average:,.0f} ms on average"
