"""`partition-growth`: topics get more partitions under load, and nothing ends.

Clients go on with the partitions that they know, and learn of the new ones from the cluster's metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from kafka_chaos.contract.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, Leadership, NodeControl, topics_of
from kafka_chaos.faults.cluster import Partition as Place
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, all_took_effect, mark

New = Mapping[Place, tuple[int, ...]]
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
        new: New = cluster.noted.get(mark(self), {})
        now = cluster.leadership() if new else {}
        return all_took_effect({node.name: _led(node, new, now) for node in nodes})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which new partitions a target was to lead, and who leads them."""
        added = evidence["added"]
        told = [f"{one['partition']} (leader {one['leader']})" for one in added]
        return f"{counted(len(added), 'new partition')}{': ' if told else ''}{first_of(told)}"

    def _new(self, cluster: ClusterControl, nodes: Nodes) -> dict[Place, tuple[int, ...]]:
        """The partitions to add, of those topics for whose replicas enough brokers run."""
        topics = topics_of(cluster, self.lane)
        running = [number for number, node in sorted(cluster.brokers.items()) if node.is_running()]
        leaders = [node.number for node in nodes if node.number in running]
        places, found = cluster.leadership(), {}
        for topic in topics:
            numbers = [number for name, number in places if name == topic]
            count = len(places[topic, 0].replicas) if numbers else 0
            if leaders and 0 < count <= len(running):
                for step in range(self.add):
                    first = running.index(leaders[step % len(leaders)])
                    replicas = tuple(running[(first + place) % len(running)] for place in range(count))
                    found[topic, max(numbers) + 1 + step] = replicas
        return found


def _led(node: NodeControl, new: New, now: Mapping[Place, Leadership]) -> Proof:
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
