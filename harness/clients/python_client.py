"""A client of one of Python's libraries that speaks the client protocol: `python -m … LIBRARY`.

It imports the library from where its version is (`command_of`). The protocol is described in docs/guides/own-client.md.
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

TOLD_EVERY = 0.02
POLLED_FOR = 0.1
MOST_TOLD = 10_000
"""Records in one event, at most: the length of a line is limited."""

_TELLING = threading.Lock()


@functools.cache
def _events() -> TextIO:
    """Where events are written: what was standard output. Whatever else is printed goes to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def tell(event: str, **values: Any) -> None:
    """Tell the harness an event with these fields."""
    line = json.dumps({"event": event, **values}, separators=(",", ":"))
    with _TELLING:
        _events().write(line + "\n")
        _events().flush()


Orders = queue.SimpleQueue[dict[str, Any]]
"""The orders of the harness that were not followed yet; a signal handler may add to them."""


def listen(take: Callable[[dict[str, Any]], object]) -> None:
    """Pass each order of the harness on, in a thread; once the harness is gone, end this process."""

    def read() -> None:
        for line in sys.stdin:
            take(json.loads(line))
        os._exit(130)

    threading.Thread(target=read, daemon=True).start()


def named(error: Any) -> str:
    """The text of an error, which begins with its name: librdkafka's, or that of its class."""
    code: Any = error.args[0] if getattr(error, "args", ()) else None
    return f"{code.name()}: {code.str()}" if hasattr(code, "name") else f"{type(error).__name__}: {error}"


class Outcomes:
    """The outcomes of records, gathered from the library's threads and reported in batches."""

    def __init__(self) -> None:
        self._known = 0
        self._acknowledged: collections.deque[tuple[int, int | None]] = collections.deque()
        self._failed: collections.deque[tuple[int, str]] = collections.deque()
        self._has_news = threading.Event()
        self._told = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def acknowledged(self, seq: int, offset: int | None) -> None:
        """The library reports success."""
        self._acknowledged.append((seq, offset if offset is not None and offset >= 0 else None))
        self._has_news.set()

    def failed(self, seq: int, error: object) -> None:
        """The library reports an error; what its earlier attempts left in the log is not known."""
        self._failed.append((seq, named(error)))
        self._has_news.set()

    def tell(self) -> None:
        """Tell the outcomes that are known and were not told yet."""
        with self._told:
            self._has_news.clear()
            done = [self._acknowledged.popleft() for _ in range(len(self._acknowledged))]
            failed = [self._failed.popleft() for _ in range(len(self._failed))]
            if done:
                tell("outcome", outcome="ok", seq=[seq for seq, _ in done], offset=[offset for _, offset in done])
            for error in dict.fromkeys(error for _, error in failed):
                tell("outcome", outcome="info", seq=[seq for seq, other in failed if other == error], error=error)
            self._known += len(done) + len(failed)
            self._told.notify_all()

    def _run(self) -> None:
        while self._has_news.wait():
            # Many outcomes are told in one event.
            time.sleep(TOLD_EVERY)
            self.tell()

    def await_all(self, sent: int) -> None:
        """Wait until so many outcomes are told: libraries run their callbacks a moment after a flush."""
        with self._told:
            self._told.wait_for(lambda: self._known >= sent)


Read = list[tuple[int, int, int | None, bytes | None, Any]]
"""Partition, offset, leader epoch, value and headers of each record."""


