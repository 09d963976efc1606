"""Stories are read back as the model's own steps."""

from dataclasses import replace

import pytest

from kafka_chaos.conformance.reproduce.claims import (
    Claim,
    Story,
    UnknownStory,
    claim,
    distinct_lanes,
    grouped,
    matrix,
    read_story,
)
from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.predict.cache import predict_cached

ACKS_1 = Lane(lane="story", acks="1", faults=("kill",))


@pytest.fixture(scope="module")
def claims() -> list[Claim]:
    return matrix()


def story(anomaly: Anomaly, lane: Lane = ACKS_1) -> Story:
    return claim(lane, anomaly).story


def test_every_story_of_the_matrix_is_read_back_as_it_was_told_and_ends_with_its_anomaly(claims: list[Claim]) -> None:
    assert len(claims) > 200
    for one in claims:
        assert one.story.sentences == one.prediction.anomalies[one.anomaly].why
        end = ending(one.story.end)
        assert end is not None
        assert CHECKS[one.anomaly](end), one.key


def test_a_step_has_its_action_its_broker_and_the_states_around_it() -> None:
    told = story(Anomaly.DUPLICATE)
    assert [(step.name, step.broker, step.record) for step in told.steps] == [
        ("append", 1, 0),
        ("fetch", 2, -1),
        ("kill", 1, -1),
        ("elect", 2, -1),
        ("append", 2, 0),
    ]
    append, fetch, *_, again = told.steps
    assert [len(told.replica(append.after, broker).log) for broker in (1, 2, 3)] == [1, 0, 0]
    assert [len(told.replica(fetch.after, broker).log) for broker in (1, 2, 3)] == [1, 1, 0]
    assert told.leader(append.after) == 1
    assert told.leader(again.after) == 2
    assert all(before.after == after.before for before, after in zip(told.steps, told.steps[1:], strict=False))


def test_what_consumers_read_belongs_to_the_step_before() -> None:
    told = story(Anomaly.TRUNCATED_READ, replace(ACKS_1, unclean_leader_election=True))
    assert [(step.name, step.reads) for step in told.steps if step.reads] == [("shrink_isr", ((0, 0),))]


def test_the_sentence_about_a_stopped_leader_leaves_open_who_follows_and_the_rest_decides() -> None:
    told = story(Anomaly.DUPLICATE, replace(ACKS_1, faults=("stop",)))
    moved = next(step for step in told.steps if step.name == "stop_and_move")
    assert told.leader(moved.after) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told[1:],
        lambda told: (told[0], *told),
        lambda told: (*told[:-1], told[-1].replace("broker 2", "broker 3")),
        lambda told: (*told[:1], told[1].replace("record 0", "record 1"), *told[2:]),
        lambda told: told[:-1],
        lambda told: (),
    ],
)
def test_what_the_model_does_not_tell_is_refused(change: object) -> None:
    told = predict_cached(ACKS_1).anomalies[Anomaly.LOST_WRITE].why
    assert read_story(ACKS_1, told).sentences == told
    with pytest.raises(UnknownStory):
        read_story(ACKS_1, change(told))  # type: ignore[operator]


def test_claims_of_one_story_are_played_together_once_for_each_lane(claims: list[Claim]) -> None:
    groups = grouped(claims)
    assert sum(len(group) for group in groups) == len(claims)
    assert len({group[0].story.sentences for group in groups}) == len(groups) < len(claims)
    for group in groups:
        chosen = distinct_lanes(group)
        assert {one.lane.lane for one in chosen} == {one.lane.lane for one in group}
        assert len(chosen) == len({one.lane.lane for one in chosen})
        fewest = {one.lane.lane: len(one.lane.faults) for one in chosen}
        assert all(len(one.lane.faults) >= fewest[one.lane.lane] for one in group)
