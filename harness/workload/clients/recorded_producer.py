"""The producers of lanes: the base class for all client libraries, and confluent-kafka's producer in this process."""

from __future__ import annotations

import ctypes
import logging
import struct
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.harness.identity import IDENTITY_HEADER, IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.outcome import Outcome, outcome_of
from kafka_chaos.harness.workload.clients.partitions import PartitionWatch

if TYPE_CHECKING:
    # Processes of loops' members import this module, too: they come and go, and to import PyArrow takes long.
    from kafka_chaos.harness.workload.client_process import SupervisedProcess
    from kafka_chaos.harness.workload.clients.produced import ProducedRows

_BATCH = 256
_PURGE_TIMEOUT_S = 1.0
_unpack_seq = struct.Struct(">q").unpack_from
_SEQ_START = 12  # The seq's first byte in a value, whose layout `identity.py` describes.
# A broken cluster's errors are reported, and need no log. Without a logger, librdkafka prints some errors whatever
# its `log_level` is, such as that a transactional producer was fenced.
SILENT_LOGGER = logging.Logger("kafka_chaos.client")
SILENT_LOGGER.addHandler(logging.NullHandler())

# A producer that failed fatally warns when it is closed; nothing can be done about that. Pytest replaces these filters,
# so the plugin sets this one again.
warnings.filterwarnings("ignore", message="Producer abort_transaction failed during close", category=RuntimeWarning)


class LaneProducer(ABC):
    """A producer that sends numbered records to its partitions in turn; `rows` notes them for the history.

    One subclass drives librdkafka in this process, another drives any client in a process of its own. `client` has the
    methods for transactions. `send`, `poll`, `finish` and `abandon` belong to one thread.
    """

    client: Any
    process: SupervisedProcess | None = None

    def __init__(self, rows: ProducedRows) -> None:
        self.lane = rows.lane
        self.producer_id = rows.producer_id
        self.rows = rows
        self._failed_for_good = ""

    @property
    def sent(self) -> int:
        """Records that the client accepted so far."""
        return self.rows.sent

    @property
    @abstractmethod
    def unanswered(self) -> int:
        """The number of records without an outcome; 0 once the client can report none any more."""

    @property
    def failed_for_good(self) -> str:
        """Why the producer takes no more records; empty while it does."""
        return self._failed_for_good

    @abstractmethod
    def send(self, count: int) -> int:
        """Send up to `count` records, fewer if the client's queue is full; returns how many it took."""

    @abstractmethod
    def poll(self, timeout: float) -> None:
        """Serve delivery reports for up to `timeout` seconds."""

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait at most `timeout` seconds until every record has an outcome; the other records become info.

        `cancelled` ends the wait and the client at once. Writes the last rows: the producer can't be used afterwards.
        """
        deadline = time.monotonic() + timeout
        while self.unanswered and time.monotonic() < deadline and not cancelled.is_set():
            self.poll(0.05)
        if not cancelled.is_set():
            self._leave()
        self.abandon(open_transaction=False)

    def _leave(self) -> None:  # noqa: B027 - a client in this process has nothing to do before it is abandoned
        """Let the client's process leave in order."""

    @abstractmethod
    def abandon(self, *, open_transaction: bool) -> None:
        """End as a killed process does, and leave an open transaction behind; records without an outcome become info.

        Writes the last rows: the producer can't be used afterwards.
        """


