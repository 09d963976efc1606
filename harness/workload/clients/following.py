"""A consumer that follows a lane's topic from its start to its end: what it reads, and under which name.

It has all partitions, without a group. A name in the history denotes one uninterrupted assignment: when the consumer
lost its position, or was replaced, what is read from the start again has a new name.

Guarantee: where further consumers read the lane, what they read hides nothing that another one did not: each has to
begin at the start of each partition, and those that live when the load has ended have to reach the end. Else that is a
problem of the lane.

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


def not_at_the_end(behind: Mapping[int, tuple[int, int]]) -> str:
    """The predicate of a consumer that did not reach the end: (next offset to read, end offset) by partition."""
    places = [f"partition {number} was read up to offset {read} of {end}" for number, (read, end) in behind.items()]
    return f"did not reach the end: {', '.join(places)}"


def behind(position: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The partitions that were not read to their end: (next offset to read, end) by number."""
    at = dict(position)
    return {number: (at.get(number, 0), end) for number, end in ends.items() if at.get(number, 0) < end}


def await_end(
    left_behind: Callable[[], dict[int, tuple[int, int]]],
    *,
    timeout: float,
    cancelled: threading.Event,
    goes_on: Callable[[], bool],
) -> dict[int, tuple[int, int]]:
    """Wait until nothing is left behind, at most `timeout` seconds, and while more may come; returns what is.

    Where something is, the run continues: the verdict says what can't be judged.
    """
    deadline = time.monotonic() + timeout
    while (left := left_behind()) and time.monotonic() <= deadline and not cancelled.is_set() and goes_on():
        cancelled.wait(_TICK)
    return left


@dataclass(frozen=True, kw_only=True)
class Among:
    """That a consumer is one of several of its lane. `on_problem` learns of one in process what it did not read.

    `member`: what its names begin with, if it comes and goes; `on_name` learns each of them, `on_end` when it reads no
    more. `from_start`: whether the
    first record of each partition has the offset at which it starts.
    """

    on_problem: Callable[[str], None]
    from_start: bool
    member: str | None = None
    on_name: Callable[[str], None] = lambda name: None
    on_end: Callable[[str], None] = lambda name: None


class Follower(ABC):
    """Records what one consumer reads, from `begins` on; `starts`: the first offset of each partition.

    `isolation`, for a topic with transactions: its `isolation.level`. Each assignment of a partition then has a row.
    `among`: if it is one of several of its lane.
    """

    def __init__(
        self,
        *,
        lane: str,
        starts: Mapping[int, int],
        tables: LoadTables,
        isolation: str | None = None,
        among: Among | None = None,
    ) -> None:
        self.lane = lane
        self.consumed = 0
        self.position: dict[int, int] = {}
        """The next offset to read, by partition."""
        self._starts = dict(starts)
        self._isolation = isolation
        self._among = among
        given = None if among is None else among.member
        self._member = given or (lane if isolation is None else f"{lane}-{isolation}")
        self._assignments = None if isolation is None else tables.assignments
        self._writer = tables.consumed
        self._names = 0
        self._begun_ns: dict[int, int] = {}
        self._unread: set[int] = set()
        self._last_ns = 0

    @property
    def name(self) -> str:
        """The name of its present assignment."""
        return f"{self._member}-{self._names}"

    def begins(self) -> None:
        """It reads all partitions from their starts, under a new name."""
        self.ended()
        self._names += 1
        self.position = dict(self._starts)
        self._begun_ns = dict.fromkeys(self._starts, time.monotonic_ns())
        self._unread = set(self._starts)
        if self._among is not None:
            self._among.on_name(self.name)

    def grows(self, partitions: Sequence[int]) -> None:
        """It reads these new partitions, too."""
        self._starts |= dict.fromkeys(partitions, 0)
        self._begun_ns |= dict.fromkeys(partitions, time.monotonic_ns())
        self._unread |= set(partitions)
        self.position = {**self.position, **dict.fromkeys(partitions, 0)}

    def ended(self) -> None:
        """Its present assignment ends now, after its last read."""
        if self._assignments is not None:
            of = {"lane": self.lane, "consumer": self.name, "member": self._member, "isolation": self._isolation}
            end_ns = max(self._last_ns, time.monotonic_ns())
            for number, start_ns in self._begun_ns.items():
                self._assignments.add({**of, "partition": number, "start_ns": start_ns, "end_ns": end_ns})
        if self._begun_ns and self._among is not None:
            self._among.on_end(self.name)
        self._begun_ns = {}

    def reads(
        self,
        partition: Sequence[int],
        offset: Sequence[int],
        producer_id: Sequence[int],
        seq: Sequence[int],
        leader_epoch: Sequence[int | None] | None = None,
    ) -> None:
        """It was given these records together."""
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
        if self._among is not None and self._among.from_start and offset != (start := self._starts[partition]):
            self.breaks(f"began to read partition {partition} at offset {offset} instead of {start}")

    @abstractmethod
    def goes_on(self) -> bool:
        """Whether more may come."""

    @abstractmethod
    def falls_short(self, left: Mapping[int, tuple[int, int]]) -> None:
        """It did not reach the end; `left` as in `not_at_the_end`."""

    @abstractmethod
    def breaks(self, problem: str) -> None:
        """It did not read what it had to: the lane has this problem, where others might have read it instead."""

    def leave(self) -> None:
        """End it in order, and write its last rows."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End it at once, and write its last rows."""
