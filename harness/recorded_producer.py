"""A confluent-kafka producer whose every record ends up in the history, with identity, times and outcome.

Memory is bounded by what is in flight: rows stand in chunks of plain arrays, and a chunk goes to disk as soon as all
its records have an outcome.
"""

from __future__ import annotations

import struct
import threading
import time
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.harness.history import PRODUCED_SCHEMA, HistoryWriter, Reservations
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.outcome import Outcome, outcome_of_refusal, outcome_of_report

CHUNK = 65_536
_BATCH = 256
_UNKNOWN = -1
_PENDING, _OK, _FAIL, _INFO = range(4)
_OUTCOMES = pa.array([Outcome.INFO, Outcome.OK, Outcome.FAIL, Outcome.INFO], pa.string())
_CODES = {Outcome.OK: _OK, Outcome.FAIL: _FAIL, Outcome.INFO: _INFO}
_SEQ_OF = struct.Struct(">q").unpack_from
_SEQ_AT = 12


class _Chunk:
    """Rows of `CHUNK` consecutive seqs; `pending` counts those without an outcome."""

    __slots__ = ("complete_ns", "errors", "first_seq", "invoke_ns", "offset", "outcome", "partition", "pending")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.pending = 0
        self.invoke_ns = array("q", bytes(8 * CHUNK))
        self.complete_ns = array("q", bytes(8 * CHUNK))
        self.offset = array("q", [_UNKNOWN]) * CHUNK
        self.partition = array("i", [_UNKNOWN]) * CHUNK
        self.outcome = array("b", bytes(CHUNK))
        self.errors: dict[int, str] = {}

    def table(self, lane: str, producer_id: int, rows: int) -> pa.Table:
        """The first `rows` rows as a table of the history's schema."""
        outcome = np.frombuffer(self.outcome, dtype=np.int8)[:rows]
        error = pa.array([self.errors.get(row) for row in range(rows)] if self.errors else [None] * rows, pa.string())
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [lane]).cast(pa.string()),
            pa.array(np.full(rows, producer_id, np.int32)),
            pa.array(np.arange(self.first_seq, self.first_seq + rows, dtype=np.int64)),
            _known(self.partition, rows, np.int32),
            _known(self.offset, rows, np.int64),
            pa.array(np.frombuffer(self.invoke_ns, dtype=np.int64)[:rows]),
            _known(self.complete_ns, rows, np.int64, unknown=0),
            _OUTCOMES.take(pa.array(outcome)),
            error,
        ]
        return pa.Table.from_arrays(columns, schema=PRODUCED_SCHEMA)


