"""Clocks of real brokers that jump: the brokers tell so themselves, records go on, and time comes back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.clock.clocks import ClockStep, MovedClock
from kafka_chaos.faults.fault import Proof
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import EQUIPPED, NEWEST_EQUIPPED
from tests.faults.fakes import hit_twice_by
from tests.faults.on_brokers import in_both_modes, proof_of

pytestmark = pytest.mark.cluster
BROKER = Target.parse("broker:1")
TOPIC = "stamped"

layout = in_both_modes(EQUIPPED, NEWEST_EQUIPPED)


@pytest.fixture(scope="module")
def clocked(cluster: Cluster) -> Cluster:
    """Broker 1 leads the topic, whose records have its time."""
    configs = {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "3"}
    admin = cluster.admin()
    admin.create_topic(TOPIC, replica_assignment=[[1, 2, 3]], configs=configs)
    admin.await_full_isr([TOPIC])
    return cluster


@pytest.fixture(autouse=True)
def _led(clocked: Cluster) -> None:
    """Broker 1 leads the topic, also after it was killed."""
    admin = clocked.admin()
    admin.await_full_isr([TOPIC])
    ClusterView(clocked, admin).transfer({(TOPIC, 0): 1})
    assert admin.await_leader(TOPIC, 0) == 1


@contextmanager
def broken(fault: MovedClock, view: ClusterView) -> Iterator[Proof]:
    nodes = hit_twice_by(fault, view)
    try:
        # The first proof takes as long as attaching to the JVM does.
        proof_of(fault, view, nodes)
        yield fault.proof(view, nodes)
    finally:
        fault.heal(view, nodes)
        fault.heal(view, nodes)
    assert not fault.proof(view, nodes).took_effect


def stamped_ahead(cluster: Cluster, expected: float = 0.0) -> float:
    """How many seconds ahead the leader's time on a new record is, which all three brokers have acknowledged.

    When it was stamped is known to lie between two times only: of the answers, the one nearest to the `expected`.
    """
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    times: list[float] = []
    producer.produce(TOPIC, b"", on_delivery=lambda error, message: times.append(message.timestamp()[1] / 1000))
    before = time.time()
    assert producer.flush(30) == 0
    return min(max(expected, times[0] - time.time()), times[0] - before)


def test_a_clock_that_jumps_is_the_broker_s_own_and_records_go_on(clocked: Cluster) -> None:
    view = ClusterView(clocked, clocked.admin())
    assert abs(stamped_ahead(clocked)) < 1
    for seconds in (600, -600):
        with broken(ClockStep(target=BROKER, seconds=seconds), view) as proof:
            assert proof.evidence["broker-1"]["ahead"] == pytest.approx(seconds, abs=1)
            assert stamped_ahead(clocked, seconds) == pytest.approx(seconds, abs=1)
        wait_until(lambda: abs(stamped_ahead(clocked)) < 1, "the clock to be right again", timeout=10)
    clocked.admin().await_full_isr([TOPIC])


@pytest.mark.slow
def test_a_clock_stays_off_over_a_restart(clocked: Cluster) -> None:
    view = ClusterView(clocked, clocked.admin())
    with broken(ClockStep(target=BROKER, seconds=120), view):
        kill = Kill(target=BROKER)
        kill.inject(view, BROKER.resolve(view, 0))
        kill.heal(view, BROKER.resolve(view, 0))
        again = proof_of(ClockStep(target=BROKER, seconds=120), view)
        assert again.evidence["broker-1"]["ahead"] == pytest.approx(120, abs=1)
    ClusterAdmin(clocked.bootstrap_servers).await_full_isr([TOPIC])
    wait_until(lambda: abs(stamped_ahead(clocked)) < 1, "the clock to be right again", timeout=20)


@pytest.mark.slow
def test_nothing_else_inside_has_another_time_and_waits_are_as_long(clocked: Cluster) -> None:
    view = ClusterView(clocked, clocked.admin())
    with broken(ClockStep(target=BROKER, seconds=600), view):
        assert abs(int(clocked.brokers[1].must_execute("date", "+%s")) - time.time()) < 2
        begin = time.monotonic()
        # Followers wait for records at the leader, by a clock that nobody moved.
        assert all(stamped_ahead(clocked) > 500 for _ in range(3))
        assert time.monotonic() - begin < 5