class Library(ABC):
    """What this program calls of a client library, all from one thread. `begin`: the order of that name.

    `package`: what its package is called; `separator`: what joins the words in the names of its settings, of which
    `fixed` are the same whatever the order says.
    `outcomes`: where a producer reports; `starts`: by partition, the offset from which a consumer reads.
    `served_every`: the seconds after which a producer has to be served again, if it does not serve itself.
    """

    module: str
    package: str
    separator = "_"
    fixed: Mapping[str, Any] = {}
    outcomes: Outcomes
    starts: dict[int, int]
    served_every: float | None = None

    def __init__(self, begin: dict[str, Any]) -> None:
        self.library = importlib.import_module(self.module)
        self._begin = begin
        self._topic = begin["topic"]
        self._answered = begin.get("acks") != "0"

    @property
    def version(self) -> str:
        """The version of the library."""
        return importlib.metadata.version(self.package)

    @abstractmethod
    def producer(self) -> None:
        """Make a producer."""

    @abstractmethod
    def send(self, seq: int, partition: int, value: bytes) -> None:
        """Send a record."""

    def serve(self) -> None:  # noqa: B027 - many serve themselves
        """Run what waits for the program's own thread: callbacks, or records that were gathered to be sent."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until all records have an outcome."""

    @abstractmethod
    def transaction(self, what: str) -> None:
        """Call `init_transactions`, `begin_transaction`, `commit_transaction` or `abort_transaction`."""

    @abstractmethod
    def consumer(self) -> None:
        """Make a consumer that reads all partitions from their starts."""

    @abstractmethod
    def positions(self) -> Mapping[int, int | None]:
        """The next offset to read of each partition, behind markers and aborted records that were passed over."""

    @abstractmethod
    def read(self) -> Read:
        """The next records. Raises `Reset` where the position was lost, and reading begins anew."""

    def _settings(self, role: str, **own: Any) -> dict[str, Any]:
        """The settings that all libraries have, but for those that are None, and `own` ones."""
        begin = self._begin
        settings = {"isolation_level": begin.get("isolation") or "read_uncommitted", "enable_auto_commit": False}
        if role == "producer":
            settings = {
                "enable_idempotence": begin["idempotence"],
                "linger_ms": begin["linger_ms"],
                "client_id": begin["client_id"],
                **{key: begin.get(key) for key in ("transactional_id", "transaction_timeout_ms")},
            }
        settings = {key: value for key, value in settings.items() if value is not None}
        return {key.replace("_", self.separator): value for key, value in settings.items()} | own

    def _configs(self, settings: dict[str, Any]) -> dict[str, Any]:
        """These settings, with those of the order `begin`, which override them."""
        servers = {f"bootstrap{self.separator}servers": self._begin["bootstrap_servers"]}
        return {**settings, **self._begin["configs"], **servers, **self.fixed}


def telling_logger(outcomes: Outcomes) -> logging.Logger:
    """A logger for librdkafka that tells lines which show a known defect's precondition, after earlier outcomes."""

    def tell_line(record: logging.LogRecord) -> bool:
        line = record.getMessage()
        if "implicitly acked" in line or "epoch bump" in line:
            outcomes.tell()
            tell("log", line=line)
        return False

    # No handler is needed: the filter lets no line pass.
    logger = logging.Logger("client")
    logger.addFilter(tell_line)
    return logger


def version_of_librdkafka(library: Any) -> str:
    """The version of librdkafka. In confluent-kafka 2.12.0, `libversion` returns the text alone."""
    said = library.libversion()
    return str(said if isinstance(said, str) else said[0])


