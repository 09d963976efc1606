"""The kinds that break disks, on disks that only note what is done to them."""

import pytest

from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.storage.disks import FailingSegment, FreezeDisk, FullDisk, PowerLoss, ReadOnlyDisk
from kafka_chaos.faults.storage.slow_disk import SlowDisk
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeDisk, FakeNode, Notes, hit_by

KINDS: tuple[type[PowerLoss | FreezeDisk | FullDisk | ReadOnlyDisk | FailingSegment], ...] = (
    PowerLoss, FailingSegment, FreezeDisk, FullDisk, ReadOnlyDisk,
)  # fmt: skip
BROKER = Target.parse("broker:1")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({number: FakeNode(f"broker-{number}", number, disk=FakeDisk()) for number in (1, 2, 3)})


@pytest.mark.parametrize("kind", KINDS)
def test_each_proves_its_effect_only_while_it_is_there(kind: type[Fault], cluster: FakeCluster) -> None:
    fault = kind(target=BROKER)  # type: ignore[call-arg]
    nodes = fault.target.resolve(cluster, 0)
    assert not fault.proof(cluster, nodes).took_effect
    fault.inject(cluster, nodes)
    assert fault.proof(cluster, nodes).took_effect
    fault.heal(cluster, nodes)
    assert not fault.proof(cluster, nodes).took_effect
    assert cluster.brokers[1].running
    fault.heal(cluster, nodes)
    assert cluster.brokers[1].running


def test_writes_that_take_their_time_prove_a_slow_disk(cluster: FakeCluster) -> None:
    fault, node = SlowDisk(target=BROKER, writes_per_second=10), cluster.brokers[1]
    node.pid = 7
    assert node.disk is not None
    dd = "dd if=/dev/zero of=/var/lib/kafka/probe bs=512 count=4"
    fault.inject(cluster, (node,))
    assert node.disk.slow == 10
    for seconds, enough in (("0.000096", False), ("9.6e-05", False), ("0.149", False), ("0.301", True), ("1.2", True)):
        node.answers[dd] = (0, f"4+0 records in\n2048 bytes (2.0 kB, 2.0 KiB) copied, {seconds} s, 41.7 kB/s\n")
        assert fault.proof(cluster, (node,)).took_effect == enough
        assert node.commands[-1] == ("rm", "-f", "/var/lib/kafka/probe")
    assert fault.describe_evidence({"seconds": 0.1, "writes": 3}) == "3 writes took 100 ms each on average"
    node.answers[dd] = (1, "dd: no space left on device")
    assert fault.proof(cluster, (node,)).reason == "broker-1: nothing could be written: dd: no space left on device"
    fault.heal(cluster, (node,))
    assert node.disk.slow is None
    node.running = False
    fault.inject(cluster, (node,))
    assert node.disk.slow is None, "it is down"
    assert fault.model_faults(3) == ("pause",)


@pytest.mark.parametrize(("exit_code", "proves"), [(1, True), (137, False), (143, False)])
def test_a_broker_that_ended_by_itself_on_a_filled_disk_proves_it(
    exit_code: int, proves: bool, cluster: FakeCluster
) -> None:
    fault, broker = FullDisk(target=BROKER), cluster.brokers[1]
    nodes = hit_by(fault, cluster)
    assert broker.disk is not None
    broker.disk.free, broker.running, broker.exit_code = 4096, False, exit_code
    assert fault.proof(cluster, nodes).took_effect is proves


def test_the_last_of_a_kill_and_a_full_disk_brings_the_broker_back(cluster: FakeCluster) -> None:
    with Injector(cluster, Notes(), seed=1) as injector:
        full = injector.inject(FullDisk(target=BROKER))
        kill = injector.inject(Kill(target=BROKER))
        injector.heal(kill)
        assert not cluster.brokers[1].running
        injector.heal(full)
        assert cluster.brokers[1].running
        disk = cluster.brokers[1].disk
        assert disk is not None
        assert not disk.filled


def test_they_and_no_others_need_disks() -> None:
    own = [kind for kind in fault_kinds().values() if kind.__module__.startswith("kafka_chaos.")]
    assert {kind.kind for kind in own if kind.needs_disk} == {kind.kind for kind in (*KINDS, SlowDisk)}
