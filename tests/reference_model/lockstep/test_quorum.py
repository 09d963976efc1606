"""KRaft in the cluster model: leader epochs and eligible replicas, and dedicated controllers, what their loss
stops and what they find afterwards.
"""

from dataclasses import replace

import pytest

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.state import ActionError, ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import Step, step
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce, run, the_partition

VOTERS = (101, 102, 103)
CONFIG = ClusterConfig(controller=101, controllers=VOTERS, kraft=True)
BEFORE_4_0 = replace(CONFIG, asks_before_election=False)
BEFORE_3_7 = replace(BEFORE_4_0, resigns_without_majority=False)
FEW_BROKERS = (1, 2)
"""Enough for what concerns controllers: the order in which brokers fetch makes the states many."""
BEHIND_A_CUT = (cut(101, 102, "quorum"), cut(103, 101, "quorum"))
HEALED = (heal(101, 102, "quorum"), heal(103, 101, "quorum"))


def kill(*brokers: int) -> list[Step]:
    return [step("kill", broker=broker) for broker in brokers]


def lose(*controllers: int) -> list[Step]:
    return [step("kill_controllers", controllers=controllers)]


def recover(*controllers: int) -> list[Step]:
    return [step("start_controllers", controllers=controllers)]


def active(model: ClusterModel) -> set[int]:
    return {state.controller for state in model.states}


def partitions(model: ClusterModel) -> set[tuple[int, tuple[int, ...], int]]:
    return {(p.leader, p.isr, p.leader_epoch) for p in (state.partition for state in model.states)}


def acknowledged(model: ClusterModel) -> set[tuple[str, ...]]:
    return {tuple(record for record, _ in state.acknowledged) for state in model.states}


@pytest.mark.parametrize("returning", [(101,), (101, 103)])
def test_a_majority_that_is_back_elects_leaders_and_may_find_any_session_over(returning: tuple[int, ...]) -> None:
    model = run(CONFIG, *lose(101, 103), *kill(1), *recover(*returning))
    assert active(model) == {*returning, 102}
    assert (2, (2, 3), 1) in partitions(model)
    # Nobody leads where the sessions of all others were over first: the dead broker is the last of the ISR.
    assert {(leader, isr if not leader else ()) for leader, isr, _ in partitions(model)} == {
        (0, (1,)),
        (2, ()),
        (3, ()),
    }
    assert {state.replica(1).registered for state in model.states} == {False}
    assert {state.replica(2).registered and state.replica(3).registered for state in model.states} == {True}


def test_a_successor_of_a_dead_controller_finds_no_session_over() -> None:
    model = run(CONFIG, *lose(101), *recover(101), *lose(102))
    assert partitions(model) == {(1, (1, 2, 3), 0)}


def test_before_3_7_it_stays_active_for_brokers_and_can_do_nothing() -> None:
    model = run(BEFORE_3_7, *BEHIND_A_CUT)
    assert active(model) == {101}
    assert {state.quorum.rival for state in model.states if state.quorum} == {102, 103}
    for one in (*kill(1), produce("m1")):
        model.apply(one)
    assert active(model) == {101}
    assert partitions(model) == {(1, (1, 2, 3), 0)}
    assert acknowledged(model) == {()}
    for one in HEALED:
        model.apply(one)
    assert active(model) == {102, 103}
    led = [state for state in model.states if state.partition.leader]
    assert {state.partition.leader for state in led} == {2, 3}
    assert {tuple(record for record, _ in state.acknowledged) for state in led} == {("m1",)}


@pytest.mark.parametrize(("config", "reached"), [(CONFIG, {102}), (BEFORE_4_0, {102, 103})])
def test_before_4_0_a_controller_that_is_back_makes_the_others_elect_again(
    config: ClusterConfig, reached: set[int]
) -> None:
    model = run(replace(config, brokers=FEW_BROKERS), *BEHIND_A_CUT)
    model.states = frozenset(state for state in model.states if state.controller == 102)
    for one in HEALED:
        model.apply(one)
    assert active(model) == reached


@pytest.mark.slow
@pytest.mark.parametrize("config", [CONFIG, BEFORE_4_0, replace(BEFORE_4_0, elects_eligible=True)])
def test_all_that_a_slow_observation_leaves_open_is_searched(config: ClusterConfig) -> None:
    model = run(config, produce("m1"))
    assert len(model.states) == 18
    for one in BEHIND_A_CUT:
        model.apply(one)
    assert active(model) == {102, 103}


@pytest.mark.parametrize(
    "steps",
    [
        [*lose(101, 104)], [*lose(101), *lose(101)], [*recover(101)], [*lose(101, 102), step("stop", broker=1)],
        [*lose(101, 102), *kill(1), step("start", broker=1)], [*lose(101, 102), step("expire_session", broker=1)],
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(steps: list[Step]) -> None:
    with pytest.raises(ActionError):
        run(CONFIG, *steps)


ZOOKEEPER = ClusterConfig(controller=1001)
KRAFT = ClusterConfig(controller=1001, kraft=True)
ELIGIBLE = ClusterConfig(
    brokers=(1, 2), controller=1001, kraft=True, elects_eligible=True, min_insync_replicas=2, lag_is_short=True
)


def test_a_controller_of_kraft_takes_over_and_a_broker_s_end_no_longer_takes_the_controller_away() -> None:
    stop = step("stop", broker=3)
    assert {state.controller_epoch for state in run(ClusterConfig(controller=3), stop).states} == {2}
    model = run(ClusterConfig(controller=3), produce("m1"), step("take_over", controller=101), stop)
    assert {(state.controller, state.controller_epoch) for state in model.states} == {(101, 2)}
    assert partitions(model) == {(1, (1, 2), 1)}


@pytest.mark.parametrize("ended", ["kill", "stop"])
@pytest.mark.parametrize(("config", "epoch"), [(ZOOKEEPER, 1), (KRAFT, 0)])
def test_a_follower_that_is_gone_begins_a_leader_epoch_only_with_zookeeper(
    ended: str, config: ClusterConfig, epoch: int
) -> None:
    model = run(config, step(ended, broker=3))
    partition = the_partition(model)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), epoch)
    (leader,) = {state.replica(1) for state in model.states}
    assert (leader.isr, leader.leader_epoch) == ((1, 2), epoch)


def test_in_kraft_mode_a_leader_learns_of_a_smaller_isr_and_acknowledges() -> None:
    assert acknowledged(run(KRAFT, cut(3, 1), produce("m1"), *kill(3))) == {("m1",)}


@pytest.mark.parametrize(("config", "epoch"), [(ZOOKEEPER, 3), (KRAFT, 1)])
def test_in_kraft_mode_a_reassignment_begins_one_leader_epoch_at_its_end(config: ClusterConfig, epoch: int) -> None:
    model = run(replace(config, assignment=(1, 2)), step("reassign", replicas=(1, 3)))
    reached = {(p.replicas, p.isr, p.leader, p.leader_epoch) for p in (state.partition for state in model.states)}
    assert reached == {((1, 3), (1, 3), 1, epoch)}


def test_an_isr_that_is_large_enough_again_leaves_nobody_eligible() -> None:
    model = run(ELIGIBLE, cut(2, 1), produce("m1", acks="1"))
    assert (the_partition(model).isr, the_partition(model).eligible) == ((1,), (2,))
    model.apply(heal(2, 1))
    assert (the_partition(model).isr, the_partition(model).eligible) == ((1, 2), ())
