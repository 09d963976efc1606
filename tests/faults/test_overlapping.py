"""Faults that overlap on a container: what the one does to the other."""

from collections.abc import Iterator

import pytest

from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, Notes


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fault, "proof_timeout", 0.0)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def injector(cluster: FakeCluster) -> Iterator[Injector]:
    with Injector(cluster, Notes(), seed=1) as injector:
        yield injector


def at(kind: type[Fault], target: str) -> Fault:
    return kind(target=Target.parse(target))  # type: ignore[call-arg]


@pytest.mark.parametrize("first", [Kill, Stop])
@pytest.mark.parametrize("second", [Kill, Stop])
def test_the_last_fault_that_holds_a_broker_down_starts_it(
    first: type[Fault], second: type[Fault], cluster: FakeCluster, injector: Injector
) -> None:
    one, other = injector.inject(at(first, "broker:1")), injector.inject(at(second, "broker:1"))
    injector.heal(one)
    assert not cluster.brokers[1].running
    injector.heal(other)
    assert cluster.brokers[1].running


def test_the_last_fault_that_freezes_a_broker_thaws_it(cluster: FakeCluster, injector: Injector) -> None:
    one, other = injector.inject(at(Pause, "broker:1")), injector.inject(at(Pause, "all"))
    injector.heal(other)
    assert [node.paused for node in cluster.brokers.values()] == [True, False, False]
    injector.heal(one)
    assert not cluster.brokers[1].paused


def test_a_freeze_does_not_keep_a_killed_broker_down(cluster: FakeCluster, injector: Injector) -> None:
    injector.inject(at(Pause, "broker:1"))
    injector.heal(injector.inject(at(Kill, "broker:1")))
    assert cluster.brokers[1].running


def test_a_partition_is_there_again_once_its_broker_is_back(cluster: FakeCluster, injector: Injector) -> None:
    cut = injector.inject(at(Partition, "broker:1"))
    before = cluster.brokers[1].installed()
    assert len(before) == 1
    injector.heal(injector.inject(at(Kill, "broker:1")))
    assert cluster.brokers[1].installed() == before * 2
    injector.heal(cut)
    injector.heal(injector.inject(at(Kill, "broker:1")))
    assert cluster.brokers[1].installed() == before * 2


def test_a_broker_that_is_down_is_cut_off_once_it_is_back(cluster: FakeCluster, injector: Injector) -> None:
    killed = injector.inject(at(Kill, "broker:1"))
    injector.inject(at(Partition, "broker:1"))
    assert not cluster.brokers[1].commands
    injector.heal(killed)
    assert cluster.brokers[1].installed()
