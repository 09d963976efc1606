"""The adapter of Python's clients: librdkafka against its own mock of a cluster, transactions and reads."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_chaos.harness.clients.fetching import ADAPTERS
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.processes.consumer import ProcessConsumer
from kafka_chaos.harness.workload.processes.producer import ProcessProducer
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess, Taker
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.producer import TransactionalProducer
from tests.parquet import rows_in

COMMAND = [sys.executable, str(ADAPTERS / "client.py"), "librdkafka"]
Begin = Callable[..., Callable[[Taker], SupervisedProcess]]


@pytest.fixture
def mock() -> Iterator[str]:
    """The address of a mock that has the topic `pay`."""
    owner = new_client(Producer, {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = owner.list_topics("pay", timeout=20).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.close()


@pytest.fixture
def begin(mock: str, tmp_path: Path) -> Begin:
    problems: list[str] = []

    def of(role: str, **settings: Any) -> Callable[[Taker], SupervisedProcess]:
        common = {"role": role, "lane": "pay", "topic": "pay", "partitions": 2, "bootstrap_servers": mock}
        order = {**common, "client_id": "pay-0", "configs": {}, **settings}
        return lambda taker: SupervisedProcess(
            COMMAND,
            order,
            taker,
            name=role,
            on_notice=print,
            on_problem=lambda _, problem: problems.append(problem),
            log=tmp_path / "log",
        )

    of.problems = problems  # type: ignore[attr-defined]
    return of


def produce(begin: Begin, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two transactions, of which the second is aborted; their rows, and those of their records."""
    tables, transactions = LoadTables(folder), list[dict[str, Any]]()
    settings = {"producer_id": 1, "first_partition": 0, "record_size": 64, "acks": "all", "idempotence": True}
    times = {"max_in_flight": 5, "linger_ms": 5, "delivery_timeout_ms": 20_000, "transaction_timeout_ms": 20_000}

    records = ProcessProducer(
        begin("producer", **settings, **times, transactional_id="pay-0"),
        ProducedRows(tables, lane="pay", producer_id=1, partitions=InTurn(2), transactional_id="pay-0"),
    )
    producer = TransactionalProducer(records, transactional_id="pay-0", rows=transactions.append, give_up=lambda: False)
    producer.init()
    for commits in (True, False):
        producer.begin()
        producer.send(10)
        if not commits:
            producer.deliver(20)
        assert producer.commit() == "committed" if commits else producer.abort() == "aborted"
    producer.abandon()
    tables.close()
    return transactions, rows_in(folder / "produced")


def test_transactions_of_an_adapter_and_what_is_read_of_them(begin: Begin, tmp_path: Path) -> None:
    transactions, produced = produce(begin, tmp_path)
    assert [(row["transaction"], row["outcome"]) for row in transactions] == [(0, "committed"), (1, "aborted")]
    assert sorted((row["seq"], row["transaction"], row["outcome"]) for row in produced) == [
        (seq, seq // 10, "ok") for seq in range(20)
    ]
    ends = {
        partition: 1 + max(row["offset"] for row in produced if row["partition"] == partition) for partition in (0, 1)
    }
    tables = LoadTables(tmp_path / "read", [LaneSpec(lane="pay", transactional={})])  # type: ignore[arg-type]
    consumer = ProcessConsumer(
        begin("consumer", start_offsets={}, isolation="read_committed"),
        lane="pay",
        partitions=2,
        tables=tables,
        isolation="read_committed",
    )
    consumer.drain(ends, timeout=30, cancelled=threading.Event())
    consumer.close()
    tables.close()
    read = rows_in(tmp_path / "read/consumed")
    # The mock writes no markers, and hides nothing.
    assert sorted((row["producer_id"], row["seq"]) for row in read) == [(1, seq) for seq in range(20)]
    assert begin.problems == []  # type: ignore[attr-defined]