class RecordedProducer:
    """One producer of one lane. `send` and `poll` belong to one thread; the counters may be read from any.

    `configs` are librdkafka's own keys. `partitions` says over how many partitions records are dealt in turn, by seq:
    so each partition gets increasing seqs.
    """

    def __init__(
        self,
        *,
        lane: str,
        topic: str,
        producer_id: int,
        partitions: int,
        record_size: int,
        configs: Mapping[str, object],
        writer: HistoryWriter,
        reservations: Reservations,
    ) -> None:
        self.lane = lane
        self.topic = topic
        self.producer_id = producer_id
        self._partitions = partitions
        self._codec = IdentityCodec(lane, record_size)
        self._writer = writer
        self._reservations = reservations
        self._retries = _retries(configs)
        # With acks=0 nobody answers, so there is no offset. librdkafka reports one all the same for the 1,002nd and
        # later records of a batch: it counts on within the batch from its "invalid" offset, -1001.
        self._answered = _acks(configs) != "0"
        self._producer = Producer(dict(configs))
        self._chunks: dict[int, _Chunk] = {}
        self._lock = threading.Lock()
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.uncertain = 0
        self.last_acknowledged_ns = 0
        self.longest_gap_ns = 0
        self.gap_started_ns = 0

    def send(self, count: int) -> int:
        """Produce up to `count` records; fewer when the client's queue is full. The number handed to the client."""
        done = 0
        while done < count:
            batch = min(_BATCH, count - done)
            accepted = self._send_batch(batch)
            done += accepted
            if accepted < batch:
                break
        return done

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds."""
        return int(self._producer.poll(timeout))

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds; the rest becomes info. Their number.

        `cancelled` ends the wait early. Writes the last rows: the producer can't be used afterwards.
        """
        deadline = time.monotonic() + timeout
        while len(self._producer) and time.monotonic() < deadline and not cancelled.is_set():
            self._producer.poll(0.1)
        left = len(self._producer)
        if left:
            self._producer.purge()
            self._producer.poll(1.0)
        self._producer.close()
        for number in sorted(self._chunks):
            chunk = self._chunks.pop(number)
            self._write(number, chunk, min(CHUNK, self.sent - chunk.first_seq))
        return left

    def _send_batch(self, count: int) -> int:
        first = self.sent
        values = self._codec.encode_many(self.producer_id, first, count)
        produce, topic, partitions, delivered = self._producer.produce, self.topic, self._partitions, self._delivered
        seq = first
        chunk = self._chunk_of(seq)
        for value in values:
            row = seq % CHUNK
            if row == 0 and seq != first:
                chunk = self._chunk_of(seq)
            chunk.invoke_ns[row] = time.monotonic_ns()
            # Counted before the call: the report may be served by no other call than poll, in this very thread.
            chunk.pending += 1
            try:
                produce(topic, value, None, seq % partitions, delivered)
            except BufferError:
                chunk.pending -= 1
                break
            except KafkaException as error:
                self._settle(seq, outcome_of_refusal(), _UNKNOWN, _UNKNOWN, error.args[0].name())
            seq += 1
        self.sent = seq
        return seq - first

    def _chunk_of(self, seq: int) -> _Chunk:
        number = seq // CHUNK
        if number not in self._chunks:
            first = number * CHUNK
            self._reservations.reserve(
                lane=self.lane,
                producer_id=self.producer_id,
                first_seq=first,
                count=CHUNK,
                now_ns=time.monotonic_ns(),
            )
            self._chunks[number] = _Chunk(first)
        return self._chunks[number]

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        seq = _SEQ_OF(message.value(), _SEQ_AT)[0]
        if error is None:
            # The path of nearly every record: no call more than it needs.
            chunk = self._chunks[seq // CHUNK]
            row = seq % CHUNK
            now = time.monotonic_ns()
            chunk.complete_ns[row] = now
            offset = message.offset()
            if offset is not None and self._answered:
                chunk.offset[row] = offset
            chunk.partition[row] = message.partition()
            chunk.outcome[row] = _OK
            chunk.pending -= 1
            self.acknowledged += 1
            self._note_acknowledgement(now)
            if not chunk.pending:
                self._write_if_full(seq)
        else:
            outcome = outcome_of_report(error.code(), retries=self._retries)
            self._settle(seq, outcome, message.partition(), _UNKNOWN, error.name())
            self._write_if_full(seq)

    def _note_acknowledgement(self, now: int) -> None:
        gap = now - self.last_acknowledged_ns
        if gap > self.longest_gap_ns and self.last_acknowledged_ns:
            self.longest_gap_ns = gap
            self.gap_started_ns = self.last_acknowledged_ns
        self.last_acknowledged_ns = now

    def _settle(self, seq: int, outcome: Outcome, partition: int | None, offset: int, error: str) -> None:
        chunk = self._chunks[seq // CHUNK]
        row = seq % CHUNK
        chunk.complete_ns[row] = time.monotonic_ns()
        chunk.offset[row] = offset
        chunk.partition[row] = partition if partition is not None else _UNKNOWN
        chunk.outcome[row] = _CODES[outcome]
        chunk.errors[row] = error
        chunk.pending -= 1
        if outcome is Outcome.FAIL:
            self.failed += 1
        else:
            self.uncertain += 1

    def _write_if_full(self, seq: int) -> None:
        number = seq // CHUNK
        chunk = self._chunks[number]
        if not chunk.pending and self.sent >= chunk.first_seq + CHUNK:
            del self._chunks[number]
            self._write(number, chunk, CHUNK)

    def _write(self, number: int, chunk: _Chunk, rows: int) -> None:
        if rows > 0:
            name = f"{_file_name(self.lane)}-{self.producer_id}-{number:06d}"
            self._writer.write(name, chunk.table(self.lane, self.producer_id, rows))


def _known(values: array[int], rows: int, dtype: Any, *, unknown: int = _UNKNOWN) -> pa.Array:
    data = np.frombuffer(values, dtype=dtype)[:rows]
    return pa.array(data, mask=data == unknown)


def _retries(configs: Mapping[str, object]) -> bool:
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            return int(str(configs[key])) > 0
    return _acks(configs) != "0"


def _acks(configs: Mapping[str, object]) -> str:
    return str(configs.get("acks", configs.get("request.required.acks", "all")))


def _file_name(lane: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in lane)
