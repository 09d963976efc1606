"""The fault kinds that an attached cluster's commands can do, and their proofs.

A command's exit code proves nothing. What does is the node's state as its `state` command tells it, together with what
clients see: a broker that is down, frozen or isolated does not answer them, one that is cut off from the others does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, cast

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof, all_took_effect, at_once
from kafka_chaos.faults.network.partition import Isolate, Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.harness.attached.node import DOWN, FROZEN, RUNNING, AttachedNode
from kafka_chaos.harness.attached.nodes_file import NodesFile

CUT_OFF = "cut off"
"""The state of a node that `mend` brings back from both `isolate` and `cut`: the last fault to end does it."""


class _ShownBy:
    """The proof of a fault: the `state` that it leaves a node in, and whether a broker then answers clients."""

    commands: tuple[str, ...]
    leaves: str
    answers: bool = False

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state = _own(node).state()
        if state["state"] != self.leaves:
            return Proof(False, state, f"it is {state['state']}, not {self.leaves}")
        if state["answers"] not in (self.answers, None):
            return Proof(False, state, "it answers clients" if state["answers"] else "it does not answer clients")
        return Proof(True, state)


class AttachedKill(_ShownBy, Kill):
    """`kill` by the commands `kill` and `start`."""

    commands, leaves = ("state", "kill", "start"), DOWN


class AttachedStop(_ShownBy, Stop):
    """`stop` by the commands `stop` and `start`."""

    commands, leaves = ("state", "stop", "start"), DOWN


class AttachedPause(_ShownBy, Pause):
    """`pause` by the commands `pause` and `thaw`."""

    commands, leaves = ("state", "pause", "thaw"), FROZEN


class AttachedIsolate(_ShownBy, Isolate):
    """`isolate` by the commands `isolate` and `mend`."""

    commands, leaves = ("state", "isolate", "mend"), RUNNING
    holds: ClassVar[str] = CUT_OFF

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        _own(node).break_by("isolate")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        _own(node).mend()


class AttachedPartition(Partition):
    """`partition` by the commands `cut` and `mend`; `stopped` proves it."""

    commands = ("state", "cut", "stopped", "mend")
    holds: ClassVar[str] = CUT_OFF

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Cut the nodes off from their peers."""
        peers = self._addresses(cluster, nodes)
        at_once(nodes, lambda node: _own(node).break_by("cut", peers=peers))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Packets were stopped at every node."""
        return all_took_effect({node.name: _stopped(_own(node)) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let them reach their peers again."""
        peers = self._addresses(cluster, nodes)
        at_once(nodes, lambda node: _own(node).mend(peers))

    def _addresses(self, cluster: ClusterControl, nodes: Nodes) -> list[str]:
        return [peer.address for peer in self._peers(cluster, nodes)]


def _own(node: object) -> AttachedNode:
    return cast("AttachedNode", node)


def _stopped(node: AttachedNode) -> Proof:
    packets = node.stopped_packets()
    return Proof(packets > 0, {"packets": packets}, "" if packets else "no packet was stopped yet")


_BY_COMMANDS = (AttachedKill, AttachedStop, AttachedPause, AttachedIsolate, AttachedPartition)
WAYS: Mapping[str, Any] = {way.kind: way for way in _BY_COMMANDS}
"""By kind, the class that does it by its `commands`."""


def by_commands(fault: Fault) -> Fault:
    """The fault, done by commands. Raises `UsageFailure` where there is no command for it."""
    way = WAYS.get(fault.kind)
    if way is None:
        raise UsageFailure(f"{fault.kind}: an attached cluster has no command for it; expected {', '.join(WAYS)}")
    if isinstance(fault, Partition) and (fault.direction, fault.port, fault.action) != ("both", None, "drop"):
        raise UsageFailure("partition: the command `cut` drops all packets, in both directions: leave its keys out")
    values = {one.name: getattr(fault, one.name) for one in fields(fault)}
    done: Fault = way(**values)
    return done


def require_commands(fault: Fault, file: NodesFile, allowed: Sequence[str]) -> None:
    """Raise `UsageFailure` if the fault may hit a node that may not be broken, or that lacks a command for it."""
    by_commands(fault)
    for kind, number in _may_hit(fault, file):
        name, entry = file.name_of(kind, number), file.entry(kind, number)
        if name not in allowed:
            raise UsageFailure(f"{fault.target.text} may be {name}, which --allow-faults does not name")
        lacking = [key for key in WAYS[fault.kind].commands if getattr(entry, key) is None]
        if lacking:
            raise UsageFailure(f"{fault.kind} needs the command {lacking[0]} of {name}, which the file of nodes lacks")
        if isinstance(fault, Partition) and not all(file.entry(kind, other).address for other in file.of(kind)):
            raise UsageFailure(f"partition needs the address of each of the {kind}, which the file of nodes lacks")


def _may_hit(fault: Fault, file: NodesFile) -> Iterator[tuple[str, int]]:
    target = fault.target
    if target.role in ("zookeeper", "controllers"):
        kind = "zookeepers" if target.role == "zookeeper" else "controllers"
        ids = sorted(file.of(kind))
        places = range(1, len(ids) + 1) if kind == "controllers" else ids
        wanted = [target.number] if target.number is not None else list(target.several or places)
        if not ids or not set(wanted) <= set(places):
            raise UsageFailure(f"{target.text}: the file of nodes names no such node")
        # A minority or a majority may be any of them.
        yield from ((kind, ids[place - 1] if kind == "controllers" else place) for place in wanted)
        return
    if target.role == "controller" and file.controllers:
        yield from (("controllers", number) for number in file.controllers)
        return
    if target.role == "broker" and target.number is not None:
        wanted = [target.number]
    else:
        wanted = list(target.several or file.brokers)
    for number in wanted:
        if number not in file.brokers:
            raise UsageFailure(f"{target.text}: the file of nodes names no broker {number}")
        yield "brokers", number