class Librdkafka(Library):
    """confluent-kafka."""

    module, separator, fixed = "confluent_kafka", ".", {"log_level": 0}
    served_every = 0.005

    @property
    def version(self) -> str:
        return version_of_librdkafka(self.library)

    def producer(self) -> None:
        begin = self._begin
        own = {
            "acks": begin["acks"],
            "max.in.flight.requests.per.connection": begin["max_in_flight"],
            "message.timeout.ms": begin["delivery_timeout_ms"],
            "error_cb": self._disturbed,
        }
        self._fatal: Any = None
        watched = {"debug": "eos", "log_level": 7, "logger": telling_logger(self.outcomes)} if begin.get("log") else {}
        self._client = self.library.Producer(self._configs(self._settings("producer", **own)) | watched)

    def send(self, seq: int, partition: int, value: bytes) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.outcomes.acknowledged(seq, message.offset() if self._answered else None)
            else:
                self.outcomes.failed(seq, self.library.KafkaException(error))

        while True:
            try:
                self._client.produce(self._topic, value, None, partition, delivered)
                return
            except BufferError:
                self._client.poll(POLLED_FOR)

    def serve(self) -> None:
        self._client.poll(0)

    def flush(self) -> None:
        while len(self._client):
            self._client.poll(POLLED_FOR)

    def transaction(self, what: str) -> None:
        call = getattr(self._client, what)
        while True:
            try:
                call(*(() if what == "begin_transaction" else (POLLED_FOR,)))
                return
            except self.library.KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            self._client.poll(POLLED_FOR)
            if self._fatal is not None:
                # Versions such as 2.3.0 time out for ever once they are fenced.
                raise self.library.KafkaException(self._fatal)

    def _disturbed(self, error: Any) -> None:
        if error.code() == self.library.KafkaError._FATAL:
            self._fatal = error

    def consumer(self) -> None:
        own = {"group.id": self._begin["client_id"], "auto.offset.reset": "error", "enable.partition.eof": True}
        self._ends: dict[int, int] = {}
        self._client = self.library.Consumer(self._configs(self._settings("consumer", **own)))
        self._assign()

    def _assign(self) -> None:
        place, beginning = self.library.TopicPartition, self.library.OFFSET_BEGINNING
        self._client.assign([place(self._topic, number, at or beginning) for number, at in self.starts.items()])

    def read(self) -> Read:
        found = []
        for message in self._client.consume(1_000, POLLED_FOR):
            if message.error() is None:
                self._ends.pop(message.partition(), None)
                epoch = message.leader_epoch() if hasattr(message, "leader_epoch") else None
                found.append((message.partition(), message.offset(), epoch, message.value(), message.headers()))
            elif message.error().name() == "_PARTITION_EOF":
                self._ends[message.partition()] = message.offset()
            elif message.error().name() in ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"):
                self._assign()
                raise Reset
            else:
                tell("notice", text=message.error().name())
        return found

    def positions(self) -> dict[int, int]:
        return self._ends


class Reset(Exception):
    """The position is lost: reading begins anew."""


class OfPython(Library):
    """What libraries that are written in Python share: names of settings, and how partitions are assigned and read."""

    reads_with: str
    polls: str

    @abstractmethod
    def _make(self, kind: Any, settings: dict[str, Any]) -> None:
        """Make the client."""

    @abstractmethod
    def _call(self, what: str, *values: Any, **options: Any) -> Any:
        """Call the method `what` of the client, and wait for what it returns."""

    def _of_producer(self, **own: Any) -> dict[str, Any]:
        acks = self._begin["acks"]
        return self._settings("producer", acks=acks if acks == "all" else int(acks), **own)

    def transaction(self, what: str) -> None:
        self._call(what)

    def flush(self) -> None:
        self._call("flush")

    def consumer(self) -> None:
        kind = getattr(self.library, self.reads_with)
        self._make(kind, self._settings("consumer", auto_offset_reset="none", group_id=None))
        self._assign()

    def _assign(self) -> None:
        places = {self.library.TopicPartition(self._topic, number): start for number, start in self.starts.items()}
        self._call("assign", list(places))
        for place, start in places.items():
            if start:
                self._call("seek", place, start)
            else:
                self._call("seek_to_beginning", place)

    def read(self) -> Read:
        errors = self.library.errors
        try:
            polled = self._call(self.polls, timeout_ms=int(POLLED_FOR * 1000))
        except (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError):
            self._assign()
            raise Reset from None
        return [
            (one.partition, one.offset, getattr(one, "leader_epoch", None), one.value, one.headers)
            for records in polled.values()
            for one in records
        ]

    def positions(self) -> dict[int, int]:
        place = self.library.TopicPartition
        return {number: self._call("position", place(self._topic, number)) for number in self.starts}


