"""Fault kinds that change a topic under load while all processes keep running: they move replicas, or add partitions.

`reassignment` does what operators do to empty a broker, or to spread load. The new replica copies the log from its
start while producers go on. Once it is in sync, the old replica leaves the ISR, gives up leadership if it leads, and
its files are deleted.

`partition-growth` adds partitions to topics. Clients go on with the partitions that they know, and learn of new
ones from metadata. Producers with acks=0 never write to new partitions, where they might lose records unnoticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, Leadership, NodeControl, PartitionId, shell_of, topics_of
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, all_took_effect

# Lists what is in the directories among its arguments. `true` ends it: a missing directory is no failure.
_LIST_FOLDERS = 'for directory; do ls "$directory" 2>/dev/null; done; true'
NewPartitions = Mapping[PartitionId, tuple[int, ...]]
"""The replicas of each new partition, its leader first."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A partition's leadership before its move, and its replicas after the move, each in its predecessor's place."""

    before: Leadership
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment(Fault):
    """Move replicas of lanes' partitions from the targets to brokers without a replica of the same partition, with
    AlterPartitionReassignments. Each new replica takes the place of the old one among the partition's replicas, and
    copies the log from its start. With `lane`, only that lane's partitions move. Replicas stay where they are when the
    fault ends. Proof: in the metadata, each of these partitions has the new replica in its ISR and the old one no
    longer among its replicas, and targets that run have deleted the files of their old replicas."""

    lane: str | None = None
    kind: ClassVar[str] = "reassignment"
    only_brokers: ClassVar[bool] = True
    spares_other_lanes: ClassVar[bool] = True
    leaves_nodes_alone: ClassVar[bool] = True
    since: ClassVar[tuple[str, str]] = ("2.4", "replicas move by AlterPartitionReassignments (KIP-455)")
    proof_timeout: ClassVar[float] = 60.0
    # A replica leaves the ISR, and if it leads, it is replaced by a member of the ISR while its broker keeps running.
    # Unlike after an expired session, it never comes back: a new replica joins in its place, with an empty log.
    counts_as: ClassVar[str] = "session-expiry"
    appearance: ClassVar[Appearance] = Appearance("#6b4f9e", "#b9a3e3", Pattern.DOTS)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether running brokers can take a replica from every target."""
        leaving = {broker for move in self._moves(cluster, nodes).values() for broker in move.before.replicas}
        return all(node.number in leaving for node in nodes)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Note the replicas, and ask for the moves, without waiting for their end."""
        if self.stable_name not in cluster.noted:
            moves = self._moves(cluster, nodes)
            cluster.noted[self.stable_name] = moves
            cluster.move_replicas({partition: move.replicas for partition, move in moves.items()})

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether all replicas of the targets have moved to other brokers."""
        moves: Mapping[PartitionId, _Move] = cluster.noted.get(self.stable_name, {})
        now = cluster.leadership() if moves else {}
        return all_took_effect({node.name: _moves_proof(cluster, node, moves, now) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Wait for moves that have not ended; a move that does not end in time is cancelled."""
        cluster.end_moves(cluster.noted.get(self.stable_name, {}))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which partitions moved a replica, and to which broker."""
        moved = evidence["moved"]
        moves = [f"{move['partition']} to broker {move['heir']}" for move in moved]
        files = "the old files are deleted" if evidence["files_deleted"] else "the broker is down, with the old files"
        return f"replicas of {counted(len(moved), 'partition')} moved: {first_of(moves)}; {files}"

    def _moves(self, cluster: ClusterControl, nodes: Nodes) -> dict[PartitionId, _Move]:
        """The moves to make. A partition that is being moved already, or for which too few brokers are free, stays."""
        topics = topics_of(cluster, self.lane)
        targets = {node.number for node in nodes}
        moving, moves = cluster.moving_partitions(), {}
        for (topic, number), state in sorted(cluster.leadership().items()):
            leaving = [broker for broker in state.replicas if broker in targets]
            if moving is None or (topic, number) in moving or topic not in topics or not leaving:
                continue
            free = [
                broker
                for broker, node in sorted(cluster.brokers.items())
                if broker not in (*state.replicas, *targets) and node.is_running()
            ]
            if len(leaving) <= len(free):
                # The partition's number selects the first free broker, so that the load is spread.
                new_brokers = {broker: free[(number + step) % len(free)] for step, broker in enumerate(leaving)}
                moves[topic, number] = _Move(state, tuple(new_brokers.get(broker, broker) for broker in state.replicas))
        return moves


def _moves_proof(
    cluster: ClusterControl,
    node: NodeControl,
    moves: Mapping[PartitionId, _Move],
    now: Mapping[PartitionId, Leadership],
) -> Proof:
    own_moves = {partition: move for partition, move in moves.items() if node.number in move.before.replicas}
    if not own_moves:
        return Proof(False, {}, "it held no replica that another running broker could take")
    folders = _log_folders(cluster, node)
    moved, missing = [], []
    for (topic, number), move in sorted(own_moves.items()):
        state, name = now.get((topic, number)), f"{topic}-{number}"
        new_broker = move.replicas[move.before.replicas.index(node.number)]
        if state is None or node.number in state.replicas or new_broker not in state.isr:
            missing.append(f"{name} has not moved")
        elif folders is not None and name in folders:
            missing.append(f"{name} has moved, and its old files are still there")
        else:
            leaders = [move.before.leader, state.leader]
            replicas = [list(move.before.replicas), list(state.replicas)]
            moved.append({"partition": name, "heir": new_broker, "replicas": replicas, "leader": leaders})
    return Proof(not missing, {"moved": moved, "files_deleted": folders is not None}, first_of(missing))


def _log_folders(cluster: ClusterControl, node: NodeControl) -> set[str] | None:
    """The names of the folders in a broker's log directories; None while the broker is down or frozen."""
    state = node.state()
    if not state["Running"] or state["Paused"]:
        return None
    return set(shell_of(node).must_execute("sh", "-c", _LIST_FOLDERS, "sh", *cluster.log_directories).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGrowth(Fault):
    """Add `add` partitions to each lane's topic, with CreatePartitions. The targets lead the new partitions in turn,
    with as many replicas as the topic's first partition has. With `lane`, only that lane's topic grows. The
    partitions stay when the fault ends. Proof: in the metadata, all of them have a leader and every replica in the
    ISR."""

    lane: str | None = None
    add: Annotated[int, Ge(1)] = 1
    kind: ClassVar[str] = "partition-growth"
    only_brokers: ClassVar[bool] = True
    spares_other_lanes: ClassVar[bool] = True
    leaves_nodes_alone: ClassVar[bool] = True
    since: ClassVar[tuple[str, str]] = ("1.0", "topics grow by CreatePartitions (KIP-195)")
    # The model expects nothing: the promises hold for each partition on its own, old or new.
    appearance: ClassVar[Appearance] = Appearance("#1f6f8b", "#79c3dc", Pattern.BACK_DIAGONALS)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether a target runs, and enough brokers run for the replicas of all the topics that are to grow."""
        return {topic for topic, _ in self._new_partitions(cluster, nodes)} == set(topics_of(cluster, self.lane))

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Choose the new partitions' replicas, and ask for them."""
        if self.stable_name not in cluster.noted:
            new = self._new_partitions(cluster, nodes)
            cluster.noted[self.stable_name] = new
            cluster.add_partitions(new)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether all new partitions exist, have a leader, and are in sync."""
        new: NewPartitions = cluster.noted.get(self.stable_name, {})
        now = cluster.leadership() if new else {}
        return all_took_effect({node.name: _growth_proof(node, new, now) for node in nodes})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """The new partitions that a target was to lead, with their leaders."""
        added = evidence["added"]
        partitions = [f"{partition['partition']} (leader {partition['leader']})" for partition in added]
        return f"{counted(len(added), 'new partition')}{': ' if added else ''}{first_of(partitions)}"

    def _new_partitions(self, cluster: ClusterControl, nodes: Nodes) -> dict[PartitionId, tuple[int, ...]]:
        """The partitions to add, of those topics for whose replicas enough brokers run."""
        running = [number for number, node in sorted(cluster.brokers.items()) if node.is_running()]
        leaders = [node.number for node in nodes if node.number in running]
        leadership, new = cluster.leadership(), {}
        for topic in topics_of(cluster, self.lane):
            numbers = [number for name, number in leadership if name == topic]
            replica_count = len(leadership[topic, 0].replicas) if numbers else 0
            if leaders and 0 < replica_count <= len(running):
                for step in range(self.add):
                    first = running.index(leaders[step % len(leaders)])
                    replicas = tuple(running[(first + rank) % len(running)] for rank in range(replica_count))
                    new[topic, max(numbers) + 1 + step] = replicas
        return new


def _growth_proof(node: NodeControl, new: NewPartitions, now: Mapping[PartitionId, Leadership]) -> Proof:
    if not new:
        return Proof(False, {}, "there was no topic, or too few brokers ran")
    missing = [
        f"{topic}-{number}"
        for (topic, number), replicas in new.items()
        if (state := now.get((topic, number))) is None or state.leader is None or set(state.isr) != set(replicas)
    ]
    led = [partition for partition, replicas in new.items() if replicas[0] == node.number and partition in now]
    added = [{"partition": f"{topic}-{number}", "leader": now[topic, number].leader} for topic, number in sorted(led)]
    return Proof(not missing, {"added": added}, f"{first_of(missing)} is not there, or not in sync")
