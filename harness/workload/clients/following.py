"""A consumer that follows a lane's topic from its start to its end: which records it reads, and under which name.

The consumer reads all partitions, without a group. After it lost its position, or was replaced, it reads from the start
again, under a new name.

Guarantee: if several consumers read a lane, the reads of one hide no record that another missed. Each consumer has to
begin at the start of each partition, and has to reach the end if it lives when the load has ended. Otherwise the lane
has a problem.

A topic with transactions has one consumer in each isolation level. They are never given markers and, with
`read_committed`, records of aborted transactions: these count as read, since the client tells when it is at the end.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from kafka_chaos.contract.events import ClientFailed, ReaderEnded, ReaderStarted
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.lives import CONSUMER
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.clients.partitions import known_partitions
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker


class Follower(Readers, ABC):
    """Records what one consumer of a lane reads, from `begins` on.

    `partitions`: how many the consumer reads at first. Each is read from its offset in `start_offsets`, or from 0.
    `isolation`: the consumer's `isolation.level`, where the topic has transactions; each assignment of a partition then
    has a row. `number`: of a consumer that comes and goes, counted from 1 in its lane; None for one that stays.
    """

    def __init__(
        self,
        lane: LaneSpec,
        load: LoadSettings,
        *,
        partitions: int,
        start_offsets: Mapping[int, int] | None = None,
        isolation: str | None = None,
        number: int | None = None,
    ) -> None:
        super().__init__()
        self.lane = lane.lane
        self._load = load
        self._starts = {partition: (start_offsets or {}).get(partition, 0) for partition in range(partitions)}
        self._isolation = isolation
        self._comes_and_goes = number is not None
        self._is_one_of_several = any(life.role == CONSUMER for life in lane.lives)
        # Compaction, or retention, may have removed the first record of a partition.
        self._needs_first = self._is_one_of_several and lane.cleanup_policy is None and not start_offsets
        kind = isolation if number is None else f"{CONSUMER}-{number}"
        self._member = lane.lane if kind is None else f"{lane.lane}-{kind}"
        self._rows = ConsumedRows(load, lane=lane.lane, readers=self, isolation=isolation)
        self._names = 0
        self._unread: set[int] = set()

    @property
    def name(self) -> str:
        """The consumer's name in the history during the present assignment."""
        return f"{self._member}-{self._names}"

    def begins(self) -> None:
        """Begin an assignment, under a new name: all partitions are read from their starts."""
        self.ended()
        self._names += 1
        self._adds(self._starts)
        if self._comes_and_goes:
            self._load.on_client(ReaderStarted(lane=self.lane, consumer=self.name))

    def grows(self, partitions: Sequence[int]) -> None:
        """Add new partitions, which are read from offset 0, to the present assignment."""
        new = dict.fromkeys(partitions, 0)
        self._starts |= new
        self._adds(new)

    def _adds(self, starts: Mapping[int, int]) -> None:
        self._rows.adds(self.name, self._member, list(starts), time.monotonic_ns())
        self._rows.reaches(list(starts.items()))
        self._unread |= starts.keys()

    def ended(self) -> None:
        """End the present assignment now, after its last read."""
        if held := self._rows.held(self.name):
            self._rows.given_back(self.name, held, max(self._rows.last_ns, time.monotonic_ns()))
            if self._comes_and_goes:
                self._load.on_client(ReaderEnded(lane=self.lane, consumer=self.name))

    def reads(self, **columns: Any) -> None:
        """Record one batch that the consumer was given, column by column; see `ConsumedRows.reads`."""
        self._rows.reads(self.name, **columns)
        self._have_read(columns["partition"], columns["offset"])

    def _have_read(self, partition: Sequence[int], offset: Sequence[int]) -> None:
        for number in self._unread & set(partition):
            self._unread.remove(number)
            first, start = offset[partition.index(number)], self._starts[number]
            if self._needs_first and first != start:
                self.breaks(f"began to read partition {number} at offset {first} instead of {start}")
        self._rows.reaches([(number, at + 1) for number, at in dict(zip(partition, offset, strict=True)).items()])

    @abstractmethod
    def breaks(self, problem: str) -> None:
        """Give the lane this problem: the consumer did not read records that another consumer may have read."""

    def falls_short(self, problem: str) -> None:
        """The lane has this problem: another consumer may have read what this one did not."""
        self.breaks(problem)

    def leave(self) -> None:
        """End the consumer in order, and write its last rows."""
        self.close()


_MOST_PER_POLL = 10_000
_POLL_TIMEOUT = 0.2
_LOOK_EVERY = 1.0
_ISOLATED = {"enable.partition.eof": True}
_POSITION_LOST = (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""The log was truncated below the consumer's position (KIP-320), or has it no more."""


class RecordedConsumer(Follower):
    """Follows one lane in its own thread, until `drain` has seen it reach the end offsets.

    A topic that grows is looked at again until it has all partitions of the lane: new partitions join the assignment,
    and are read from their start.
    """

    def __init__(self, lane: LaneSpec, load: LoadSettings, **options: Any) -> None:
        """`options`: the further ones of a `Follower`."""
        super().__init__(lane, load, partitions=lane.first_partitions, **options)
        self._topic = lane.topic_name
        self._grows_to = lane.partitions
        self._looked_at = time.monotonic()
        self._codec = IdentityCodec(self.lane)
        self._consumer = new_client(
            Consumer,
            {
                "bootstrap.servers": load.bootstrap_servers,
                "group.id": f"kafka-chaos-{self.lane}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **({} if self._isolation is None else _ISOLATED | {"isolation.level": self._isolation}),
                **lane.reader_configs,
                **load.client_configs,
            },
        )
        self._assign()
        self._worker: Worker = Worker(self._run, name=f"consumer-{self._member}")
        self._worker.start()

    def falls_short(self, problem: str) -> None:
        """Report the problem, and give it to the lane if several consumers read it."""
        isolation = f"{self._isolation} " if self._isolation else ""
        self._load.on_notice(f"the {isolation}consumer of lane {self.lane} {problem}")
        super().falls_short(problem)

    def breaks(self, problem: str) -> None:
        """Give the lane this problem, if several consumers read it."""
        if self._is_one_of_several:
            self._load.on_client(ClientFailed(lane=self.lane, role=CONSUMER, problem=problem))

    def close(self) -> None:
        """End the thread and write the last rows."""
        self._worker.end()
        self.ended()
        self._consumer.close()

    def _assign(self) -> None:
        self.begins()
        starts = [(number, start or OFFSET_BEGINNING) for number, start in self._starts.items()]
        self._consumer.assign([TopicPartition(self._topic, number, start) for number, start in starts])

    def _run(self) -> None:
        while not self._worker.ending.is_set():
            with self._load.calls.awaiting(self.lane, self.name, "poll"):
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
                self._rows.reaches([(message.partition(), message.offset())])
            elif error is not None:
                self._load.on_notice(f"{self.name}: {error.name()}")
                if error.code() in _POSITION_LOST:
                    self._assign()
                    break
