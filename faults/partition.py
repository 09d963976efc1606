"""Network partitions: packet filter rules inside the target brokers' own network namespaces.

Each fault has its own chain, so faults neither see nor remove each other's rules. `DROP` blackholes packets: the peer
waits for its time-outs. `REJECT` answers with a TCP reset: the peer fails fast. These are different faults. The rules
go with the container's network namespace, which is a new one after a restart. So the injector installs them again once
a restarted container serves.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Nodes, Pattern, Proof, all_took_effect, at_once, one_per_broker
from kafka_chaos.faults.target import Target

PORTS = {"replication": 9092, "control": 9091}
"""Listener ports that can be cut separately: replication (followers fetch from it) and control (controller to broker
with ZooKeeper, the controllers' own listener in KRaft mode)."""

DIRECTIONS = ("both", "in", "out")
ACTIONS = ("drop", "reject")
_CHAINS = {"in": "INPUT", "out": "OUTPUT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Cut the target off from the other brokers.

    `direction` is relative to the target: `in` cuts what the peers send to it, `out` what it sends to them. With a
    `port`, `in` cuts connections to the target's own listener, and `out` its connections to the peers' listeners.
    Without a port, all traffic between them is cut. `peers` None means all brokers that are not targets. Its proof:
    packets that matched the rules, counted by the kernel.
    """

    target: Target
    at: float = 0.0
    duration: float = 0.0
    direction: str = "both"
    port: str | None = None
    action: str = "drop"
    peers: tuple[int, ...] | None = None
    kind: ClassVar[str] = "partition"
    ends_with_process: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#0b7285", "#57c3d6", Pattern.DOTS)

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("direction", self.direction, DIRECTIONS),
            ("port", self.port, (None, *PORTS)),
            ("action", self.action, ACTIONS),
        ):
            if value not in allowed:
                expected = " or ".join(str(choice) for choice in allowed if choice is not None)
                raise ValueError(f"{name}: {value!r} is not valid: expected {expected}")

    @property
    def chain(self) -> str:
        """The name of this fault's own chain; equal faults have the same name."""
        return f"KC-{zlib.crc32(repr(self).encode()):08x}"

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """One `partition` for each broker hit."""
        return one_per_broker(self.kind, self.target, brokers)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Install the rules on the targets that run and lack them."""
        peers = [node for number, node in cluster.brokers.items() if self._is_peer(number, nodes)]
        at_once(nodes, lambda node: self._install(node, peers) if node.is_running() else None)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Packets have matched the rules on every target."""
        return all_took_effect({node.name: self._packets(node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Remove the rules where the container still has them."""
        at_once(nodes, lambda node: self._remove(node) if node.is_running() else None)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets matched the rules, and what happened to them."""
        count = sum(evidence["packets"].values())
        fate = {"drop": "dropped", "reject": "rejected"}.get(evidence.get("action", ""), "stopped")
        return f"{count:,} packet{'' if count == 1 else 's'} {fate}"

    def _install(self, node: NodeControl, peers: Sequence[NodeControl]) -> None:
        for hook, chain in self._chains():
            # The jump is installed last: where it stands, nothing is missing.
            if node.execute("iptables", "-w", "-C", hook, "-j", chain)[0] == 0:
                continue
            node.execute("iptables", "-w", "-N", chain)
            node.must_execute("iptables", "-w", "-F", chain)
            for peer in peers:
                node.must_execute("iptables", "-w", "-A", chain, *self._rule(hook, peer))
            node.must_execute("iptables", "-w", "-I", hook, "-j", chain)

    def _remove(self, node: NodeControl) -> None:
        for hook, chain in self._chains():
            while node.execute("iptables", "-w", "-D", hook, "-j", chain)[0] == 0:
                pass
            if node.execute("iptables", "-w", "-F", chain)[0] == 0:
                node.must_execute("iptables", "-w", "-X", chain)

    def _is_peer(self, broker: int, nodes: Nodes) -> bool:
        if self.peers is not None:
            return broker in self.peers
        return broker not in {node.number for node in nodes}

    def _chains(self) -> Iterator[tuple[str, str]]:
        for direction in ("in", "out"):
            if self.direction in ("both", direction):
                yield _CHAINS[direction], f"{self.chain}-{direction}"

    def _rule(self, hook: str, peer: NodeControl) -> list[str]:
        rule = ["-s" if hook == "INPUT" else "-d", peer.address]
        if self.port is not None:
            rule += ["-p", "tcp", "--dport", str(PORTS[self.port])]
        elif self.action == "reject":
            rule += ["-p", "tcp"]
        jump = ["-j", "DROP"] if self.action == "drop" else ["-j", "REJECT", "--reject-with", "tcp-reset"]
        return [*rule, *jump]

    def _packets(self, node: NodeControl) -> Proof:
        counted: dict[str, int] = {}
        if not node.is_running():
            return Proof(False, counted, "its process does not run")
        for _, chain in self._chains():
            code, listing = node.execute("iptables", "-w", "-nvx", "-L", chain)
            if code != 0:
                return Proof(False, counted, f"it has no chain {chain}")
            counted[chain] = sum(int(line.split()[0]) for line in listing.splitlines()[2:] if line.strip())
        if not any(counted.values()):
            return Proof(False, {"packets": counted}, "no packet has met the rules yet")
        return Proof(True, {"packets": counted, "action": self.action})
