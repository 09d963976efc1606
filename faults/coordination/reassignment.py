"""Kinds that change a topic under load without ending any process: replicas move to other brokers, or partitions are
added.

`reassignment` is what an operator does to empty a broker, or to spread load. The new replica copies the log from its
start while producers go on. Once it is in sync, the old one leaves the ISR, gives up leadership if it leads, and
deletes its files.

`partition-growth`: clients go on with the partitions that they know, and learn of the new ones from the cluster's
metadata.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, Leadership, NodeControl, Partition, inside_of, topics_of
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, all_took_effect, mark

_FOLDERS = 'for directory; do ls "$directory" 2>/dev/null; done; true'


@dataclass(frozen=True, slots=True)
class _Move:
    """A partition as it was, and the replicas that it is to have instead, in the same order."""

    before: Leadership
    replicas: tuple[int, ...]

    def heir_of(self, broker: int) -> int:
        """The broker that gets a broker's place among the replicas; the same broker if its replica stays."""
        return dict(zip(self.before.replicas, self.replicas, strict=True))[broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment(Fault):
    """Move replicas of lanes' partitions from the targets to brokers without a replica of the same partition, with
    AlterPartitionReassignments. Each new replica takes the place of the old one among the partition's replicas, and
    copies the log from its start. With `lane`, the partitions of that lane alone move. They stay where they are when
    the fault ends. Its proof: in the metadata, each of these partitions has the new replica in its ISR and the old one
    no longer among its replicas, and targets that run have deleted the files of their old replicas."""

    lane: str | None = None
    kind: ClassVar[str] = "reassignment"
    only_brokers: ClassVar[bool] = True
    spares_other_lanes: ClassVar[bool] = True
    leaves_nodes_alone: ClassVar[bool] = True
    since: ClassVar[tuple[str, str]] = ("2.4", "replicas move by AlterPartitionReassignments (KIP-455)")
    proof_timeout: ClassVar[float] = 60.0
    # A replica leaves the ISR, and if it leads is replaced by a member of the ISR while it runs on. Unlike after an
    # expired session, it never comes back: the new replica joins in its place, and begins with an empty log.
    counts_as: ClassVar[str] = "session-expiry"
    appearance: ClassVar[Appearance] = Appearance("#6b4f9e", "#b9a3e3", Pattern.DOTS)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether running brokers can take a replica from every target."""
        leaving = {broker for move in self._moves(cluster, nodes).values() for broker in move.before.replicas}
        return all(node.number in leaving for node in nodes)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Note who holds what, and ask for the moves; they go on by themselves."""
        if mark(self) not in cluster.noted:
            moves = self._moves(cluster, nodes)
            cluster.noted[mark(self)] = moves
            cluster.move_replicas({place: move.replicas for place, move in moves.items()})

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """All replicas of the targets are elsewhere."""
        moves: Mapping[Partition, _Move] = cluster.noted.get(mark(self), {})
        now = cluster.leadership() if moves else {}
        return all_took_effect({node.name: _moved(cluster, node, moves, now) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Nothing is broken. A move that goes on is awaited; one that does not end is cancelled."""
        cluster.end_moves(cluster.noted.get(mark(self), {}))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which partitions moved a replica, and to which broker."""
        moved = evidence["moved"]
        moves = [f"{move['partition']} to broker {move['heir']}" for move in moved]
        files = "its own are deleted" if evidence["files_deleted"] else "it is down, and keeps its own files"
        return f"replicas of {counted(len(moved), 'partition')} moved: {first_of(moves)}; {files}"

    def _moves(self, cluster: ClusterControl, nodes: Nodes) -> dict[Partition, _Move]:
        """The moves to make. A partition stays if it moves already, or if too few brokers are free."""
        topics = topics_of(cluster, self.lane)
        targets = {node.number for node in nodes}
        moving, moves = cluster.moving(), {}
        for place, state in sorted(cluster.leadership().items()):
            if moving is not None and place not in moving and place[0] in topics and targets & set(state.replicas):
                free = [
                    number
                    for number, node in sorted(cluster.brokers.items())
                    if number not in (*state.replicas, *targets) and node.is_running()
                ]
                if replicas := _replaced(state.replicas, targets, free, place[1]):
                    moves[place] = _Move(state, replicas)
        return moves


def _replaced(
    replicas: Sequence[int], targets: set[int], free: Sequence[int], partition: int
) -> tuple[int, ...] | None:
    """The replicas with free brokers in place of the targets; None if too few are free. The partition's number selects
    the first free broker, so that the load is spread."""
    leaving = [broker for broker in replicas if broker in targets]
    if len(leaving) > len(free):
        return None
    heirs = {broker: free[(partition + step) % len(free)] for step, broker in enumerate(leaving)}
    return tuple(heirs.get(broker, broker) for broker in replicas)


def _moved(
    cluster: ClusterControl, node: NodeControl, moves: Mapping[Partition, _Move], now: Mapping[Partition, Leadership]
) -> Proof:
    held = {place: move for place, move in moves.items() if node.number in move.before.replicas}
    if not held:
        return Proof(False, {}, "it held no replica that a broker which is free could take")
    kept = _folders(cluster, node)
    moved, missing = [], []
    for (topic, number), move in sorted(held.items()):
        state, name, heir = now.get((topic, number)), f"{topic}-{number}", move.heir_of(node.number)
        if state is None or node.number in state.replicas or heir not in state.isr:
            missing.append(f"{name} has not moved")
        elif kept is not None and name in kept:
            missing.append(f"{name} has moved, and its old files are still there")
        else:
            leaders = [move.before.leader, state.leader]
            replicas = [list(move.before.replicas), list(state.replicas)]
            moved.append({"partition": name, "heir": heir, "replicas": replicas, "leader": leaders})
    evidence = {"moved": moved, "files_deleted": kept is not None}
    return Proof(not missing, evidence, first_of(missing))


def _folders(cluster: ClusterControl, node: NodeControl) -> set[str] | None:
    """The names in a broker's log directories; None while it is down or frozen: then it can delete no files."""
    state = node.state()
    if not state["Running"] or state["Paused"]:
        return None
    return set(inside_of(node).must_execute("sh", "-c", _FOLDERS, "sh", *cluster.log_directories).split())


NewPartitions = Mapping[Partition, tuple[int, ...]]
"""The replicas of each new partition, its leader first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGrowth(Fault):
    """Give the topics of lanes `add` more partitions each, with CreatePartitions. The targets lead them in turn; as
    many other brokers follow as with the topic's first partition. With `lane`, the topic of that lane alone grows. The
    partitions stay when the fault ends. Its proof: in the metadata, all of them have a leader, and every replica is in
    the ISR."""

    lane: str | None = None
    add: Annotated[int, Ge(1)] = 1
    kind: ClassVar[str] = "partition-growth"
    only_brokers: ClassVar[bool] = True
    spares_other_lanes: ClassVar[bool] = True
    leaves_nodes_alone: ClassVar[bool] = True
    since: ClassVar[tuple[str, str]] = ("1.0", "topics grow by CreatePartitions (KIP-195)")
    # The model expects nothing: each partition keeps what it promises, and a new one is like those that were there.
    appearance: ClassVar[Appearance] = Appearance("#1f6f8b", "#79c3dc", Pattern.BACK_DIAGONALS)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether a target runs, and enough brokers for the replicas of all these topics."""
        return {topic for topic, _ in self._new(cluster, nodes)} == set(topics_of(cluster, self.lane))

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Choose the new partitions' replicas, and ask for them."""
        if mark(self) not in cluster.noted:
            new = self._new(cluster, nodes)
            cluster.noted[mark(self)] = new
            cluster.add_partitions(new)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """The new partitions are there, led, and in sync."""
        new: NewPartitions = cluster.noted.get(mark(self), {})
        now = cluster.leadership() if new else {}
        return all_took_effect({node.name: _led(node, new, now) for node in nodes})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which new partitions a target was to lead, and who leads them."""
        added = evidence["added"]
        told = [f"{partition['partition']} (leader {partition['leader']})" for partition in added]
        return f"{counted(len(added), 'new partition')}{': ' if told else ''}{first_of(told)}"

    def _new(self, cluster: ClusterControl, nodes: Nodes) -> dict[Partition, tuple[int, ...]]:
        """The partitions to add, of those topics for whose replicas enough brokers run."""
        topics = topics_of(cluster, self.lane)
        running = [number for number, node in sorted(cluster.brokers.items()) if node.is_running()]
        leaders = [node.number for node in nodes if node.number in running]
        places, new = cluster.leadership(), {}
        for topic in topics:
            numbers = [number for name, number in places if name == topic]
            count = len(places[topic, 0].replicas) if numbers else 0
            if leaders and 0 < count <= len(running):
                for step in range(self.add):
                    first = running.index(leaders[step % len(leaders)])
                    replicas = tuple(running[(first + rank) % len(running)] for rank in range(count))
                    new[topic, max(numbers) + 1 + step] = replicas
        return new


def _led(node: NodeControl, new: NewPartitions, now: Mapping[Partition, Leadership]) -> Proof:
    if not new:
        return Proof(False, {}, "there was no topic, or too few brokers ran")
    missing = [
        f"{topic}-{number}"
        for (topic, number), replicas in new.items()
        if (state := now.get((topic, number))) is None or state.leader is None or set(state.isr) != set(replicas)
    ]
    own = [place for place, replicas in new.items() if replicas[0] == node.number and place in now]
    added = [{"partition": f"{topic}-{n}", "leader": now[topic, n].leader} for topic, n in sorted(own)]
    return Proof(not missing, {"added": added}, f"{first_of(missing)} is not there, or not in sync")
