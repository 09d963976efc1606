"""A consumer that follows a lane's topic from its start to its end: which records it reads, and under which name.

The consumer reads all partitions, without a group. When it lost its position, or was replaced, it reads from the start
again, under a new name.

Guarantee: where further consumers read the lane, their reads hide no record that the first consumer missed: each
consumer has to begin at the start of each partition, and has to reach the end if it lives when the load has ended.
Otherwise the lane has a problem.

A topic with transactions has one consumer in each isolation level. What they pass over, markers and the records of
aborted transactions, counts as read: the client tells when it is at the end.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.tables import LoadTables


@dataclass(frozen=True, kw_only=True)
class SharedLane:
    """Set for each consumer of a lane that several consumers read.

    `on_problem` is called with what a consumer in this process failed to read. `from_start`: whether the first record
    of each partition has to have the partition's start offset. For a consumer that comes and goes, `member` is the
    prefix of its names; `on_name` is called with each name, and `on_end` when the assignment of that name has ended.
    """

    on_problem: Callable[[str], None]
    from_start: bool
    member: str | None = None
    on_name: Callable[[str], None] = lambda name: None
    on_end: Callable[[str], None] = lambda name: None


class Follower(Readers, ABC):
    """Records what one consumer reads, from `begins` on; `starts`: the first offset of each partition.

    `isolation`, for a topic with transactions: its `isolation.level`. Each assignment of a partition then has a row.
    `shared`: set if several consumers read the lane.
    """

    def __init__(
        self,
        *,
        lane: str,
        starts: Mapping[int, int],
        tables: LoadTables,
        isolation: str | None = None,
        shared: SharedLane | None = None,
    ) -> None:
        super().__init__()
        self.lane = lane
        self._starts = dict(starts)
        self._isolation = isolation
        self._shared = shared
        member = None if shared is None else shared.member
        self._member = member or (lane if isolation is None else f"{lane}-{isolation}")
        self._rows = ConsumedRows(tables, lane=lane, readers=self, isolation=isolation)
        self._names = 0
        self._unread: set[int] = set()

    @property
    def name(self) -> str:
        """The consumer's name in the history during the present assignment."""
        return f"{self._member}-{self._names}"

    def begins(self) -> None:
        """Begin an assignment: all partitions are read from their starts, under a new name."""
        self.ended()
        self._names += 1
        self._adds(self._starts)
        if self._shared is not None:
            self._shared.on_name(self.name)

    def grows(self, partitions: Sequence[int]) -> None:
        """Add new partitions, which are read from offset 0, to the present assignment."""
        new = dict.fromkeys(partitions, 0)
        self._starts |= new
        self._adds(new)

    def _adds(self, starts: Mapping[int, int]) -> None:
        self._rows.adds(self.name, self._member, list(starts), time.monotonic_ns())
        self._rows.stands(list(starts.items()))
        self._unread |= starts.keys()

    def ended(self) -> None:
        """End the present assignment now, after its last read."""
        if held := self._rows.held(self.name):
            self._rows.given_back(self.name, held, max(self._rows.last_ns, time.monotonic_ns()))
            if self._shared is not None:
                self._shared.on_end(self.name)

    def reads(
        self,
        partition: Sequence[int],
        offset: Sequence[int],
        producer_id: Sequence[int],
        seq: Sequence[int],
        leader_epoch: Sequence[int | None] | None = None,
    ) -> None:
        """Record one batch that the consumer was given, column by column."""
        self._rows.reads(self.name, partition, offset, producer_id, seq, leader_epoch)
        self._have_read(partition, offset)

    def _have_read(self, partition: Sequence[int], offset: Sequence[int]) -> None:
        for number in self._unread & set(partition):
            self._begins_at(number, offset[partition.index(number)])
        self._rows.stands([(number, at + 1) for number, at in dict(zip(partition, offset, strict=True)).items()])

    def _begins_at(self, partition: int, offset: int) -> None:
        self._unread.remove(partition)
        if self._shared is not None and self._shared.from_start and offset != (start := self._starts[partition]):
            self.breaks(f"began to read partition {partition} at offset {offset} instead of {start}")

    @abstractmethod
    def breaks(self, problem: str) -> None:
        """Give the lane this problem: the consumer did not read records that another consumer may have read."""

    def falls_short(self, problem: str) -> None:
        """The same: others of a lane that several read may have read what it did not."""
        self.breaks(problem)

    def leave(self) -> None:
        """End the consumer in order, and write its last rows."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End the consumer at once, and write its last rows."""
