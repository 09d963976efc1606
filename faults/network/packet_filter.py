"""Rules of the kernel's packet filter in a container's own network namespace.

Each fault has chains of its own, so that faults neither see nor remove each other's rules. A restarted container has a
new network namespace without rules; the injector installs them again once the container serves.
"""

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.faults.cluster import ClusterControl, NodeControl, shell_of
from kafka_chaos.faults.fault import Fault, Proof

_ENDING_SECONDS = 3.0  # how long a container that ends may still count as running, while scripts in it fail
_INTERVAL = 0.1  # seconds between two tries of a script

Rule = tuple[str, ...]
"""A rule of iptables: its matches and its target, as arguments."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one fault in one container, by hook (`INPUT` or `OUTPUT`).

    The chains' names begin with `name`, which differs between unequal faults.
    """

    name: str
    by_hook: Mapping[str, Sequence[Rule]]

    def install(self, node: NodeControl) -> None:
        """Install all rules at the same moment, unless they are there or the container does not run."""
        if not node.is_running():
            return
        first = next(iter(self.by_hook))
        lines = ["*filter"]
        for hook, rules in self.by_hook.items():
            chain = self._chain(hook)
            # A new chain has no policy (`-`), and has counted no packets and bytes.
            lines += [f":{chain} - [0:0]", *(f"-A {chain} {' '.join(rule)}" for rule in rules)]
            lines.append(f"-I {hook} -j {chain}")
        document = "\n".join([*lines, "COMMIT", ""])
        check = f"iptables -w -C {first} -j {self._chain(first)} 2>/dev/null"  # succeeds if the rules are there
        _run(node, f"{check} || iptables-restore -w --noflush <<'END'\n{document}END\n")

    def remove(self, node: NodeControl) -> None:
        """Remove the rules where the container runs and still has them."""
        if not node.is_running():
            return
        chains = [(hook, self._chain(hook)) for hook in self.by_hook]
        # The jumps first: from then on, no packet meets the rules.
        jumps = [f"while iptables -w -D {hook} -j {chain} 2>/dev/null; do :; done" for hook, chain in chains]
        rules = [
            f"if iptables -w -F {chain} 2>/dev/null; then iptables -w -X {chain} || exit 1; fi" for _, chain in chains
        ]
        _run(node, "\n".join([*jumps, *rules]))

    def match_proof(self, node: NodeControl) -> Proof:
        """The proof that packets have matched the rules; its evidence `packets` has the number of packets by chain."""
        packets: dict[str, int] = {}
        if not node.is_running():
            return Proof(False, packets, "its process does not run")
        for hook in self.by_hook:
            chain = self._chain(hook)
            code, listing = shell_of(node).execute("iptables", "-w", "-nvx", "-L", chain, in_network=True)
            if code != 0:
                return Proof(False, packets, f"it has no chain {chain}")
            rules = listing.splitlines()[2:]  # after two lines of headings
            packets[chain] = sum(int(rule.split()[0]) for rule in rules if rule.strip())
        matched = any(packets.values())
        return Proof(matched, {"packets": packets}, "" if matched else "no packet has met the rules yet")

    def _chain(self, hook: str) -> str:
        return f"{self.name}-{'in' if hook == 'INPUT' else 'out'}"


def _run(node: NodeControl, script: str) -> None:
    """Run a script, again if it fails. If the container ends meanwhile, its rules are gone, which is no failure."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < deadline:
        if shell_of(node).execute("sh", "-c", script, in_network=True)[0] == 0 or not node.is_running():
            return
        # The script fails as soon as the process is gone; the engine may say so later.
        time.sleep(_INTERVAL)
    shell_of(node).must_execute("sh", "-c", script, in_network=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketFilterFault(Fault):
    """A fault made of packet filter rules, which vanish when the node's process ends. Proof: packets that matched."""

    ends_with_process: ClassVar[bool] = True
    # Packet loss does no more than a partition does. The model's partition may include clients, as `isolate` does.
    counts_as: ClassVar[str] = "partition"

    def _hooks(self) -> Sequence[str]:
        """The hooks of the packet filter at which the fault has rules."""
        return ("INPUT", "OUTPUT")

    def _chains(self) -> RuleSet:
        """The fault's own chains without their rules, which are not needed to count packets or to remove the chains."""
        return RuleSet(chain_prefix(self), dict.fromkeys(self._hooks(), ()))

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return self._chains().match_proof(node)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        self._chains().remove(node)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were dropped."""
        return f"{counted_packets(evidence)} dropped"


def chain_prefix(fault: object) -> str:
    """The beginning of the names of a fault's chains, the same for equal faults."""
    return f"KC-{zlib.crc32(repr(fault).encode()):08x}"


def counted_packets(evidence: Mapping[str, object]) -> str:
    """The number of packets in the evidence of `match_proof`, as text such as `1,234 packets`."""
    packets = evidence["packets"]
    assert isinstance(packets, Mapping)
    return counted(sum(packets.values()), "packet")
