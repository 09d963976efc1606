"""KRaft mode in the cluster model: what begins a leader epoch, replicas without a leader, eligible leader replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, Step, step
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, Partition
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce, run

ZOOKEEPER = ClusterConfig(controller=1001)
KRAFT = ClusterConfig(controller=1001, kraft=True)
ELIGIBLE = ClusterConfig(
    brokers=(1, 2), controller=1001, kraft=True, elects_eligible=True, min_insync_replicas=2, lag_is_short=True
)


def the_partition(model: ClusterModel) -> Partition:
    (partition,) = {state.partition for state in model.states}
    return partition


def kill(broker: int) -> Step:
    return step("kill", broker=broker)


def stop(broker: int) -> Step:
    return step("stop", broker=broker)


def start(broker: int) -> Step:
    return step("start", broker=broker)


@pytest.mark.parametrize("ended", [kill, stop])
@pytest.mark.parametrize(("config", "epoch"), [(ZOOKEEPER, 1), (KRAFT, 0)])
def test_a_follower_that_is_gone_begins_a_leader_epoch_only_with_zookeeper(
    ended: type[Step], config: ClusterConfig, epoch: int
) -> None:
    model = run(config, ended(3))  # type: ignore[call-arg]
    partition = the_partition(model)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), epoch)
    (leader,) = {state.replica(1) for state in model.states}
    assert (leader.isr, leader.leader_epoch) == ((1, 2), epoch)


def test_a_controller_of_kraft_takes_over_and_a_broker_s_end_no_longer_takes_the_controller_away() -> None:
    with_broker = run(ClusterConfig(controller=3), stop(3))
    assert {state.controller_epoch for state in with_broker.states} == {2}
    model = run(ClusterConfig(controller=3), produce("m1"), step("take_over", controller=101), stop(3))
    assert {(state.controller, state.controller_epoch) for state in model.states} == {(101, 2)}
    partition = the_partition(model)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1, 2))


def test_a_broker_can_not_take_over_as_a_controller_of_kraft() -> None:
    with pytest.raises(ActionError, match="broker 2 is no controller of KRaft"):
        run(ClusterConfig(controller=3), step("take_over", controller=2))


def test_in_kraft_mode_a_leader_learns_of_a_smaller_isr_and_acknowledges() -> None:
    model = run(KRAFT, cut(3, 1), produce("m1"), kill(3))
    assert {state.acknowledged for state in model.states} == {(("m1", 0),)}


@pytest.mark.parametrize("config", [ZOOKEEPER, KRAFT])
def test_another_leader_begins_a_leader_epoch_in_both_modes(config: ClusterConfig) -> None:
    model = run(config, kill(1))
    assert (the_partition(model).leader, the_partition(model).leader_epoch) == (2, 1)


@pytest.mark.parametrize(("config", "epoch"), [(ZOOKEEPER, 0), (KRAFT, 1)])
def test_only_in_kraft_mode_replicas_take_an_epoch_without_a_leader(config: ClusterConfig, epoch: int) -> None:
    model = run(replace(config, brokers=(1, 2), lag_is_short=True), cut(2, 1), produce("m1"), kill(1))
    assert (the_partition(model).leader, the_partition(model).isr, the_partition(model).leader_epoch) == (0, (1,), 1)
    assert {state.replica(2).leader_epoch for state in model.states} == {epoch}


@pytest.mark.parametrize(("config", "epoch"), [(ZOOKEEPER, 3), (KRAFT, 1)])
def test_in_kraft_mode_a_reassignment_begins_one_leader_epoch_at_its_end(config: ClusterConfig, epoch: int) -> None:
    model = run(replace(config, assignment=(1, 2)), step("reassign", replicas=(1, 3)))
    reached = {(p.replicas, p.isr, p.leader, p.leader_epoch) for p in (state.partition for state in model.states)}
    assert reached == {((1, 3), (1, 3), 1, epoch)}


def test_the_last_member_leaves_the_isr_and_is_eligible() -> None:
    partition = the_partition(run(ELIGIBLE, produce("m1"), kill(2), kill(1)))
    assert (partition.leader, partition.isr, partition.eligible, partition.last_known) == (0, (), (1, 2), (1,))


def test_the_last_known_leader_leads_where_nobody_is_eligible() -> None:
    model = run(ELIGIBLE, kill(2), kill(1), start(2), start(1))
    partition = the_partition(model)
    assert (partition.leader, partition.isr, partition.last_known) == (1, (1, 2), ())


def test_an_isr_that_is_large_enough_again_leaves_nobody_eligible() -> None:
    model = run(ELIGIBLE, cut(2, 1), produce("m1", acks="1"))
    assert (the_partition(model).isr, the_partition(model).eligible) == ((1,), (2,))
    model.apply(heal(2, 1))
    assert (the_partition(model).isr, the_partition(model).eligible) == ((1, 2), ())
