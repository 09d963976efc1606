"""A consumer that follows a lane's topic from its start, and records everything it receives.

It assigns all partitions to itself, without a group, so there is no rebalance; those that a topic gets later join
them. A name in the history denotes one
uninterrupted assignment. When the client reports that the log was truncated below its position (KIP-320), the consumer
reads from the beginning again, under a new name.

A topic with transactions has one in each isolation level (`ConsumerPerIsolation`). What they pass over, markers and the
records of aborted transactions, counts as read: the client tells when it is at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from kafka_chaos.contract.identity import IDENTITY_HEADER
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, READ_UNCOMMITTED
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.partitions import known_partitions
from kafka_chaos.harness.workload.history.writer import FLUSH_INTERVAL, HistoryWriter, RowBuffer, consumed_rows

_MOST_PER_POLL = 10_000
_MOST_ROWS = 50_000
_POLL_TIMEOUT = 0.2
_LOOK_EVERY = 1.0
_POSITION_LOST = (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def not_at_the_end(who: str, behind: Mapping[int, tuple[int, int]]) -> str:
    """The notice for a consumer that did not reach the end: (next offset to read, end offset) by partition."""
    places = [f"partition {number} was read up to offset {read} of {end}" for number, (read, end) in behind.items()]
    return f"{who} did not reach the end: {', '.join(places)}"


def add_assignment(rows: RowBuffer, of: Mapping[str, Any], began_ns: Mapping[int, int], *, last_ns: int) -> None:
    """Add a row of `assignments/` for each partition; the assignment ends now, after its last poll at `last_ns`."""
    end_ns = max(last_ns, time.monotonic_ns())
    for number, start_ns in began_ns.items():
        rows.add({**of, "partition": number, "start_ns": start_ns, "end_ns": end_ns})


class RecordedConsumer:
    """Follows one lane in its own thread, until `drain` has seen it reach the end offsets.

    `start_offsets` maps partitions to first offsets; by default it begins at the topic's start. `isolation`, for a
    topic with transactions: its `isolation.level`. `assignments` then takes a row per partition and assignment. A topic
    that `grows_to` more than `partitions` is looked at again until it has: new partitions join the assignment, and are
    read from their start.
    """

    def __init__(
        self,
        *,
        lane: str,
        topic: str,
        partitions: int,
        bootstrap_servers: str,
        configs: Mapping[str, object],
        writer: HistoryWriter,
        on_error: Callable[[str], None],
        start_offsets: Mapping[int, int] | None = None,
        isolation: str | None = None,
        assignments: RowBuffer | None = None,
        grows_to: int = 0,
    ) -> None:
        self.lane = lane
        self.consumed = 0
        self._isolation = isolation
        self._assigned = assignments
        self._member = lane if isolation is None else f"{lane}-{isolation}"
        self._topic = topic
        self._grows_to = grows_to
        self._looked_at = time.monotonic()
        self._codec = IdentityCodec(lane)
        self._writer = writer
        self._on_error = on_error
        self._assignments = 0
        self._rows: list[pa.Table] = []
        self._row_count = 0
        self._last_poll_ns = 0
        self._flushed_at = time.monotonic()
        self._start = {number: (start_offsets or {}).get(number, OFFSET_BEGINNING) for number in range(partitions)}
        self._position = dict.fromkeys(range(partitions), 0)
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._consumer = new_client(
            Consumer,
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"kafka-chaos-{lane}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **({} if isolation is None else {"isolation.level": isolation, "enable.partition.eof": True}),
                **configs,
            },
        )
        self._name = ""
        self._assign()
        self._thread = threading.Thread(target=self._run, name=f"consumer-{self._member}", daemon=True)
        self._thread.start()

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every partition was read up to its end offset, at most `timeout` seconds.

        If the consumer does not get there, the run continues: the verdict says what can't be judged.
        """
        deadline = time.monotonic() + timeout
        while (behind := self._behind(end_offsets)) and self._thread.is_alive():
            if time.monotonic() > deadline or cancelled.is_set():
                self._on_error(not_at_the_end(self._described, behind))
                break
            self._thread.join(0.05)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread and write the last rows."""
        self._stop.set()
        self._thread.join()
        self._flush()
        self._end_assignment()
        self._consumer.close()

    @property
    def _described(self) -> str:
        return f"the {self._isolation + ' ' if self._isolation else ''}consumer of lane {self.lane}"

    def _behind(self, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        at = dict(self._position)
        return {number: (at.get(number, 0), end) for number, end in ends.items() if at.get(number, 0) < end}

    def _assign(self) -> None:
        self._end_assignment()
        self._assignments += 1
        self._name = f"{self._member}-{self._assignments}"
        self._assigned_ns = dict.fromkeys(self._start, time.monotonic_ns())
        self._position = {number: max(0, start) for number, start in self._start.items()}
        wanted = [TopicPartition(self._topic, number, start) for number, start in self._start.items()]
        self._consumer.assign(wanted)

    def _end_assignment(self) -> None:
        if self._assigned is None or not self._name:
            return
        of = {"lane": self.lane, "consumer": self._name, "member": self._member, "isolation": self._isolation}
        add_assignment(self._assigned, of, self._assigned_ns, last_ns=self._last_poll_ns)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._take(self._consumer.consume(_MOST_PER_POLL, timeout=_POLL_TIMEOUT))
                if len(self._start) < self._grows_to and time.monotonic() - self._looked_at > _LOOK_EVERY:
                    self._look_for_more()
                if self._row_count >= _MOST_ROWS or time.monotonic() - self._flushed_at > FLUSH_INTERVAL:
                    self._flush()
        except Exception as error:  # noqa: BLE001 - raised again in drain()
            self._error = error

    def _look_for_more(self) -> None:
        self._looked_at = time.monotonic()
        new = range(len(self._start), known_partitions(self._consumer, self._topic))
        if new:
            self._consumer.incremental_assign([TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in new])
            self._start.update(dict.fromkeys(new, OFFSET_BEGINNING))
            self._assigned_ns.update(dict.fromkeys(new, time.monotonic_ns()))
            self._position = {**self._position, **dict.fromkeys(new, 0)}

    def _take(self, messages: list[Any]) -> None:
        good = [message for message in messages if message.error() is None]
        if good:
            self._record(good)
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._position[message.partition()] = message.offset()
            elif error is not None:
                self._on_error(f"{self._name}: {error.name()}")
                if error.code() in _POSITION_LOST:
                    self._assign()
                    break

    def _record(self, messages: list[Any]) -> None:
        count = len(messages)
        decode = self._codec.decode
        identities = [decode(message.value()) for message in messages]
        if (-1, -1) in identities:
            identities = [
                self._from_header(message) if identity[0] < 0 else identity
                for message, identity in zip(messages, identities, strict=True)
            ]
        partitions = [message.partition() for message in messages]
        offsets = [message.offset() for message in messages]
        first_ns = max(self._last_poll_ns + 1, time.monotonic_ns())
        self._last_poll_ns = first_ns + count - 1
        self._rows.append(
            consumed_rows(
                self.lane,
                self._name,
                first_ns,
                partition=partitions,
                offset=offsets,
                producer_id=[producer_id for producer_id, _ in identities],
                seq=[seq for _, seq in identities],
                leader_epoch=[message.leader_epoch() for message in messages],
            )
        )
        for partition, offset in zip(partitions, offsets, strict=True):
            self._position[partition] = offset + 1
        self.consumed += count
        self._row_count += count

    def _from_header(self, message: Any) -> tuple[int, int]:
        for key, value in message.headers() or ():
            if key == IDENTITY_HEADER:
                return self._codec.decode(value)
        return self._codec.decode(None)

    def _flush(self) -> None:
        self._flushed_at = time.monotonic()
        if self._rows:
            self._writer.write(pa.concat_tables(self._rows))
            self._rows, self._row_count = [], 0


class Following(Protocol):
    """A `RecordedConsumer`, or one in a process of its own."""

    @property
    def consumed(self) -> int:
        """Records that were read so far."""

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every partition was read up to its end offset, at most `timeout` seconds."""

    def close(self) -> None:
        """End it."""


class ConsumerPerIsolation:
    """A consumer of a topic with transactions in each isolation level; `follow` begins one."""

    def __init__(self, follow: Callable[[str], Following]) -> None:
        self._committed = follow(READ_COMMITTED)
        try:
            self._uncommitted = follow(READ_UNCOMMITTED)
        except BaseException:
            self._committed.close()
            raise

    @property
    def consumers(self) -> tuple[Following, ...]:
        """Both."""
        return self._committed, self._uncommitted

    @property
    def consumed(self) -> int:
        """Records that were read so far, committed or not."""
        return self._uncommitted.consumed

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until both have read up to the end offsets, at most `timeout` seconds for both.

        Neither delays the other; one that does not get there is reported, as `RecordedConsumer.drain` says.
        """
        deadline = time.monotonic() + timeout
        for consumer in (self._uncommitted, self._committed):
            consumer.drain(end_offsets, timeout=max(0.0, deadline - time.monotonic()), cancelled=cancelled)

    def close(self) -> None:
        """End both and write their last rows."""
        for consumer in (self._uncommitted, self._committed):
            consumer.close()
