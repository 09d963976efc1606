"""The breaches that brokers are to take are the model's, and need the variant that they are told of."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kafka_chaos.conformance.reproduce.breaches.controllers import has_taken
from kafka_chaos.conformance.reproduce.breaches.observed import Observed, ObservedReplica, differs
from kafka_chaos.conformance.reproduce.breaches.stories import (
    BROKERS,
    STORIES,
    BreachStep,
    BreachStory,
    NoSuchStep,
    Replica,
    read,
)
from kafka_chaos.conformance.reproduce.results import NO_VERSION
from kafka_chaos.harness.cluster.containers.versions import VERSIONS
from kafka_chaos.reference_model.protocol.rules import rules_in

MODEL = Path(__file__).parents[4] / "docs" / "model.md"
each_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


def told() -> dict[tuple[str, tuple[str, ...]], tuple[tuple[str, ...], str]]:
    """The shortest breaches of the model's page, by variant and invariants: the steps, and the state they end in."""
    found = {}
    parts = re.split(r"^### .*\(`([\w-]+)`\)$", MODEL.read_text(), flags=re.MULTILINE)[1:]
    for variant, text in zip(parts[::2], parts[1::2], strict=True):
        breaches = re.split(r"^(.*) breaks?:$", text.split("\n## ")[0], flags=re.MULTILINE)[1:]
        for names, steps in zip(breaches[::2], breaches[1::2], strict=True):
            sentences = re.findall(r"^\d+\. (.*)$", steps, flags=re.MULTILINE)
            found[variant, tuple(re.findall(r"`(\w+)`", names))] = tuple(sentences[:-1]), sentences[-1]
    return found


def test_every_breach_of_the_model_has_a_story_or_no_version() -> None:
    assert len(told()) == 11
    assert sorted(told()) == sorted([*((story.variant, story.invariants) for story in STORIES), *NO_VERSION])


@each_story
def test_a_story_has_the_steps_of_the_model_s_shortest_breach(story: BreachStory) -> None:
    shortest, end = told()[story.variant, story.invariants]
    if story.instead:
        assert Counter(story.sentences) != Counter(shortest)
    else:
        assert Counter(story.shortest) == Counter(shortest)
        assert bool(story.why_added) == (story.shortest != story.steps)
    if not story.instead and not story.why_added:
        assert end_of(story) == re.sub(r"@\d+", "", end)


def end_of(story: BreachStory) -> str:
    """The state that a story ends in, as the model tells it, but for the epochs of records."""
    last = read(story).steps[-1]
    held = []
    for broker in BROKERS:
        replica = last.replica(broker)
        role = f", leads in epoch {replica.leader_epoch}" if replica.leader == broker else ""
        log = " ".join(replica.log) or "nothing"
        held.append(f"broker {broker} holds {log} (high watermark {replica.high_watermark}{role})")
    return f"Now the ISR is {{{', '.join(map(str, last.isr))}}}; {'; '.join(held)}."


@each_story
def test_a_story_ends_where_its_invariants_are_broken_and_not_before(story: BreachStory) -> None:
    assert set(story.invariants) <= read(story).broken
    *steps, _ = story.steps
    before = BreachStory(story.variant, story.invariants, story.versions, tuple(steps))
    assert not set(story.invariants) <= read(before).broken


@each_story
def test_brokers_with_fencing_take_none_of_them(story: BreachStory) -> None:
    with pytest.raises(NoSuchStep):
        read(story, "kip320")


def test_what_no_version_has_is_broken_by_the_same_steps() -> None:
    for variant, invariants in NO_VERSION:
        story = next(one for one in STORIES if (one.variant, one.invariants) == ("kip101", invariants))
        assert set(invariants) <= read(story, variant).broken


@each_story
def test_a_story_is_played_on_versions_that_have_its_variant(story: BreachStory) -> None:
    assert story.versions
    for version in story.versions:
        assert version in VERSIONS
        assert rules_in(version, None, None).variant == story.variant


def test_a_step_that_the_model_can_t_take_is_named() -> None:
    story = BreachStory("kip101", ("weak_isr",), ("1.1.1",), ("Broker 1 learns that it leads in epoch 0.",))
    with pytest.raises(NoSuchStep, match="kip101: the model can't take this step: Broker 1 learns"):
        read(story)


