"""Rules of the kernel's packet filter inside a container's own network namespace, in a chain of each fault's own.

Faults neither see nor remove each other's rules. Rules go with the container's network namespace, which is a new one
after a restart; the injector installs them again once a restarted container serves.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.faults.cluster import NodeControl
from kafka_chaos.faults.fault import Proof

Rule = tuple[str, ...]
"""What a packet must match, and what happens to it: iptables' words."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one fault in one container, by hook (`INPUT` or `OUTPUT`). `name` belongs to the fault alone."""

    name: str
    by_hook: Mapping[str, Sequence[Rule]]

    def install(self, node: NodeControl) -> None:
        """Install the rules where they are not."""
        for hook, rules in self.by_hook.items():
            chain = self._chain(hook)
            # The jump is installed last: where it stands, nothing is missing.
            if node.execute("iptables", "-w", "-C", hook, "-j", chain)[0] == 0:
                continue
            node.execute("iptables", "-w", "-N", chain)
            node.must_execute("iptables", "-w", "-F", chain)
            for rule in rules:
                node.must_execute("iptables", "-w", "-A", chain, *rule)
            node.must_execute("iptables", "-w", "-I", hook, "-j", chain)

    def remove(self, node: NodeControl) -> None:
        """Remove the rules where the container still has them."""
        for hook in self.by_hook:
            chain = self._chain(hook)
            while node.execute("iptables", "-w", "-D", hook, "-j", chain)[0] == 0:
                pass
            if node.execute("iptables", "-w", "-F", chain)[0] == 0:
                node.must_execute("iptables", "-w", "-X", chain)

    def matched(self, node: NodeControl) -> Proof:
        """Whether packets have matched the rules; the evidence is their number per chain, in `packets`."""
        counted: dict[str, int] = {}
        if not node.is_running():
            return Proof(False, counted, "its process does not run")
        for hook in self.by_hook:
            chain = self._chain(hook)
            code, listing = node.execute("iptables", "-w", "-nvx", "-L", chain)
            if code != 0:
                return Proof(False, counted, f"it has no chain {chain}")
            counted[chain] = sum(int(line.split()[0]) for line in listing.splitlines()[2:] if line.strip())
        if not any(counted.values()):
            return Proof(False, {"packets": counted}, "no packet has met the rules yet")
        return Proof(True, {"packets": counted})

    def _chain(self, hook: str) -> str:
        return f"{self.name}-{'in' if hook == 'INPUT' else 'out'}"


def chain_name(fault: object) -> str:
    """The name of a fault's own chain; equal faults have the same name."""
    return f"KC-{zlib.crc32(repr(fault).encode()):08x}"


def counted_packets(evidence: Mapping[str, object]) -> str:
    """`1,234 packets`, out of the evidence of `matched`."""
    packets = evidence["packets"]
    assert isinstance(packets, Mapping)
    count = sum(packets.values())
    return f"{count:,} packet{'' if count == 1 else 's'}"
