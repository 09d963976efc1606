"""Brokers and model are compared step by step: what counts as the same, and what does not."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance.reproduce.claims import claim
from kafka_chaos.conformance.reproduce.playing import replicas, stage
from kafka_chaos.conformance.reproduce.playing import stage as module
from kafka_chaos.conformance.reproduce.playing.producer import OTHER, PRODUCER
from kafka_chaos.conformance.reproduce.playing.stage import HeldFollowers, Part, Stage, TraceNotReproduced
from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.identity import encode_identity
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.cluster.metadata.protocol import PartitionRecord

LANE = Lane(lane="story", acks="1", faults=("kill",))
DUPLICATE = claim(LANE, Anomaly.DUPLICATE).story
UNCLEAN = claim(
    replace(LANE, acks="all", min_insync_replicas=2, unclean_leader_election=True), Anomaly.INCONSISTENT_OFFSET
).story


class World:
    """Stands in for brokers: what each holds, as (producer, seq), and what the controller says."""

    def __init__(self) -> None:
        self.held: dict[int, list[tuple[int, int]]] = {1: [], 2: [], 3: []}
        self.partition = PartitionRecord(1, 0, (1, 2, 3))

    def read(self, node: Any, places: list[tuple[str, int]]) -> dict[tuple[str, int], Any]:
        records = [SimpleNamespace(value=encode_identity("story", *one)) for one in self.held[node.number]]
        return {place: SimpleNamespace(records=records) for place in places}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(stage, "read_replicas", world.read)
    return world


def made(world: World, story: Any = DUPLICATE) -> Stage:
    brokers = {number: SimpleNamespace(number=number) for number in world.held}
    lease: Any = SimpleNamespace(
        cluster=SimpleNamespace(brokers=brokers), metadata=SimpleNamespace(partition=lambda topic: world.partition)
    )
    part = Part(story, "topic", producer=SimpleNamespace())  # type: ignore[arg-type]
    return Stage(lease, [part], followers=SimpleNamespace())  # type: ignore[arg-type]


def test_logs_are_compared_without_the_records_of_others(world: World) -> None:
    stage = made(world)
    world.held[1] = [(OTHER, 0), (PRODUCER, 0)]
    assert stage.logs_differ(1, 0) is None
    assert stage.logs_differ(2, 0) is None
    assert stage.logs_differ(2, 1) == "broker 2 holds records [] of lane story, the model's [0]"
    world.held[1].append((PRODUCER, 1))
    assert stage.logs_differ(1, 0) == "broker 1 holds records [0, 1] of lane story, the model's [0]"


def test_an_offset_of_the_story_is_found_where_records_of_others_come_before(world: World) -> None:
    stage = made(world)
    world.held[1] = [(OTHER, 0), (PRODUCER, 0), (OTHER, 1), (PRODUCER, 1)]
    assert [stage.offset(stage.parts[0], 1, told) for told in (0, 1)] == [1, 3]
    with pytest.raises(TraceNotReproduced, match="holds 2 records of lane story: none at 2"):
        stage.offset(stage.parts[0], 1, 2)


def test_leader_and_isr_have_to_be_the_model_s(world: World) -> None:
    stage = made(world)
    assert stage.isrs_differ(0) is None
    world.partition = PartitionRecord(1, 0, (1, 2))
    assert "the model's 1 and [1, 2, 3]" in str(stage.isrs_differ(0))
    world.partition = PartitionRecord(2, 0, (1, 2, 3))
    assert stage.isrs_differ(0) is not None
    assert stage.isrs_differ(2) is None, "nobody leads after the kill"
    stage.away.add(1)
    assert stage.isrs_differ(0) is None


def test_a_follower_that_has_caught_up_may_be_in_the_isr_before_the_story_says_so(world: World) -> None:
    stage = made(world, UNCLEAN)
    number = next(i for i, step in enumerate(UNCLEAN.steps) if step.name == "elect_unclean")
    world.partition = PartitionRecord(3, 1, (2, 3))
    assert stage.isrs_differ(number) is None
    appended = next(i for i, step in enumerate(UNCLEAN.steps) if step.name == "append")
    world.partition = PartitionRecord(1, 0, (1,))
    assert stage.isrs_differ(appended) is not None


def test_followers_that_are_behind_together_may_leave_together(world: World) -> None:
    lane = replace(LANE, unclean_leader_election=True)
    story = claim(lane, Anomaly.TRUNCATED_READ).story
    first = [step.name for step in story.steps].index("shrink_isr")
    world.partition = PartitionRecord(1, 0, (1,))
    assert made(world, story).isrs_differ(first) is None
    assert made(world, story).isrs_differ(first + 1) is None
    world.partition = PartitionRecord(1, 0, (1, 2))
    assert made(world, story).isrs_differ(first + 1) is not None


def test_a_follower_gets_one_answer_after_the_other_until_it_holds_what_the_model_tells(world: World) -> None:
    stage = made(world)
    passed: list[tuple[int, int]] = []

    def pass_one(follower: int, leader: int) -> None:
        passed.append((follower, leader))
        if len(passed) > 1:
            world.held[follower] = [(PRODUCER, 0)]

    stage.followers.pass_one = pass_one  # type: ignore[method-assign]
    world.held[1] = [(PRODUCER, 0)]
    replicas.follow(stage, 0)
    assert passed == []
    replicas.follow(stage, 1)
    assert passed == [(2, 1), (2, 1)]
    assert world.held[3] == []


class Link:
    """Stands in for a node's link: the rules that apply, and what was done in which order."""

    def __init__(self, node: str, done: list[str]) -> None:
        self.node, self.done, self.rules = node, done, dict[str, Mapping[str, Any]]()
        self.takes = True

    def apply(self, rule: str, **frames: Any) -> None:
        self.rules[rule] = frames
        self.done.append(f"{self.node} apply {rule}")

    def lift(self, rule: str, *, release: bool) -> None:
        assert release
        del self.rules[rule]
        self.done.append(f"{self.node} lift {rule}")

    def tally(self, rule: str) -> dict[str, int] | None:
        return {"taken": int(self.takes)} if rule in self.rules else None


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def brokers(done: list[str]) -> dict[int, Any]:
    return {
        number: SimpleNamespace(name=f"broker-{number}", link=Link(f"broker-{number}", done)) for number in (1, 2, 3)
    }


