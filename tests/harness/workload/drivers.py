"""Every driver of producers and of consumers, on fakes that do what a test says: a contract for all of them.

A record's fate is what a client says of it: its outcome, its error, and its offset; or None if it never says anything.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application import consumer as application_consumer
from kafka_chaos.harness.workload.application import producer as application_producer
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumers
from kafka_chaos.harness.workload.application.producer import ApplicationProducers
from kafka_chaos.harness.workload.clients import following, recorded_producer
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.clients.following import RecordedConsumer
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.groups.rows import LoopRows
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from kafka_chaos.harness.workload.settings import LoadSettings
from tests.harness.workload.groups.fakes import failure, record
from tests.harness.workload.loads import load_of
from tests.harness.workload.processes.fake_client import Started
from tests.parquet import rows_in
from tests.plugin.application.fakes import FakeConsumer, Message

LANE = LaneSpec(lane="orders", partitions=2, acks="all", transactional={})  # type: ignore[arg-type]
NEVER = threading.Event()


class Fate(NamedTuple):
    outcome: str = "ok"
    error: str | None = None
    offset: int | None = None


Fates = Callable[[int], Fate | None]


@dataclass
class Produced:
    """What a driver wrote, and its counts."""

    rows: list[dict[str, Any]]
    sent: int
    acknowledged: int
    reserved: int


class FakeProducer:
    """In place of librdkafka's producer: records have their fates when it is polled, in the order of their sends."""

    def __init__(self, fates: Fates) -> None:
        self._fates = fates
        self._sent = 0
        self._queue: list[tuple[int, bytes, int, Callable[..., None]]] = []

    def produce(
        self, topic: str, value: bytes, key: Any, partition: int = 0, on_delivery: Any = None, **_: Any
    ) -> None:
        fate, number = self._fates(self._sent), self._sent
        self._sent += 1
        if fate is not None and fate.outcome == "fail":
            raise KafkaException(KafkaError(getattr(KafkaError, str(fate.error))))
        self._queue.append((number, value, partition, on_delivery))

    def poll(self, timeout: float = 0) -> int:
        due = [one for one in self._queue if self._fates(one[0]) is not None]
        self._queue = [one for one in self._queue if self._fates(one[0]) is None]
        for number, value, partition, report in due:
            fate = self._fates(number)
            assert fate is not None
            error = None if fate.error is None else KafkaError(getattr(KafkaError, fate.error))
            report(error, Message("orders", partition, fate.offset, value=value))  # type: ignore[arg-type]
        return len(due)

    def purge(self) -> None:
        self._queue.clear()

    def close(self) -> None:
        self.poll()

    def __len__(self) -> int:
        return len(self._queue)


OUTCOMES = """
fates = json.loads(%r)
def produced(order):
    for seq in range(order["first_seq"], order["first_seq"] + order["count"]):
        outcome, error, offset = fates[seq] or (None,) * 3
        if outcome:
            tell("outcome", outcome=outcome, seq=[seq], error=error, offset=[offset])
"""
READS = "for event in json.loads(%r): tell(**event)"
Produce = Callable[..., Produced]
PRODUCERS = ("in process", "process", "application", "loop")


