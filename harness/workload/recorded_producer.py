"""A confluent-kafka producer that records every record in the history, with identity, times and outcome.

Rows go to the writer at most `FLUSH_INTERVAL` seconds after their outcome. The number of records in flight bounds the
memory: a chunk of rows is freed once all its records have an outcome.
"""

from __future__ import annotations

import struct
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.defect_watch import OnPrecondition, watched
from kafka_chaos.harness.workload.history import (
    FLUSH_INTERVAL,
    PRODUCED_SCHEMA,
    RESERVED,
    HistoryWriter,
    Reservations,
)
from kafka_chaos.harness.workload.outcome import Outcome, outcome_of_refusal, outcome_of_report

CHUNK = 16_384
"""How many rows are allocated together."""

_BATCH = 256
_UNKNOWN = -1
_OUTCOMES = [Outcome.OK, Outcome.FAIL, Outcome.INFO]
_OK, _INFO = _OUTCOMES.index(Outcome.OK), _OUTCOMES.index(Outcome.INFO)
_SEQ_OF = struct.Struct(">q").unpack_from
_SEQ_AT = 12


class _Chunk:
    """Rows of `CHUNK` consecutive seqs; `done` counts those that have an outcome, `is_written` marks those handed over.

    The columns hold what does not follow from the seq. A row is acknowledged if it has a completion time and is not in
    `outcomes`.
    """

    __slots__ = ("complete_ns", "done", "errors", "first_seq", "invoke_ns", "is_written", "offset", "outcomes")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.done = 0
        self.is_written = np.zeros(CHUNK, dtype=np.bool_)
        self.invoke_ns = array("q", bytes(8 * CHUNK))
        self.complete_ns = array("q", bytes(8 * CHUNK))
        self.offset = array("q", [_UNKNOWN]) * CHUNK
        self.outcomes: dict[int, Outcome] = {}
        self.errors: dict[int, str] = {}

    def settled(self) -> npt.NDArray[np.int64]:
        """The rows that have an outcome and were not passed on."""
        complete_ns = np.frombuffer(self.complete_ns, dtype=np.int64)
        return np.flatnonzero((complete_ns != 0) & ~self.is_written)

    def unwritten(self, rows: int) -> npt.NDArray[np.int64]:
        """Those of the first `rows` rows that were not passed on, with an outcome or without."""
        return np.flatnonzero(~self.is_written[:rows])

    def take(
        self, rows: npt.NDArray[np.int64], lane: str, producer_id: int, partitions: int, transactions: array[int]
    ) -> pa.Table:
        """These rows as a table of the history's schema; they then count as passed on.

        `transactions`: the first seq of each transaction, empty for a producer without.
        """
        self.is_written[rows] = True
        seqs = self.first_seq + rows
        complete_ns = np.frombuffer(self.complete_ns, dtype=np.int64)[rows]
        offset = np.frombuffer(self.offset, dtype=np.int64)[rows]
        outcome = np.where(complete_ns != 0, _OK, _INFO).astype(np.int8)
        errors = pa.nulls(len(rows), pa.string())
        if self.outcomes:
            outcome = np.array([_OUTCOMES.index(self.outcomes.get(row, _OUTCOMES[code])) for row, code in
                                zip(rows.tolist(), outcome, strict=True)], np.int8)  # fmt: skip
            errors = pa.array([self.errors.get(row) for row in rows.tolist()], pa.string())
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [lane]).cast(pa.string()),
            pa.array(np.full(len(rows), producer_id, np.int32)),
            pa.array(seqs),
            pa.array((seqs % partitions).astype(np.int32)),
            pa.array(offset, mask=offset == _UNKNOWN),
            pa.array(np.frombuffer(self.invoke_ns, dtype=np.int64)[rows]),
            pa.array(complete_ns, mask=complete_ns == 0),
            pa.array(_OUTCOMES, pa.string()).take(pa.array(outcome)),
            errors,
            _numbers(seqs, transactions),
        ]
        return pa.Table.from_arrays(columns, schema=PRODUCED_SCHEMA)


def _numbers(seqs: npt.NDArray[np.int64], transactions: array[int]) -> pa.Array:
    """The number of each seq's transaction, null without any."""
    if not transactions:
        return pa.nulls(len(seqs), pa.int64())
    return pa.array(np.searchsorted(np.array(transactions), seqs, side="right") - 1)


