"""A producer for a user's application: a `confluent_kafka.Producer` that records what it sends to the lane's topic.

The application keeps its values, keys, headers and callbacks. Each record gets one more header, with its identity.
Several threads may use one client. Transactions are recorded, too: which end the application asked for, and the answer.
In a loop (consume, transform, produce), each record names its input, and the offsets that the client sends to a
transaction are recorded as commits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IDENTITY_HEADER, IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumers
from kafka_chaos.harness.workload.clients.defect_watch import log_reader, with_log_reader
from kafka_chaos.harness.workload.clients.outcome import Outcome, outcome_of
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.producers import WrittenRecords
from kafka_chaos.harness.workload.clients.recorded_producer import SILENT_LOGGER, abandon_client, may_retry
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.transactions.producer import TransactionRows

Headers = Mapping[str, Any] | Iterable[tuple[str, Any]] | None
DeliveryCallback = Callable[[KafkaError | None, Any], None]


class ApplicationProducers(WrittenRecords):
    """All producers that the application of one lane makes, each with a producer_id of its own, and their records."""

    def __init__(self, lane: LaneSpec, load: LoadSettings, inputs: ApplicationConsumers | None = None) -> None:
        """`inputs`: if the lane is the output of a loop, the loop's consumers."""
        super().__init__()
        self.inputs = inputs
        self.lane = lane.lane
        self.topic = lane.topic_name
        self.codec = IdentityCodec(lane.lane)
        self.configs = load.producer_configs(lane)
        self.has_offsets = lane.acks != "0"
        self.may_retry = may_retry(self.configs)
        self.calls = load.calls
        # The application produces by librdkafka, whose log is read here: the lane's `client` names its consumers'.
        self._lane = replace(lane.as_lane(()), client=None)
        self._load = load
        self._clients: list[ApplicationProducer] = []
        self._lock = threading.Lock()

    def client(self, configs: Mapping[str, object]) -> ApplicationProducer:
        """Make one more producer, with these configs."""
        with self._lock:
            number = len(self._clients)
            read_line = log_reader(self._lane, configs, self._load.emit, producer_id=number)
            rows = ProducedRows(
                self._load.tables, lane=self.lane, producer_id=number, transactional_id=configs.get("transactional.id")
            )
            client = ApplicationProducer(self, rows, with_log_reader(configs, read_line))
            self._clients.append(client)
            self.rows.append(rows)
        return client

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait at most `timeout` seconds until every record has an outcome; the other records become info."""
        deadline = time.monotonic() + timeout
        call = self.calls.note_begin(self.lane, self.lane, "flush")
        are_answered = [client.finish(deadline, cancelled) for client in self._clients]
        # A call without an end counts as hung: some record got no outcome in time.
        if all(are_answered) or cancelled.is_set():
            self.calls.note_end(call)


class ApplicationProducer(AbstractContextManager["ApplicationProducer"]):
    """A `confluent_kafka.Producer` that records what it sends.

    Methods without a docstring do what the client's methods of these names do. All others are passed on to the client.
    """

    def __init__(self, recorder: ApplicationProducers, rows: ProducedRows, configs: Mapping[str, object]) -> None:
        self._recorder = recorder
        self._client = new_client(Producer, {"logger": SILENT_LOGGER, **configs})
        self._rows = rows
        self._is_transactional = "transactional.id" in configs
        self._transactions = TransactionRows(rows)

    def init_transactions(self, timeout: float = -1) -> None:
        with self._timed("init_transactions"):
            self._client.init_transactions(timeout)
        self._transactions.note_initialised()

    def begin_transaction(self) -> None:
        begin_ns = time.monotonic_ns()
        with self._timed("begin_transaction"):
            self._client.begin_transaction()
        self._transactions.note_begin(begin_ns)

    def send_offsets_to_transaction(self, positions: Sequence[Any], group_metadata: Any, timeout: float = -1) -> None:
        send = partial(self._client.send_offsets_to_transaction, list(positions), group_metadata, timeout)
        inputs = self._recorder.inputs
        consumers = [] if inputs is None else [client for client in inputs.clients if not client.is_closed]
        consumer = next((each for each in consumers if each.consumer_group_metadata() == group_metadata), None)
        if consumer is None:
            with self._timed("send_offsets_to_transaction"):
                send()
        else:
            transaction = {"producer_id": self._rows.producer_id, "transaction": self._transactions.number}
            with consumer.sending_offsets(positions, **transaction):
                send()

    def commit_transaction(self, timeout: float = -1) -> None:
        self._transactions.note_commit_request()
        self._end("commit_transaction", COMMITTED, timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        self._end("abort_transaction", ABORTED, timeout)

    def _end(self, call: str, outcome: str, timeout: float) -> None:
        was_open = self._transactions.is_open
        try:
            with self._timed(call):
                getattr(self._client, call)(timeout)
            if was_open:
                self._transactions.note_end(outcome)
        except KafkaException as failure:
            # After an error that is not fatal, the application may repeat the call, or abort.
            if was_open and failure.args[0].fatal():
                self._transactions.end_unconfirmed(failure.args[0])
            raise
        finally:
            if was_open and not self._transactions.is_open:
                self._rows.set_transaction(None)

    def flush(self, timeout: float = -1) -> int:
        with self._timed("flush"):
            return int(self._client.flush(timeout))

    def close(self) -> bool:
        """Wait for all outcomes; the client itself ends with the load."""
        return self.flush() == 0

    def __exit__(self, *_: object) -> None:
        self.close()

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Headers = None,
        source: Any = None,
    ) -> None:
        """Send a record. A record for another topic than the lane's is not recorded.

        In a loop, `source` is the input message of the record; without `source`, the application has to
        pass on the input's header `kafka-chaos-id`. Raises `UsageFailure` if there is neither.
        """
        report = on_delivery or callback
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
        options: dict[str, Any] = {"partition": partition, "timestamp": timestamp}
        if topic != self._recorder.topic:
            self._client.produce(topic, value, key, headers=pairs, on_delivery=report, **options)
            return
        # Latin-1 has a character for each byte.
        text = None if key is None else (key.encode() if isinstance(key, str) else key).decode("latin-1")
        columns = {"key": text, "tombstone": int(value is None), "partition": partition if partition >= 0 else None}
        if self._recorder.inputs is not None:
            source_producer_id, source_seq = self._input(self._recorder.inputs, source, pairs)
            columns |= {"source_producer_id": source_producer_id, "source_seq": source_seq}
            # The record gets an identity of its own.
            pairs = [(name, content) for name, content in pairs if name != IDENTITY_HEADER]
        # Under a lock: seqs must enter the client's queue in order.
        with self._rows.lock:
            seq = self._rows.hand_out(1, extras=[columns])
            identity = self._recorder.codec.encode(self._rows.producer_id, seq)
            options["headers"] = [*pairs, (IDENTITY_HEADER, identity)]
            try:
                self._client.produce(topic, value, key, on_delivery=self._delivery_callback(seq, report), **options)
            except KafkaException as error:
                self._rows.note_outcome(seq, Outcome.FAIL, error.args[0].name())
                raise
            except BaseException:
                # The queue is full, or an argument is invalid: there never was such a record.
                self._rows.take_back(seq)
                raise

    def finish(self, deadline: float, cancelled: threading.Event) -> bool:
        """Wait for outcomes until `deadline`, then end the client; returns whether every record got its outcome."""
        while len(self._client) and time.monotonic() < deadline and not cancelled.is_set():
            self._serve(0.1)
        is_answered = not self._rows.pending
        if len(self._client):
            self._client.purge()
            self._serve(1.0)
        has_open = self._transactions.is_open
        if has_open:
            self._transactions.end_unconfirmed()
        abandon_client(self._client, open_transaction=has_open)
        self._rows.write_rest("no outcome when the run ended")
        return is_answered

    def __len__(self) -> int:
        return len(self._client)

    def __bool__(self) -> bool:
        # By its length, a producer with an empty queue would be false.
        return True

    def __getattr__(self, name: str) -> Any:
        if name == "produce_batch":
            raise UsageFailure("produce_batch: its records would not be recorded: expected produce() for each of them")
        return getattr(self._client, name)

    def _timed(self, call: str) -> AbstractContextManager[None]:
        """A context manager whose block makes this call for the application: the call is noted if it takes long."""
        lane = self._recorder.lane
        return self._recorder.calls.awaiting(lane, f"{lane}-{self._rows.producer_id}", call)

    def _serve(self, timeout: float) -> None:
        try:
            self._client.poll(timeout)
        except KafkaException:
            # A transactional producer has failed for good. The application learns that from its own calls.
            if not self._is_transactional:
                raise

    def _input(self, inputs: ApplicationConsumers, source: Any, headers: list[tuple[str, Any]]) -> tuple[int, int]:
        """The identity of a record's input."""
        if source is None and all(key != IDENTITY_HEADER for key, _ in headers):
            raise UsageFailure(
                f"produce: the lane {self._recorder.lane} is the output of a loop: give source=, the input message "
                "of the record, or pass on the headers of that message"
            )
        value, input_headers = (None, headers) if source is None else (source.value(), source.headers())
        return inputs.codec.decode_record(value, input_headers)

    def _delivery_callback(self, seq: int, report: DeliveryCallback | None) -> DeliveryCallback:
        """The delivery callback of a record, which calls the application's `report` after it has noted the outcome."""
        rows, recorder = self._rows, self._recorder

        def delivered(error: KafkaError | None, message: Any) -> None:
            outcome, name = (Outcome.OK, None) if error is None else outcome_of(error, may_retry=recorder.may_retry)
            partition = message.partition()
            if partition is not None and partition < 0:
                partition = None
            offset = message.offset() if error is None and recorder.has_offsets else None
            with rows.lock:
                rows.note_outcome(seq, outcome, name, offset=offset, partition=partition)
            if report is not None:
                report(error, message)

        return delivered
