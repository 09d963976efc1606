"""A consumer that follows a lane's topic from its start to its end: which records it reads, and under which name.

The consumer reads all partitions, without a group. When it lost its position, or was replaced, it reads from the start
again, under a new name.

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
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.calls import Calls
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.clients.partitions import known_partitions
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.worker import Worker


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

    def reads(self, **columns: Any) -> None:
        """Record one batch that the consumer was given, column by column; see `ConsumedRows.reads`."""
        self._rows.reads(self.name, **columns)
        self._have_read(columns["partition"], columns["offset"])

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


_MOST_PER_POLL = 10_000
_POLL_TIMEOUT = 0.2
_LOOK_EVERY = 1.0
_ISOLATED = {"enable.partition.eof": True}
_POSITION_LOST = (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""The log was truncated below the consumer's position (KIP-320), or has it no more."""


class RecordedConsumer(Follower):
    """Follows one lane in its own thread, until `drain` has seen it reach the end offsets.

    `start_offsets` maps partitions to first offsets; by default it begins at the topic's start. A topic that `grows_to`
    more than `partitions` is looked at again until it has: new partitions join the assignment, and are read from their
    start.
    """

    def __init__(
        self,
        *,
        topic: str,
        partitions: int,
        bootstrap_servers: str,
        configs: Mapping[str, object],
        on_error: Callable[[str], None],
        start_offsets: Mapping[int, int] | None = None,
        grows_to: int = 0,
        calls: Calls | None = None,
        **recorded: Any,
    ) -> None:
        """`recorded`: what every follower has, but for its `starts`. `calls` notes polls that take long."""
        self._calls = calls or Calls()
        starts = {number: (start_offsets or {}).get(number, 0) for number in range(partitions)}
        super().__init__(starts=starts, **recorded)
        self._topic = topic
        self._grows_to = grows_to
        self._looked_at = time.monotonic()
        self._codec = IdentityCodec(self.lane)
        self._on_error = on_error
        self._stop = threading.Event()
        self._consumer = new_client(
            Consumer,
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"kafka-chaos-{self.lane}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **({} if self._isolation is None else _ISOLATED | {"isolation.level": self._isolation}),
                **configs,
            },
        )
        self._assign()
        self._worker = Worker(self._run, name=f"consumer-{self._member}")
        self._worker.start()

    def goes_on(self) -> bool:
        """Whether its thread does; raises what the thread raised."""
        self._worker.raise_error()
        return self._worker.is_alive()

    def falls_short(self, problem: str) -> None:
        """The same, and report it."""
        isolation = f"{self._isolation} " if self._isolation else ""
        self._on_error(f"the {isolation}consumer of lane {self.lane} {problem}")
        super().falls_short(problem)

    def breaks(self, problem: str) -> None:
        """The same."""
        if self._shared is not None:
            self._shared.on_problem(problem)

    def close(self) -> None:
        """End the thread and write the last rows."""
        self._stop.set()
        self._worker.join()
        self.ended()
        self._consumer.close()

    def _assign(self) -> None:
        self.begins()
        starts = [(number, start or OFFSET_BEGINNING) for number, start in self._starts.items()]
        self._consumer.assign([TopicPartition(self._topic, number, start) for number, start in starts])

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._calls.awaiting(self.lane, self.name, "poll"):
                messages = self._consumer.consume(_MOST_PER_POLL, timeout=_POLL_TIMEOUT)
            self._take(messages)
            if len(self._starts) < self._grows_to and time.monotonic() - self._looked_at > _LOOK_EVERY:
                self._looked_at = time.monotonic()
                new = range(len(self._starts), known_partitions(self._consumer, self._topic))
                if new:
                    self._consumer.incremental_assign(
                        [TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in new]
                    )
                    self.grows(new)

    def _take(self, messages: list[Any]) -> None:
        good = [message for message in messages if message.error() is None]
        if good:
            self.reads(**self._codec.read(good))
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._rows.stands([(message.partition(), message.offset())])
            elif error is not None:
                self._on_error(f"{self.name}: {error.name()}")
                if error.code() in _POSITION_LOST:
                    self._assign()
                    break
