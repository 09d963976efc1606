"""A group in lock step: what a step does, what follows by itself, what the model allows and what it does not."""

import pytest

from kafka_chaos.contract.lane.groups import AFTER
from kafka_chaos.reference_model.groups.rules import CONSUMER_RULES, COOPERATIVE_RULES, EAGER_RULES, Rules
from kafka_chaos.reference_model.groups.state import Setup
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, ClusterWithGroupModel
from kafka_chaos.reference_model.lockstep.groups import GroupModel, first_state
from kafka_chaos.reference_model.lockstep.observation import GROUP, GroupObservation, MemberObservation, Observation
from kafka_chaos.reference_model.lockstep.state import ActionError, ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import step


def group(rules: Rules, commits: str = AFTER, *, partitions: int = 1, is_static: bool = False) -> GroupModel:
    setup = Setup(rules, commits, is_static=is_static, records=3, crashes=3, removals=3, joins=3, leaves=3)
    return GroupModel(setup, frozenset([first_state(setup, partitions)]))


def do(model: GroupModel, *names: str, member: int, partition: int = 0) -> None:
    for name in names:
        at = {"partition": partition} if name in ("polls", "processes", "commits") else {}
        model.apply(step(f"member_{name}", member=member, **at))


def all_seen(model: GroupModel, name: str) -> set[object]:
    return {model.observe(state).values()[GROUP, name] for state in model.states}


def test_a_fenced_member_does_not_join_again() -> None:
    """Member 1 has processed a record when member 2 starts with its `group.instance.id`."""
    model = group(EAGER_RULES, is_static=True)
    do(model, "polls", "processes", "commits", "polls", "processes", member=1)
    model.apply(step("member_takes_over", member=2, former=1))
    do(model, "commits", member=1)
    for state in model.states:
        assert [part.members[0].generation for part in state.partitions] == [-1]
        assert not state.partitions[0].preparing
    with pytest.raises(ActionError, match="impossible"):
        do(model, "polls", member=1)


def test_a_frozen_member_that_is_not_removed_holds_up_a_rebalance() -> None:
    model = group(EAGER_RULES)
    do(model, "freezes", member=1)
    do(model, "joins", member=2)
    waits = GroupObservation(members=(1, 2), by_member={2: MemberObservation(generation=0, has=())})
    assert model.compare(Observation(group=waits)).conforms
    took_over = GroupObservation(members=(1, 2), owners=(2,))
    assert model.compare(Observation(group=took_over)).differences


@pytest.mark.parametrize("rules", [EAGER_RULES, COOPERATIVE_RULES], ids=lambda rules: rules.name)
def test_when_the_last_member_is_gone_a_generation_of_nobody_begins(rules: Rules) -> None:
    model = group(rules)
    do(model, "polls", "processes", "commits", "leaves", member=1)
    assert all_seen(model, "members") == {()}
    do(model, "joins", member=2)
    assert all_seen(model, "member 2, generation") == {3}
    assert all_seen(model, "owners") == {(2,)}


def test_the_protocol_consumer_has_one_partition_only() -> None:
    with pytest.raises(ActionError, match="2 partitions: expected one"):
        group(CONSUMER_RULES, partitions=2)


def grouped() -> ClusterWithGroupModel:
    return ClusterWithGroupModel(ClusterModel(ClusterConfig()), group(EAGER_RULES), "group")


def test_an_observation_must_match_the_cluster_and_the_group() -> None:
    model = grouped()
    model.apply(step("member_polls", member=1, partition=0))
    given = MemberObservation(did=(("given", 0, 0),))
    assert model.compare(Observation(leader=1, group=GroupObservation(by_member={1: given}))).conforms
    wrong = model.compare(Observation(leader=2, group=GroupObservation(members=(2,))))
    assert not wrong.conforms
    assert {(one.place, one.field) for one in wrong.differences} == {(0, "leader"), (GROUP, "members")}
    assert not model.compare(Observation(leader=1, group=GroupObservation(members=(2,)))).conforms


def test_what_was_observed_narrows_the_group_too() -> None:
    model = grouped()
    model.apply(step("member_joins", member=2))
    assert all_seen(model.group, "owners") == {(1,), (2,)}
    assert model.narrow(Observation(group=GroupObservation(owners=(2,)))).conforms
    assert all_seen(model.group, "owners") == {(2,)}
    assert not model.narrow(Observation(group=GroupObservation(owners=(1,)))).conforms
    assert all_seen(model.group, "owners") == {(2,)}


def test_brokers_fail_beside_the_group_and_it_stays_as_it_is() -> None:
    model = grouped()
    before = model.group.states
    model.apply(step("kill", broker=3))
    assert {state.partition.isr for state in model.states} == {(1, 2)}
    assert model.group.states == before
