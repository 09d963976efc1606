"""The program `python -m … LIBRARY`: a producer or consumer of a Python library, driven by the client protocol.

The harness starts it with the library's version on the import path, writes orders such as `produce` to its standard
input, and reads events such as `outcome`, each a line of JSON (docs/guides/own-client.md).
"""

from __future__ import annotations

import asyncio
import collections
import functools
import importlib
import importlib.metadata
import inspect
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from kafka_chaos.harness.identity import IdentityCodec

TELL_SECONDS = 0.02  # between two batches of outcomes
POLL_SECONDS = 0.1
MAX_RECORDS_PER_EVENT = 10_000  # The harness limits the length of a line.
_EVENTS_LOCK = threading.Lock()


@functools.cache
def _events() -> TextIO:
    """The process's standard output, kept for events: from now on, whatever else is printed goes to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def tell(event: str, **values: Any) -> None:
    """Write an event with these fields to the harness."""
    line = json.dumps({"event": event, **values}, separators=(",", ":"))
    with _EVENTS_LOCK:
        _events().write(line + "\n")
        _events().flush()


Orders = queue.SimpleQueue[dict[str, Any]]
"""Orders of the harness that wait to be followed. A `SimpleQueue`, since a signal handler may safely add to it."""


def listen(take: Callable[[dict[str, Any]], object]) -> None:
    """Start a thread that passes each order of the harness to `take`, and ends this process when the harness ends."""

    def read() -> None:
        for line in sys.stdin:
            take(json.loads(line))
        os._exit(130)

    threading.Thread(target=read, daemon=True).start()


def error_text(error: Any) -> str:
    """An error as text, which begins with librdkafka's name of the error or, in other libraries, with its class."""
    kafka_error: Any = error.args[0] if getattr(error, "args", ()) else None
    if hasattr(kafka_error, "name"):
        return f"{kafka_error.name()}: {kafka_error.str()}"
    return f"{type(error).__name__}: {error}"


class Outcomes:
    """The outcomes of a producer's records, gathered from the library's threads and told to the harness in batches."""

    def __init__(self) -> None:
        self._told_count = 0
        # Seq and offset of each record and, unless it was acknowledged, the error.
        self._noted: collections.deque[tuple[int, int | None, str | None]] = collections.deque()
        self._has_new_outcomes = threading.Event()
        self._telling = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def note_success(self, seq: int, offset: int | None) -> None:
        """Note that the library reports success; a negative offset counts as None."""
        self._noted.append((seq, offset if offset is not None and offset >= 0 else None, None))
        self._has_new_outcomes.set()

    def note_failure(self, seq: int, error: object) -> None:
        """Note that the library reports an error: `info`, since an earlier attempt may have reached the log."""
        self._noted.append((seq, None, error_text(error)))
        self._has_new_outcomes.set()

    def tell(self) -> None:
        """Send the outcomes since the last call: one event for all successes, and one for each different error."""
        with self._telling:
            self._has_new_outcomes.clear()
            noted = [self._noted.popleft() for _ in range(len(self._noted))]
            for error in dict.fromkeys(error for _, _, error in noted):
                seqs, offsets = zip(*[(seq, offset) for seq, offset, text in noted if text == error], strict=True)
                tell("outcome", outcome="ok" if error is None else "info", seq=seqs, offset=offsets, error=error)
            self._told_count += len(noted)
            self._telling.notify_all()

    def _run(self) -> None:
        while self._has_new_outcomes.wait():
            # Outcomes that come meanwhile are told in the same event.
            time.sleep(TELL_SECONDS)
            self.tell()

    def await_all(self, sent: int, serve: Callable[[], object]) -> None:
        """Wait until the harness has all `sent` outcomes, and call `serve` meanwhile."""
        with self._telling:
            while not self._telling.wait_for(lambda: self._told_count >= sent, TELL_SECONDS):
                serve()


Records = list[tuple[int, int, int | None, bytes | None, Any]]
"""Records that were read: partition, offset, leader epoch, value and headers of each."""


