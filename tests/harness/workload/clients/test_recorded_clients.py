"""Recorded clients on a real cluster: what their histories say against what the brokers did."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.clients.produced import CHUNK, ProducedRows
from kafka_chaos.harness.workload.clients.recorded_consumer import RecordedConsumer
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.tables import LoadTables

pytestmark = pytest.mark.cluster

Produce = Callable[..., RecordedProducer]


@pytest.fixture
def produce(cluster: Cluster, tmp_path: Path) -> Produce:
    """Produces records and returns the producer once all have an outcome and all rows are on disk."""

    def run(
        topic: str,
        records: int,
        *,
        record_size: int = 100,
        partitions: int = 1,
        while_sending: Callable[[RecordedProducer], None] = lambda _: None,
        timeout: float = 60,
        **configs: object,
    ) -> RecordedProducer:
        tables = LoadTables(tmp_path)
        dotted: Mapping[str, object] = {key.replace("_", "."): value for key, value in configs.items()}
        producer = RecordedProducer(
            ProducedRows(tables, lane=topic, producer_id=5, partitions=InTurn(partitions)),
            topic=topic,
            record_size=record_size,
            configs={"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **dotted},
        )
        while producer.sent < records:
            if not producer.send(min(1_000, records - producer.sent)):
                producer.poll(0.05)
            producer.poll(0)
        while_sending(producer)
        producer.finish(timeout, threading.Event())
        tables.close()
        return producer

    return run


def rows_of(folder: Path) -> list[dict[str, object]]:
    return sorted(pq.read_table(folder).to_pylist(), key=lambda row: row["seq"])


def test_every_record_has_a_row_over_several_chunks(
    produce: Produce, make_topic: Callable[..., str], tmp_path: Path, cluster: Cluster, admin: ClusterAdmin
) -> None:
    topic, records = make_topic(), CHUNK + 1_000
    producer = produce(topic, records, acks="all")
    rows = rows_of(tmp_path / "produced")
    assert [row["seq"] for row in rows] == list(range(records))
    assert Counter(row["outcome"] for row in rows) == {"ok": records}
    assert [row["offset"] for row in rows] == list(range(records))
    assert all(row["invoke_ns"] <= row["complete_ns"] for row in rows)  # type: ignore[operator]
    assert (producer.rows.acknowledged, producer.rows.failed, producer.rows.uncertain) == (records, 0, 0)

    tables = LoadTables(tmp_path / "read")
    consumer = follow(topic, cluster, tables)
    consumer.drain(admin.end_offsets(topic, [0]), timeout=60, cancelled=threading.Event())
    consumer.close()
    tables.close()
    read = pq.read_table(tmp_path / "read/consumed").sort_by("poll_ns").to_pylist()
    assert [(row["offset"], row["producer_id"], row["seq"]) for row in read] == [(n, 5, n) for n in range(records)]
    assert {row["consumer"] for row in read} == {f"{topic}-1"}
    assert len({row["poll_ns"] for row in read}) == records


def follow(topic: str, cluster: Cluster, tables: LoadTables, *, grows_to: int = 0) -> RecordedConsumer:
    return RecordedConsumer(
        lane=topic,
        topic=topic,
        partitions=1,
        bootstrap_servers=cluster.bootstrap_servers,
        configs={},
        tables=tables,
        on_error=pytest.fail,
        grows_to=grows_to,
    )


def test_partitions_that_a_topic_gets_later_are_written_and_read_from_their_start(
    make_topic: Callable[..., str], tmp_path: Path, cluster: Cluster, admin: ClusterAdmin
) -> None:
    topic = make_topic()
    tables = LoadTables(tmp_path)
    producer = RecordedProducer(
        ProducedRows(tables, lane=topic, producer_id=5, partitions=InTurn(1)),
        topic=topic,
        record_size=50,
        configs={"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0},
        grows_to=3,
    )
    consumer = follow(topic, cluster, tables, grows_to=3)
    producer.send(100)
    admin.add_partitions(topic, 3, replica_assignment=[(2, 3, 1), (3, 1, 2)])
    ends: dict[int, int] = {}

    def all_written() -> bool:
        producer.send(10)
        producer.poll(0.05)
        ends.update(admin.end_offsets(topic, admin.partition_numbers(topic)))
        return len(ends) == 3 and all(ends.values())

    wait_until(all_written, "records in the new partitions", timeout=30, seen=lambda: str(ends))
    producer.finish(30, threading.Event())
    ends = admin.end_offsets(topic, range(3))
    consumer.drain(ends, timeout=30, cancelled=threading.Event())
    consumer.close()
    tables.close()
    sent = {row["seq"]: (row["partition"], row["offset"]) for row in rows_of(tmp_path / "produced")}
    assert {sent[seq][0] for seq in range(100)} == {0}
    assert {partition for partition, _ in sent.values()} == {0, 1, 2}
    seen = pq.read_table(tmp_path / "consumed").to_pylist()
    assert {row["seq"]: (row["partition"], row["offset"]) for row in seen} == sent
    assert {row["consumer"] for row in seen} == {f"{topic}-1"}
    assert len(seen) == sum(ends.values()) == len(sent)


def test_without_acknowledgements_there_are_no_offsets(
    produce: Produce, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    produce(make_topic(), 5_000, acks="0", linger_ms=100)
    rows = rows_of(tmp_path / "produced")
    assert Counter((row["outcome"], row["offset"]) for row in rows) == {("ok", None): 5_000}


@pytest.fixture
def shrunken_topic(make_topic: Callable[..., str], cluster: Cluster, admin: ClusterAdmin) -> Iterator[str]:
    """A topic whose ISR is smaller than min.insync.replicas: one of its two brokers is down."""
    down = cluster.brokers[2 if admin.controller() != 2 else 3]
    topic = make_topic(replicas=(1, down.number), min_insync_replicas=2)
    down.kill()
    # The leader's own word: what other brokers tell clients may be ahead of what the leader itself knows yet.
    alone = re.compile(rf"Leader {topic}-0 with topic id .* ISR \[1\],")
    wait_until(lambda: alone.search(cluster.brokers[1].log()), f"{topic}'s leader to be alone", timeout=30)
    yield topic
    cluster.start_again([down])
    admin.await_full_isr([topic])


@pytest.mark.slow
def test_a_refusal_before_the_append_fails_for_certain_only_without_retries(
    produce: Produce, shrunken_topic: str, tmp_path: Path
) -> None:
    producer = produce(shrunken_topic, 3, acks="all", retries=0)
    assert (producer.rows.failed, producer.rows.uncertain) == (3, 0)
    rows = rows_of(tmp_path / "produced")
    assert {(row["outcome"], row["error"], row["offset"]) for row in rows} == {("fail", "NOT_ENOUGH_REPLICAS", None)}


@pytest.mark.slow
def test_the_same_refusal_with_retries_is_uncertain(produce: Produce, shrunken_topic: str, tmp_path: Path) -> None:
    producer = produce(shrunken_topic, 3, acks="all", message_timeout_ms=2_000)
    assert (producer.rows.failed, producer.rows.uncertain) == (0, 3)
    assert {row["outcome"] for row in rows_of(tmp_path / "produced")} == {"info"}


def test_what_the_client_itself_refuses_fails_for_certain(
    produce: Produce, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    produce(make_topic(), 2, acks="all", record_size=5_000, message_max_bytes=2_000)
    assert {(row["outcome"], row["error"]) for row in rows_of(tmp_path / "produced")} == {
        ("fail", "MSG_SIZE_TOO_LARGE")
    }


@pytest.mark.slow
def test_a_time_out_after_the_send_is_uncertain_and_the_record_may_be_there(
    produce: Produce, make_topic: Callable[..., str], tmp_path: Path, cluster: Cluster, admin: ClusterAdmin
) -> None:
    # Not the controller: a frozen controller's session could expire, and another story begin.
    leader = cluster.brokers[2 if admin.controller() != 2 else 3]
    topic = make_topic(replicas=(leader.number,))
    produce(topic, 1, acks="all")
    before = admin.end_offsets(topic, [0])[0]

    leader.pause()
    try:
        # The socket takes the request, and nobody answers it in time.
        producer = produce(topic, 1, acks="all", message_timeout_ms=1_500, socket_timeout_ms=1_000, timeout=10)
    finally:
        leader.unpause()
    assert (producer.rows.failed, producer.rows.uncertain) == (0, 1)
    wait_until(lambda: leader.number in cluster.registered_brokers(), "the broker to be registered", timeout=30)
    admin.await_full_isr([topic])
    assert admin.end_offsets(topic, [0])[0] >= before
