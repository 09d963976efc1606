"""The adapter of Python's clients: librdkafka against its own mock of a cluster, transactions and reads."""

from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.producer import TransactionalProducer
from tests.harness.workload.loads import adapter, load_of, mock_cluster
from tests.parquet import rows_in


def produce(servers: str, folder: Path, problems: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two transactions, of which the second is aborted; their rows, and those of their records."""
    tables, rows = LoadTables(folder), list[dict[str, Any]]()
    times = {"delivery_timeout_ms": 20_000, "transaction_timeout_ms": 20_000}
    records = ProcessProducer(
        adapter("producer", "pay", servers, problems, producer_id=1, transactional_id="pay-0", **times),
        ProducedRows(tables, lane="pay", producer_id=1, partitions=RoundRobin(2), transactional_id="pay-0"),
    )
    records.rows.add_transaction = rows.append
    producer = TransactionalProducer(records, give_up=lambda: False)
    producer.init()
    for commits in (True, False):
        producer.begin()
        producer.send(10)
        if not commits:
            producer.deliver(20)
        assert producer.commit() == "committed" if commits else producer.abort() == "aborted"
    producer.abandon()
    tables.close()
    return rows, rows_in(folder / "produced")


def ends_of(topic: str, servers: str) -> dict[int, int]:
    """The ends of the topic's partitions, as a consumer is told them."""
    consumer = new_client(Consumer, {"bootstrap.servers": servers, "group.id": "ends", "log_level": 0})
    try:
        places = {number: TopicPartition(topic, number) for number in (0, 1)}
        return {number: consumer.get_watermark_offsets(place, timeout=20)[1] for number, place in places.items()}
    finally:
        consumer.close()


def test_transactions_of_an_adapter_and_what_is_read_of_them(tmp_path: Path) -> None:
    problems: list[str] = []
    with mock_cluster("pay") as (servers, _):
        transactions, produced = produce(servers, tmp_path, problems)
        # Behind the records of each transaction is its marker: who asks for a partition's end is told one more.
        ends = ends_of("pay", servers)
        lane = LaneSpec(lane="pay", partitions=2, transactional={})  # type: ignore[arg-type]
        load = load_of(tmp_path / "read", lane)
        start = adapter("consumer", "pay", servers, problems, start_offsets={}, isolation="read_committed")
        consumer = ProcessConsumer(start, lane, load, isolation="read_committed")
        consumer.drain(ends, timeout=30)
        consumer.close()
        load.tables.close()
    assert problems == []
    assert [(row["transaction"], row["outcome"]) for row in transactions] == [(0, "committed"), (1, "aborted")]
    assert sorted((row["seq"], row["transaction"], row["outcome"]) for row in produced) == [
        (seq, seq // 10, "ok") for seq in range(20)
    ]
    last = {number: max(row["offset"] for row in produced if row["partition"] == number) for number in (0, 1)}
    assert ends == {number: offset + 2 for number, offset in last.items()}
    read = rows_in(tmp_path / "read/consumed")
    # The mock hides no record of an aborted transaction.
    assert sorted((row["producer_id"], row["seq"]) for row in read) == [(1, seq) for seq in range(20)]
