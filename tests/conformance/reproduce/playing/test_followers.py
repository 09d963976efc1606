"""Held followers: nothing passes between one rule and the next, and what is awaited is at the leader."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance.reproduce.playing import stage as module
from kafka_chaos.conformance.reproduce.playing.stage import HeldFollowers
from kafka_chaos.harness.errors import WaitTimeout


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
