"""The fault kinds that commands can inject into the nodes of an attached cluster, and their proofs.

A command's exit code proves nothing. The proof is the state that the node's `state` command prints, and what clients
see: a broker that is down, frozen or isolated does not answer them. A broker that is cut off from other brokers does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, cast

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof, run_on_all
from kafka_chaos.faults.network.partition import Isolate, Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.harness.attached.node import DOWN, FROZEN, RUNNING, AttachedNode
from kafka_chaos.harness.attached.nodes_file import NodesFile

CUT_OFF = "cut off"
"""The state in which `isolate` and `cut` hold a node. When the last of these faults ends, `mend` ends the state."""

_UNANSWERED_REQUESTS = 3
"""How many requests in a row an isolated broker has to leave unanswered."""


class _ProvenByState:
    """Proves a fault: the node's state is `state_after`, and if the node is a broker, it does not answer clients."""

    commands: tuple[str, ...]  # the keys of the file of nodes that the fault needs
    state_after: str

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state = _attached(node).state()
        if state["state"] != self.state_after:
            return Proof(False, state, f"it is {state['state']}, not {self.state_after}")
        return Proof(not state["answers"], state, "it answers clients")


class AttachedKill(_ProvenByState, Kill):
    """The fault `kill`, injected by the command `kill` and healed by `start`."""

    commands, state_after = ("state", "kill", "start"), DOWN


class AttachedStop(_ProvenByState, Stop):
    """The fault `stop`, injected by the command `stop` and healed by `start`."""

    commands, state_after = ("state", "stop", "start"), DOWN


class AttachedPause(_ProvenByState, Pause):
    """The fault `pause`, injected by the command `pause` and healed by `thaw`."""

    commands, state_after = ("state", "pause", "thaw"), FROZEN


class AttachedIsolate(_ProvenByState, Isolate):
    """The fault `isolate`, injected by the command `isolate` and healed by `mend`."""

    commands, state_after = ("state", "isolate", "mend"), RUNNING
    holds: ClassVar[str] = CUT_OFF

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        _attached(node).break_by("isolate")

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        # A broker that is only slow leaves one request unanswered, but not several.
        for _ in range(_UNANSWERED_REQUESTS):
            proof = super()._proof(cluster, node)
            if not proof.took_effect:
                break
        return proof

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        _attached(node).mend()


class AttachedPartition(Partition):
    """The fault `partition`: `cut` injects it, `mend` heals it, and the number that `stopped` prints proves it."""

    commands = ("state", "cut", "stopped", "mend")
    holds: ClassVar[str] = CUT_OFF

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Cut the nodes off from their peers."""
        peers = self._addresses(cluster, nodes)
        run_on_all(nodes, lambda node: _attached(node).break_by("cut", peers=peers))

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        packets = _attached(node).stopped_packets()
        return Proof(packets > 0, {"packets": packets}, "no packet was stopped yet")

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let the nodes reach their peers again."""
        peers = self._addresses(cluster, nodes)
        run_on_all(nodes, lambda node: _attached(node).mend(peers))

    def _addresses(self, cluster: ClusterControl, nodes: Nodes) -> list[str]:
        return [peer.address for peer in self._peers(cluster, nodes)]


def _attached(node: object) -> AttachedNode:
    return cast("AttachedNode", node)


_CLASSES = (AttachedKill, AttachedStop, AttachedPause, AttachedIsolate, AttachedPartition)
KINDS: Mapping[str, Any] = {attached.kind: attached for attached in _CLASSES}
"""The class of each fault kind that commands can inject, by the name of the kind."""


def injected_by_commands(fault: Fault) -> Fault:
    """The same fault, injected by the commands of nodes. Raises `UsageFailure` if no command can inject it."""
    attached = KINDS.get(fault.kind)
    if attached is None:
        raise UsageFailure(f"{fault.kind}: an attached cluster has no command for it; expected {', '.join(KINDS)}")
    if isinstance(fault, Partition) and (fault.direction, fault.port, fault.action) != ("both", None, "drop"):
        raise UsageFailure("partition: `cut` drops all packets, both ways: leave out `direction`, `port` and `action`")
    same_fault: Fault = attached(**{field.name: getattr(fault, field.name) for field in fields(fault)})
    return same_fault


def require_commands(fault: Fault, file: NodesFile, allowed: Sequence[str]) -> None:
    """Raise `UsageFailure` if the fault may hit a node that may not be broken, or that lacks a command for it."""
    injected_by_commands(fault)
    for kind, number in _nodes_at_risk(fault, file):
        name, entry = file.name_of(kind, number), file.entry(kind, number)
        if name not in allowed:
            raise UsageFailure(f"{fault.target.text} may be {name}, which --allow-faults does not name")
        lacking = [key for key in KINDS[fault.kind].commands if getattr(entry, key) is None]
        if lacking:
            raise UsageFailure(f"{fault.kind} needs the command {lacking[0]} of {name}, which the file of nodes lacks")
        if fault.kind == Isolate.kind and kind != "brokers":
            raise UsageFailure(f"isolate can't be proven for {name}, which answers no clients: expected brokers")
        if isinstance(fault, Partition) and not all(file.entry(kind, other).address for other in file.nodes_of(kind)):
            raise UsageFailure(f"partition needs the address of each of the {kind}, which the file of nodes lacks")


def _nodes_at_risk(fault: Fault, file: NodesFile) -> Iterator[tuple[str, int]]:
    """The nodes that the fault may hit, each as its kind, such as `brokers`, and its number in the file of nodes."""
    target = fault.target
    if target.role in ("zookeeper", "controllers"):
        kind = "zookeepers" if target.role == "zookeeper" else "controllers"
        ids = sorted(file.nodes_of(kind))
        # A target counts controllers from 1 in the order of their ids; it names ZooKeeper's servers by their numbers.
        id_by_number = dict(enumerate(ids, start=1)) if kind == "controllers" else {number: number for number in ids}
        # A target such as a minority or a majority has no numbers: it may be any of these nodes.
        numbers = target.numbers or tuple(id_by_number)
        if not ids or not set(numbers) <= id_by_number.keys():
            raise UsageFailure(f"{target.text}: the file of nodes names no such node")
        yield from ((kind, id_by_number[number]) for number in numbers)
        return
    if target.role == "controller" and file.controllers:  # Any of them may be the active one.
        yield from (("controllers", number) for number in file.controllers)
        return
    for number in target.numbers or file.brokers:
        if number not in file.brokers:
            raise UsageFailure(f"{target.text}: the file of nodes names no broker {number}")
        yield "brokers", number