class KafkaPython(OfPython):
    """kafka-python."""

    module, package, reads_with, polls = "kafka", "kafka-python", "KafkaConsumer", "poll"

    def _make(self, kind: Any, settings: dict[str, Any]) -> None:
        """Make the client with those of the settings that its version has."""
        given, known = self._configs(settings), kind.DEFAULT_CONFIG
        if given.get("enable_idempotence") and "enable_idempotence" not in known:
            raise ValueError(f"kafka-python {self.version} has no idempotent producer")
        self._client = kind(**{key: value for key, value in given.items() if key in known or key not in settings})

    def _call(self, what: str, *values: Any, **options: Any) -> Any:
        return getattr(self._client, what)(*values, **options)

    def producer(self) -> None:
        timeout_ms = self._begin["delivery_timeout_ms"]
        own = {"request_timeout_ms": min(30_000, timeout_ms // 2), "delivery_timeout_ms": timeout_ms}
        own["max_in_flight_requests_per_connection"] = self._begin["max_in_flight"]
        self._make(self.library.KafkaProducer, self._of_producer(**own))

    def send(self, seq: int, partition: int, value: bytes) -> None:
        try:
            sent = self._client.send(self._topic, value=value, partition=partition)
        except self.library.errors.KafkaError as error:
            self.outcomes.failed(seq, error)
            return
        sent.add_callback(lambda done: self.outcomes.acknowledged(seq, done.offset if self._answered else None))
        sent.add_errback(lambda error: self._failed(seq, error))

    def _failed(self, seq: int, error: Exception) -> None:
        if self._begin.get("log"):
            tell("log", line=named(error))
        self.outcomes.failed(seq, error)

    def flush(self) -> None:
        try:
            super().flush()
        except self.library.errors.KafkaError as error:
            tell("notice", text=f"flush: {error!r}")

    def transaction(self, what: str) -> None:
        while True:
            try:
                return super().transaction(what)
            except self.library.errors.KafkaTimeoutError:
                time.sleep(POLLED_FOR)


class Aiokafka(OfPython):
    """aiokafka, in an event loop that has a thread of its own."""

    module, package, reads_with, polls = "aiokafka", "aiokafka", "AIOKafkaConsumer", "getmany"

    def __init__(self, begin: dict[str, Any]) -> None:
        super().__init__(begin)
        self._waiting: list[tuple[int, int, bytes]] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _make(self, kind: Any, settings: dict[str, Any]) -> None:
        async def make() -> None:
            self._client = kind(**self._configs(settings))
            await self._client.start()

        self._wait(make())

    def _call(self, what: str, *values: Any, **options: Any) -> Any:
        async def call() -> Any:
            returned = getattr(self._client, what)(*values, **options)
            return await returned if inspect.isawaitable(returned) else returned

        return self._wait(call())

    def producer(self) -> None:
        # aiokafka also gives records up after this time.
        own = {"request_timeout_ms": self._begin["delivery_timeout_ms"]}
        self._make(self.library.AIOKafkaProducer, self._of_producer(**own))

    def send(self, seq: int, partition: int, value: bytes) -> None:
        self._waiting.append((seq, partition, value))

    def serve(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._wait(self._send(waiting))

    async def _send(self, waiting: list[tuple[int, int, bytes]]) -> None:
        for seq, partition, value in waiting:
            try:
                sent = await self._client.send(self._topic, value=value, partition=partition)
            except self.library.errors.KafkaError as error:
                self.outcomes.failed(seq, error)
                continue
            sent.add_done_callback(lambda done, seq=seq: self._learn(seq, done))

    def _learn(self, seq: int, done: Any) -> None:
        if (error := done.exception()) is not None:
            self.outcomes.failed(seq, error)
        else:
            answered = self._answered and done.result() is not None
            self.outcomes.acknowledged(seq, done.result().offset if answered else None)

    def flush(self) -> None:
        self.serve()
        super().flush()

    def transaction(self, what: str) -> None:
        # The transactional id was initialised when the client started.
        if what != "init_transactions":
            self.serve()
            super().transaction(what)


LIBRARIES: dict[str, type[Library]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def produce(library: Library, begin: dict[str, Any], orders: Orders) -> None:
    """Be a producer until told to leave: send the records that the harness asks for."""
    outcomes = library.outcomes = Outcomes()
    library.producer()
    if begin.get("transactional_id") is not None:
        library.transaction("init_transactions")
    tell("ready", client=sys.argv[1], version=library.version)
    codec, number = IdentityCodec(begin["lane"], begin["record_size"]), begin["producer_id"]
    first, partitions, sent = begin["first_partition"], begin["partitions"], 0
    while True:
        try:
            order = orders.get(timeout=library.served_every)
        except queue.Empty:
            library.serve()
            continue
        what = order["order"]
        if what == "produce":
            sent += order["count"]
            values = codec.encode_many(number, order["first_seq"], order["count"])
            for seq, value in enumerate(values, order["first_seq"]):
                library.send(seq, first + seq % partitions, value)
            library.serve()
        elif what in ("flush", "leave"):
            library.flush()
            outcomes.await_all(sent)
            if what == "leave":
                return
            tell("flushed")
        else:
            transact(library, outcomes, sent, what)


def transact(library: Library, outcomes: Outcomes, sent: int, what: str) -> None:
    """Begin or end a transaction. If it could not begin, the error is told when it is to end."""
    error = None
    try:
        library.transaction(what if what == "begin_transaction" else f"{what}_transaction")
    except Exception as failure:  # noqa: BLE001 - the harness learns it
        error = named(failure)
    if what == "begin_transaction":
        return tell("notice", text=error) if error else None
    if error is None:
        library.flush()
        outcomes.await_all(sent)
    return tell("transaction", did=what, error=error)


def consume(library: Library, begin: dict[str, Any], orders: Orders) -> None:
    """Be a consumer until told to leave: tell of what is read."""
    codec = IdentityCodec(begin["lane"])
    starts = {int(number): start for number, start in begin["start_offsets"].items()}
    library.starts = {number: starts.get(number, 0) for number in range(begin["partitions"])}
    library.consumer()
    tell("ready", client=sys.argv[1], version=library.version)
    stands: dict[int, int | None] = {}
    while orders.empty() or orders.get()["order"] != "leave":
        try:
            records = library.read()
        except Reset:
            tell("assigned")
            continue
        for first in range(0, len(records), MOST_TOLD):
            told = records[first : first + MOST_TOLD]
            partitions, offsets, epochs, values, headers = zip(*told, strict=True)
            producer_ids, seqs = zip(*map(codec.decode_record, values, headers), strict=True)
            columns = {"partition": partitions, "offset": offsets, "leader_epoch": epochs}
            tell("read", **columns, producer_id=producer_ids, seq=seqs)
        if not records and begin.get("isolation"):
            now = library.positions()
            if news := [(number, at) for number, at in now.items() if at is not None and stands.get(number) != at]:
                tell("at_end", offsets=news)
            stands = dict(now)


def be_client(begin: dict[str, Any]) -> int:
    """Be a producer or a consumer until told to leave; returns the exit code."""
    orders: Orders = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: orders.put({"order": "leave"}))
    listen(orders.put)
    (produce if begin["role"] == "producer" else consume)(LIBRARIES[sys.argv[1]](begin), begin, orders)
    return 0


def run(client: Callable[[Any], int]) -> None:
    """Let a client do what the order `begin` says, and end this process with the exit code that it returns."""
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
    # What clients still have on their hands must not delay the end.
    os._exit(code)


if __name__ == "__main__":
    run(be_client)
