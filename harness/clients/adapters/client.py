"""A client of one of Python's libraries that speaks the client protocol: `python client.py LIBRARY`.

It runs in an environment that has the library and nothing of kafka-chaos, so it imports only the standard library
beside it. The protocol is described in docs/guides/own-client.md.
"""

from __future__ import annotations

import asyncio
import collections
import importlib.metadata
import json
import logging
import os
import queue
import signal
import struct
import sys
import threading
import time
import traceback
import zlib
from typing import Any, Protocol

LAYOUT = struct.Struct(">I4siq")
HEADER = "kafka-chaos-id"
TOLD_EVERY = 0.02
POLLED_FOR = 0.1
MOST_TOLD = 10_000
"""Records that are told of at once, at most: a line has a limit."""

_OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
_TELLING = threading.Lock()


def tell(event: str, **values: Any) -> None:
    """Say one thing to the harness."""
    line = json.dumps({"event": event, **values}, separators=(",", ":"))
    with _TELLING:
        _OUT.write(line + "\n")
        _OUT.flush()


Orders = queue.SimpleQueue[dict[str, Any]]
"""What the harness asked for; a signal handler may add to it."""


def listen(orders: Orders) -> None:
    """Take orders; without the harness, die."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(130)


class Identities:
    """The values of a lane's records."""

    def __init__(self, lane: str, producer_id: int = 0, size: int = LAYOUT.size) -> None:
        self._seed = zlib.crc32(lane.encode())
        self._producer_id = producer_id
        self._padding = bytes(size - LAYOUT.size)

    def encode(self, seq: int) -> bytes:
        """The value of a record."""
        body = LAYOUT.pack(0, b"KC01", self._producer_id, seq)[4:] + self._padding
        return struct.pack(">I", zlib.crc32(body, self._seed)) + body

    def decode(self, value: bytes | None, headers: Any = ()) -> tuple[int, int]:
        """(producer_id, seq) of a record, (-1, -1) if it has none."""
        value = next((one for key, one in reversed(list(headers or ())) if key == HEADER), value)
        if value is None or len(value) < LAYOUT.size:
            return -1, -1
        crc, magic, producer_id, seq = LAYOUT.unpack_from(value)
        return (producer_id, seq) if magic == b"KC01" and crc == zlib.crc32(value[4:], self._seed) else (-1, -1)


def named(error: Any) -> str:
    """An error, its name first: what librdkafka calls it, or its class."""
    code = error.args[0] if getattr(error, "args", ()) else None
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
        """It reports an error. What its earlier attempts left in the log, it does not say."""
        self._failed.append((seq, named(error)))
        self._has_news.set()

    def tell(self) -> None:
        """Tell what is known."""
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
            # For many to be told together.
            time.sleep(TOLD_EVERY)
            self.tell()

    def await_all(self, sent: int) -> None:
        """Wait until as many are told: libraries run their callbacks a moment after a flush."""
        with self._told:
            self._told.wait_for(lambda: self._known >= sent)


Read = list[tuple[int, int, int | None, bytes | None, Any]]
"""Partition, offset, leader epoch, value and headers of each record."""


class Library(Protocol):
    """The calls of the program to a client library, from one of its threads."""

    version: str
    served_every: float | None
    """Seconds between two times that a producer has to be served, where it does not serve itself."""

    def producer(self, outcomes: Outcomes) -> None:
        """Make a producer, whose records' outcomes go there."""

    def send(self, seq: int, partition: int, value: bytes) -> None:
        """Send a record."""

    def serve(self) -> None:
        """Run what waits for the program's own thread: callbacks, or records that were gathered to be sent."""

    def flush(self) -> None:
        """Wait until all records have an outcome."""

    def initialise(self) -> None:
        """Fence former producers of the transactional id."""

    def transaction(self, what: str) -> None:
        """`begin_transaction`, `commit_transaction` or `abort_transaction`."""

    def consumer(self, starts: dict[int, int]) -> None:
        """Make a consumer of these partitions, from these offsets on."""

    def positions(self) -> dict[int, int]:
        """Where it stands in each partition, markers and aborted records passed over."""

    def read(self) -> Read:
        """The next records. Raises `Reset` where the position was lost, and reading begins anew."""


def of_transactions(begin: dict[str, Any], separator: str) -> dict[str, Any]:
    """The configs of a transactional producer, none for another one."""
    keys = "transactional_id", "transaction_timeout_ms"
    return {key.replace("_", separator): begin[key] for key in keys if begin.get(key) is not None}


