"""A confluent-kafka producer whose every record ends up in the history, with identity, times and outcome.

Memory is bounded by what is in flight: rows stand in chunks of plain arrays, and a chunk goes to disk as soon as all
its records have an outcome.
"""

from __future__ import annotations

import struct
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.harness.history import PRODUCED_SCHEMA, HistoryWriter, Reservations, file_stem
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.outcome import Outcome, outcome_of_refusal, outcome_of_report
from kafka_chaos.harness.signals import new_client

CHUNK = 16_384
"""Rows of a file: small enough that a harness that dies takes only seconds of evidence with it."""

_BATCH = 256
_UNKNOWN = -1
_OUTCOMES = [Outcome.OK, Outcome.FAIL, Outcome.INFO]
_OK, _INFO = _OUTCOMES.index(Outcome.OK), _OUTCOMES.index(Outcome.INFO)
_SEQ_OF = struct.Struct(">q").unpack_from
_SEQ_AT = 12


class _Chunk:
    """Rows of `CHUNK` consecutive seqs; `done` counts those that have an outcome.

    Columns are what can't be told from the seq. A row is acknowledged if it has a time of completion and does not
    stand in `outcomes`.
    """

    __slots__ = ("complete_ns", "done", "errors", "first_seq", "invoke_ns", "offset", "outcomes")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.done = 0
        self.invoke_ns = array("q", bytes(8 * CHUNK))
        self.complete_ns = array("q", bytes(8 * CHUNK))
        self.offset = array("q", [_UNKNOWN]) * CHUNK
        self.outcomes: dict[int, Outcome] = {}
        self.errors: dict[int, str] = {}

    def table(self, lane: str, producer_id: int, partitions: int, rows: int) -> pa.Table:
        """The first `rows` rows as a table of the history's schema."""
        seqs = np.arange(self.first_seq, self.first_seq + rows, dtype=np.int64)
        complete_ns = np.frombuffer(self.complete_ns, dtype=np.int64)[:rows]
        outcome = np.where(complete_ns != 0, _OK, _INFO).astype(np.int8)
        for row, decided in self.outcomes.items():
            outcome[row] = _OUTCOMES.index(decided)
        offset = np.frombuffer(self.offset, dtype=np.int64)[:rows]
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [lane]).cast(pa.string()),
            pa.array(np.full(rows, producer_id, np.int32)),
            pa.array(seqs),
            pa.array((seqs % partitions).astype(np.int32)),
            pa.array(offset, mask=offset == _UNKNOWN),
            pa.array(np.frombuffer(self.invoke_ns, dtype=np.int64)[:rows]),
            pa.array(complete_ns, mask=complete_ns == 0),
            pa.array(_OUTCOMES, pa.string()).take(pa.array(outcome)),
            pa.array([self.errors.get(row) for row in range(rows)], pa.string()),
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
        self._producer = new_client(Producer, configs)
        self._chunks: dict[int, _Chunk] = {}
        self.sent = 0
        self.failed = 0
        self.uncertain = 0
        self._written = 0
        self._delivered, self._longest_gap_ns = self._delivery_callback()

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._written + sum(chunk.done for chunk in list(self._chunks.values())) - self.failed - self.uncertain

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        return self._longest_gap_ns()

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
            self._write(chunk, min(CHUNK, self.sent - chunk.first_seq))
        return left

    def _send_batch(self, count: int) -> int:
        first = self.sent
        values = self._codec.encode_many(self.producer_id, first, count)
        produce, topic, partitions, delivered = self._producer.produce, self.topic, self._partitions, self._delivered
        now_ns = time.monotonic_ns
        seq = first
        chunk = self._chunk_of(seq)
        for value in values:
            row = seq % CHUNK
            if row == 0 and seq != first:
                chunk = self._chunk_of(seq)
            chunk.invoke_ns[row] = now_ns()
            try:
                produce(topic, value, None, seq % partitions, delivered)
            except BufferError:
                break
            except KafkaException as error:
                self._settle(seq, outcome_of_refusal(), error.args[0].name())
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

    def _delivery_callback(self) -> tuple[Callable[[KafkaError | None, Any], None], Callable[[], int]]:
        """The function that is called for every record, and one that tells the longest gap between acknowledgements.

        All that the first touches is local to it: the load's speed hangs on these few lines.
        """
        chunks, answered, now_ns = self._chunks, self._answered, time.monotonic_ns
        last = longest = 0

        def delivered(error: KafkaError | None, message: Any) -> None:
            nonlocal last, longest
            seq = _SEQ_OF(message.value(), _SEQ_AT)[0]
            chunk = chunks[seq // CHUNK]
            if error is not None:
                self._settle(seq, outcome_of_report(error.code(), retries=self._retries), error.name())
            else:
                now = now_ns()
                chunk.complete_ns[seq % CHUNK] = now
                if answered:
                    chunk.offset[seq % CHUNK] = message.offset()
                chunk.done += 1
                if now - last > longest:
                    longest = now - last if last else 0
                last = now
            if chunk.done == CHUNK:
                del chunks[seq // CHUNK]
                self._write(chunk, CHUNK)

        return delivered, lambda: longest

    def _settle(self, seq: int, outcome: Outcome, error: str) -> None:
        chunk = self._chunks[seq // CHUNK]
        row = seq % CHUNK
        chunk.complete_ns[row] = time.monotonic_ns()
        chunk.outcomes[row] = outcome
        chunk.errors[row] = error
        if outcome is Outcome.FAIL:
            self.failed += 1
        else:
            self.uncertain += 1
        # Last, since the count of acknowledged records is derived from it.
        chunk.done += 1

    def _write(self, chunk: _Chunk, rows: int) -> None:
        self._written += chunk.done
        if rows > 0:
            name = file_stem(self.lane, str(self.producer_id), f"{chunk.first_seq // CHUNK:06d}")
            self._writer.write(name, chunk.table(self.lane, self.producer_id, self._partitions, rows))


def _retries(configs: Mapping[str, object]) -> bool:
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            return int(str(configs[key])) > 0
    return _acks(configs) != "0"


def _acks(configs: Mapping[str, object]) -> str:
    return str(configs.get("acks", configs.get("request.required.acks", "all")))