def test_a_held_follower_gets_no_answer_from_any_other_broker(brokers: dict[int, Any]) -> None:
    HeldFollowers(brokers).hold(2)
    held = {"action": "hold", "side": "response", "api": "Fetch", "sender": ("broker-2",)}
    assert [list(brokers[number].link.rules.values()) for number in (1, 2, 3)] == [[held], [], [held]]


def test_holding_twice_is_holding_once(brokers: dict[int, Any], done: list[str]) -> None:
    followers = HeldFollowers(brokers)
    followers.hold(2)
    before = list(done)
    followers.hold(2)
    assert done == before


def test_the_next_answer_is_held_before_one_passes(brokers: dict[int, Any], done: list[str]) -> None:
    followers = HeldFollowers(brokers)
    followers.hold(3)
    done.clear()
    followers.pass_one(3, 1)
    assert [one for one in done if one.startswith("broker-1")] == [
        "broker-1 apply story-fetch-3-2",
        "broker-1 lift story-fetch-3-1",
    ]
    assert list(brokers[2].link.rules) == ["story-fetch-3-2"]


def test_a_fetch_that_does_not_come_is_named(brokers: dict[int, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.0)
    followers = HeldFollowers(brokers)
    followers.hold(2)
    brokers[1].link.takes = False
    with pytest.raises(WaitTimeout, match="an answer of broker 1 to a fetch of broker 2 to be held"):
        followers.pass_one(2, 1)


def test_released_followers_fetch_as_they_like(brokers: dict[int, Any]) -> None:
    followers = HeldFollowers(brokers)
    for number in (1, 2, 3):
        followers.hold(number)
    followers.release_all()
    assert not any(brokers[number].link.rules for number in (1, 2, 3))
    followers.release_all()
