"""The facts of a run, counted by lane and partition. Pure Python, no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition: how many rows each table has of it, and its highest offsets (None without such a row).

    `doubled`: rows of log/ that repeat another one.
    """

    produced: int = 0
    acknowledged: int = 0
    consumed: int = 0
    stored: int = 0
    doubled: int = 0
    first_acknowledged_ns: int | None = None
    acknowledged_end: int | None = None
    read_end: int | None = None
    log_end: int | None = None

    def end(self, *, final_log: bool) -> int | None:
        """The last offset of the final log; without one, the highest offset read or acknowledged."""
        if final_log:
            return self.log_end
        ends = [end for end in (self.read_end, self.acknowledged_end) if end is not None]
        return max(ends, default=None)

    def end_reached(self, *, final_log: bool) -> bool:
        """Whether some consumer read the partition to its end. A partition without records has no end to reach."""
        end = self.end(final_log=final_log)
        return end is None or (self.read_end is not None and self.read_end >= end)


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One broker's replica of a partition: its rows, its first and last offset."""

    rows: int
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """Whether it holds every offset from its first to its last exactly once."""
        return self.rows == self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """Per lane: its partitions' facts, by number; produced rows without a partition are under None.

    `unjudged`: acknowledged records whose fate neither the log nor a read shows.
    `replicas`: by partition and broker.
    """

    partitions: Mapping[int | None, PartitionFacts] = field(default_factory=dict)
    unjudged: int = 0
    replicas: Mapping[int, Mapping[int, ReplicaFacts]] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """The sum of a count over all partitions."""
        return sum(getattr(facts, name) for facts in self.partitions.values())

    @property
    def replica_rows(self) -> int:
        """The rows of all its replicas."""
        return sum(replica.rows for brokers in self.replicas.values() for replica in brokers.values())

    @property
    def first_acknowledged_ns(self) -> int | None:
        """When the first acknowledgement of the lane completed."""
        stamps = [facts.first_acknowledged_ns for facts in self.partitions.values()]
        return min((stamp for stamp in stamps if stamp is not None), default=None)