class Library(ABC):
    """A client library, and this program's only producer or consumer, which a single thread calls.

    `begin`: the protocol's order of that name, which has the client's settings. `outcomes` and `start_offsets` (by
    partition, where a consumer begins to read) are set before `make_producer` or `make_consumer` is called.
    """

    module: str  # What is imported; `package` is its name in the package index.
    package: str
    separator = "_"  # Joins the words in the names of the library's settings.
    fixed: Mapping[str, Any] = {}  # Settings that no order overrides.
    outcomes: Outcomes
    start_offsets: dict[int, int]
    serve_interval: float | None = None  # Seconds between calls of `serve` while no order comes; None: no calls.

    def __init__(self, begin: dict[str, Any]) -> None:
        self.library = importlib.import_module(self.module)
        self._begin = begin
        self._topic = begin["topic"]
        # With acks=0, brokers answer nothing, and some libraries report an offset all the same.
        self._has_offsets = begin.get("acks") != "0"

    @property
    def version(self) -> str:
        """The version of the library."""
        return importlib.metadata.version(self.package)

    @abstractmethod
    def make_producer(self) -> None:
        """Make a producer."""

    @abstractmethod
    def send(self, seq: int, partition: int, value: bytes) -> None:
        """Send a record."""

    def serve(self) -> None:  # noqa: B027 - libraries with threads of their own need nothing
        """Let the library use this thread: to run callbacks, or to send the records that `send` has gathered."""

    @abstractmethod
    def transaction(self, method: str) -> None:
        """Call `init_transactions`, `begin_transaction`, `commit_transaction` or `abort_transaction`."""

    @abstractmethod
    def make_consumer(self) -> None:
        """Make a consumer that reads all partitions from their start_offsets."""

    @abstractmethod
    def positions(self) -> Mapping[int, int | None]:
        """The next offset to read of each partition; None if unknown. Markers and aborted records count as read."""

    @abstractmethod
    def read(self) -> Records:
        """The next records. Raises `PositionLost` if the log lacks the position; the next call begins again."""

    def _settings(self, role: str, **further: Any) -> dict[str, Any]:
        """The settings that every library has, by the names in this library, and this library's `further` settings."""
        begin = self._begin
        settings = {"isolation_level": begin.get("isolation") or "read_uncommitted", "enable_auto_commit": False}
        if role == "producer":
            settings = {
                "enable_idempotence": begin["idempotence"],
                "linger_ms": begin["linger_ms"],
                "client_id": begin["client_id"],
                **{key: begin.get(key) for key in ("transactional_id", "transaction_timeout_ms")},
            }
        named = {key.replace("_", self.separator): value for key, value in settings.items() if value is not None}
        return named | further

    def _configs(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings, overridden by the experiment's `configs` in `begin`, then by the servers and `fixed`."""
        servers = {f"bootstrap{self.separator}servers": self._begin["bootstrap_servers"]}
        return {**settings, **self._begin["configs"], **servers, **self.fixed}


def line_logger(take: Callable[[str], object]) -> logging.Logger:
    """A logger that passes each line to `take`, and to nothing else."""

    def read(record: logging.LogRecord) -> bool:
        take(record.getMessage())
        return False

    # Not by getLogger, which keeps each logger for ever. No handler is needed: the filter lets no line pass.
    logger = logging.Logger("kafka_chaos.client")
    logger.addFilter(read)
    return logger


def version_of_librdkafka(library: Any) -> str:
    """The version of librdkafka. `libversion` returns (text, number), but in confluent-kafka 2.12.0 the text alone."""
    version = library.libversion()
    return str(version if isinstance(version, str) else version[0])


class ConfluentKafka(Library):
    """confluent-kafka, the Python client on librdkafka, which runs callbacks only while it is polled."""

    module, separator, fixed = "confluent_kafka", ".", {"log_level": 0}
    serve_interval = 0.005

    @property
    def version(self) -> str:
        return version_of_librdkafka(self.library)

    def make_producer(self) -> None:
        begin = self._begin
        own = {
            "acks": begin["acks"],
            "max.in.flight.requests.per.connection": begin["max_in_flight"],
            "message.timeout.ms": begin["delivery_timeout_ms"],
            "error_cb": self._note_error,
        }
        self._fatal: Any = None
        configs = self._configs(self._settings("producer", **own))
        if begin.get("log"):
            configs |= {"debug": "eos", "log_level": 7, "logger": line_logger(self._tell_line)}
        self._client = self.library.Producer(configs)

    def send(self, seq: int, partition: int, value: bytes) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.outcomes.note_success(seq, message.offset() if self._has_offsets else None)
            else:
                self.outcomes.note_failure(seq, self.library.KafkaException(error))

        while True:
            try:
                self._client.produce(self._topic, value, None, partition, delivered)
                return
            except BufferError:
                # The client's queue is full.
                self._client.poll(POLL_SECONDS)

    def serve(self) -> None:
        self._client.poll(0)

    def transaction(self, method: str) -> None:
        timeout = () if method == "begin_transaction" else (POLL_SECONDS,)
        while True:
            try:
                getattr(self._client, method)(*timeout)
                return
            except self.library.KafkaException as failure:
                # In versions such as 2.3.0, a fenced producer's commit that failed is in progress for ever.
                if not failure.args[0].retriable() or failure.args[0].code() == self.library.KafkaError._CONFLICT:
                    raise
            self._client.poll(POLL_SECONDS)
            if self._fatal is not None:
                # In versions such as 2.3.0, the calls of a fenced producer time out for ever.
                raise self.library.KafkaException(self._fatal)

    def _tell_line(self, line: str) -> None:
        """Send the harness a line by which it recognises a defect (`defect_watch.py`), after all outcomes before it."""
        if "implicitly acked" in line or "epoch bump" in line:
            self.outcomes.tell()
            tell("log", line=line)

    def _note_error(self, error: Any) -> None:
        if error.code() == self.library.KafkaError._FATAL:
            self._fatal = error

    def make_consumer(self) -> None:
        own = {"group.id": self._begin["client_id"], "auto.offset.reset": "error", "enable.partition.eof": True}
        self._ends: dict[int, int] = {}  # The next offset of each partition that was read to its end.
        self._client = self.library.Consumer(self._configs(self._settings("consumer", **own)))
        self._assign_all()

    def _assign_all(self) -> None:
        topic_partition, beginning = self.library.TopicPartition, self.library.OFFSET_BEGINNING
        starts = self.start_offsets.items()
        self._client.assign([topic_partition(self._topic, n, start or beginning) for n, start in starts])

    def read(self) -> Records:
        records = []
        for message in self._client.consume(1_000, POLL_SECONDS):
            if message.error() is None:
                self._ends.pop(message.partition(), None)
                epoch = message.leader_epoch() if hasattr(message, "leader_epoch") else None
                records.append((message.partition(), message.offset(), epoch, message.value(), message.headers()))
            elif message.error().name() == "_PARTITION_EOF":
                self._ends[message.partition()] = message.offset()
            elif message.error().name() in ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"):
                self._assign_all()
                raise PositionLost
            else:
                tell("notice", text=message.error().name())
        return records

    def positions(self) -> dict[int, int]:
        return self._ends


class PositionLost(Exception):
    """A consumer's position is no longer in the log; all partitions are assigned again from their start offsets."""


class PythonLibrary(Library):
    """A library that is written in Python: kafka-python and aiokafka share names of settings, methods and errors."""

    consumer_class: str
    poll_method: str

    @abstractmethod
    def _make(self, client_class: Any, settings: dict[str, Any]) -> None:
        """Make the client."""

    @abstractmethod
    def _call(self, method: str, *values: Any, **options: Any) -> Any:
        """Call a method of the client, and wait for what it returns."""

    def _make_producer_of(self, client_class: Any, **further: Any) -> None:
        acks = self._begin["acks"]
        self._make(client_class, self._settings("producer", acks=acks if acks == "all" else int(acks), **further))

    def make_consumer(self) -> None:
        settings = self._settings("consumer", auto_offset_reset="none", group_id=None)
        self._make(getattr(self.library, self.consumer_class), settings)
        self._assign_all()

    def _assign_all(self) -> None:
        partitions = {self.library.TopicPartition(self._topic, n): start for n, start in self.start_offsets.items()}
        self._call("assign", list(partitions))
        for partition, start in partitions.items():
            if start:
                self._call("seek", partition, start)
            else:
                self._call("seek_to_beginning", partition)

    def read(self) -> Records:
        errors = self.library.errors
        try:
            polled = self._call(self.poll_method, timeout_ms=int(POLL_SECONDS * 1000))
        except (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError):
            self._assign_all()
            raise PositionLost from None
        return [
            (record.partition, record.offset, getattr(record, "leader_epoch", None), record.value, record.headers)
            for records in polled.values()
            for record in records
        ]

    def positions(self) -> dict[int, int]:
        topic_partition = self.library.TopicPartition
        return {number: self._call("position", topic_partition(self._topic, number)) for number in self.start_offsets}


class KafkaPython(PythonLibrary):
    """kafka-python."""

    module, package, consumer_class, poll_method = "kafka", "kafka-python", "KafkaConsumer", "poll"

    def _make(self, client_class: Any, settings: dict[str, Any]) -> None:
        """Make the client. Of this program's `settings`, those that the library's version lacks are left out."""
        configs, supported = self._configs(settings), client_class.DEFAULT_CONFIG
        if configs.get("enable_idempotence") and "enable_idempotence" not in supported:
            raise ValueError(f"kafka-python {self.version} has no idempotent producer")
        kept = {key: value for key, value in configs.items() if key in supported or key not in settings}
        self._client = client_class(**kept)

    def _call(self, method: str, *values: Any, **options: Any) -> Any:
        return getattr(self._client, method)(*values, **options)

    def make_producer(self) -> None:
        timeout_ms = self._begin["delivery_timeout_ms"]
        timeouts = {"request_timeout_ms": min(30_000, timeout_ms // 2), "delivery_timeout_ms": timeout_ms}
        in_flight = {"max_in_flight_requests_per_connection": self._begin["max_in_flight"]}
        self._make_producer_of(self.library.KafkaProducer, **timeouts, **in_flight)

    def send(self, seq: int, partition: int, value: bytes) -> None:
        try:
            sent = self._client.send(self._topic, value=value, partition=partition)
        except self.library.errors.KafkaError as error:
            self.outcomes.note_failure(seq, error)
            return
        sent.add_callback(lambda done: self.outcomes.note_success(seq, done.offset if self._has_offsets else None))
        sent.add_errback(lambda error: self._failed(seq, error))

    def _failed(self, seq: int, error: Exception) -> None:
        # This library logs no line by which the harness recognises its defects: the error's text takes its place.
        if self._begin.get("log"):
            tell("log", line=error_text(error))
        self.outcomes.note_failure(seq, error)

    def transaction(self, method: str) -> None:
        while True:
            try:
                self._call(method)
                return
            except self.library.errors.KafkaTimeoutError:
                time.sleep(POLL_SECONDS)


class Aiokafka(PythonLibrary):
    """aiokafka, in an event loop that has a thread of its own."""

    module, package, consumer_class, poll_method = "aiokafka", "aiokafka", "AIOKafkaConsumer", "getmany"

    def __init__(self, begin: dict[str, Any]) -> None:
        super().__init__(begin)
        self._unsent: list[tuple[int, int, bytes]] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _in_loop(self, coroutine: Any) -> Any:
        """Run a coroutine in the event loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _make(self, client_class: Any, settings: dict[str, Any]) -> None:
        async def make() -> None:
            self._client = client_class(**self._configs(settings))
            await self._client.start()

        self._in_loop(make())

    def _call(self, method: str, *values: Any, **options: Any) -> Any:
        async def call() -> Any:
            returned = getattr(self._client, method)(*values, **options)
            return await returned if inspect.isawaitable(returned) else returned

        return self._in_loop(call())

    def make_producer(self) -> None:
        # In aiokafka, this is also the time after which a record is given up.
        self._make_producer_of(self.library.AIOKafkaProducer, request_timeout_ms=self._begin["delivery_timeout_ms"])

    def send(self, seq: int, partition: int, value: bytes) -> None:
        self._unsent.append((seq, partition, value))

    def serve(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._in_loop(self._send_all(unsent))

    async def _send_all(self, unsent: list[tuple[int, int, bytes]]) -> None:
        for seq, partition, value in unsent:
            try:
                sent = await self._client.send(self._topic, value=value, partition=partition)
            except self.library.errors.KafkaError as error:
                self.outcomes.note_failure(seq, error)
                continue
            sent.add_done_callback(functools.partial(self._note_outcome, seq))

    def _note_outcome(self, seq: int, done: Any) -> None:
        if (error := done.exception()) is not None:
            self.outcomes.note_failure(seq, error)
        else:
            has_offset = self._has_offsets and done.result() is not None
            self.outcomes.note_success(seq, done.result().offset if has_offset else None)

    def transaction(self, method: str) -> None:
        # aiokafka has initialised the transactional id when the client started.
        if method != "init_transactions":
            self.serve()
            self._call(method)


LIBRARIES: dict[str, type[Library]] = {"librdkafka": ConfluentKafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def produce(library: Library, begin: dict[str, Any], orders: Orders) -> None:
    """Run a producer that sends the records that the harness asks for, until it is told to leave."""
    outcomes = library.outcomes = Outcomes()
    library.make_producer()
    if begin.get("transactional_id") is not None:
        library.transaction("init_transactions")
    tell("ready", client=sys.argv[1], version=library.version)
    codec = IdentityCodec(begin["lane"], begin["record_size"])
    first_partition, partitions, sent = begin["first_partition"], begin["partitions"], 0
    while True:
        try:
            order = orders.get(timeout=library.serve_interval)
        except queue.Empty:
            library.serve()
            continue
        kind = order["order"]
        if kind == "produce":
            sent += order["count"]
            values = codec.encode_many(begin["producer_id"], order["first_seq"], order["count"])
            for seq, value in enumerate(values, order["first_seq"]):
                library.send(seq, first_partition + seq % partitions, value)
            library.serve()
        elif kind in ("flush", "leave"):
            outcomes.await_all(sent, library.serve)
            if kind == "leave":
                return
            tell("flushed")
        else:
            transact(library, outcomes, sent, kind)


def transact(library: Library, outcomes: Outcomes, sent: int, order: str) -> None:
    """Follow an order on transactions: `begin_transaction`, `commit` or `abort`.

    If a transaction can't begin, the harness gets a notice, and later the error of the order that ends the transaction.
    """
    error = None
    try:
        library.transaction(order if order == "begin_transaction" else f"{order}_transaction")
    except Exception as failure:  # noqa: BLE001 - the harness learns it
        error = error_text(failure)
    if order == "begin_transaction":
        return tell("notice", text=error) if error else None
    if error is None:
        outcomes.await_all(sent, library.serve)
    return tell("transaction", did=order, error=error)


def consume(library: Library, begin: dict[str, Any], orders: Orders) -> None:
    """Run a consumer that tells the harness what it reads, until it is told to leave."""
    codec = IdentityCodec(begin["lane"])
    library.start_offsets = {n: begin["start_offsets"].get(str(n), 0) for n in range(begin["partitions"])}
    library.make_consumer()
    tell("ready", client=sys.argv[1], version=library.version)
    told_positions: dict[int, int | None] = {}
    while orders.empty() or orders.get()["order"] != "leave":
        try:
            records = library.read()
        except PositionLost:
            tell("assigned")
            continue
        for first in range(0, len(records), MAX_RECORDS_PER_EVENT):
            batch = records[first : first + MAX_RECORDS_PER_EVENT]
            partitions, offsets, epochs, values, headers = zip(*batch, strict=True)
            producer_ids, seqs = zip(*map(codec.decode_record, values, headers), strict=True)
            columns = {"partition": partitions, "offset": offsets, "leader_epoch": epochs}
            tell("read", **columns, producer_id=producer_ids, seq=seqs)
        if not records and begin.get("isolation"):
            # Where the topic has transactions, positions pass markers and aborted records, which no `read` event has.
            positions = dict(library.positions())
            moved = [(n, end) for n, end in positions.items() if end is not None and end != told_positions.get(n)]
            if moved:
                tell("at_end", offsets=moved)
            told_positions = positions


def run_client(begin: dict[str, Any]) -> int:
    """Run a producer or a consumer until it is told to leave; returns the exit code."""
    orders: Orders = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: orders.put({"order": "leave"}))
    listen(orders.put)
    run_role = produce if begin["role"] == "producer" else consume
    run_role(LIBRARIES[sys.argv[1]](begin), begin, orders)
    return 0


def run(client: Callable[[Any], int]) -> None:
    """Call `client` with the order `begin`, and end this process with the exit code that `client` returns."""
    # Ctrl-C reaches the whole process group: the harness decides when a client ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _events()
    try:
        code = client(json.loads(sys.stdin.readline()))
    except Exception as error:  # noqa: BLE001 - the harness learns it
        traceback.print_exc()
        tell("error", text=f"{type(error).__name__}: {error}")
        code = 70
    sys.stderr.flush()
    # At once: threads of the library, and what they still have to send, must not delay the end.
    os._exit(code)


if __name__ == "__main__":
    run(run_client)