class RecordedProducer:
    """One producer of one lane. `send` and `poll` belong to one thread; the counters may be read from any.

    `configs` are librdkafka's keys. Records go to the `partitions` in turn, by seq, so each partition gets increasing
    seqs. `on_precondition`: see `watched`. With a `transactional.id`, whoever sends tells by `transaction_begins` where
    transactions begin, and begins and ends them at the `client`.
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
        on_precondition: OnPrecondition | None = None,
    ) -> None:
        self.lane = lane
        self.topic = topic
        self.producer_id = producer_id
        self._partitions = partitions
        self._codec = IdentityCodec(lane, record_size)
        self._writer = writer
        self._reservations = reservations
        self._retries = _retries(configs)
        # With acks=0 nobody answers, so there is no offset. Yet librdkafka reports one for the 1,002nd and
        # later records of a batch: it counts on within the batch from its "invalid" offset, -1001.
        self._answered = _acks(configs) != "0"
        self.client = new_client(Producer, watched(configs, on_precondition, lane=lane, producer_id=producer_id))
        self._transactions = array("q")
        self._chunks: dict[int, _Chunk] = {}
        self._reserved = 0
        self._flush_at = time.monotonic() + FLUSH_INTERVAL
        self.sent = 0
        self.failed = 0
        self.uncertain = 0
        self._freed = 0
        self._delivered, self._longest_gap_ns = self._delivery_callback()

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._freed + sum(chunk.done for chunk in list(self._chunks.values())) - self.failed - self.uncertain

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        return self._longest_gap_ns()

    def send(self, count: int) -> int:
        """Produce up to `count` records, fewer if the client's queue is full. Returns how many it accepted."""
        done = 0
        while done < count:
            batch = min(_BATCH, count - done)
            accepted = self._send_batch(batch)
            done += accepted
            if accepted < batch:
                break
        return done

    def transaction_begins(self) -> int:
        """From the next record on, a new transaction holds what is sent. Returns its number, counted from 0."""
        self._transactions.append(self.sent)
        return len(self._transactions) - 1

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds, and pass on rows when due."""
        served = int(self.client.poll(timeout))
        if time.monotonic() >= self._flush_at:
            self._flush()
        return served

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead.

        `cancelled` ends the wait early. Writes the last rows: the producer can't be used afterwards.
        """
        deadline = time.monotonic() + timeout
        while len(self.client) and time.monotonic() < deadline and not cancelled.is_set():
            self.poll(0.1)
        left = self._purge()
        self.client.close()
        self._write_rest()
        return left

    def abandon(self) -> int:
        """End as the process would that is killed: nothing more is sent, and an open transaction stays open.

        Returns how many records became info. Writes the last rows: the producer can't be used afterwards.
        """
        left = self._purge()
        # Not closed: that would abort the transaction.
        del self.client
        self._write_rest()
        return left

    def _purge(self) -> int:
        left = len(self.client)
        if left:
            self.client.purge()
            self.client.poll(1.0)
        return left

    def _write_rest(self) -> None:
        for number in sorted(self._chunks):
            chunk = self._chunks.pop(number)
            self._freed += chunk.done
            self._write(chunk, chunk.unwritten(min(CHUNK, self.sent - chunk.first_seq)))

    def _send_batch(self, count: int) -> int:
        first = self.sent
        self._reserve(first + count)
        values = self._codec.encode_many(self.producer_id, first, count)
        produce, topic, partitions, delivered = self.client.produce, self.topic, self._partitions, self._delivered
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
            self._chunks[number] = _Chunk(number * CHUNK)
        return self._chunks[number]

    def _reserve(self, end: int) -> None:
        """Reserve the seqs below `end` on disk."""
        if end > self._reserved:
            count = max(RESERVED, end - self._reserved)
            self._reservations.reserve(
                lane=self.lane,
                producer_id=self.producer_id,
                first_seq=self._reserved,
                count=count,
                now_ns=time.monotonic_ns(),
            )
            self._reserved += count

    def _delivery_callback(self) -> tuple[Callable[[KafkaError | None, Any], None], Callable[[], int]]:
        """The function that is called for every record, and one that returns the longest gap between acknowledgements.

        The first uses only local variables: the speed of the load depends on these few lines.
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
                self._freed += CHUNK
                self._write(chunk, chunk.settled())

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

    def _flush(self) -> None:
        self._flush_at = time.monotonic() + FLUSH_INTERVAL
        for chunk in self._chunks.values():
            self._write(chunk, chunk.settled())

    def _write(self, chunk: _Chunk, rows: npt.NDArray[np.int64]) -> None:
        if rows.size:
            transactions = self._transactions
            self._writer.write(chunk.take(rows, self.lane, self.producer_id, self._partitions, transactions))


def _retries(configs: Mapping[str, object]) -> bool:
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            return int(str(configs[key])) > 0
    return _acks(configs) != "0"


def _acks(configs: Mapping[str, object]) -> str:
    return str(configs.get("acks", configs.get("request.required.acks", "all")))
