"""A controller that is deposed: what the proof needs, and who is refused."""

from __future__ import annotations

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.faults.coordination.leader_transfer import ControllerMove
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.experiment.file import parse_experiment
from tests.faults.fakes import FakeCluster

FAULT = ControllerMove(target=Target.parse("controller"))


def test_an_election_in_a_later_epoch_is_the_proof() -> None:
    cluster = FakeCluster(next_controllers=[2, 1])
    nodes = FAULT.target.resolve(cluster, 0)
    assert FAULT.proof(cluster, nodes).reason == "broker-3: it was not controller"
    FAULT.inject(cluster, nodes)
    FAULT.inject(cluster, nodes)
    proof = FAULT.proof(cluster, nodes)
    assert proof.took_effect
    assert FAULT.describe_evidence(proof.evidence["broker-3"]) == "broker 2 is controller in epoch 2 (before: 1)"
    assert FAULT.model_faults(3) == ()
    later = ControllerMove(target=Target.parse("controller"), at=5)
    assert not later.proof(cluster, nodes).took_effect


def test_without_an_election_there_is_no_proof() -> None:
    cluster = FakeCluster()
    nodes = FAULT.target.resolve(cluster, 0)
    FAULT.inject(cluster, nodes)
    assert FAULT.proof(cluster, nodes).reason == "broker-3: no other controller was elected"


def test_a_controller_that_ended_was_not_deposed() -> None:
    cluster = FakeCluster(next_controllers=[2])
    nodes = FAULT.target.resolve(cluster, 0)
    FAULT.inject(cluster, nodes)
    cluster.brokers[3].running = False
    assert FAULT.proof(cluster, nodes).reason == "broker-3: its process ended"


def test_where_zookeeper_does_not_answer_nothing_is_done() -> None:
    cluster = FakeCluster(epoch=None, next_controllers=[2])
    nodes = FAULT.target.resolve(cluster, 0)
    FAULT.inject(cluster, nodes)
    assert cluster.controller() == 3
    assert not FAULT.proof(cluster, nodes).took_effect


def test_a_broker_that_is_not_controller_is_not_deposed() -> None:
    cluster = FakeCluster(next_controllers=[2])
    fault = ControllerMove(target=Target.parse("broker:1"))
    nodes = fault.target.resolve(cluster, 0)
    fault.inject(cluster, nodes)
    assert cluster.controller() == 3
    assert fault.proof(cluster, nodes).reason == "broker-1: it was not controller"


@pytest.mark.parametrize(
    ("cluster", "target", "message"),
    [
        ("{metadata_mode: kraft}", "controller", "pause it, isolate it or kill it"),
        ("{}", "zookeeper:1", "controller-move hits brokers, and no other server"),
    ],
)
def test_an_experiment_that_can_not_have_it_is_refused(cluster: str, target: str, message: str) -> None:
    schedule = f"schedule: [{{fault: controller-move, target: '{target}', at: 1}}]"
    with pytest.raises(UsageFailure, match=message):
        parse_experiment(f"name: moved\ncluster: {cluster}\nlanes: [{{lane: orders}}]\n{schedule}\n", "moved.yaml")
