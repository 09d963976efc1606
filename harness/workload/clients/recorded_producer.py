"""A confluent-kafka producer that records every record in the history, with identity, times and outcome.

Rows go to the writer at most `FLUSH_INTERVAL` seconds after their outcome. The number of records in flight bounds the
memory: a chunk of rows is freed once all its records have an outcome.
"""

import ctypes
import struct
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.chunk import CHUNK, SentRows
from kafka_chaos.harness.workload.clients.defect_watch import Watch, watched
from kafka_chaos.harness.workload.clients.outcome import outcome_of_refusal, outcome_of_report
from kafka_chaos.harness.workload.clients.partitions import InTurn, Learning
from kafka_chaos.harness.workload.history.reservations import Reservations, ReservedSeqs
from kafka_chaos.harness.workload.history.writer import HistoryWriter

_BATCH = 256
_PURGE_TIMEOUT = 1.0
_SEQ_OF = struct.Struct(">q").unpack_from
_SEQ_AT = 12

# What a producer warns of that failed for good: nobody can do anything about it. For pytest, which has filters of its
# own, the plugin has the same one.
warnings.filterwarnings("ignore", message="Producer abort_transaction failed during close", category=RuntimeWarning)


class RecordedProducer:
    """One producer of one lane. `send` and `poll` belong to one thread; the counters may be read from any.

    `configs` are librdkafka's keys. Records go to so many `partitions` from `first_partition` on in turn, by seq, so
    each gets increasing seqs; a topic that `grows_to` more gets records in those, too, once the client knows of them.
    `watch` reads its log. With a `transactional.id`, whoever sends tells by `transaction_begins` where
    transactions begin, and begins and ends them at the `client`. `failed_for_good`: why the client refuses all further
    records; empty while it does not.
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
        watch: Watch | None = None,
        grows_to: int = 0,
        first_partition: int = 0,
    ) -> None:
        self.lane = lane
        self.topic = topic
        self.producer_id = producer_id
        self._partitions = InTurn(partitions, first=first_partition)
        self._known = partitions
        self._codec = IdentityCodec(lane, record_size)
        self.rows = SentRows(lane, producer_id, self._partitions, writer)
        self._retries = retries(configs)
        # With acks=0 nobody answers, so there is no offset. Yet librdkafka reports one for the 1,002nd and
        # later records of a batch: it counts on within the batch from its "invalid" offset, -1001.
        self._answered = _acks(configs) != "0"
        self.client = new_client(Producer, watched(configs, watch))
        self._transactional_id = configs.get("transactional.id")
        self._reserved = ReservedSeqs(
            reservations, lane=lane, producer_id=producer_id, transactional_id=self._transactional_id
        )
        self.sent = 0
        self.failed_for_good = ""
        self._delivered, self._longest_gap_ns = self._delivery_callback()
        self._learning = None
        if grows_to > partitions:
            self._learning = Learning(self.client, topic, most=grows_to, learned=self._learn)

    def _learn(self, partitions: int) -> None:
        self._known = partitions

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self.rows.acknowledged

    @property
    def unanswered(self) -> int:
        """Records that have no outcome yet."""
        return len(self.client)

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
        self.rows.transactions.append(self.sent)
        return len(self.rows.transactions) - 1

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds, and pass on rows when due."""
        served = self._serve(timeout)
        self.rows.flush_when_due()
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
        self.rows.write_rest(self.sent)
        return left

    def abandon(self, *, open_transaction: bool) -> int:
        """End as the process would that is killed: nothing more is sent, and an open transaction stays open.

        Returns how many records became info. Writes the last rows: the producer can't be used afterwards.
        """
        left = self._purge()
        abandon_client(self.client, open_transaction=open_transaction)
        self.rows.write_rest(self.sent)
        return left

    def _purge(self) -> int:
        if self._learning is not None:
            self._learning.end()
        left = len(self.client)
        if left:
            self.client.purge()
            deadline = time.monotonic() + _PURGE_TIMEOUT
            while len(self.client) and time.monotonic() < deadline:
                self._serve(0.1)
        return left

    def _serve(self, timeout: float) -> int:
        try:
            return int(self.client.poll(timeout))
        except KafkaException as error:
            # Whichever call is the next raises that a producer has failed for good. In a transaction the next but one
            # does, too: its end.
            if self._transactional_id is None:
                if not error.args[0].fatal():
                    raise
                self.failed_for_good = str(error.args[0].str())
            return 0

    def _send_batch(self, count: int) -> int:
        first = self.sent
        self._reserved.up_to(first + count)
        values = self._codec.encode_many(self.producer_id, first, count)
        if self._known > self._partitions.count:
            self._partitions.grow(self._known, first)
        produce, topic, delivered = self.client.produce, self.topic, self._delivered
        partitions, to = self._partitions.count, self._partitions.first
        now_ns = time.monotonic_ns
        seq = first
        chunk = self.rows.chunk_of(seq)
        for value in values:
            row = seq % CHUNK
            if row == 0 and seq != first:
                chunk = self.rows.chunk_of(seq)
            chunk.invoke_ns[row] = now_ns()
            try:
                produce(topic, value, None, to + seq % partitions, delivered)
            except BufferError:
                break
            except KafkaException as error:
                self.rows.settle(seq, outcome_of_refusal(), error.args[0].name())
            seq += 1
        self.sent = seq
        return seq - first

    def _delivery_callback(self) -> tuple[Callable[[KafkaError | None, Any], None], Callable[[], int]]:
        """The function that is called for every record, and one that returns the longest gap between acknowledgements.

        The first uses only local variables: the speed of the load depends on these few lines.
        """
        rows, answered, now_ns = self.rows, self._answered, time.monotonic_ns
        chunks = rows.chunks
        last = longest = 0

        def delivered(error: KafkaError | None, message: Any) -> None:
            nonlocal last, longest
            seq = _SEQ_OF(message.value(), _SEQ_AT)[0]
            chunk = chunks[seq // CHUNK]
            if error is not None:
                rows.settle(seq, outcome_of_report(error.code(), retries=self._retries), error.name())
            else:
                now = now_ns()
                chunk.complete_ns[seq % CHUNK] = now
                offset = message.offset() if answered else None
                # A broker that has stored a record long ago acknowledges a retry without its offset, too
                # (DUPLICATE_SEQUENCE_NUMBER).
                if offset is not None:
                    chunk.offset[seq % CHUNK] = offset
                chunk.done += 1
                if now - last > longest:
                    longest = now - last if last else 0
                last = now
            if chunk.done == CHUNK:
                rows.is_done(seq)

        return delivered, lambda: longest


def abandon_client(client: Producer, *, open_transaction: bool) -> None:
    """End a producer whose records were delivered or purged.

    With an `open_transaction`, closing it would wait for an abort, without end if no coordinator answers. Freeing it
    without closing it corrupts the memory of the process (confluent-kafka 2.16.1, after it was fenced). So it stays
    with the process, idle, and its transaction stays open.
    """
    if open_transaction:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        return
    # Where warnings are errors, it raises both.
    with suppress(KafkaException, RuntimeWarning, SystemError):
        client.close()


def retries(configs: Mapping[str, object]) -> bool:
    """Whether a producer with these configs ever sends a record again."""
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            return int(str(configs[key])) > 0
    return _acks(configs) != "0"


def _acks(configs: Mapping[str, object]) -> str:
    return str(configs.get("acks", configs.get("request.required.acks", "all")))
