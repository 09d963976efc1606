"""Each kind that breaks disks on real brokers: it takes effect, proves so, heals, and twice does nothing more."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, Message, Producer

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.storage.disks import FreezeDisk, FullDisk, PowerLoss, ReadOnlyDisk
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.run.shared_cluster import restore
from tests.clusters import EQUIPPED, NEWEST_EQUIPPED, mode_of, needs_disks
from tests.faults.on_brokers import in_both_modes, proof_of

pytestmark = [pytest.mark.cluster, needs_disks]
BROKER = Target.parse("broker:1")

layout = in_both_modes(EQUIPPED, NEWEST_EQUIPPED)


@pytest.fixture
def topic(make_topic: Callable[..., str], admin: ClusterAdmin, cluster: Cluster) -> Iterator[str]:
    """A topic led by broker 1; the cluster is whole again afterwards, also where the test failed."""
    name = make_topic()
    yield name
    restore(cluster)
    admin.await_full_isr([name])


class Sent:
    """Records that were sent, by their outcome; `timeout` is the client's, in milliseconds."""

    def __init__(self, cluster: Cluster, topic: str, *, timeout: int = 30_000) -> None:
        self.topic = topic
        self.acknowledged = self.failed = 0
        configs = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "1", "message.timeout.ms": timeout}
        self._producer = Producer({**configs, "log_level": 0})

    def send(self, count: int = 1, *, timeout: float = 30.0, size: int = 200) -> int:
        """Send some records and wait; returns how many have no outcome yet."""
        for _ in range(count):
            self._producer.produce(self.topic, os.urandom(size), on_delivery=self._delivered)
        return self._producer.flush(timeout)

    def flush(self) -> int:
        """Wait for the rest."""
        return self._producer.flush(30)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1


@contextmanager
def load(cluster: Cluster, topic: str) -> Iterator[Sent]:
    """A few records at a time, until the block ends."""
    sent, ended = Sent(cluster, topic, timeout=5_000), threading.Event()

    def send() -> None:
        while not ended.wait(0.02):
            sent.send(5, timeout=0.1)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()
        sent.flush()


def inject_twice(fault: Fault, view: ClusterView) -> dict[str, object]:
    """The evidence for broker 1, the same after the second time."""
    nodes = fault.target.resolve(view, 0)
    assert not fault.proof(view, nodes).took_effect
    for _ in range(2):
        fault.inject(view, nodes)
        # As the injector does: a broker that still writes may free a block for a moment.
        proof = proof_of(fault, view, nodes)
    return dict(proof.evidence["broker-1"])


def heal_twice(fault: Fault, view: ClusterView, cluster: Cluster) -> None:
    nodes = fault.target.resolve(view, 0)
    fault.heal(view, nodes)
    started = nodes[0].state()["StartedAt"]
    fault.heal(view, nodes)
    assert nodes[0].state()["StartedAt"] == started, "a healthy broker is left alone"
    assert not fault.proof(view, nodes).took_effect
    wait_until(lambda: 1 in cluster.registered_brokers(), "broker 1 to register again", timeout=15)


def test_power_loss_takes_what_a_kill_leaves(
    make_topic: Callable[..., str], view: ClusterView, cluster: Cluster
) -> None:
    topic = make_topic((1,))
    broker = cluster.brokers[1]
    sent = Sent(cluster, topic)
    sent.send(50)
    assert broker.disk is not None
    broker.disk.flush()
    sent.send(50)
    assert sent.acknowledged == 100

    kill = Kill(target=BROKER)
    kill.inject(view, (broker,))
    assert read_replica(broker, topic, 0).log_end == 100, "the operating system keeps what was written"
    kill.heal(view, (broker,))
    # Longer than a block: none of what is on disk by now can hold it.
    sent.send(1, size=8192)

    loss = PowerLoss(target=BROKER)
    evidence = inject_twice(loss, view)
    assert evidence["ExitCode"] == 137
    assert int(str(evidence["lost_bytes"])) > 0
    kept = read_replica(broker, topic, 0).log_end
    assert 50 <= kept < 101, "what had been flushed is there, the last record is not"
    heal_twice(loss, view, cluster)
    sent.send(1)
    assert (sent.acknowledged, sent.failed) == (102, 0)
    assert read_replica(broker, topic, 0).log_end == kept + 1


@pytest.mark.slow
@pytest.mark.parametrize("layout", [NEWEST_EQUIPPED], indirect=True, ids=mode_of)
def test_a_controller_that_loses_power_keeps_the_metadata(
    make_topic: Callable[..., str], view: ClusterView, cluster: Cluster, admin: ClusterAdmin
) -> None:
    """Unlike brokers, controllers flush what they append before it counts as committed (KIP-595)."""
    topic = make_topic()
    loss = PowerLoss(target=Target.parse("controller:1"))
    (controller,) = nodes = loss.target.resolve(view, 0)
    loss.inject(view, nodes)
    proof = loss.proof(view, nodes)
    assert proof.took_effect, proof.reason
    assert not controller.is_running()
    sent = Sent(cluster, topic)
    sent.send(20)
    assert sent.acknowledged == 20, "leaders serve on"
    loss.heal(view, nodes)
    assert controller.is_running()
    wait_until(lambda: cluster.registered_brokers() == {1, 2, 3}, "all brokers to be unfenced", timeout=30)
    assert view.leader(topic, 0) == 1
    admin.await_full_isr([make_topic(), topic])


@pytest.mark.slow
def test_a_frozen_disk_stalls_its_leader_which_stays_leader(
    topic: str, view: ClusterView, cluster: Cluster, admin: ClusterAdmin
) -> None:
    sent = Sent(cluster, topic)
    sent.send()
    fault = FreezeDisk(target=BROKER)
    assert inject_twice(fault, view) == {"frozen": True}
    assert sent.send(timeout=4.5) == 1, "longer than a session: nothing is appended, nothing acknowledged"
    assert view.leader(topic, 0) == 1
    # On a busy machine any broker's session may expire, and is renewed: that takes no disk either.
    wait_until(lambda: 1 in cluster.registered_brokers(), "broker 1 to be registered", timeout=10)
    assert fault.proof(view, (cluster.brokers[1],)).took_effect
    heal_twice(fault, view, cluster)
    assert sent.flush() == 0
    assert (sent.acknowledged, sent.failed) == (2, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FullDisk, ReadOnlyDisk])
def test_a_broker_that_can_not_write_ends_and_comes_back(
    kind: type[Fault], topic: str, view: ClusterView, cluster: Cluster, admin: ClusterAdmin
) -> None:
    broker, fault = cluster.brokers[1], kind(target=BROKER)
    with load(cluster, topic):
        inject_twice(fault, view)
        wait_until(lambda: not broker.is_running(), "the broker to end", timeout=20)
        assert broker.state()["ExitCode"] == 1
        assert admin.await_leader(topic, 0, other_than=1) in (2, 3)
        heal_twice(fault, view, cluster)
