"""The machine of groups: what its rules forbid, what they permit, and that each rule is needed."""

from dataclasses import replace

import pytest
from negative_controls import GROUPS_WITHOUT, BrokenGroups

from kafka_chaos.contract.lane.groups import AFTER, BEFORE, COMMITS, IN_TRANSACTION, OFFSETS
from kafka_chaos.contract.lane.groups import GroupAnomaly as A
from kafka_chaos.reference_model.groups.anomalies import ending
from kafka_chaos.reference_model.groups.examine import GROUPS as MACHINE
from kafka_chaos.reference_model.groups.examine import canonical, nameless, stories_of_torn_ends
from kafka_chaos.reference_model.groups.rules import COOPERATIVE_RULES, EAGER_RULES, PROTOCOL_RULES, Rules
from kafka_chaos.reference_model.groups.state import ACTIVE, NONE, Setup, State, initial_state
from kafka_chaos.reference_model.search import Budget, breadth_first

LOOPS_AND_GROUPS = sorted({(offsets, True) for offsets in OFFSETS} | {(commits, False) for commits in COMMITS})


def shown(commits: str, is_loop: bool = False, rules: Rules = EAGER_RULES, removals: int = 1, **may: bool) -> set[A]:
    question = Setup(rules, commits, is_loop, removals=removals, **may)  # type: ignore[arg-type]
    found = MACHINE.examine(question, Budget(2_000_000))
    assert found.complete
    return set(found.stories)


@pytest.mark.parametrize("broken", GROUPS_WITHOUT.values(), ids=GROUPS_WITHOUT)
def test_a_protocol_without_one_rule_is_caught(broken: BrokenGroups) -> None:
    assert broken.shows
    setup = Setup(broken.rules, broken.commits, broken.is_loop, removals=1, failovers=broken.failovers)
    search, first = MACHINE.search(set(broken.shows), setup, Budget(200_000))
    assert first.keys() == set(broken.shows)
    # One state stands for all that differ in names alone: nothing is found later, or by another number of steps.
    everything, alike = replace(MACHINE, nameless=None).search(set(broken.shows), setup, Budget(200_000))
    assert len(search.parents) <= len(everything.parents)
    assert {one: len(search.path(state)) for one, state in first.items()} == {
        one: len(everything.path(state)) for one, state in alike.items()
    }


@pytest.mark.parametrize("rules", PROTOCOL_RULES, ids=lambda rules: rules.name)
@pytest.mark.parametrize(("commits", "is_loop"), LOOPS_AND_GROUPS)
def test_a_calm_group_shows_nothing(commits: str, is_loop: bool, rules: Rules) -> None:
    assert shown(commits, is_loop, rules, removals=0) == set()


def test_before_2_5_a_calm_loop_begins_before_the_markers_of_what_was_acknowledged() -> None:
    before = replace(EAGER_RULES, fences_transactions=False, waits_for_stable=False)
    assert shown(IN_TRANSACTION, True, before, removals=0) == {A.COMMIT_LOST, A.PROCESSED_TWICE}


@pytest.mark.parametrize("rules", PROTOCOL_RULES, ids=lambda rules: rules.name)
def test_what_the_coordinator_forgets_is_read_again(rules: Rules) -> None:
    found = shown(IN_TRANSACTION, True, rules, removals=0, offsets_may_be_lost=True)
    assert found == {A.PROCESSED_TWICE, A.COMMIT_LOST, A.COMMIT_REGRESSED, A.OWNED_TWICE}
    assert A.SKIPPED_AFTER_REBALANCE not in shown(AFTER, False, rules, removals=0, offsets_may_be_lost=True)


def test_a_torn_transaction_tears_outputs_and_offsets_apart() -> None:
    expected = {A.PROCESSED_TWICE, A.NOT_PROCESSED}
    assert shown(IN_TRANSACTION, True, ends_may_tear=True) == expected
    assert set(stories_of_torn_ends(Setup(COOPERATIVE_RULES, IN_TRANSACTION, True))) == expected


def test_a_story_tells_who_did_what() -> None:
    story = MACHINE.examine(Setup(EAGER_RULES, BEFORE, crashes=1), Budget(100_000)).stories[A.SKIPPED_AFTER_REBALANCE]
    assert story == (
        "Member 1 has the partition, in generation 1.",
        "Member 1 asks for the committed offset, 0.",
        "Member 1 is given record 0.",
        "Member 1 commits offset 1, and it is acknowledged.",
        "Member 1 crashes.",
        "The run ends: the committed offset is 1; nothing was processed.",
    )


def reached(setup: Setup) -> list[State]:
    search = breadth_first(
        canonical(initial_state(setup), setup),
        lambda state: [canonical(after, setup) for _, after in MACHINE.steps(state, setup)],
        lambda state: False,
        Budget(300_000),
    )
    assert search.complete
    return list(search.parents)


def test_the_names_of_members_and_generations_make_no_difference() -> None:
    setup = Setup(COOPERATIVE_RULES, AFTER, removals=1)
    for state in reached(setup):
        swapped = state._replace(
            members=state.members[::-1],
            coordinator=state.coordinator._replace(
                generations=state.coordinator.generations[::-1],
                pending=state.coordinator.pending[::-1],
                owner=NONE if state.coordinator.owner == NONE else 1 - state.coordinator.owner,
            ),
            joined=(state.joined & 1) << 1 | state.joined >> 1,
        )
        assert nameless(state, setup) == nameless(swapped, setup)
        after = {nameless(canonical(one, setup), setup) for _, one in MACHINE.steps(state, setup)}
        assert after == {nameless(canonical(one, setup), setup) for _, one in MACHINE.steps(swapped, setup)}


@pytest.mark.parametrize("rules", PROTOCOL_RULES, ids=lambda rules: rules.name)
def test_at_most_one_member_that_the_coordinator_knows_owns_the_partition(rules: Rules) -> None:
    for state in reached(Setup(rules, AFTER, removals=1, crashes=1)):
        generations = state.coordinator.generations
        owners = [
            slot
            for slot, member in enumerate(state.members)
            if member.phase == ACTIVE and member.owns and generations[slot] not in (NONE, 0)
        ]
        assert len(owners) <= 1


def test_a_run_does_not_end_in_the_middle_of_a_batch_or_of_a_transaction() -> None:
    setup = Setup(EAGER_RULES, IN_TRANSACTION, is_loop=True, crashes=1)
    states = reached(setup)
    assert any(ending(state, setup) for state in states)
    for state in states:
        if ending(state, setup) is not None:
            assert all(member.record == NONE for member in state.members if member.phase == ACTIVE)
            assert set(state.coordinator.pending) == {NONE}


def test_eager_members_give_back_what_they_have_and_others_keep_it() -> None:
    def kept(rules: Rules) -> set[bool]:
        found = set()
        for state in reached(Setup(rules, AFTER)):
            for action, after in MACHINE.steps(state, Setup(rules, AFTER)):
                if action.name == "join_again" and state.members[action.slot].owns:
                    found.add(after.members[action.slot].owns)
        return found

    assert list(map(kept, PROTOCOL_RULES)) == [{False}, {True}, set()]