def test_a_step_has_the_model_s_state_after_it() -> None:
    story = next(one for one in STORIES if (one.variant, one.invariants) == ("kip101", ("followers_agree",)))
    last = read(story).steps[-1]
    assert (last.name, last.broker, last.other, last.number) == ("become_follower", 2, 1, 2)
    assert [last.replica(broker).log for broker in (1, 2, 3)] == [("m0", "m2"), ("m1",), ()]
    assert (last.leader, last.leader_epoch, last.isr) == (1, 2, (1, 2, 3))
    assert (last.replica(2).leader, last.replica(2).leader_epoch) == (1, 2)


LEADER = Replica(("m0",), 0, leader=1, leader_epoch=2)
FOLLOWER = Replica(("m0",), 0, leader=1, leader_epoch=2)
NEW = Replica((), 0, leader=0, leader_epoch=-1)
STEP = BreachStep("Broker 2 fetches …", "fetch", 2, 1, 0, (LEADER, FOLLOWER, NEW), 1, 2, (1, 2, 3))
ADVANCED = replace(
    STEP, name="advance_high_watermark", broker=1, replicas=(replace(LEADER, high_watermark=1), FOLLOWER, NEW)
)
SHRUNK = replace(STEP, name="shrink_isr", isr=(1, 2))
HELD = ObservedReplica((("m0", 2),), 0, leads=False)
SEEN = Observed({1: replace(HELD, leads=True), 2: HELD, 3: ObservedReplica((), 0, leads=False)}, 1, 2, (1, 2, 3))


def with_replica(broker: int, replica: ObservedReplica) -> Observed:
    return replace(SEEN, replicas={**SEEN.replicas, broker: replica})


def test_brokers_that_hold_what_the_model_tells_agree() -> None:
    assert differs(SEEN, STEP, ADVANCED) is None
    assert differs(SEEN, STEP, None) is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (replace(SEEN, leader=2), "leader, leader epoch and ISR are (2, 2, (1, 2, 3))"),
        (replace(SEEN, isr=(1, 2)), "leader, leader epoch and ISR are (1, 2, (1, 2))"),
        (with_replica(2, ObservedReplica((), 0, leads=False)), "broker 2 holds ()"),
        (with_replica(2, replace(HELD, leads=True)), "broker 2 leads, the model's has leader 1 in epoch 2"),
        (with_replica(1, HELD), "broker 1 does not lead"),
        (with_replica(2, replace(HELD, high_watermark=1)), "broker 2 has high watermark 1, the model's 0"),
    ],
)
def test_what_differs_is_named(seen: Observed, expected: str) -> None:
    assert str(differs(seen, STEP, ADVANCED)).startswith(expected)


def test_a_leader_s_high_watermark_may_be_ahead_until_its_step_and_the_end() -> None:
    ahead = with_replica(1, ObservedReplica((("m0", 2),), 1, leads=True))
    assert differs(ahead, STEP, ADVANCED) is None
    assert differs(ahead, STEP, None) == "broker 1 has high watermark 1, the model's 0"
    assert differs(SEEN, ADVANCED, STEP) == "broker 1 has high watermark 0, the model's 1"
    assert differs(ahead, ADVANCED, STEP) is None


def test_a_leader_may_have_changed_the_isr_if_the_next_step_says_so() -> None:
    assert differs(replace(SEEN, isr=(1, 2)), STEP, SHRUNK) is None
    assert differs(SEEN, SHRUNK, None) is not None


def test_requests_count_as_taken_once_they_are_answered_without_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "requests.jsonl"
    taken = partial(has_taken, trace, "a")
    assert not taken("broker-1", 0)
    line = {"api": "LeaderAndIsr", "node": "broker-1", "answered_ns": 5, "leader_epochs": [["a", 0, 0]]}
    others = [
        {**line, "node": "broker-2", "answered_ns": None},
        {**line, "node": "broker-3", "errors": [11]},
        {**line, "leader_epochs": [["b", 0, 1]]},
        {**line, "api": "UpdateMetadata", "leader_epochs": [["a", 0, 2]]},
        {**line, "leader_epochs": [["b", 0, 3], ["a", 0, 4]]},
    ]
    text = "".join(json.dumps(one) + "\n" for one in [line, *others])
    trace.write_text(text + json.dumps({**line, "leader_epochs": [["a", 0, 6]]}))
    assert taken("broker-1", 0)
    assert taken("broker-1", 4)
    for node, epoch in [("broker-2", 0), ("broker-3", 0), ("broker-1", 1), ("broker-1", 2), ("broker-1", 3)]:
        assert not taken(node, epoch)
    # A line is read when all of it is there.
    assert not taken("broker-1", 6)
    with trace.open("a") as file:
        file.write("\n")
    assert taken("broker-1", 6)
