"""Cuts of one direction and one channel, late and lost requests, and what it takes to change the ISR or the leader."""

import pytest

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.state import ANY_CLIENT, ActionError, ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import Step, step
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce, run, the_partition


def all_of(model: ClusterModel, broker: int, name: str) -> set[object]:
    return {getattr(state.replica(broker), name) for state in model.states}


def acknowledged(model: ClusterModel) -> list[str]:
    (answers,) = {state.acknowledged for state in model.states}
    return [record for record, _ in answers]


PREFER_2 = (step("reassign", replicas=(2, 1, 3)), step("elect_preferred"))


@pytest.mark.parametrize(
    ("link", "is_answered"),
    [
        (cut(2, 1), False), (cut(1, 2), True), (cut(1, 2, "control"), True), (cut(2, 1, "control"), True),
        (cut(ANY_CLIENT, 1, "clients"), False), (cut(ANY_CLIENT, 2, "clients"), True),
    ],
)  # fmt: skip
def test_a_cut_closes_one_direction_of_one_channel(link: Step, is_answered: bool) -> None:
    model = run(ClusterConfig(), link, produce("m1"))
    assert acknowledged(model) == (["m1"] if is_answered else [])
    model.apply(step("heal", **dict(link.arguments)))
    assert acknowledged(model) == ["m1"]


def test_the_high_watermark_comes_back_with_a_later_fetch_and_is_checkpointed_later_still() -> None:
    model = run(ClusterConfig(), produce("m1"))
    assert (all_of(model, 1, "high_watermark"), all_of(model, 2, "log_end")) == ({1}, {1})
    assert all_of(model, 2, "high_watermark") == all_of(model, 1, "checkpointed_high_watermark") == {0, 1}


def test_a_held_fetch_brings_what_was_asked_for_and_tells_the_leader_nothing() -> None:
    model = run(ClusterConfig(), produce("m1"), cut(3, 1, "held"), produce("m2"))
    assert all_of(model, 3, "log_end") == {2}
    assert all_of(model, 1, "high_watermark") == {1}
    assert acknowledged(model) == ["m1"]
    model.apply(step("produce", record="m3", acks="1", producer="another"))
    assert all_of(model, 1, "log_end") == {3}
    assert all_of(model, 3, "log_end") == {2}
    model.apply(heal(3, 1, "held"))
    assert acknowledged(model) == ["m1", "m3", "m2"]
    assert all_of(model, 3, "log_end") == {3}


def test_a_request_that_a_dead_controller_could_not_send_is_never_delivered_and_blocks_no_other() -> None:
    model = run(ClusterConfig(controller=1), cut(1, 3, "control"), *PREFER_2)
    assert all_of(model, 3, "leader_epoch") == {0}
    model.apply(step("kill", broker=1))
    assert not any(state.requests for state in model.states)
    assert all_of(model, 3, "leader") == {2}
    assert all_of(model, 3, "controller_epoch") == {2}
    known = all_of(model, 3, "leader_epoch")
    model.apply(heal(1, 3, "control"))
    assert all_of(model, 3, "leader_epoch") == known


def test_a_frozen_broker_still_reads_what_a_dead_controller_had_sent_it() -> None:
    config = ClusterConfig(controller=1)
    model = run(config, step("pause", broker=3), *PREFER_2, step("kill", broker=1))
    (senders,) = {tuple(r.controller for r in state.requests if r.to == 3) for state in model.states}
    assert senders.count(1) == 1
    model.apply(step("thaw", broker=3))
    assert all_of(model, 3, "leader") == {2}
    assert all_of(model, 3, "controller_epoch") == {2}


def test_a_preferred_leader_outside_the_isr_or_dead_is_not_elected() -> None:
    config = ClusterConfig(controller=3)
    outside = run(config, cut(2, 1), produce("m1"), step("expire_lag"), *PREFER_2)
    assert the_partition(outside).isr == (1, 3)
    assert the_partition(outside).leader == 1
    outside.apply(heal(2, 1))
    outside.apply(step("elect_preferred"))
    assert the_partition(outside).leader == 2
    dead = run(config, PREFER_2[0], step("kill", broker=2), PREFER_2[1])
    assert the_partition(dead).leader == 1