def producing(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Produce:
    """A function that sends records of these fates by a driver; `transactions`: how many each of them has."""

    def produce(records: int, fates: Fates, transactions: Sequence[int] = ()) -> Produced:
        load = load_of(folder, LANE)
        partitions = RoundRobin(2) if kind != "loop" else None
        rows = ProducedRows(load.tables, lane="orders", producer_id=0, partitions=partitions)
        spans = transactions or [records]
        if kind in ("in process", "process"):
            _by_number(kind, rows, spans, fates, is_transactional=bool(transactions), folder=folder, patch=patch)
        elif kind == "application":
            patch.setattr(application_producer, "Producer", lambda configs: FakeProducer(fates))
            recorder = ApplicationProducers(LANE, load)
            client = recorder.client({"transactional.id": "orders-0"})
            for number, span in enumerate(spans):
                client._rows.set_transaction(number if transactions else None)
                for seq in range(span):
                    _produce(client, seq + sum(spans[:number]))
            recorder.finish(0.0, NEVER)
            rows = recorder.rows[0]
        else:
            _loop(rows, load, spans, fates, is_transactional=bool(transactions))
        counts = rows.sent, rows.acknowledged
        load.tables.close()
        journal = [json.loads(line) for line in (folder / "reservations.jsonl").read_text().splitlines()]
        written = sorted(rows_in(folder / "produced"), key=lambda row: row["seq"])
        return Produced(written, *counts, reserved=sum(entry.get("count", 0) for entry in journal))

    return produce


def _produce(client: Any, seq: int) -> None:
    try:
        client.produce("orders", b"the application's own", partition=seq % 2)
    except KafkaException:
        return
    finally:
        client.poll(0)


def _by_number(
    kind: str,
    rows: ProducedRows,
    spans: Sequence[int],
    fates: Fates,
    *,
    is_transactional: bool,
    folder: Path,
    patch: pytest.MonkeyPatch,
) -> None:
    total = sum(spans)
    told = json.dumps([fates(seq) for seq in range(total)])
    started = Started(OUTCOMES % told, folder)
    if kind == "in process":
        patch.setattr(recorded_producer, "Producer", lambda configs: FakeProducer(fates))
        producer: Any = RecordedProducer(rows, topic="orders", record_size=50, configs={"acks": "all"})
    else:
        producer = ProcessProducer(started, rows)
    for number, span in enumerate(spans):
        if is_transactional:
            rows.set_transaction(number)
        while span:
            span -= producer.send(span)
            producer.poll(0)
    left = sum(fates(seq) is None for seq in range(total))
    wait_until(lambda: (producer.poll(0.001), len(rows.pending) == left)[1], "what has an outcome", timeout=60)
    producer.finish(0.0, NEVER)
    silent = f"{left} of {total} records never got an outcome"
    assert started.problems == ([silent] if kind == "process" and left else [])


def _loop(
    rows: ProducedRows, load: LoadSettings, spans: Sequence[int], fates: Fates, *, is_transactional: bool
) -> None:
    """A loop's member tells of each record what it was made of, and dies amid its last transaction."""
    member = LoopRows(Readers(load, LaneSpec(lane="in"), "g"), output=rows, isolation="read_committed")
    first = 0
    for number, span in enumerate(spans):
        seqs = range(first, first + span)
        made = {"first_seq": first, "partition": [seq % 2 for seq in seqs], "sources": [[9, seq] for seq in seqs]}
        member.handle("sent", {**made, "transaction": number if is_transactional else None, "ns": 5 + number})
        for seq in seqs:
            if (fate := fates(seq)) is not None:
                said = {"outcome": fate.outcome, "error": fate.error, "seq": [seq], "offset": [fate.offset]}
                member.handle("outcome", {**said, "ns": [50 + seq]})
        if is_transactional:
            ended = {"lane": "orders", "producer_id": 0, "transaction": number, "transactional_id": "orders-0"}
            member.handle("transaction", {"row": {**ended, "begin_ns": 1, "end_ns": 2, "outcome": "committed"}})
        first += span
    member.note_end()


Read = tuple[int, int, tuple[int, int]]
"""Partition, offset and identity."""
CONSUMERS = ("in process", "process", "application", "member")


class PolledConsumer(FakeConsumer):
    """In place of librdkafka's consumer: gives each of `polls`, and says that the position is lost between them."""

    def __init__(self, polls: Sequence[Sequence[Read]]) -> None:
        super().__init__({})
        # Every other one has its identity in a header, as an application's has.
        self._polls = [[record(*read, in_header=bool(read[1] % 2)) for read in poll] for poll in polls]
        self._resets = [failure(0, 0, KafkaError._AUTO_OFFSET_RESET)]
        self._given = 0

    def consume(self, most: int, timeout: float) -> list[Message]:
        self._given += 1
        turn, is_reset = divmod(self._given, 2)
        if self._given > 2 * len(self._polls) - 1:
            return []
        return self._resets if not is_reset else self._polls[turn]


def consuming(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Callable[..., tuple[list[Any], list[str]]]:
    """A function that reads these records by a driver, up to these ends; returns the rows, and what was reported.

    Between two polls, the position is lost, and what is read has a new name.
    """

    def consume(polls: Sequence[Sequence[Read]], ends: dict[int, int]) -> tuple[list[Any], list[str]]:
        told: list[str] = []
        started = Started(READS % json.dumps(list(_events(polls))), folder)
        load = load_of(folder, LANE, on_notice=told.append)
        for module in (following, application_consumer):
            patch.setattr(module, "Consumer", lambda configs: PolledConsumer(polls))
        count = sum(map(len, polls))
        if kind in ("in process", "process"):
            driver: Any
            if kind == "in process":
                driver = RecordedConsumer(LANE, load)
            else:
                driver = ProcessConsumer(started, LANE, load)
            wait_until(lambda: driver.consumed == count, "all to be read", timeout=30)
            driver.drain(ends, timeout=0.1)
            driver.close()
            told = [text for text in told + started.problems if "_AUTO_OFFSET_RESET" not in text]
        elif kind == "application":
            recorder = ApplicationConsumers(LANE, load)
            client = recorder.client({"group.id": "g"})
            client.assign([])
            for _ in range(2 * len(polls) - 1):
                if client.consume(10, 0)[0].error() is not None:
                    client.assign([])
            told += [f"partition {n} {read} of {end}" for n, (read, end) in recorder.unread_partitions(ends).items()]
        else:
            readers = Readers(load, LANE, "g")
            member = ConsumedRows(readers, isolation="any")
            for event in _events(polls, consumer="g-0", ns=7):
                member.handle(event.pop("event"), event)
            at_end = {partition: offset + 1 for poll in polls for partition, offset, _ in poll}
            member.handle("at_end", {"offsets": list(at_end.items())})
            told += [f"partition {n} {read} of {end}" for n, (read, end) in readers.unread_partitions(ends).items()]
            member.note_end()
        load.tables.close()
        return sorted(rows_in(folder / "consumed"), key=lambda row: row["poll_ns"]), told

    return consume


def _events(polls: Sequence[Sequence[Read]], consumer: str = "", ns: int = 0) -> Iterator[dict[str, Any]]:
    """The reads as a process tells them; those of a member name its assignment, and when they were given."""
    for number, poll in enumerate(polls):
        of = {"consumer": f"{consumer}-{number}"} if consumer else {}
        if number or consumer:
            more = {"member": "m", "generation": number, "partitions": [0, 1], "ns": ns} if consumer else {}
            yield {"event": "assigned", **of, **more}
        partitions, offsets, identities = map(list, zip(*poll, strict=True))
        producer_ids, seqs = map(list, zip(*identities, strict=True))
        columns = {"partition": partitions, "offset": offsets, "producer_id": producer_ids, "seq": seqs}
        at = {"ns": ns + 100 * number} if consumer else {}
        yield {"event": "read", **of, **columns, "leader_epoch": [4] * len(poll), **at}
