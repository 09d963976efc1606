"""Recorded clients on a real cluster: what their histories say against what the brokers did."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.tables import LoadTables
from tests.parquet import rows_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Produce = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def produce(cluster: Cluster, tmp_path: Path) -> Produce:
    """Produces records; their rows, once they are on disk."""

    def run(topic: str, records: int, **configs: object) -> list[dict[str, Any]]:
        tables = LoadTables(tmp_path)
        rows = ProducedRows(tables, lane=topic, producer_id=5, partitions=RoundRobin(1))
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        brokers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        producer = RecordedProducer(rows, topic=topic, record_size=100, configs={**brokers, "acks": "all", **dotted})
        assert producer.send(records) == records
        producer.finish(60, threading.Event())
        tables.close()
        return rows_in(tmp_path / "produced")

    return run


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


def test_a_refusal_before_the_append_is_uncertain(produce: Produce, shrunken_topic: str) -> None:
    assert [row["outcome"] for row in produce(shrunken_topic, 3, message_timeout_ms=2_000)] == ["info"] * 3