class RecordedProducer(LaneProducer):
    """A librdkafka producer in this process.

    `configs` are librdkafka's keys. Records go to the `partitions` of `rows` in turn, by seq, so that each partition
    gets increasing seqs. If the topic `grows_to` more partitions, these get records, too, once the client knows them.
    With a `transactional.id`, the caller begins and ends transactions at the `client`, and tells `rows` of each.
    """

    def __init__(
        self, rows: ProducedRows, *, topic: str, record_size: int, configs: Mapping[str, object], grows_to: int = 0
    ) -> None:
        super().__init__(rows)
        assert rows.partitions is not None
        self._topic = topic
        self._partitions = rows.partitions
        self._codec = IdentityCodec(rows.lane, record_size)
        self._header_codec = IdentityCodec(rows.lane)
        self._may_retry = may_retry(configs)
        # With acks=0 no broker answers, so there is no offset. Yet librdkafka reports one for the 1,002nd and
        # later records of a batch: within a batch, it counts up from its "invalid" offset, -1001.
        self._has_offsets = _acks(configs) != "0"
        self.client = new_client(Producer, {"logger": SILENT_LOGGER, **configs})
        self._is_transactional = "transactional.id" in configs
        self._delivered = self._delivery_callback()
        self._partition_watch = PartitionWatch(self.client, topic, count=self._partitions.count, final_count=grows_to)

    @property
    def unanswered(self) -> int:
        """The number of records in the client's queue."""
        return len(self.client)

    def send(self, count: int) -> int:
        """Send records until the client's queue is full; returns how many it took."""
        rows, produce, topic, delivered = self.rows, self.client.produce, self._topic, self._delivered
        done = 0
        while done < count:
            batch = min(_BATCH, count - done)
            first = rows.hand_out(batch)
            if (total := self._partition_watch.count) > self._partitions.count:
                self._partitions.grow(total, first)
            partitions, first_partition = self._partitions.count, self._partitions.first
            for seq, value in enumerate(self._codec.encode_many(self.producer_id, first, batch), first):
                partition = first_partition + seq % partitions
                key, is_tombstone = (None, False) if rows.keys is None else rows.keys(seq)
                try:
                    if is_tombstone:
                        identity = {IDENTITY_HEADER: self._header_codec.encode(self.producer_id, seq)}
                        # Its report has neither value nor headers, so the function has to know the record.
                        produce(topic, None, key, partition, partial(delivered, seq=seq), headers=identity)
                    else:
                        produce(topic, value, key, partition, delivered)
                except BufferError:
                    # The client's queue is full.
                    rows.take_back(seq)
                    return done + seq - first
                except KafkaException as error:
                    rows.note_outcome(seq, Outcome.FAIL, error.args[0].name())
            done += batch
        return done

    def poll(self, timeout: float) -> None:
        """Serve delivery reports, and note whether the producer has failed for good."""
        try:
            self.client.poll(timeout)
        except KafkaException as error:
            # `poll` raises once a producer has failed for good. Of a transactional producer, the call that ends the
            # transaction raises the error again, and whoever made that call handles it.
            if not self._is_transactional:
                if not error.args[0].fatal():
                    raise
                self._failed_for_good = str(error.args[0].str())

    def abandon(self, *, open_transaction: bool) -> None:
        """Purge the records in the client's queue, and end the client unless that would end an open transaction."""
        self._partition_watch.end()
        if len(self.client):
            self.client.purge()
            deadline = time.monotonic() + _PURGE_TIMEOUT_S
            while len(self.client) and time.monotonic() < deadline:
                self.poll(0.1)
        abandon_client(self.client, open_transaction=open_transaction)
        self.rows.write_rest()

    def _delivery_callback(self) -> Callable[..., None]:
        """The function that librdkafka calls for every record.

        It is a closure with local variables, which are faster than attributes: it runs once for every record.
        """
        has_offsets, acknowledge, note_outcome = self._has_offsets, self.rows.acknowledge, self.rows.note_outcome

        def delivered(error: KafkaError | None, message: Any, seq: int | None = None) -> None:
            seq = _unpack_seq(message.value(), _SEQ_START)[0] if seq is None else seq
            if error is None:
                # The offset is None as well if a broker acknowledges a retry of a record that it has stored long ago
                # (DUPLICATE_SEQUENCE_NUMBER).
                acknowledge(seq, message.offset() if has_offsets else None)
            else:
                note_outcome(seq, *outcome_of(error, may_retry=self._may_retry))

        return delivered


def abandon_client(client: Producer, *, open_transaction: bool) -> None:
    """End a producer whose records were delivered or purged.

    With an `open_transaction`, closing the producer would wait for an abort, forever if no coordinator answers. Freeing
    it without closing it corrupts the memory of the process (confluent-kafka 2.16.1, after it was fenced). So it stays
    in the process, idle, and its transaction stays open.
    """
    if open_transaction:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        return
    # Where warnings are errors, closing raises a RuntimeWarning or a SystemError.
    with suppress(KafkaException, RuntimeWarning, SystemError):
        client.close()


def may_retry(configs: Mapping[str, object]) -> bool:
    """Whether a producer with these configs ever sends a record again that may be in a log."""
    for key in ("retries", "message.send.max.retries"):
        if key in configs:
            # A leader that steps down refuses what waits for followers, and librdkafka sends that again in any case.
            return int(str(configs[key])) > 0 or _acks(configs) not in ("0", "1")
    return _acks(configs) != "0"


def _acks(configs: Mapping[str, object]) -> str:
    return str(configs.get("acks", configs.get("request.required.acks", "all")))
