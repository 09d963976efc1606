"""A consumer that follows a lane's topic from its start to its end: which records it reads, and under which name.

The consumer reads all partitions, without a group. After it lost its position, or was replaced, it reads from the start
again, under a new name.

Guarantee: if several consumers read a lane, a record that one of them missed is not hidden by another that read it.
Each consumer has to begin at the start of each partition, and if it lives when the load has ended, it has to read to
the end. Otherwise the event `ClientFailed` is emitted for the lane.

A topic with transactions has one consumer in each isolation level. No client returns markers or, with `read_committed`,
records of aborted transactions. They count as read, since the client reports when it is at the end of a partition.
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
from kafka_chaos.harness.workload.clients.partitions import PartitionWatch, start_positions
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker


class Follower(Readers, ABC):
    """Records what one consumer of a lane reads, from `begin_assignment` on.

    `partitions`: how many partitions the consumer reads at first, each from its offset in `load.start_offsets`, or 0.
    `isolation`: the consumer's `isolation.level` if the topic has transactions; each assignment of a partition then has
    a row. `number`: if the consumer comes and goes amid the load, its number in the lane, counted from 1; else None.
    `reads_for`: the transactional id of the producer that polls this consumer within its transactions, if any.
    """

    def __init__(
        self,
        lane: LaneSpec,
        load: LoadSettings,
        *,
        partitions: int,
        isolation: str | None = None,
        number: int | None = None,
        reads_for: str | None = None,
    ) -> None:
        super().__init__(load, lane)
        self.lane = lane.lane
        start_offsets = load.start_offsets.get(lane.lane, {})
        self._starts = {partition: start_offsets.get(partition, 0) for partition in range(partitions)}
        self._isolation = isolation
        self._comes_and_goes = number is not None
        self._has_other_readers = any(life.role == CONSUMER for life in lane.lives)
        # Not with a cleanup policy or earlier records: a partition's first record may have been removed.
        self._needs_first = self._has_other_readers and lane.cleanup_policy is None and not start_offsets
        kind = isolation if number is None else f"{CONSUMER}-{number}"
        self._member = lane.lane if kind is None else f"{lane.lane}-{kind}"
        if reads_for is not None:
            self._member = f"{reads_for}-reader"
        self._rows = ConsumedRows(self, isolation=isolation)
        self._assignments, self._is_reading = 0, False
        self._unread: set[int] = set()  # The partitions of which nothing was read in this assignment.

    @property
    def name(self) -> str:
        """The consumer's name in the history during the present assignment."""
        return f"{self._member}-{self._assignments}"

    def begin_assignment(self) -> None:
        """Begin an assignment, under a new name: all partitions are read from their starts."""
        self.end_assignment()
        self._assignments += 1
        self._is_reading = True
        self.add_partitions(self._starts)
        if self._comes_and_goes:
            self.load.emit(ReaderStarted(lane=self.lane, consumer=self.name))

    def add_partitions(self, starts: Mapping[int, int]) -> None:
        """Add partitions, which are read from these offsets, to the present assignment."""
        self._starts |= starts
        self._rows.add_partitions(self.name, self._member, list(starts), time.monotonic_ns())
        self._rows.note_positions(list(starts.items()))
        self._unread |= starts.keys()

    def end_assignment(self) -> None:
        """End the present assignment, now or at the time of its last read if that is later."""
        if self._is_reading:
            self._is_reading = False
            self._rows.remove_partitions(self.name, list(self._starts), max(self._rows.last_ns, time.monotonic_ns()))
            if self._comes_and_goes:
                self.load.emit(ReaderEnded(lane=self.lane, consumer=self.name))

    def _note_read(self, partition: Sequence[int], offset: Sequence[int]) -> None:
        for number in self._unread & set(partition):
            self._unread.remove(number)
            first, start = offset[partition.index(number)], self._starts[number]
            if self._needs_first and first != start:
                self.note_problem(f"began to read partition {number} at offset {first} instead of {start}")
        last_offsets = dict(zip(partition, offset, strict=True))
        self._rows.note_positions([(number, last + 1) for number, last in last_offsets.items()])

    @abstractmethod
    def note_problem(self, problem: str) -> None:
        """Note a problem of the lane: the consumer did not read records that another consumer may have read."""

    def report_unread(self, problem: str) -> None:
        """Note that the consumer did not reach the end, as a problem of the lane."""
        self.note_problem(problem)

    def leave(self) -> None:
        """End the consumer in order, and write its last rows."""
        self.close()