class ToldLog(logging.Handler):
    """Tells the lines of librdkafka's log that show the precondition of a known defect, behind what was known then."""

    def __init__(self, outcomes: Outcomes) -> None:
        super().__init__()
        self._outcomes = outcomes

    @classmethod
    def logger(cls, outcomes: Outcomes) -> logging.Logger:
        """A logger whose lines are told."""
        made = logging.Logger("client")
        made.addHandler(cls(outcomes))
        return made

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the line, if it is one of those."""
        line = record.getMessage()
        if "implicitly acked" in line or "epoch bump" in line:
            self._outcomes.tell()
            tell("log", line=line)


class Librdkafka:
    """confluent-kafka."""

    served_every = 0.005

    def __init__(self, begin: dict[str, Any]) -> None:
        import confluent_kafka

        self.library = confluent_kafka
        said = confluent_kafka.libversion()
        # 2.12.0 of confluent-kafka returns the text alone.
        self.version = said if isinstance(said, str) else said[0]
        self._begin = begin
        self._common = {"bootstrap.servers": begin["bootstrap_servers"], "log_level": 0}

    def producer(self, outcomes: Outcomes) -> None:
        begin = self._begin
        settings = {
            "acks": begin["acks"],
            "enable.idempotence": begin["idempotence"],
            "max.in.flight.requests.per.connection": begin["max_in_flight"],
            "linger.ms": begin["linger_ms"],
            "message.timeout.ms": begin["delivery_timeout_ms"],
            "client.id": begin["client_id"],
            "error_cb": self._disturbed,
            **of_transactions(begin, "."),
        }
        self._fatal: Any = None
        watched = {"debug": "eos", "log_level": 7, "logger": ToldLog.logger(outcomes)} if begin.get("log") else {}
        self._client = self.library.Producer({**settings, **begin["configs"], **self._common, **watched})
        self._outcomes = outcomes
        self._answered = begin["acks"] != "0"

    def send(self, seq: int, partition: int, value: bytes) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._outcomes.acknowledged(seq, message.offset() if self._answered else None)
            else:
                self._outcomes.failed(seq, self.library.KafkaException(error))

        while True:
            try:
                return self._client.produce(self._begin["topic"], value, None, partition, delivered)
            except BufferError:
                self._client.poll(POLLED_FOR)

    def serve(self) -> None:
        self._client.poll(0)

    def flush(self) -> None:
        while len(self._client):
            self._client.poll(POLLED_FOR)

    def initialise(self) -> None:
        self.transaction("init_transactions")

    def transaction(self, what: str) -> None:
        call = getattr(self._client, what)
        while True:
            try:
                return call() if what == "begin_transaction" else call(POLLED_FOR)
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

    def consumer(self, starts: dict[int, int]) -> None:
        settings = {"group.id": self._begin["client_id"], "enable.auto.commit": False, "auto.offset.reset": "error"}
        settings |= {
            "isolation.level": self._begin.get("isolation") or "read_uncommitted",
            "enable.partition.eof": True,
        }
        self._ends: dict[int, int] = {}
        self._client = self.library.Consumer({**settings, **self._begin["configs"], **self._common})
        self._starts = starts
        self._assign()

    def _assign(self) -> None:
        place, beginning = self.library.TopicPartition, self.library.OFFSET_BEGINNING
        topic = self._begin["topic"]
        self._client.assign([place(topic, number, start or beginning) for number, start in self._starts.items()])

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


def of_producer(begin: dict[str, Any]) -> dict[str, Any]:
    """The settings of a producer that the libraries in Python name alike."""
    return {
        "acks": begin["acks"] if begin["acks"] == "all" else int(begin["acks"]),
        "enable_idempotence": begin["idempotence"],
        "linger_ms": begin["linger_ms"],
        "client_id": begin["client_id"],
        **of_transactions(begin, "_"),
    }


def of_consumer(begin: dict[str, Any]) -> dict[str, Any]:
    """The same of a consumer, without a group."""
    settings = {"enable_auto_commit": False, "auto_offset_reset": "none", "group_id": None}
    return {**settings, "isolation_level": begin.get("isolation") or "read_uncommitted"}


def read_of(polled: Any) -> Read:
    """What their consumers give, by partition."""
    return [
        (one.partition, one.offset, getattr(one, "leader_epoch", None), one.value, one.headers)
        for records in polled.values()
        for one in records
    ]


class KafkaPython:
    """kafka-python."""

    served_every = None

    def __init__(self, begin: dict[str, Any]) -> None:
        import kafka

        self.library = kafka
        self.version = importlib.metadata.version("kafka-python")
        self._begin = begin

    def _known(self, kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
        """Those of the settings that this version has."""
        given = {**settings, **self._begin["configs"], "bootstrap_servers": self._begin["bootstrap_servers"]}
        if given.get("enable_idempotence") and "enable_idempotence" not in kind.DEFAULT_CONFIG:
            raise ValueError(f"kafka-python {self.version} has no idempotent producer")
        return {key: value for key, value in given.items() if key in kind.DEFAULT_CONFIG or key not in settings}

    def producer(self, outcomes: Outcomes) -> None:
        begin = self._begin
        settings = {
            **of_producer(begin),
            "max_in_flight_requests_per_connection": begin["max_in_flight"],
            "request_timeout_ms": min(30_000, begin["delivery_timeout_ms"] // 2),
            "delivery_timeout_ms": begin["delivery_timeout_ms"],
        }
        self._client = self.library.KafkaProducer(**self._known(self.library.KafkaProducer, settings))
        self._outcomes = outcomes
        self._answered = begin["acks"] != "0"

    def send(self, seq: int, partition: int, value: bytes) -> None:
        try:
            sent = self._client.send(self._begin["topic"], value=value, partition=partition)
        except self.library.errors.KafkaError as error:
            self._outcomes.failed(seq, error)
            return
        sent.add_callback(lambda done: self._outcomes.acknowledged(seq, done.offset if self._answered else None))
        sent.add_errback(lambda error: self._failed(seq, error))

    def _failed(self, seq: int, error: Exception) -> None:
        if self._begin.get("log"):
            tell("log", line=named(error))
        self._outcomes.failed(seq, error)

    def serve(self) -> None:
        """It does so itself."""

    def flush(self) -> None:
        try:
            self._client.flush()
        except self.library.errors.KafkaError as error:
            tell("notice", text=f"flush: {error!r}")

    def initialise(self) -> None:
        self.transaction("init_transactions")

    def transaction(self, what: str) -> None:
        while True:
            try:
                return getattr(self._client, what)()
            except self.library.errors.KafkaTimeoutError:
                time.sleep(POLLED_FOR)

    def consumer(self, starts: dict[int, int]) -> None:
        settings = self._known(self.library.KafkaConsumer, of_consumer(self._begin))
        self._client = self.library.KafkaConsumer(**settings)
        self._starts = starts
        self._assign()

    def _assign(self) -> None:
        places = {self.library.TopicPartition(self._begin["topic"], number): at for number, at in self._starts.items()}
        self._client.assign(list(places))
        for place, start in places.items():
            if start:
                self._client.seek(place, start)
            else:
                self._client.seek_to_beginning(place)

    def read(self) -> Read:
        try:
            polled = self._client.poll(timeout_ms=int(POLLED_FOR * 1000))
        except (self.library.errors.OffsetOutOfRangeError, self.library.errors.NoOffsetForPartitionError):
            self._assign()
            raise Reset from None
        return read_of(polled)

    def positions(self) -> dict[int, int]:
        places = (self.library.TopicPartition(self._begin["topic"], number) for number in self._starts)
        return {place.partition: self._client.position(place) for place in places}


class Aiokafka:
    """aiokafka, in a loop of its own."""

    served_every = None

    def __init__(self, begin: dict[str, Any]) -> None:
        import aiokafka

        self.library = aiokafka
        self.version = importlib.metadata.version("aiokafka")
        self._begin = begin
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def producer(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._waiting: list[tuple[int, int, bytes]] = []
        self._wait(self._start_producer())

    async def _start_producer(self) -> None:
        begin = self._begin
        # It gives records up after this time, too.
        settings = {**of_producer(begin), "request_timeout_ms": begin["delivery_timeout_ms"]}
        servers = {"bootstrap_servers": begin["bootstrap_servers"]}
        self._client = self.library.AIOKafkaProducer(**{**settings, **begin["configs"], **servers})
        await self._client.start()

    def send(self, seq: int, partition: int, value: bytes) -> None:
        self._waiting.append((seq, partition, value))

    def serve(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._wait(self._send(waiting))

    async def _send(self, waiting: list[tuple[int, int, bytes]]) -> None:
        for seq, partition, value in waiting:
            try:
                sent = await self._client.send(self._begin["topic"], value=value, partition=partition)
            except self.library.errors.KafkaError as error:
                self._outcomes.failed(seq, error)
                continue
            sent.add_done_callback(lambda done, seq=seq: self._learn(seq, done))

    def _learn(self, seq: int, done: Any) -> None:
        if (error := done.exception()) is not None:
            self._outcomes.failed(seq, error)
        else:
            answered = self._begin["acks"] != "0" and done.result() is not None
            self._outcomes.acknowledged(seq, done.result().offset if answered else None)

    def flush(self) -> None:
        self.serve()
        self._wait(self._client.flush())

    def initialise(self) -> None:
        """It has, when it started."""

    def transaction(self, what: str) -> None:
        self.serve()
        self._wait(getattr(self._client, what)())

    def consumer(self, starts: dict[int, int]) -> None:
        self._starts = starts
        self._wait(self._start_consumer())

    async def _start_consumer(self) -> None:
        servers = {"bootstrap_servers": self._begin["bootstrap_servers"]}
        settings = {**of_consumer(self._begin), **self._begin["configs"], **servers}
        self._client = self.library.AIOKafkaConsumer(**settings)
        await self._client.start()
        await self._assign()

    async def _assign(self) -> None:
        place = self.library.TopicPartition
        places = {place(self._begin["topic"], number): start for number, start in self._starts.items()}
        self._client.assign(list(places))
        for one, start in places.items():
            if start:
                self._client.seek(one, start)
            else:
                await self._client.seek_to_beginning(one)

    def read(self) -> Read:
        try:
            polled = self._wait(self._client.getmany(timeout_ms=int(POLLED_FOR * 1000)))
        except (self.library.errors.OffsetOutOfRangeError, self.library.errors.NoOffsetForPartitionError):
            self._wait(self._assign())
            raise Reset from None
        return read_of(polled)

    def positions(self) -> dict[int, int]:
        return self._wait(self._positions())  # type: ignore[no-any-return]

    async def _positions(self) -> dict[int, int]:
        places = [self.library.TopicPartition(self._begin["topic"], number) for number in self._starts]
        return {place.partition: await self._client.position(place) for place in places}


LIBRARIES = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def produce(library: Library, begin: dict[str, Any], orders: Orders) -> None:
    """Send what is handed out, until told to leave."""
    outcomes = Outcomes()
    library.producer(outcomes)
    if begin.get("transactional_id") is not None:
        library.initialise()
    tell("ready", client=sys.argv[1], version=library.version)
    identities = Identities(begin["lane"], begin["producer_id"], begin["record_size"])
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
            for seq in range(order["first_seq"], order["first_seq"] + order["count"]):
                library.send(seq, first + seq % partitions, identities.encode(seq))
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
    """Begin or end a transaction. That none could begin shows when it is ended."""
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
    """Tell of what is read, until told to leave."""
    identities = Identities(begin["lane"])
    starts = {int(number): start for number, start in begin["start_offsets"].items()}
    library.consumer({number: starts.get(number, 0) for number in range(begin["partitions"])})
    tell("ready", client=sys.argv[1], version=library.version)
    stands: dict[int, int] = {}
    while orders.empty() or orders.get()["order"] != "leave":
        try:
            records = library.read()
        except Reset:
            tell("assigned")
            continue
        for first in range(0, len(records), MOST_TOLD):
            told = records[first : first + MOST_TOLD]
            partitions, offsets, epochs, values, headers = zip(*told, strict=True)
            producer_ids, seqs = zip(*map(identities.decode, values, headers), strict=True)
            columns = {"partition": partitions, "offset": offsets, "leader_epoch": epochs}
            tell("read", **columns, producer_id=producer_ids, seq=seqs)
        if not records and begin.get("isolation"):
            now = library.positions()
            if news := [(number, at) for number, at in now.items() if at is not None and stands.get(number) != at]:
                tell("at_end", offsets=news)
            stands = dict(now)


def main() -> int:
    """Be a client until told to leave; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin = json.loads(sys.stdin.readline())
    orders: Orders = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: orders.put({"order": "leave"}))
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    try:
        library: Library = LIBRARIES[sys.argv[1]](begin)
        {"producer": produce, "consumer": consume}[begin["role"]](library, begin, orders)
    except Exception as error:  # noqa: BLE001 - the harness learns it
        traceback.print_exc()
        tell("error", text=f"{type(error).__name__}: {error}")
        return 70
    return 0


if __name__ == "__main__":
    code = main()
    # What clients still have on their hands must not delay the end.
    os._exit(code)
