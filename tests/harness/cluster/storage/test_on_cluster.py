"""A broker's files on a real cluster: against Kafka's own DumpLogSegments, while it runs, paused and stopped."""

import re
import secrets
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from kafka_chaos.conformance.replica import ReplicaFiles, read_replica
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage.files import stream_files
from tests.harness.leftovers import left_of

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    """Two brokers of the module's own: one of them loses power."""
    run_id = f"test-storage-{secrets.token_hex(4)}"
    configs = {"replica.high.watermark.checkpoint.interval.ms": 200, "zookeeper.session.timeout.ms": 1000}
    with Cluster(ClusterLayout(brokers=2, controller=1, broker_configs=configs), run_id=run_id) as running:
        yield running
    assert left_of(run_id) == []


def send(servers: str, topic: str, values: list[bytes], *, one_by_one: bool = True, **configs: object) -> None:
    settings: dict[str, object] = {"bootstrap.servers": servers, "acks": "all", "log_level": 0, **configs}
    producer = Producer(settings)  # type: ignore[arg-type]
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"%d" % number, headers=[("a", b"1"), ("b", None)], partition=0)
        if one_by_one:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0


def dump(node: Node, replica: ReplicaFiles) -> list[dict[str, str]]:
    """The records of a replica's segments as DumpLogSegments prints them, each with its batch's own line."""
    files = ",".join(f"{BROKER_DATA}/{segment.file.partition(':')[2]}" for segment in replica.segments)
    main = ("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", "/opt/kafka/jars/*")
    text = node.must_execute(*main, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files)
    records, batch = [], {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+): (\S+)", line))
        if line.startswith("baseOffset:"):
            batch = fields
        elif line.startswith("| offset:"):
            records.append({**batch, **fields})
    return records


def test_a_broker_that_holds_nothing_that_is_asked_for_is_read_as_that(cluster: Cluster) -> None:
    for paths in ([], ["no-such-topic-0"]):
        assert list(stream_files(cluster.brokers[1], BROKER_DATA, paths, wanted=re.compile(".*"))) == []


def test_records_are_those_that_kafka_s_own_tool_prints(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(**{"segment.bytes": 2000})
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        values = [b"value-%d " % number * 20 for number in range(6)]
        send(
            cluster.bootstrap_servers,
            topic,
            values,
            one_by_one=codec == "none",
            **{"compression.type": codec, "enable.idempotence": codec in ("lz4", "none"), "linger.ms": 50},
        )
    node = cluster.brokers[2]
    # A follower outside the ISR may not have all of them yet.
    wait_until(
        lambda: all(read_replica(one, topic, 0).log_end == 30 for one in cluster.brokers.values()),
        "all brokers to hold all 30 records",
        timeout=60,
    )
    replica = read_replica(node, topic, 0)
    printed = dump(node, replica)
    assert len(printed) == len(replica.records) == replica.log_end == 30
    assert len(replica.segments) > 1
    by_offset = {batch.base_offset: batch for batch in replica.batches}
    for record, line in zip(replica.records, printed, strict=True):
        batch = by_offset[int(line["baseOffset"])]
        assert (batch.position, batch.size) == (int(line["position"]), int(line["size"]))
        assert (batch.count, batch.last_offset) == (int(line["count"]), int(line["lastOffset"]))
        assert batch.compression == line["compresscodec"]
        assert record.offset == int(line["offset"])
        assert record.leader_epoch == int(line["partitionLeaderEpoch"])
        assert (record.producer_id, record.producer_epoch) == (int(line["producerId"]), int(line["producerEpoch"]))
        assert [key for key, _ in record.headers] == ["a", "b"]
    assert {batch.compression for batch in replica.batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    others = [read_replica(cluster.brokers[number], topic, 0) for number in (1, 3)]
    assert [other.records for other in others] == [replica.records] * 2


@pytest.mark.slow
def test_a_replica_looks_the_same_while_its_broker_serves_is_paused_and_is_dead(pair: Cluster) -> None:
    admin = ClusterAdmin(pair.bootstrap_servers)
    admin.create_topic("looks", replica_assignment=[[1, 2]], configs={})
    admin.await_full_isr(["looks"])
    send(pair.bootstrap_servers, "looks", [b"m1", b"m2"])
    node = pair.brokers[2]
    wait_until(lambda: read_replica(node, "looks", 0).high_watermark == 2, "the checkpoint to say 2", timeout=20)
    serving = read_replica(node, "looks", 0)
    node.pause()
    try:
        paused = read_replica(node, "looks", 0)
    finally:
        node.unpause()
    node.kill()
    stopped = read_replica(node, "looks", 0)
    assert serving == paused == stopped
    assert [record.value for record in serving.records] == [b"m1", b"m2"]
    assert (serving.log_start, serving.log_end, serving.base_offsets) == (0, 2, (0,))
    assert serving.leader_epochs == ((0, 0),)
    with pytest.raises(ClusterFailure, match=r"broker-2: no replica of absent-0 in /var/lib/kafka"):
        read_replica(node, "absent", 0)
    pair.start_again([node])
    admin.await_full_isr(["looks"])
