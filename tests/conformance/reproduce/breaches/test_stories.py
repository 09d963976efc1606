"""The breaches that brokers are to take are the model's, and need the variant that they are told of."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from kafka_chaos.conformance.reproduce.breaches.stories import BROKERS, STORIES, BreachStory, NoSuchStep, read
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