_MAX_RECORDS = 10_000
_POSITION_LOST = (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""The log was truncated below the consumer's position (KIP-320), or no longer has this offset."""


class RecordedConsumer(Follower):
    """A librdkafka consumer in this process that follows a lane in a thread of its own until it is closed.

    If it `reads_for` a producer, it has no thread: its owner polls it. While the topic has fewer partitions than the
    lane will have, a further thread asks for new ones: they join the assignment, and are read from their start.
    """

    def __init__(self, lane: LaneSpec, load: LoadSettings, **options: Any) -> None:
        """`options`: further parameters of `Follower`."""
        super().__init__(lane, load, partitions=lane.initial_partitions, **options)
        self._worker: Worker = Worker(self._run, name=f"consumer-{self._member}")
        self._topic = lane.topic_name
        self._codec = IdentityCodec(self.lane)
        isolated = {"enable.partition.eof": True, "isolation.level": self._isolation}
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
                **({} if self._isolation is None else isolated),
                **lane.reader_configs,
                **load.client_configs,
            },
        )
        self._assign()
        first, final = lane.initial_partitions, lane.partitions
        self._partition_watch = PartitionWatch(self._consumer, self._topic, count=first, final_count=final)
        if options.get("reads_for") is None:
            self._worker.start()

    def poll(self, timeout: float, transaction: tuple[int, int] | None = None) -> None:
        """Read for `timeout` seconds. `transaction`: (producer_id, number) of the transaction of this poll, if any."""
        with self.load.calls.awaiting(self.lane, self.name, "poll"):
            messages: list[Any] = self._consumer.consume(_MAX_RECORDS, timeout=timeout)
        if records := [message for message in messages if message.error() is None]:
            columns: dict[str, Any] = self._codec.columns_of(records)
            self._rows.add_batch(self.name, **columns, transaction=transaction)
            self._note_read(columns["partition"], columns["offset"])
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._rows.note_positions([(message.partition(), message.offset())])
            elif error is not None:
                self.load.on_notice(f"{self.name}: {error.name()}")
                if error.code() in _POSITION_LOST:
                    self._assign()
                    break
        if new := range(len(self._starts), self._partition_watch.count):
            added = [TopicPartition(self._topic, partition, OFFSET_BEGINNING) for partition in new]
            self._consumer.incremental_assign(added)
            self.add_partitions(dict.fromkeys(new, 0))

    def report_unread(self, problem: str) -> None:
        """Report that the consumer did not reach the end, a problem of the lane if several consumers read it."""
        isolation = f"{self._isolation} " if self._isolation else ""
        self.load.on_notice(f"the {isolation}consumer of lane {self.lane} {problem}")
        super().report_unread(problem)

    def note_problem(self, problem: str) -> None:
        """Note a problem of the lane, if several consumers read it."""
        if self._has_other_readers:
            self.load.emit(ClientFailed(lane=self.lane, role=CONSUMER, problem=problem))

    def close(self) -> None:
        """End the thread, write the last rows, and end the consumer."""
        self._worker.end()
        self.end_assignment()
        self._partition_watch.end()
        self._consumer.close()

    def _assign(self) -> None:
        self.begin_assignment()
        self._consumer.assign(start_positions(self._consumer, self._topic, self._starts))

    def _run(self) -> None:
        while not self._worker.ending.is_set():
            self.poll(0.2)
