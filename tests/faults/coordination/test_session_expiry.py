"""A session that ends while its broker lives: what the proof needs, and who is refused."""

from __future__ import annotations

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.faults.cluster import Registration
from kafka_chaos.faults.coordination.leader_transfer import SessionExpiry
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.metadata.zookeeper_client import password_of
from kafka_chaos.harness.experiment.file import parse_experiment
from tests.faults.fakes import FakeCluster

FAULT = SessionExpiry(target=Target.parse("broker:1"))


def registered(**states: Registration) -> FakeCluster:
    return FakeCluster(registrations={int(name[-1]): state for name, state in states.items()})


def test_a_broker_that_registers_anew_has_lost_its_session() -> None:
    cluster = registered(broker_1=Registration(20, 0x100), broker_2=Registration(21, 0x200))
    nodes = FAULT.target.resolve(cluster, 0)
    assert FAULT.proof(cluster, nodes).reason == "broker-1: it was not registered"
    FAULT.inject(cluster, nodes)
    FAULT.inject(cluster, nodes)
    assert cluster.registrations == {1: Registration(30, 0x101), 2: Registration(21, 0x200)}
    proof = FAULT.proof(cluster, nodes)
    assert proof.took_effect
    assert proof.evidence["broker-1"]["session"] == ["0x100", "0x101"]
    words = "registered again under broker epoch 30 (before: 20) by the same process, 0"
    assert FAULT.describe_evidence(proof.evidence["broker-1"]) == words
    FAULT.heal(cluster, nodes)
    later = SessionExpiry(target=Target.parse("broker:1"), at=5)
    assert not later.proof(cluster, nodes).took_effect


def test_it_can_begin_once_every_target_is_registered() -> None:
    cluster = registered(broker_1=Registration(20, 0x100))
    both = SessionExpiry(target=Target.parse("brokers:1,2"))
    nodes = both.target.resolve(cluster, 0)
    assert not both.can_begin(cluster, nodes)
    cluster.registrations[2] = Registration(21, 0x200)
    assert both.can_begin(cluster, nodes)


def test_a_broker_that_does_not_come_back_is_no_proof_yet() -> None:
    cluster = registered(broker_1=Registration(20, 0x100))
    cluster.registers_again = False
    nodes = FAULT.target.resolve(cluster, 0)
    FAULT.inject(cluster, nodes)
    assert FAULT.proof(cluster, nodes).reason == "broker-1: its registration is gone, and it has not registered again"


def test_a_session_that_goes_on_and_a_process_that_ends_are_no_proof() -> None:
    cluster = registered(broker_1=Registration(20, 0x100))
    nodes = FAULT.target.resolve(cluster, 0)
    FAULT.inject(cluster, nodes)
    cluster.registrations[1] = Registration(20, 0x100)
    assert FAULT.proof(cluster, nodes).reason == "broker-1: its session goes on"
    cluster.registrations[1] = Registration(30, 0x101)
    cluster.brokers[1].running = False
    assert FAULT.proof(cluster, nodes).reason == "broker-1: its process ended"


@pytest.mark.parametrize(
    ("session", "password"),
    [
        (72057594037927936, "f22acd4a97e69d6d20a49bb638eadb38"),
        (-1152921504606846975, "054cc74a37327db215e702e20c73f005"),
        (216202937562529793, "df0aaa5a40c4ee19b4b7677588ad69a0"),
    ],
)
def test_a_session_s_password_is_the_one_that_java_makes(session: int, password: str) -> None:
    assert password_of(session).hex() == password


@pytest.mark.parametrize(
    ("cluster", "target", "message"),
    [
        ("{metadata_mode: kraft}", "broker:1", "hold their heartbeats"),
        ("{}", "zookeeper", "session-expiry hits brokers, and no other server"),
    ],
)
def test_an_experiment_that_can_not_have_it_is_refused(cluster: str, target: str, message: str) -> None:
    schedule = f"schedule: [{{fault: session-expiry, target: '{target}', at: 1}}]"
    with pytest.raises(UsageFailure, match=message):
        parse_experiment(f"name: over\ncluster: {cluster}\nlanes: [{{lane: orders}}]\n{schedule}\n", "over.yaml")