def test_power_loss_leaves_what_was_flushed() -> None:
    model = run(ClusterConfig(controller=2), produce("m1"), step("stop", broker=1), step("start", broker=1))
    model.apply(produce("m2"))
    with pytest.raises(ActionError, match="may end between 1 and 2, not at 0"):
        model.apply(step("power_loss", broker=1, kept=0))
    model.apply(step("power_loss", broker=1, kept=1))
    assert all_of(model, 1, "log_end") == {1}


def test_a_producer_that_gives_up_sends_no_more_and_its_record_may_be_there() -> None:
    model = run(ClusterConfig(), cut(2, 1), produce("m1"), produce("m2"), step("give_up", record="m2"))
    model.apply(step("give_up", record="m1"))
    model.apply(heal(2, 1))
    assert acknowledged(model) == []
    (log,) = {tuple(entry.record for entry in state.replica(2).log) for state in model.states}
    assert log == ("m1",)


def test_an_epoch_in_which_nothing_was_sent_stays_on_an_empty_log_until_a_record_replaces_it() -> None:
    """Random walks showed it (seed 2): a follower that fetches from an empty log has nothing that diverges."""
    model = run(ClusterConfig(controller=3), *PREFER_2)
    assert all_of(model, 1, "epochs") == {((1, 0),)}
    assert all_of(model, 2, "epochs") == {((2, 0),)}
    model.apply(produce("m1"))
    assert all_of(model, 1, "epochs") == {((2, 0),)}
    empty = run(ClusterConfig(controller=3), *PREFER_2, step("kill", broker=1), step("start", broker=1))
    assert all_of(empty, 1, "epochs") == {()}
    after_a_record = run(ClusterConfig(controller=3), produce("m1"), *PREFER_2)
    assert all_of(after_a_record, 1, "epochs") == {((0, 0),)}


def test_every_new_controller_begins_a_leader_epoch_for_a_dead_last_member_of_the_isr() -> None:
    """Random walks showed it (seed 2): nothing else changes, but the controller writes it all the same."""
    config = ClusterConfig(assignment=(2, 3), controller=1)
    model = run(config, produce("m1"), *(step("stop", broker=broker) for broker in (3, 2)))
    assert (the_partition(model).leader_epoch, the_partition(model).isr, the_partition(model).leader) == (2, (2,), 0)
    model.apply(step("stop", broker=1))
    model.apply(step("start", broker=3))
    assert (the_partition(model).leader_epoch, the_partition(model).isr, the_partition(model).leader) == (3, (2,), 0)


def test_a_leader_that_stays_in_a_new_epoch_still_knows_how_far_its_isr_was() -> None:
    """Random walks showed it (seed 7): the follower that is cut off lacks nothing, so it stays in the ISR."""
    config = ClusterConfig(controller=2, lag_is_short=True)
    model = run(config, cut(2, 1), step("kill", broker=3))
    assert (the_partition(model).leader_epoch, the_partition(model).isr) == (1, (1, 2))
    moved = run(config, cut(3, 2), step("kill", broker=1))
    assert (the_partition(moved).leader, the_partition(moved).isr) == (2, (2,))


def test_a_record_with_acks_0_may_wait_for_a_leader_or_be_sent_to_a_former_one() -> None:
    """Random walks showed it (seed 1002): a new client learns that nobody leads, and waits."""
    config = ClusterConfig(assignment=(1, 2), controller=3)
    model = run(config, step("kill", broker=2), step("kill", broker=1), produce("m1", acks="0"))
    assert {state.acknowledged for state in model.states} == {(), (("m1", None),)}
    model.apply(step("start", broker=1))
    assert {state.acknowledged for state in model.states} == {(("m1", None),)}
    assert all_of(model, 1, "log_end") == {0, 1}


def test_a_former_leader_that_knows_of_no_leader_need_not_get_a_record() -> None:
    """Random walks showed it (seed 205): it leads still, but names no leader to a new client."""
    frozen = (step("pause", broker=2), step("expire_session", broker=2))
    stops = (step("stop", broker=3), step("stop", broker=1))
    model = run(
        ClusterConfig(assignment=(2, 1, 3), controller=1), *frozen, produce("m1"), *stops, step("thaw", broker=2)
    )
    assert (the_partition(model).leader, all_of(model, 2, "role"), all_of(model, 2, "leader")) == (0, {"leader"}, {0})
    model.apply(produce("m2", acks="1", producer="another"))
    assert all_of(model, 2, "log_end") == {0, 1}
