"""The conformance kit: what the checks of a client have in common (`checks.py`)."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.client_process import EventHandler, SupervisedProcess
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from kafka_chaos.harness.workload.tables import LoadTables
from tests.harness.workload.loads import load_of
from tests.parquet import rows_in

PARTITIONS = 2
SIZE = 64
TICK = 0.02
_READY_WITHIN = 30.0
_DELIVERY_MS = 60_000

Row = dict[str, Any]


@dataclass
class Kit:
    """The checks of the client that `command` starts, on a cluster, of which one broker is frozen for a while.

    `folder`: where histories and the client's log are kept. It has `answered_within` seconds to follow an order, and
    `gone_within` to end.
    """

    command: Sequence[str]
    bootstrap_servers: str
    admin: ClusterAdmin
    broker: Node
    folder: Path
    answered_within: float = 60.0
    gone_within: float = 15.0

    def topic(self) -> str:
        """A new topic, which the broker alone has."""
        name = f"client-check-{secrets.token_hex(4)}"
        self.admin.create_topic(name, replica_assignment=[[self.broker.number]] * PARTITIONS, configs={})
        self.admin.await_full_isr([name])
        return name

    def start(self, topic: str, role: str, **settings: object) -> Callable[[EventHandler], SupervisedProcess]:
        """Starts the client in this role, on a topic that is a lane of the same name."""
        begin = {
            "role": role, "lane": topic, "topic": topic, "partitions": PARTITIONS,
            "bootstrap_servers": self.bootstrap_servers, "client_id": f"{topic}-{role}", "configs": {}, **settings,
        }  # fmt: skip

        def started(handler: EventHandler) -> SupervisedProcess:
            self.process = SupervisedProcess(
                self.command, begin, handler, name=topic, on_notice=print, log=self.folder / "client.log"
            )
            return self.process

        return started

    def await_ready(self) -> None:
        """Wait until the client is ready."""
        problem = f"it did not say that it is ready within {_READY_WITHIN:g} s"
        self.await_that(lambda: self.process.is_ready, lambda: problem, serve=time.sleep, within=_READY_WITHIN)

    def await_that(
        self, holds: Callable[[], bool], problem: Callable[[], str], *, serve: Callable[[float], object], within: float
    ) -> None:
        """Wait until it holds, at most `within` seconds, and `serve` meanwhile; else the assertion fails."""
        deadline = time.monotonic() + within
        while not holds():
            self.require_well()
            assert time.monotonic() <= deadline, problem()
            serve(TICK)

    def require_well(self) -> None:
        assert self.process.problem is None, self.process.problem

    @contextmanager
    def producing(self, topic: str, *, rows: str = "", **settings: object) -> Iterator[ProcessProducer]:
        """A producer that is ready; its rows, by default those of its topic, are complete when the block has ended."""
        tables = LoadTables(self.folder / (rows or topic))
        usual: Row = {
            "producer_id": 7, "first_partition": 0, "record_size": SIZE, "acks": "all",
            "idempotence": False, "max_in_flight": 1, "linger_ms": 5, "delivery_timeout_ms": _DELIVERY_MS,
            "transactional_id": None, "transaction_timeout_ms": None, **settings,
        }  # fmt: skip
        producer = ProcessProducer(
            self.start(topic, "producer", **usual),
            ProducedRows(
                tables,
                lane=topic,
                producer_id=7,
                partitions=RoundRobin(PARTITIONS),
                transactional_id=usual["transactional_id"],
            ),
        )
        try:
            self.await_ready()
            yield producer
        finally:
            gone = threading.Event()
            gone.set()
            producer.finish(0.0, gone)
            tables.close()

    def await_answers(self, producer: ProcessProducer) -> None:
        """Wait until every record has an outcome."""

        def silent() -> str:
            left = f"{producer.unanswered} of {producer.sent} records"
            within = f"{self.answered_within:g} s"
            return f"{left} got no outcome within {within}: every record needs one, once it is known"

        self.await_that(lambda: not producer.unanswered, silent, serve=producer.poll, within=self.answered_within)
        self.require_well()

    def read(self, topic: str, isolation: str | None = None) -> dict[tuple[int, int], tuple[int, int]]:
        """The records that a consumer of the client reads to the end: identities by partition and offset."""
        name = f"{topic}-read-{isolation}"
        lane = LaneSpec(lane=topic, partitions=PARTITIONS, transactional=isolation and {})  # type: ignore[arg-type]
        load = load_of(self.folder / name, lane)
        start = self.start(topic, "consumer", start_offsets={}, isolation=isolation)
        consumer = ProcessConsumer(start, lane, load, isolation=isolation)
        try:
            self.await_ready()
            ends = self.admin.end_offsets(topic, range(PARTITIONS))
            consumer.drain(ends, timeout=self.answered_within)
            self.require_well()
        finally:
            consumer.close()
            load.tables.close()
        read: dict[tuple[int, int], tuple[int, int]] = {}
        for row in self.rows(name, "consumed"):
            place = row["partition"], row["offset"]
            again = f"it read offset {place[1]} of partition {place[0]} twice, under one name"
            assert place not in read, f"{again}: expected assigned"
            read[place] = row["producer_id"], row["seq"]
        return read

    def rows(self, topic: str, table: str = "produced") -> list[Row]:
        """The outcome of each record, as the client reported it, in the order of their seqs; or the rows of a table."""
        return sorted(rows_in(self.folder / topic / table), key=lambda row: int(row["seq"]))

    def stored(self, topic: str) -> dict[tuple[int, int], tuple[int, int]]:
        """The identities in a topic, by partition and offset."""
        ends = self.admin.end_offsets(topic, range(PARTITIONS))
        configs = {"bootstrap.servers": self.bootstrap_servers, "group.id": topic, "log_level": 0}
        consumer, codec = new_client(Consumer, configs), IdentityCodec(topic)
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found: dict[tuple[int, int], tuple[int, int]] = {}
        # A broker that was frozen may still append what waited in its sockets: behind these ends.
        while any((number, end - 1) not in found for number, end in ends.items() if end):
            message = consumer.poll(self.answered_within)
            assert message is not None, f"the topic {topic} could not be read back"
            if message.error() is None:
                found[message.partition() or 0, message.offset() or 0] = codec.decode(message.value())
        consumer.close()
        return found
