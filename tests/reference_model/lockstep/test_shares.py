"""A share group in lock step: what members are given, what is persisted, and what a new leader knows."""

import pytest

from kafka_chaos.reference_model.lockstep import shares
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.observation import GIVEN
from kafka_chaos.reference_model.lockstep.state import ActionError, ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import step

RECORDS = 3


def share_group(*, delivery_limit: int = 5, locks_end: bool = False) -> shares.ShareModel:
    """A group of two members on a partition with three records, all of them below the high watermark."""
    cluster = ClusterModel(ClusterConfig())
    for number in range(RECORDS):
        cluster.apply(step("produce", record=f"r{number}", acks="all"))
    cluster.states = frozenset(
        state for state in cluster.states if state.replica(state.partition.leader).high_watermark == RECORDS
    )
    model = shares.ShareModel(shares.ShareSetup(members=2, delivery_limit=delivery_limit, locks_end=locks_end), cluster)
    assert cluster.states
    return model


def poll(model: shares.ShareModel, member: int) -> None:
    model.apply(step("sharer_polls", member=member))


def acknowledge(model: shares.ShareModel, member: int, kind: str, offset: int) -> None:
    model.apply(step("sharer_acknowledges", member=member, kind=kind, offset=offset))


def deeds(model: shares.ShareModel, member: int) -> set[tuple[tuple[object, ...], ...]]:
    return {state.deeds[member - 1] for state in model.states}


def given(model: shares.ShareModel, member: int) -> set[tuple[tuple[object, ...], ...]]:
    """What a member was given in each state: offsets and delivery counts."""
    return {tuple(deed[1:] for deed in done if deed[0] == GIVEN) for done in deeds(model, member)}


def start_offsets(model: shares.ShareModel) -> set[int]:
    return {state.start_offset for state in model.states}


def leader_dies(model: shares.ShareModel) -> None:
    (leader,) = {state.partition.leader for state in model.cluster.states}
    model.cluster.apply(step("kill", broker=leader))
    model.cluster.states = frozenset(
        state
        for state in model.cluster.states
        if state.partition.leader not in (0, leader) and state.replica(state.partition.leader).high_watermark == RECORDS
    )
    assert model.cluster.states


def test_an_accepted_record_is_given_to_nobody_again() -> None:
    model = share_group()
    poll(model, 1)
    assert start_offsets(model) == {shares.NEVER_WRITTEN}
    acknowledge(model, 1, shares.ACCEPT, 0)
    poll(model, 2)
    assert given(model, 2) == {((1, 1),)}
    assert start_offsets(model) == {0}


def test_a_released_record_is_delivered_again_and_counted() -> None:
    model = share_group()
    poll(model, 1)
    acknowledge(model, 1, shares.RELEASE, 0)
    poll(model, 2)
    assert given(model, 2) == {((0, 2),)}


def test_a_rejected_record_and_one_that_reached_the_delivery_limit_are_archived() -> None:
    model = share_group(delivery_limit=1)
    poll(model, 1)
    acknowledge(model, 1, shares.REJECT, 0)
    poll(model, 1)
    acknowledge(model, 1, shares.RELEASE, 1)
    poll(model, 2)
    assert given(model, 2) == {((2, 1),)}


def test_only_the_member_that_acquired_a_record_may_acknowledge_it() -> None:
    model = share_group()
    poll(model, 1)
    poll(model, 2)
    acknowledge(model, 2, shares.ACCEPT, 0)
    assert {done[-1] for done in deeds(model, 2)} == {(shares.ACCEPT, 0, shares.NOT_ACQUIRED)}
    acknowledge(model, 1, shares.ACCEPT, 0)
    assert {done[-1] for done in deeds(model, 1)} == {(shares.ACCEPT, 0, shares.TAKEN)}


def test_a_new_leader_knows_what_ended_and_not_what_was_acquired() -> None:
    model = share_group()
    for offset, kind in ((0, shares.ACCEPT), (1, shares.RELEASE)):
        poll(model, 1)
        acknowledge(model, 1, kind, offset)
    poll(model, 1)
    poll(model, 1)
    assert given(model, 1) == {((0, 1), (1, 1), (1, 2), (2, 1))}
    leader_dies(model)
    acknowledge(model, 1, shares.ACCEPT, 2)
    assert {done[-1] for done in deeds(model, 1)} == {(shares.ACCEPT, 2, shares.NO_SESSION)}
    poll(model, 2)
    poll(model, 2)
    assert given(model, 2) == {((1, 2), (2, 1))}


def test_an_acceptance_without_an_answer_may_have_been_taken_or_not() -> None:
    model = share_group()
    poll(model, 1)
    model.apply(step("sharer_acknowledges_unheard", member=1, kind=shares.ACCEPT, offset=0))
    leader_dies(model)
    poll(model, 2)
    assert given(model, 2) == {((0, 1),), ((1, 1),)}


def test_the_delivery_of_a_member_that_dies_counts() -> None:
    model = share_group(delivery_limit=2)
    for member in (1, 2):
        poll(model, member)
        model.apply(step("sharer_dies", member=member))
    poll(model, 1)
    assert given(model, 1) == {((0, 1), (1, 1))}
    assert given(model, 2) == {((0, 2),)}


@pytest.mark.parametrize("locks_end", [True, False])
def test_a_lock_ends_by_itself_where_it_may(locks_end: bool) -> None:
    model = share_group(locks_end=locks_end)
    poll(model, 1)
    poll(model, 2)
    assert given(model, 2) == ({((1, 1),), ((0, 2),)} if locks_end else {((1, 1),)})


def test_a_member_is_given_nothing_that_another_one_has() -> None:
    model = share_group()
    for _ in range(RECORDS):
        poll(model, 1)
    with pytest.raises(ActionError, match="impossible in every state"):
        poll(model, 2)


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ActionError, match="sharer_sleeps"):
        share_group().apply(step("sharer_sleeps", member=1))
