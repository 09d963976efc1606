"""The high watermarks that brokers report are recorded; a broker that is frozen or dead delays nobody's reports."""

import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import Event, HarnessPaused, HighWatermark
from kafka_chaos.harness.cluster.admin import ClusterAdmin, PartitionState
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd, StoredLane
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.run.observing import collection, monitor
from kafka_chaos.harness.run.observing.collection import leader_ends
from kafka_chaos.harness.run.observing.monitor import HighWatermarkRecorder, PauseWatch, seconds_waited


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
    addresses = {broker: cluster.addresses[broker] for broker in cluster.brokers}
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
                    timeout=10,
                )
        finally:
            frozen.unpause()
    assert {(event.broker, event.partition, event.leader_epoch) for event in found["orders"]} == {(other, 0, 0)}
    marks = [event.high_watermark for event in found["orders"]]
    assert marks == sorted(set(marks)), "an unchanged answer is not reported again"
    assert recorder.reports == sum(map(len, found.values()))
    wait_until(lambda: frozen.number in cluster.registered_brokers(), "the broker to be registered", timeout=30)
    admin.await_full_isr([topic, elsewhere])


STATES = {"b": PartitionState(1, (1, 2), (1, 2)), "c": PartitionState(3, (3, 1), (3, 1))}
ENDS = {"b": 20, "c": 30}


class Admin(ClusterAdmin):
    """An admin client without a cluster; lane a has the topic b, and lane b the topic c."""

    def __init__(self) -> None:
        self._topics = {"a": "b", "b": "c"}

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        return {0: STATES[self.topic(topic)]}

    def end_offsets(
        self, topic: str, partitions: Sequence[int], *, committed: bool = False, timeout: float = 30
    ) -> dict[int, int]:
        return {number: ENDS[self.topic(topic)] for number in partitions}


def test_a_topic_may_have_the_name_of_another_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[str] = []
    monkeypatch.setattr(collection, "await_replicated", lambda admin, lanes: awaited.extend(map(admin.topic, lanes)))
    found = leader_ends(Admin(), [StoredLane("a", "b", 1), StoredLane("b", "c", 1)])
    assert awaited == ["b", "c"]
    assert found == {("b", 0): LeaderEnd(1, 20, (1, 2)), ("c", 0): LeaderEnd(3, 30, (3, 1))}


def told_of(monkeypatch: pytest.MonkeyPatch, moments: list[float], waits: list[dict[str, float]]) -> list[float]:
    """The waits that a watch tells of, which finds these moments and waits of threads, one for each interval."""
    told: list[Event] = []
    left, over = iter(moments), threading.Event()
    of_intervals = iter(waits)

    def now() -> float:
        moment = next(left, None)
        if moment is None:
            over.set()
            return moments[-1] + 1
        return moment

    clock: Any = SimpleNamespace(monotonic=now)
    monkeypatch.setattr(monitor, "time", clock)
    monkeypatch.setattr(monitor, "seconds_waited", lambda: next(of_intervals, {}))
    watch = PauseWatch(EventBus(told.append))
    stop: Any = SimpleNamespace(wait=lambda _: over.is_set(), set=over.set)
    monkeypatch.setattr(watch, "stop", stop)
    with watch:
        assert over.wait(timeout=30)
    return [event.seconds for event in told if isinstance(event, HarnessPaused)]


def test_a_second_counts_by_the_thread_that_waited_longest_for_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits at the same time are not added, and those of threads that have just begun or ended are not known."""
    waits = [
        {"1": 1.0, "2": 0.0, "ends": 5.0}, {"1": 1.05, "2": 0.05, "begins": 9.0},
        {"1": 1.25, "2": 0.55, "begins": 9.0}, {"1": 3.25, "2": 0.55, "begins": 9.0},
    ]  # fmt: skip
    assert told_of(monkeypatch, [0.0, 1.0, 2.0, 3.0], waits) == [0.5, 1.0]


def test_the_waits_of_this_process_are_read() -> None:
    known = seconds_waited()
    assert str(threading.get_native_id()) in known
    assert all(of_thread >= known[task] for task, of_thread in seconds_waited().items() if task in known)
