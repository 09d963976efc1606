"""Faults of packets on real brokers: packets wait, overtake each other or come twice, and replication goes on."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.network.packet_filter import chain_name
from kafka_chaos.faults.network.queued import PacketDelay, PacketDuplicate, PacketRate, PacketReorder
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.faults.fakes import Notes, hit_by, hit_twice_by
from tests.faults.on_brokers import proof_of

pytestmark = pytest.mark.cluster


@pytest.fixture
def topic(make_topic: Callable[..., str], admin: ClusterAdmin) -> Iterator[str]:
    """A topic led by broker 1 that its two followers must have; the cluster is whole again afterwards."""
    name = make_topic(min_insync_replicas=3)
    yield name
    admin.await_full_isr([name])


def seconds_for(cluster: Cluster, topic: str, records: int = 1, size: int = 100) -> float:
    """The seconds until so many records, one after another, are acknowledged by all three brokers."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})
    producer.list_topics(topic)
    producer.produce(topic, b"first")
    producer.flush(30)
    begin = time.monotonic()
    for _ in range(records):
        producer.produce(topic, os.urandom(size), on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(30) == 0
    assert not failed
    return time.monotonic() - begin


@pytest.mark.parametrize(
    ("fault", "at_least"),
    [
        # A follower asks again as soon as it has its answer: each acknowledgement takes a whole way or more.
        (PacketDelay(target=Target.parse("broker:1"), seconds=0.2), 5 * 0.2),
        pytest.param(
            PacketDelay(target=Target.parse("broker:1"), seconds=0.2, peers="clients"), 5 * 0.2, marks=pytest.mark.slow
        ),
        pytest.param(
            PacketDelay(target=Target.parse("all"), seconds=0.05, jitter=0.05, direction="both"),
            5 * 0.05,
            marks=pytest.mark.slow,
        ),
        pytest.param(PacketReorder(target=Target.parse("all"), percent=30), 0.0, marks=pytest.mark.slow),
        # 5 records of 20 KB to each of two followers.
        pytest.param(
            PacketRate(target=Target.parse("broker:1"), direction="out", kbit_per_second=800),
            1.0,
            marks=pytest.mark.slow,
        ),
        pytest.param(PacketDuplicate(target=Target.parse("all"), percent=50), 0.0, marks=pytest.mark.slow),
    ],
    ids=["delay", "delay-clients", "delay-all", "reorder", "rate", "duplicate"],
)
def test_packets_are_treated_so_and_replication_goes_on(
    fault: Fault, at_least: float, topic: str, view: ClusterView, cluster: Cluster
) -> None:
    nodes = hit_twice_by(fault, view)
    took = seconds_for(cluster, topic, records=5, size=20_000)
    assert took >= at_least
    proof = proof_of(fault, view, nodes)
    assert set(proof.evidence) == {node.name for node in nodes}
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert not fault.proof(view, nodes).took_effect
    for node in nodes:
        assert chain_name(fault) not in node.must_execute("iptables", "-w", "-t", "mangle", "-S")
    # A broker may be slow once; packets that are still delayed are so each time.
    wait_until(
        lambda: seconds_for(cluster, topic, records=5, size=20_000) < max(1.0, at_least),
        "packets to pass untouched",
        timeout=20,
    )


def test_a_queue_whose_process_dies_holds_nothing_up_and_is_noticed(
    topic: str, view: ClusterView, cluster: Cluster
) -> None:
    fault = PacketDelay(target=Target.parse("broker:1"), seconds=0.3)
    nodes = hit_by(fault, view)
    assert seconds_for(cluster, topic, records=2) >= 0.6
    served = cluster.brokers[1].packets._served[chain_name(fault)].process._process
    os.kill(served.pid, signal.SIGKILL)
    served.wait()
    assert not fault.proof(view, nodes).took_effect
    wait_until(lambda: seconds_for(cluster, topic, records=2) < 0.3, "packets to pass untouched", timeout=20)
    with pytest.raises(KafkaChaosError, match="had ended with -9"):
        fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert chain_name(fault) not in nodes[0].must_execute("iptables", "-w", "-t", "mangle", "-S")


@pytest.mark.slow
def test_a_broker_that_comes_back_meanwhile_has_its_queue_again(
    topic: str, view: ClusterView, cluster: Cluster
) -> None:
    faults = [
        PacketDelay(target=Target.parse("broker:1"), seconds=0.1, direction="both", at=0.0, duration=25.0),
        Kill(target=Target.parse("broker:1"), at=0.5, duration=0.5),
    ]
    notes = Notes()
    with Injector(view, notes, seed=1) as injector:
        runs = threading.Thread(
            target=lambda: injector.run(faults, start=time.monotonic(), cancelled=threading.Event())
        )
        runs.start()
        wait_until(lambda: "kill-2 healed" in notes.lines, "the broker to be back", timeout=30)
        again = proof_of(faults[0], view)
        runs.join()
    assert again.evidence["broker-1"]["waited"] > 0
    assert sum("proven" in line for line in notes.lines) == sum("healed" in line for line in notes.lines) == 2
    assert not [line for line in notes.lines if "not proven" in line]
