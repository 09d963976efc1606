"""Records with keys and tombstones: produced/ says of each what brokers were sent."""

import threading
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer

from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows, key_of
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.tables import LoadTables
from tests.harness.workload.loads import mock_cluster
from tests.parquet import rows_in


def test_a_record_has_the_key_that_is_written_down_and_a_tombstone_no_value(tmp_path: Path) -> None:
    keys = partial(key_of, keys=4, tombstones=0.25, partitions=2)
    tables = LoadTables(tmp_path)
    rows = ProducedRows(tables, lane="a", producer_id=0, partitions=RoundRobin(2), keys=keys)
    with mock_cluster("a") as (servers, _):
        producer = RecordedProducer(rows, topic="a", record_size=50, configs={"bootstrap.servers": servers})
        producer.send(200)
        producer.finish(20, threading.Event())
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["a"])
        read = [message for _ in range(200) if (message := consumer.poll(20)) is not None]
        consumer.close()
    tables.close()
    seqs, written = IdentityCodec("a").columns_of(read)["seq"], rows_in(tmp_path / "produced")
    sent = {seq: (message.key().decode(), message.value() is None) for seq, message in zip(seqs, read, strict=True)}
    assert {row["seq"]: (row["key"], row["tombstone"] == 1) for row in written if row["outcome"] == "ok"} == sent
    assert (len(sent), 40 < sum(row["tombstone"] for row in written) < 60) == (200, True)
    assert [keys(seq)[0] for seq in (*range(0, 12, 2), 38, 40)] == ["0", "1", "2", "3", "0", "1", "3", "4"]
