"""A consumer group on a page and on the terminal, and in results that are read back."""

from scenario_pages import group_headings, group_rows

from kafka_chaos.conformance.scenario.record import ActRecord, StepRecord
from kafka_chaos.conformance.scenario.telling.words import tell_difference
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.reference_model.lockstep.observation.clients import GroupObservation, MemberObservation
from kafka_chaos.reference_model.lockstep.observation.cluster import GROUP, Difference, Observation
from tests.conformance.scenario.samples import act, look, replica, scenario_record, step
from tests.conformance.scenario.telling.test_console import printed

IDLE = MemberObservation(generation=2, has=())
AT_WORK = MemberObservation(did=(("given", 0, 0), ("processed", 0, 0)))
DONE = MemberObservation(generation=2, has=(0,), did=(*AT_WORK.did, ("committed", 0, 1)))


def seen(*each: MemberObservation, committed: int) -> Observation:
    of = GroupObservation(members=(1, 2), owners=(1,), committed=(committed,), each=dict(enumerate(each, 1)))
    replicas = {1: replica("r0·0", role="leader"), 2: replica("r0·0"), 3: replica("r0·0")}
    plain = look(replicas)
    return Observation(replicas=plain.replicas, leader=1, leader_epoch=0, isr=(1, 2, 3), group=of)


def processed(*differences: Difference) -> StepRecord:
    return step(1, "Member 1 processes.", seen(AT_WORK, IDLE, committed=0), differences=differences)


def played() -> ActRecord:
    return act(
        step(0, "r0 is there.", look({1: replica("r0·0", role="leader")})),
        processed(),
        step(2, "Nothing happens.", seen(AT_WORK, IDLE, committed=0)),
        step(3, "Member 1 commits.", seen(DONE, IDLE, committed=1)),
    )


def test_a_table_has_a_row_for_each_step_that_changed_the_group() -> None:
    assert group_headings(played())[-2:] == ("member 1", "member 2")
    assert list(group_rows(played())) == [
        ("1. Member 1 processes.", "1 2", "1", "0", "given 0, processed 0", "generation 2"),
        ("3. Member 1 commits.", "1 2", "1", "1", "generation 2; committed 1", ""),
    ]


def test_what_differs_in_the_group_is_told_in_words() -> None:
    difference = Difference(GROUP, "member 2, has", (0,), ((),))
    assert tell_difference(act(), difference) == "the group, member 2, has: Kafka has 0, the model allows empty"


def test_the_terminal_shows_the_replicas_again_only_where_they_changed() -> None:
    text = printed(scenario_record(played(), verdict=Verdict.CONFORMS))
    assert text.count("X (broker 1) leads") == 1
    assert "Group: members 1 2 · has the partition 1 · committed 1" in text
