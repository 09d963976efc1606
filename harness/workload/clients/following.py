"""A consumer that follows a lane's topic from its start to its end: which records it reads, and under which name.

The consumer reads all partitions, without a group. A name in the history denotes one uninterrupted assignment: when the
consumer lost its position, or was replaced, what is read from the start again has a new name.

Guarantee: where further consumers read the lane, their reads hide no record that the first consumer missed: each
consumer has to begin at the start of each partition, and has to reach the end if it lives when the load has ended.
Otherwise the lane has a problem.

A topic with transactions has one consumer in each isolation level. What they pass over, markers and the records of
aborted transactions, counts as read: the client tells when it is at the end.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.harness.workload.history.writer import consumed_rows
from kafka_chaos.harness.workload.tables import LoadTables

_TICK = 0.05


def short_of_end(behind: Mapping[int, tuple[int, int]]) -> str:
    """Words for a consumer that did not reach the end. `behind`: (next offset to read, end offset) by partition."""
    places = [f"partition {number} was read up to offset {read} of {end}" for number, (read, end) in behind.items()]
    return f"did not reach the end: {', '.join(places)}"


def behind(position: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The partitions that were not read to their end: (next offset to read, end offset) by partition."""
    # A copy: the consumer's thread changes the positions.
    positions = dict(position)
    return {number: (positions.get(number, 0), end) for number, end in ends.items() if positions.get(number, 0) < end}


def await_end(
    left_behind: Callable[[], dict[int, tuple[int, int]]],
    *,
    timeout: float,
    cancelled: threading.Event,
    goes_on: Callable[[], bool],
) -> dict[int, tuple[int, int]]:
    """Wait until every partition is read to its end; returns the partitions that are not, as `behind` does.

    After `timeout` seconds, or once `goes_on` is False, the run continues: the verdict says what can't be judged.
    """
    deadline = time.monotonic() + timeout
    while (left := left_behind()) and time.monotonic() <= deadline and not cancelled.is_set() and goes_on():
        cancelled.wait(_TICK)
    return left


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


class Follower(ABC):
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
        self.lane = lane
        self.consumed = 0
        self.position: dict[int, int] = {}
        """The next offset to read, by partition."""
        self._starts = dict(starts)
        self._isolation = isolation
        self._shared = shared
        member = None if shared is None else shared.member
        self._member = member or (lane if isolation is None else f"{lane}-{isolation}")
        self._assignments = None if isolation is None else tables.assignments
        self._writer = tables.consumed
        self._names = 0
        self._begun_ns: dict[int, int] = {}
        self._unread: set[int] = set()
        self._last_ns = 0

    @property
    def name(self) -> str:
        """The consumer's name in the history during the present assignment."""
        return f"{self._member}-{self._names}"

    def begins(self) -> None:
        """Begin an assignment: all partitions are read from their starts, under a new name."""
        self.ended()
        self._names += 1
        self.position = dict(self._starts)
        self._begun_ns = dict.fromkeys(self._starts, time.monotonic_ns())
        self._unread = set(self._starts)
        if self._shared is not None:
            self._shared.on_name(self.name)

    def grows(self, partitions: Sequence[int]) -> None:
        """Add new partitions, which are read from offset 0, to the present assignment."""
        self._starts |= dict.fromkeys(partitions, 0)
        self._begun_ns |= dict.fromkeys(partitions, time.monotonic_ns())
        self._unread |= set(partitions)
        self.position = {**self.position, **dict.fromkeys(partitions, 0)}

    def ended(self) -> None:
        """End the present assignment now, after its last read."""
        if self._assignments is not None:
            reader = {"lane": self.lane, "consumer": self.name, "member": self._member, "isolation": self._isolation}
            end_ns = max(self._last_ns, time.monotonic_ns())
            for number, start_ns in self._begun_ns.items():
                self._assignments.add({**reader, "partition": number, "start_ns": start_ns, "end_ns": end_ns})
        if self._begun_ns and self._shared is not None:
            self._shared.on_end(self.name)
        self._begun_ns = {}

    def reads(
        self,
        partition: Sequence[int],
        offset: Sequence[int],
        producer_id: Sequence[int],
        seq: Sequence[int],
        leader_epoch: Sequence[int | None] | None = None,
    ) -> None:
        """Record one batch that the consumer was given, column by column."""
        first_ns = max(self._last_ns + 1, time.monotonic_ns())
        self._last_ns = first_ns + len(offset) - 1
        read = {"partition": partition, "offset": offset, "producer_id": producer_id, "seq": seq}
        self._writer.write(consumed_rows(self.lane, self.name, first_ns, **read, leader_epoch=leader_epoch))
        for number in self._unread & set(partition):
            self._begins_at(number, offset[partition.index(number)])
        for number, at in zip(partition, offset, strict=True):
            self.position[number] = at + 1
        self.consumed += len(offset)

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every partition was read up to its end offset, at most `timeout` seconds."""
        left = await_end(
            lambda: behind(self.position, end_offsets), timeout=timeout, cancelled=cancelled, goes_on=self.goes_on
        )
        if left:
            self.falls_short(left)

    def _begins_at(self, partition: int, offset: int) -> None:
        self._unread.remove(partition)
        if self._shared is not None and self._shared.from_start and offset != (start := self._starts[partition]):
            self.breaks(f"began to read partition {partition} at offset {offset} instead of {start}")

    @abstractmethod
    def goes_on(self) -> bool:
        """Whether the consumer may still read more."""

    @abstractmethod
    def falls_short(self, left: Mapping[int, tuple[int, int]]) -> None:
        """Report the partitions that were not read to their end: `left` as `behind` returns them."""

    @abstractmethod
    def breaks(self, problem: str) -> None:
        """Give the lane this problem: the consumer did not read records that another consumer may have read."""

    def leave(self) -> None:
        """End the consumer in order, and write its last rows."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End the consumer at once, and write its last rows."""
