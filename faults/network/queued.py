"""The kinds that treat packets badly: by chance, or in a queue of the target; and whether this machine can.

TCP hides what happens to its packets from Kafka: nothing is lost or comes twice, but everything may take longer, and as
long as it takes somebody to give up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Interval

from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure, counted
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, at_once
from kafka_chaos.faults.machine import why_not_inside
from kafka_chaos.faults.network.packet_filter import (
    HOOKS,
    Direction,
    Rule,
    Rules,
    chain_name,
    counted_packets,
    named_nodes,
)
from kafka_chaos.faults.parts import PacketControl


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Fault):
    """Packets between the targets and others. `peers` names these others: `brokers`, `controllers` (KRaft's dedicated
    ones), nodes by id, `clients`, or `everyone`. Without it, they are the nodes of the targets' own kind. `direction`
    is relative to the target: `in`, `out` or `both`.
    """

    direction: Direction = "in"
    peers: tuple[int, ...] | Literal["brokers", "controllers", "clients", "everyone"] | None = None
    # Whoever waits long enough gives up, as if nobody answered.
    counts_as: ClassVar[str] = "partition"
    ends_with_process: ClassVar[bool] = True

    @staticmethod
    def unavailable() -> str | None:
        """Why this machine can't have queues of packets."""
        return why_not_inside("queues of packets")

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let packets wait on the targets that run."""
        at_once(nodes, lambda node: self._begin(cluster, nodes, node))

    def _treatment(self) -> dict[str, Any]:
        """The queue's treatment of packets."""
        raise NotImplementedError

    def _shown(self, tally: Mapping[str, Any]) -> Proof:
        return Proof(tally["waited"] > 0, dict(tally), "" if tally["waited"] else "no packet has waited yet")

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
    return f"{counted(waited, 'packet')} waited, {average:,.0f} ms on average"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByChance(Fault):
    """The kernel chooses `percent` of the packets between the targets and their peers, each by itself. `fate`: what
    becomes of them, in words."""

    percent: Annotated[float, Interval(gt=0, le=100)] = 10.0
    fate: ClassVar[str]
    ends_with_process: ClassVar[bool] = True

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many packets it were, and their fate."""
        return f"{counted_packets(evidence)} {cls.fate}"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDelay(Queued):
    """Let packets that the peers send to the target arrive `seconds` later, and by chance up to `jitter` more. None
    overtakes another. `peers` are the other nodes of the target's kind, or `brokers`, `controllers`, nodes by id,
    `clients` or `everyone`; `direction` is `in`, `out` (what the target sends) or `both`. Its proof: packets that have
    waited, counted and timed by whoever let them wait."""

    seconds: Annotated[float, Ge(0)] = 0.1
    jitter: Annotated[float, Ge(0)] = 0.0
    kind: ClassVar[str] = "packet-delay"
    appearance: ClassVar[Appearance] = Appearance("#2f6b5e", "#7fcdbb", Pattern.LINES)
    describe_evidence = staticmethod(counted_wait)

    def __post_init__(self) -> None:
        if not self.seconds + self.jitter > 0:
            raise ValueError("seconds: 0 without jitter is not valid: expected more than 0")

    def _treatment(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "jitter": self.jitter}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDuplicate(ByChance):
    """Send `percent` of the packets from the target to its peers twice. TCP drops the copies, so that Kafka sees none
    of it. `peers` are the other nodes of the target's kind, or `brokers`, `controllers` or nodes by id. Its proof:
    packets that were sent twice, counted by the kernel."""

    peers: tuple[int, ...] | Literal["brokers", "controllers"] | None = None
    kind: ClassVar[str] = "packet-duplicate"
    fate: ClassVar[str] = "sent twice"
    # The model expects nothing: no request comes twice, and none comes late.
    appearance: ClassVar[Appearance] = Appearance("#5c6b2f", "#b8c97a", Pattern.DOTS)

    def _peers(self, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
        return named_nodes(self.peers, cluster, nodes)

    def _rules(self, node: NodeControl, peers: Sequence[NodeControl] = ()) -> Rules:
        # The copy goes to the peer itself: it is on the same network.
        rules = [("-d", peer.address, *self._chance, "-j", "TEE", "--gateway", peer.address) for peer in peers]
        return Rules(chain_name(self), {"OUTPUT": rules}, table="mangle")


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLoss(ByChance):
    """Lose `percent` of the packets that other brokers send to the target. TCP sends them again, so that everything is
    slow and nothing is gone. Its proof: packets that were dropped, counted by the kernel."""

    kind: ClassVar[str] = "packet-loss"
    fate: ClassVar[str] = "dropped"
    # Enough loss in a row is a cut.
    counts_as: ClassVar[str] = "partition"
    appearance: ClassVar[Appearance] = Appearance("#4a6785", "#9db8d6", Pattern.LINES)

    def _peers(self, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
        return list(cluster.brokers.values())

    def _rules(self, node: NodeControl, peers: Sequence[NodeControl] = ()) -> Rules:
        return Rules(chain_name(self), {"INPUT": [("-s", peer.address, *self._chance, "-j", "DROP") for peer in peers]})


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRate(Queued):
    """Let at most `kbit_per_second` of what the peers send to the target arrive, all peers together. The rest waits for
    its turn. `peers` and `direction` are those of `packet-delay`; each direction has the rate for itself. Its proof:
    packets that have waited, counted and timed by whoever let them wait."""

    kbit_per_second: Annotated[float, Gt(0)] = 1000.0
    kind: ClassVar[str] = "packet-rate"
    appearance: ClassVar[Appearance] = Appearance("#8c5a1f", "#e0b070", Pattern.DIAGONALS)
    describe_evidence = staticmethod(counted_wait)

    def _treatment(self) -> dict[str, Any]:
        return {"bits_per_second": self.kbit_per_second * 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketReorder(Queued):
    """Let `percent` of the packets that the peers send to the target arrive `seconds` later, so that others overtake
    them. TCP puts them in order again, and everything is slower. `peers` and `direction` are those of `packet-delay`.
    Its proof: packets that later ones of their connection have overtaken, counted by whoever let them wait."""

    percent: Annotated[float, Interval(gt=0, lt=100)] = 10.0
    seconds: Annotated[float, Gt(0)] = 0.05
    kind: ClassVar[str] = "packet-reorder"
    in_words: ClassVar[str] = "{overtaken:,} of {packets:,} packets were overtaken"
    appearance: ClassVar[Appearance] = Appearance("#7a4b8c", "#c7a0d8", Pattern.CROSSES)

    def _treatment(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "percent": self.percent, "in_order": False}

    def _shown(self, tally: Mapping[str, Any]) -> Proof:
        return Proof(tally["overtaken"] > 0, dict(tally), "" if tally["overtaken"] else "no packet was overtaken yet")
