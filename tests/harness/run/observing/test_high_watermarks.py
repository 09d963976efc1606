"""The high watermarks that brokers report are recorded; a broker that is frozen or dead delays nobody's reports."""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from kafka_chaos.contract.events import Event, HighWatermark, LastStableOffset
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.run.observing.high_watermarks import HighWatermarkRecorder
from kafka_chaos.harness.waiting import wait_until


def test_brokers_that_do_not_answer_report_nothing_and_the_block_ends_soon() -> None:
    events: list[Event] = []
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        brokers = {1: f"127.0.0.1:{silent.getsockname()[1]}", 2: "127.0.0.1:1"}
        start = time.monotonic()
        with HighWatermarkRecorder(brokers, [LaneSpec(lane="orders")], EventBus(events.append)) as recorder:
            time.sleep(0.5)
        assert time.monotonic() - start < 3.0
    assert (events, recorder.reports) == ([], 0)


@pytest.mark.cluster
def test_leaders_report_what_consumers_may_read_also_while_another_broker_is_frozen(
    cluster: Cluster, admin: ClusterAdmin, make_topic: Callable[..., str]
) -> None:
    frozen = cluster.brokers[2 if admin.controller() != 2 else 3]
    (other,) = {1, 2, 3} - {admin.controller(), frozen.number}
    topic, elsewhere = make_topic(replicas=(other,)), make_topic(replicas=(frozen.number,))
    found: dict[str, list[HighWatermark]] = defaultdict(list)

    def note(event: Event) -> None:
        assert isinstance(event, HighWatermark)
        found[event.lane].append(event)

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    lanes = [LaneSpec(lane="orders", topic=topic), LaneSpec(lane="elsewhere", topic=elsewhere)]
    addresses = {broker: cluster.client_address(broker) for broker in cluster.brokers}
    with HighWatermarkRecorder(addresses, lanes, EventBus(note)) as recorder:
        wait_until(lambda: found["orders"] and found["elsewhere"], "both leaders to report", timeout=10)
        frozen.pause()
        try:
            for number in range(3):
                producer.produce(topic, b"one more")
                assert producer.flush(10) == 0
                wait_until(
                    lambda number=number: found["orders"][-1].high_watermark == number + 1,  # type: ignore[misc]
                    "the new high watermark",
                    timeout=2,
                )
        finally:
            frozen.unpause()
    assert {(event.broker, event.partition, event.leader_epoch) for event in found["orders"]} == {(other, 0, 0)}
    marks = [event.high_watermark for event in found["orders"]]
    assert marks == sorted(set(marks)), "an unchanged answer is not reported again"
    assert recorder.reports == sum(map(len, found.values()))
    wait_until(lambda: frozen.number in cluster.registered_brokers(), "the broker to be registered", timeout=30)
    admin.await_full_isr([topic, elsewhere])


@pytest.mark.cluster
def test_the_last_stable_offset_of_a_transactional_lane_waits_for_its_transaction(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    found: list[Event] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    lanes = [LaneSpec(lane="orders", topic=topic, idempotence=True, transactional={})]
    addresses = {broker: cluster.client_address(broker) for broker in cluster.brokers}

    def last(kind: type[Event], key: str) -> int:
        return next((getattr(event, key) for event in reversed(found) if isinstance(event, kind)), -1)

    producer.init_transactions(30)
    with HighWatermarkRecorder(addresses, lanes, EventBus(found.append)):
        producer.begin_transaction()
        producer.produce(topic, b"open")
        assert producer.flush(10) == 0
        wait_until(
            lambda: last(HighWatermark, "high_watermark") == 1, "the record below the high watermark", timeout=10
        )
        time.sleep(0.6)
        assert last(LastStableOffset, "last_stable_offset") == 0
        producer.commit_transaction(30)
        wait_until(
            lambda: last(LastStableOffset, "last_stable_offset") == 2, "record and marker to be stable", timeout=10
        )
    stable = [event.last_stable_offset for event in found if isinstance(event, LastStableOffset)]
    assert stable == [0, 2], "an unchanged answer is not reported again"
